"""regard VERB …: find the verb, run it, turn an error into one line and an exit code.

Neither `regard --help` nor a misspelled verb nor shell completion imports torch: the verbs are a table here and modules
elsewhere.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from regard.cli import output
from regard.config import did_you_mean
from regard.errors import OutputError, RegardError, one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {  # the most used first
    "translate": "Translate text.",
    "translate-file": "Translate a file and keep its format: subtitles, HTML, Markdown, .po and more.",
    "train": "Train a model from a recipe.",
    "evaluate": "Score translations: BLEU, chrF, TER, perplexity.",
    "calibrate": "Fit a translator's confidence to its accuracy.",
    "score": "Compute the log-probabilities of given translations.",
    "generate": "Continue a text.",
    "fill": "Fill the masks in a text.",
    "classify": "Label a text.",
    "embed": "Turn texts into vectors.",
    "average": "Average checkpoints or models.",
    "plot": "Plot the learning curves of runs.",
    "trace": "Show what a model computes for a text: tokens, attention, next tokens.",
    "info": "Describe a model directory.",
    "convert": "Convert models between formats, or to int8.",
    "completion": "Print the script that completes verbs and options in a shell.",
    "help": "Show this text, or the help of a verb.",
}

EPILOG = """\b
Examples:
  regard translate "I ate an apple." --to de
  regard train recipes/sample.toml runs/first
  regard info box
Help for a verb: regard VERB --help
"""


@contextmanager
def closed_pipe() -> Iterator[None]:
    """Exit as SIGPIPE would when the reader has gone (`regard … | head`). click would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # no message from Python at exit
        raise click.exceptions.Exit(141) from None


class Verbs(click.Group):
    """Verbs, imported when they are run, and listed without being imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            if ctx.resilient_parsing:  # shell completion: no message
                return None
            raise click.UsageError(f"no such verb: {cmd_name}{did_you_mean(cmd_name, VERBS)}", ctx)
        command: click.Command = import_module(f"regard.cli.{cmd_name.replace('-', '_')}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with closed_pipe():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with closed_pipe():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=text) for name, text in VERBS.items() if name.startswith(incomplete)]
        return verbs or click.Command.shell_complete(self, ctx, incomplete)

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
    """A complete Transformer in one Python package: translate, train, and look inside, on your own machine."""


def main(arguments: list[str] | None = None) -> int:
    """Run a verb and return the exit code; errors.py lists them."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # closed by the caller (>&- 2>&-): print would write errors to standard output, and a file would get its number
    sys.stdout = sys.stdout or open(os.devnull, "a")  # noqa: SIM115 (open as long as the program runs)
    sys.stderr = sys.stderr or open(os.devnull, "a")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without a character gets its number
    try:
        code = regard.main(arguments or ["--help"], prog_name="regard", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return failed(error.format_message(), 2)
    except RegardError as error:
        return failed(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return failed("stopped", 130)
    except OSError as error:  # a full disk, a missing permission: not an error in regard
        return failed(f"{error.filename or 'the output'}: {error.strerror or error}", OutputError.exit_code)
    except Exception as error:
        if os.environ.get("REGARD_DEBUG"):
            traceback.print_exc()
        problem = f"{type(error).__name__}: {one_line(error)}"
        return failed(f"this is a bug in regard: {problem} (REGARD_DEBUG=1 prints the traceback)", 70)


def failed(message: str, code: int) -> int:
    with suppress(OSError):  # the disk that standard error goes to may be full, too
        output.error(message)
    return code


if __name__ == "__main__":
    sys.exit(main())
