"""regard help"""

import click

from regard.cli import output


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def command(ctx: click.Context, verb: str | None) -> None:
    """Show the help of VERB, or the list of verbs."""
    program = ctx.parent
    assert program is not None
    assert isinstance(program.command, click.Group)
    if verb is None:
        output.echo(program.get_help())
    elif explained := program.command.get_command(program, verb):
        output.echo(explained.make_context(verb, [], program, resilient_parsing=True).get_help())
