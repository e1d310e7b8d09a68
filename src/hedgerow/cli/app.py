"""The commands and their options."""

from __future__ import annotations

import math
import sys
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Optional

import typer

from .failures import ExitCode, Failure
from .terminal import print_error

app = typer.Typer(
    name="hedgerow",
    pretty_exceptions_enable=False,  # a one-line error, or Python's own traceback of a bug
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Method(str, Enum):
    """Ways to train."""

    single = "single"


class Loss(str, Enum):
    """Losses of the classifiers in the tree."""

    squared_hinge = "squared_hinge"
    logistic = "logistic"


class Negatives(str, Enum):
    """Which rows a classifier is trained against."""

    tfn = "tfn"
    tfn_man = "tfn+man"


Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 means all cores. Results do not depend on it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
# typer reads these annotations at run time, and Python 3.10 with older typer cannot read "int | None" there.
Beam = Annotated[Optional[int], typer.Option(min=1, help="Search this wide instead of as fitted.")]  # noqa: UP045
Out = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Write here: .jsonl (also .gz, .xz, .zst), .csv or .parquet. Default: JSON lines to stdout."
    ),
]
PartName = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--part", help="Part of INPUT. Default: test of a folder, all of a file.", show_default=False
    ),
]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


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


@app.command()
def fit(
    data: Annotated[
        Path, typer.Argument(help="A data folder (its train part is used) or file.", metavar="DATA")
    ],
    model: Annotated[Path, typer.Argument(help="The model file to write.", metavar="MODEL")],
    method: Annotated[Method, typer.Option(help="How to train.")] = Method.single,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    threads: Threads = 0,
    negatives: Annotated[
        Negatives,
        typer.Option(help="Train against siblings (tfn), or also against what the matcher confuses."),
    ] = Negatives.tfn,
    loss: Annotated[Loss, typer.Option(help="Loss of the classifiers.")] = Loss.squared_hinge,
    C: Annotated[
        float, typer.Option("--C", min=1e-12, callback=_finite, help="Cost of errors against regularisation.")
    ] = 1.0,
    weight_threshold: Annotated[
        float, typer.Option(min=0.0, callback=_finite, help="Drop weights smaller than this.")
    ] = 0.05,
    branching: Annotated[int, typer.Option(min=2, help="Children of a node of the label tree.")] = 8,
    leaf_size: Annotated[int, typer.Option(min=1, help="Most labels in a leaf.")] = 100,
    beam: Annotated[int, typer.Option(min=1, help="Nodes kept in each layer when predicting.")] = 50,
    labels_field: Annotated[
        str, typer.Option(help="Field of JSON, CSV or Parquet with the labels.")
    ] = "labels",
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Train a model on DATA and save it as MODEL.

    DATA is read by its layout: train.txt of the extreme classification repository, a PECOS folder,
    train_texts.txt with train_labels.txt, or records with text and labels as .jsonl, .csv or .parquet.

    \b
    Examples:
      hedgerow fit eurlex-4k/ eurlex.hedgerow
      hedgerow fit records.jsonl.xz tags.hedgerow --labels-field tags --threads 4
    """  # noqa: D301
    from .fit import run_fit

    settings = {
        "method": method.value,
        "branching": branching,
        "leaf_size": leaf_size,
        "loss": loss.value,
        "C": C,
        "weight_threshold": weight_threshold,
        "negatives": negatives.value,
        "beam": beam,
        "random_state": seed,
    }
    run_fit(data, model, settings, threads, labels_field, overwrite, json)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    input: Annotated[Path, typer.Argument(help="A file, or a data folder (its test part).", metavar="INPUT")],
    k: Annotated[
        int, typer.Option("--k", "-k", min=1, help="Labels for each input, if the model knows so many.")
    ] = 5,
    out: Out = None,
    part: PartName = None,
    threads: Threads = 0,
    beam: Beam = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict the best labels of each input.

    JSON lines hold one object an input, labels in rank order:
    {"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}.
    CSV and Parquet hold one row a label: row, id, rank, label, probability.

    \b
    Examples:
      hedgerow predict tags.hedgerow new.jsonl
      hedgerow predict eurlex.hedgerow eurlex-4k/ --k 10 --out predictions.parquet
    """  # noqa: D301
    from .predict import run_predict

    run_predict(model, input, k, out, part, threads, beam, overwrite)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    json: AsJson = False,
) -> None:
    """Check a model file and say what is in it.

    \b
    Examples:
      hedgerow inspect tags.hedgerow
      hedgerow inspect tags.hedgerow --json | jq .settings
    """  # noqa: D301
    from .inspect import run_inspect

    run_inspect(model, json)


@app.command()
def demo(threads: Threads = 0, json: AsJson = False) -> None:
    """Train on the embedded sample and show predictions; takes seconds.

    \b
    Examples:
      hedgerow demo
    """  # noqa: D301
    from .demo import run_demo

    run_demo(threads, json)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        What follows the program's name; by default what the process was started with.

    Returns
    -------
    int
        The exit code, see `ExitCode`.
    """
    try:
        result = app(args=arguments, prog_name="hedgerow", standalone_mode=False)
        code = result if isinstance(result, int) else int(ExitCode.OK)
    except Failure as failure:
        print_error(str(failure))
        return failure.code
    except (KeyboardInterrupt, typer.Abort):
        code = int(ExitCode.INTERRUPTED)
    except MemoryError:
        print_error("out of memory; use fewer rows or fewer --threads, or a machine with more memory")
        return ExitCode.UNEXPECTED
    except Exception as error:
        # Usage errors of typer. Newer releases carry their own copy of click: no class can be named here.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message().rstrip(".")
        print_error(f"{message}; try '{_command_path(error)} --help'")
        return ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:
        print("hedgerow: interrupted; nothing was written", file=sys.stderr)
    return code


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context else "hedgerow"
