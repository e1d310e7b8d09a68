"""The program: collects the commands, runs one, and turns what goes wrong into a line and an exit code.

The modules of the commands import the library when they run, so that help comes at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from inspect import cleandoc
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from hedgerow.deep.extra import GpuMemoryError

from .calibrate import calibrate
from .compare import compare
from .decide import decide
from .demo import demo
from .drift import drift
from .embed import embed
from .evaluate import evaluate
from .explain import explain
from .failures import ExitCode, Failure, reason
from .fit import fit
from .import_pecos import import_pecos
from .inspect import inspect
from .learn import learn
from .map import map_data
from .over_time import over_time
from .predict import predict
from .query import query
from .report import report
from .reproduce import reproduce
from .rollback import rollback
from .serve import serve
from .terminal import escape_what_streams_lack, flush_output, plain, print_error
from .tune import tune
from .update import update
from .vocabulary_convert import convert
from .vocabulary_search import search
from .vocabulary_set import set_vocabulary
from .vocabulary_show import show

_HELP = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """The commands, of which ``evaluate --over-time`` has options and help of its own."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, and what is left of them."""
        if args[:1] == ["evaluate"] and "--over-time" in args:
            return (
                "evaluate --over-time",
                over_time_command(),
                [one for one in args[1:] if one != "--over-time"],
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="hedgerow",
    cls=_Commands,
    rich_markup_mode="rich",  # so a bracket in a help text is written \\[
    pretty_exceptions_enable=False,  # a one-line error, or Python's own traceback of a bug
    context_settings=_HELP,
)

vocabulary = typer.Typer(
    help="Give labels names, and show, search and convert vocabularies.\n\n"
    "\b\nExamples:\n  hedgerow vocabulary set tags.hedgerow stw.ttl\n  hedgerow vocabulary COMMAND --help",
    no_args_is_help=True,
    context_settings=_HELP,
)
_VOCABULARY: dict[str, Callable[..., None]] = {
    "set": set_vocabulary,
    "show": show,
    "search": search,
    "convert": convert,
}

_PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Train and predict": (demo, fit, tune, update, learn, predict, serve, rollback),
    "Trust": (evaluate, compare, calibrate, decide, drift, report, explain, query),
    "Files": (inspect, map_data, embed, import_pecos),
    "Research": (reproduce,),
}


def _filled(docstring: str | None) -> str:
    """A docstring whose paragraphs fill the terminal; those that begin with a backspace keep their lines."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(text if text.startswith("\b") else " ".join(text.split()) for text in paragraphs)


def over_time_command() -> Any:
    """``hedgerow evaluate --over-time`` as a command."""
    alone = typer.Typer(rich_markup_mode="rich", context_settings=_HELP, add_completion=False)
    alone.command("over-time", help=_filled(over_time.__doc__))(over_time)
    return typer.main.get_command(alone)


for _panel, _commands in _PANELS.items():
    for _command in _commands:
        _name = "map" if _command is map_data else None
        app.command(_name, help=_filled(_command.__doc__), rich_help_panel=_panel)(_command)


for _name, _part in _VOCABULARY.items():
    vocabulary.command(_name, help=_filled(_part.__doc__))(_part)
app.add_typer(vocabulary, name="vocabulary", rich_help_panel="Files")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hedgerow {metadata.version('hedgerow')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def hedgerow(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Extreme multi-label classification that knows when it does not know.

    \b
    Examples:
      hedgerow demo
      hedgerow fit data/ tags.hedgerow
      hedgerow predict tags.hedgerow new.jsonl --out tags.jsonl
    """  # noqa: D301
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line (by default that of the process) and return an `ExitCode`."""
    escape_what_streams_lack()
    code = _run(arguments)
    try:
        flush_output()
    except OSError as error:
        return code or _output_failed(error)
    return code


def _run(arguments: list[str] | None) -> int:
    """Run the command line, except for what stdout still holds back."""
    try:
        result = app(args=arguments, prog_name="hedgerow", standalone_mode=False)
        code = result if isinstance(result, int) else int(ExitCode.OK)
    except Failure as failure:
        if failure.code == ExitCode.INTERRUPTED:
            print(f"hedgerow: interrupted; {plain(failure)}", file=sys.stderr)
        else:
            print_error(str(failure))
        return failure.code
    except (KeyboardInterrupt, typer.Abort):
        code = int(ExitCode.INTERRUPTED)
    except GpuMemoryError as error:
        print_error(str(error))
        return ExitCode.UNEXPECTED
    except MemoryError:
        print_error("out of memory; use fewer rows or fewer --threads, or a machine with more memory")
        return ExitCode.UNEXPECTED
    except OSError as error:
        # Commands report themselves what they could not read or save. This is what they print.
        return _output_failed(error)
    except Exception as error:
        # Usage errors of typer. Newer releases carry their own copy of click: no class can be named here.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hedgerow"
        print_error(f"{message}; try '{command} --help'")
        return ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:
        print("hedgerow: interrupted; nothing was written", file=sys.stderr)
    return code


def _output_failed(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
        return ExitCode.UNEXPECTED
    print_error(reason(error))
    return ExitCode.WRITE
