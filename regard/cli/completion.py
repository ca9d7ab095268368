"""regard completion"""

import click
from click.shell_completion import get_completion_class

from regard.cli import output


@click.command(
    "completion",
    epilog="""\b
Examples:
  regard completion bash >> ~/.bashrc
  regard completion zsh >> ~/.zshrc
  regard completion fish > ~/.config/fish/completions/regard.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, options and files in SHELL."""
    completer = get_completion_class(shell)
    assert completer is not None
    output.echo(completer(ctx.find_root().command, {}, "regard", "_REGARD_COMPLETE").source().strip())
