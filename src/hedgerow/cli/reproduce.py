"""``hedgerow reproduce``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .options import deep_option, expert_option, refuse_without, values_of
from .terminal import plain, say, show_progress

if TYPE_CHECKING:
    from hedgerow.paper import ExperimentSettings, Source

_TUNING = (
    *("encoder", "encoders", "device", "epochs", "steps", "levels", "batch_size", "learning_rate"),
    *("max_length", "pooling"),
)
_COLUMN = 11  # letters that a figure with its deviation takes


def reproduce(
    context: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(
            help="Data folders with a train and a test part; PATH:FIELD if the labels are in another field.",
            metavar="DATA",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for results.", metavar="DIR")],
    ood: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA2",
            help="Further data that serve as out-of-distribution (OOD) inputs only. Repeat for more.",
        ),
    ] = None,
    method: Annotated[
        list[options.Method] | None,
        typer.Option("--method", metavar="METHOD", help="Only this method. Repeat for more."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Train each method with N seeds.", metavar="N")] = 3,
    members: Annotated[int, typer.Option(min=2, max=4096, help="Members of an ensemble.")] = 10,
    ood_rows: Annotated[
        int, typer.Option(min=10, metavar="N", help="At most N OOD inputs of each data set.")
    ] = 2000,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A trial: one seed, three members, 2,000 training rows, 500 test rows."),
    ] = False,
    threads: options.Threads = 0,
    verbose: options.Verbose = False,
    base: options.BaseOption = options.Base.linear,
    encoder: options.EncoderName = "bert-base-uncased",
    encoders: Annotated[
        bool,
        deep_option(
            "--encoders",
            help="Also fine-tune an encoder for each member of boosted bagging, as the paper did: it takes"
            " --members times as long.",
        ),
    ] = False,
    device: options.Device = "auto",
    epochs: options.Epochs = 1.0,
    steps: options.Steps = None,
    levels: options.Levels = None,
    batch_size: options.BatchSize = 32,
    learning_rate: options.LearningRate = 5e-5,
    max_length: options.MaxLength = 128,
    pooling: options.PoolingOption = options.Pooling.mean,
    cache: Annotated[
        Path | None,
        deep_option(
            metavar="FOLDER", help="Keep fine-tuned encoders and embeddings here. Default: DIR/encoders."
        ),
    ] = None,
    beam: Annotated[
        int, expert_option(min=1, help="Nodes of the label tree that the search keeps per layer.")
    ] = 50,
    missing: Annotated[
        options.Missing,
        expert_option(
            help="The vote of a member whose search did not reach a label: 0, as in the paper (delta), its"
            " score (exact), or an upper bound (bound)."
        ),
    ] = options.Missing.delta,
    weight_threshold: options.WeightThreshold = 0.05,
) -> None:
    """Run the experiments of the paper on DATA.

    Every method is trained with several seeds and evaluated on all tasks. DIR gets tables.md, tables.tex
    and tables.json in the layout of the paper's tables 2 to 5, or 6 to 8 with --base transformer (with
    the paper's figures beside them if DATA is one of its data sets), and figures. Data sets with texts
    serve as out-of-distribution inputs to each other.

    Results are kept in DIR: after Ctrl-C or a crash, the same command continues from there. Files of
    DIR/experiments can come from several machines.

    With --base transformer (pip install 'hedgerow\\[deep]'), an encoder is fine-tuned once for each DATA and
    seed; all methods share it, and words alone stand beside for comparison.

    \b
    Examples:
      hedgerow reproduce eurlex-4k/ --out results/
      hedgerow reproduce tibkat-en/ debian:tags debian:depends --ood reuters/ --out results/
      hedgerow reproduce tibkat-en/ --quick --out trial/
      hedgerow reproduce tibkat-en/ --base transformer --encoder MiniLM/ --device auto --out deep/
    """  # noqa: D301
    tuning = values_of(context, _TUNING)
    if base is not options.Base.transformer:
        refuse_without(context, {*tuning, "cache"}, "--base transformer")
    from hedgerow.paper import DeepSettings, ExperimentSettings

    settings = ExperimentSettings(
        methods=[one.value for one in (method or options.Method)],
        seeds=1 if quick else seeds,
        members=min(3, members) if quick else members,
        beam=beam,
        missing=missing.value,
        weight_threshold=weight_threshold,
        ood_rows=min(500, ood_rows) if quick else ood_rows,
        quick=quick,
        deep=DeepSettings(**tuning, kept=cache) if base is options.Base.transformer else None,
    )
    sources = [source for text in data if (source := _present(text))]
    others = [source for text in ood or [] if (source := _present(text))]
    if not sources:
        raise Failure(ExitCode.DATA, "none of the data sets is there; nothing was done")
    _run(sources, others, out, settings, threads or -1, verbose)


def _run(
    sources: list[Source],
    others: list[Source],
    out: Path,
    settings: ExperimentSettings,
    n_jobs: int,
    verbose: bool,
) -> None:
    """Do the experiments that are not done, and write tables and figures of all."""
    from hedgerow.data import DataError
    from hedgerow.paper import machine, run, write_tables
    from hedgerow.paper.figures import write_figures
    from hedgerow.storage.container import ModelFileError

    if settings.deep is not None:
        with failing_as(ExitCode.USAGE, ValueError, ImportError):
            settings.deep.check()
    with failing_as(ExitCode.WRITE):
        out.mkdir(parents=True, exist_ok=True)
    try:
        with (
            show_progress(verbose, whole=True) as report,
            failing_as(ExitCode.DATA, DataError, ModelFileError, ValueError, TypeError),
        ):
            experiments = run(sources, others, out, settings, n_jobs, report)
    except KeyboardInterrupt:
        raise Failure(
            ExitCode.INTERRUPTED, f"results so far are kept in {out}; the same command continues from there"
        ) from None
    with failing_as(ExitCode.WRITE):
        tables = write_tables(experiments, out, settings, machine(n_jobs))
        missing = write_figures(experiments, out / "figures")
    console = Console(highlight=False)
    for table in tables:
        # Wider ones are for a page, not for a terminal.
        if len(table.header) * _COLUMN <= console.width:
            console.print(Markdown(table.to_markdown()))
    say(f"Written: {out}/tables.md, tables.tex, tables.json and figures/")
    if missing:
        print(f"hedgerow: {missing}", file=sys.stderr)


def _present(text: str) -> Source | None:
    """The data, or None for known data sets that are not there: stderr says where they come from."""
    from hedgerow.paper import Source
    from hedgerow.paper.published import known_data

    source = Source.parse(text)
    if source.path.exists():
        return source
    known = known_data(source.path)
    if known is None:
        raise Failure(ExitCode.DATA, f"{source.path}: there is no such file or folder")
    print(f"hedgerow: {plain(source.path)} is not there and is left out. {known.origin}.", file=sys.stderr)
    return None
