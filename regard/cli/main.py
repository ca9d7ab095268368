"""regard VERB …: finds the verb, and turns what goes wrong into one line and an exit code.

Neither `regard --help` nor a misspelt verb imports torch: the verbs are a table here and modules elsewhere.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from regard.cli import output
from regard.config import did_you_mean
from regard.errors import OutputError, RegardError

VERBS = {  # in the order of a first visit
    "translate": "Translate text.",
    "translate-file": "Translate a file and keep its form: subtitles, HTML, Markdown, .po and more.",
    "train": "Learn from data, as a recipe says.",
    "evaluate": "Measure how well a model translates.",
    "calibrate": "Fit what a model says about its confidence.",
    "score": "StepRequest a model how likely given translations are.",
    "generate": "Go on where a text stops.",
    "fill": "Fill the masks in a text.",
    "classify": "Put a label on a text.",
    "embed": "Turn texts into vectors.",
    "average": "Make one model of several checkpoints.",
    "plot": "Draw the curves of a run.",
    "trace": "Show a text's path through a model, stage by stage.",
    "info": "Show what is in a model directory.",
    "convert": "Turn other programs' models into regard's, or regard's into Hugging Face's.",
}

EPILOG = """\b
Examples:
  regard trace "The bank raised its rates." -m DIR
  regard info DIR
  regard convert opus-mt-en-de en-de
Every verb explains itself: regard VERB --help
"""


@contextmanager
def closed_pipe() -> Iterator[None]:
    """Whoever read our output has left (`regard … | head`): the end, as if by SIGPIPE. click would make it a 1."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # keep Python from complaining at exit
        raise click.exceptions.Exit(141) from None


class Verbs(click.Group):
    """Verbs that are imported when they are run, and listed without being imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            raise click.UsageError(f"no such verb: {cmd_name}{did_you_mean(cmd_name, VERBS)}", ctx)
        command: click.Command = import_module(f"regard.cli.{cmd_name.replace('-', '_')}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with closed_pipe():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with closed_pipe():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    subcommand_metavar="VERB …",
)
@click.version_option(package_name="regard", message="regard %(version)s")
def regard() -> None:
    """The Transformer, whole: run it, and look inside it, on the machine that you have."""


def main(arguments: list[str] | None = None) -> int:
    """Run a verb. Returns the exit code; the tree of them is in errors.py."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter gets its number
    try:
        code = regard.main(arguments or ["--help"], prog_name="regard", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        output.error(error.format_message())
        return 2
    except RegardError as error:
        output.error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        output.error("stopped")
        return 130
    except OSError as error:  # a full disk, a closed door: the machine's, not ours
        output.error(f"{error.filename or 'the output'}: {error.strerror or error}")
        return OutputError.exit_code
    except Exception as error:
        if os.environ.get("REGARD_DEBUG"):
            traceback.print_exc()
        output.error(
            f"this is a mistake in regard: {type(error).__name__}: {' '.join(str(error).split())} "
            f"(REGARD_DEBUG=1 shows where)"
        )
        return 70


if __name__ == "__main__":
    sys.exit(main())
