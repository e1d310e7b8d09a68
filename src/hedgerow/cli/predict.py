"""``hedgerow predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .options import expert_share, refuse_without, search_settings
from .targets import check_table
from .terminal import show_progress


def predict(
    context: typer.Context,
    model: options.ModelFile,
    input: options.Inputs,
    k: Annotated[
        int, typer.Option("--k", "-k", min=1, help="Labels per input, if the model knows that many.")
    ] = 5,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Add the uncertainty of each label and each input.")
    ] = False,
    quality: Annotated[
        bool,
        typer.Option(
            "--quality",
            help="Add how many of the best five labels of each input are expected to be right (precision) and"
            " how many of its labels are expected to be among them (recall). MODEL must be calibrated.",
        ),
    ] = False,
    confidence: Annotated[
        float, expert_share("With --quality: the share of inputs that the intervals should hold for.")
    ] = 0.9,
    out: options.LabelsOut = None,
    part: options.PartName = None,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    cluster: options.Cluster = None,
    beam: options.Beam = None,
    candidates: options.Candidates = None,
    missing: options.MissingVotes = None,
    tolerance: options.Tolerance = None,
    only: options.Only = None,
    exclude: options.Exclude = None,
    only_scheme: options.OnlyScheme = None,
    only_subtree: options.OnlySubtree = None,
    exclude_scheme: options.ExcludeScheme = None,
    exclude_subtree: options.ExcludeSubtree = None,
    lang: options.Lang = None,
) -> None:
    """Predict the best labels of each input.

    JSON lines hold one object per input, the best label first:
    {"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}.
    CSV and Parquet hold one row per label: row, id, rank, label, probability.

    With --uncertainty, each label also has its total uncertainty, which is the sum of data (aleatoric: each
    member is unsure by itself) and knowledge (epistemic: the members disagree) uncertainty, and the variance
    of the members' probabilities. Each input has an object "input", or columns input_...: the expected number
    of labels, the same measures summed over all labels, and how much a search through all labels could change
    a probability (bound) or the total (missed).

    With --quality, the object "input" (columns input_...) also has the expected precision and recall of the
    best five labels, and their intervals: precision_low, precision_high, recall_low, recall_high. On average
    over inputs like those MODEL was calibrated on, each interval holds for 90 % of them (split conformal
    prediction). Recall counts only labels that MODEL knows.

    Labels of a model with a vocabulary also have a name, behind the label. It is null or empty where the
    vocabulary has none.

    With --only... or --exclude..., other labels are not searched for, so --k labels are found, and sums are
    over the labels that are left.

    With --cluster (pip install 'hedgerow\\[ray]'), INPUT is a file or a folder of files, and --out a folder
    that gets a file of predictions for each. All nodes must be able to read MODEL and both folders. After
    Ctrl-C or a crash, the same command continues with the files that are missing.

    \b
    Examples:
      hedgerow predict tags.hedgerow new.jsonl
      hedgerow predict tags.hedgerow new.jsonl --uncertainty --out uncertain.csv
      hedgerow predict tags.hedgerow new.jsonl --quality --out checked.csv
      hedgerow predict eurlex.hedgerow eurlex-4k/ --k 10 --out predictions.parquet
      hedgerow predict tags.hedgerow new.jsonl --only @subjects.txt --exclude role::program
      hedgerow predict tags.hedgerow tonight/ --out tagged/ --cluster ray://head:10001
    """  # noqa: D301
    if not uncertainty:
        refuse_without(context, {"tolerance"}, "--uncertainty")
    if not quality:
        refuse_without(context, {"confidence"}, "--quality")
    from .allowed import Allowed, LabelChoice
    from .predicting import Question, predict_part

    allowed = Allowed(
        LabelChoice.from_options(only, only_scheme, only_subtree),
        LabelChoice.from_options(exclude, exclude_scheme, exclude_subtree),
    )
    search = search_settings(beam, candidates, missing)
    question = Question(
        k, part, search, uncertainty, tolerance, allowed, lang, confidence if quality else None
    )
    if cluster is not None:
        if out is None:
            raise Failure(
                ExitCode.USAGE, "--cluster writes a file for each file of inputs; name a folder with --out"
            )
        if len(input) > 1:
            raise Failure(
                ExitCode.USAGE, "--cluster takes one INPUT; put the files into a folder and name that"
            )
        from .predict_shards import predict_shards

        predict_shards(model, input[0], Path(out), question, cluster, overwrite, verbose)
        return
    check_table(out, overwrite)
    from .inputs import open_model
    from .label_files import print_labels, write_labels

    opened = open_model(model, threads, **question.search)
    with show_progress(verbose) as report:
        table = predict_part(opened, input, question, threads, report)
    with failing_as(ExitCode.WRITE):
        if out is None:
            print_labels(table)
        else:
            write_labels(out, table, overwrite)
