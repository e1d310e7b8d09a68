"""``hedgerow predict``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .failures import ExitCode, Failure, failing_as
from .options import (
    Beam,
    Candidates,
    Cluster,
    Inputs,
    LabelsOut,
    MissingVotes,
    ModelFile,
    Overwrite,
    PartName,
    Threads,
    Tolerance,
    Verbose,
    refuse_without,
    search_settings,
)
from .targets import check_table
from .terminal import Report, show_progress

if TYPE_CHECKING:
    from .inputs import OpenModel
    from .label_files import LabelTable


@dataclass(frozen=True)
class Question:
    """What to predict for each input, of which part of the data, and how to search."""

    k: int
    part: str | None
    search: dict[str, Any]
    uncertainty: bool
    tolerance: float | None


def predict(
    context: typer.Context,
    model: ModelFile,
    input: Inputs,
    k: Annotated[
        int, typer.Option("--k", "-k", min=1, help="Labels per input, if the model knows that many.")
    ] = 5,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Add the uncertainty of each label and each input.")
    ] = False,
    out: LabelsOut = None,
    part: PartName = None,
    threads: Threads = 0,
    overwrite: Overwrite = False,
    verbose: Verbose = False,
    cluster: Cluster = None,
    beam: Beam = None,
    candidates: Candidates = None,
    missing: MissingVotes = None,
    tolerance: Tolerance = None,
) -> None:
    """Predict the best labels of each input.

    JSON lines hold one object per input, the best label first:
    {"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}.
    CSV and Parquet hold one row per label: row, id, rank, label, probability.

    With --uncertainty, each label also has its total uncertainty, which is the sum of data (aleatoric: the
    label is ambiguous) and knowledge (epistemic: the members of an ensemble disagree) uncertainty, and the
    variance of the members' probabilities. Each input has an object "input", or columns input_...: the
    expected number of labels, the same measures summed over all labels, and how much a search through all
    labels could change a probability (bound) or the total (missed).

    With --cluster (pip install 'hedgerow\\[ray]'), INPUT is a file or a folder of files, and --out a folder
    that gets a file of predictions for each. All nodes must be able to read MODEL and both folders. After
    Ctrl-C or a crash, the same command continues with the files that are missing.

    \b
    Examples:
      hedgerow predict tags.hedgerow new.jsonl
      hedgerow predict tags.hedgerow new.jsonl --uncertainty --out uncertain.csv
      hedgerow predict eurlex.hedgerow eurlex-4k/ --k 10 --out predictions.parquet
      hedgerow predict tags.hedgerow tonight/ --out tagged/ --cluster ray://head:10001
    """  # noqa: D301
    if not uncertainty:
        refuse_without(context, {"tolerance"}, "--uncertainty")
    question = Question(k, part, search_settings(beam, candidates, missing), uncertainty, tolerance)
    if cluster is not None:
        if out is None:
            raise Failure(
                ExitCode.USAGE, "--cluster writes a file for each file of inputs; name a folder with --out"
            )
        from .predict_shards import predict_shards

        predict_shards(model, input, Path(out), question, cluster, overwrite, verbose)
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


def predict_part(
    model: OpenModel, data: Path, question: Question, threads: int, report: Report, may_be_empty: bool = False
) -> LabelTable:
    """Read inputs and predict their labels, with uncertainty or without."""
    import numpy as np
    import scipy.sparse as sp

    from .inputs import Selection
    from .label_files import LabelTable

    classifier = model.classifier
    rows = Selection(data, question.part, threads=threads)
    part, inputs = model.read_inputs(rows, report, may_be_empty)
    empty = part.n == 0
    if empty:  # ask about something else, to know the columns
        inputs = [""] if model.reads_texts else sp.csr_array((1, classifier.n_features_in_), dtype=np.float32)
    with failing_as(ExitCode.DATA, ValueError, TypeError):
        # All labels of a model that knows fewer than k, rather than an error about the default.
        k = min(question.k, model.known_labels)
        if question.uncertainty:
            best: Any = classifier.predict_uncertain(inputs, k, tolerance=question.tolerance, progress=report)
        else:
            best = classifier.top(inputs, k, progress=report)
    table = LabelTable.of_predictions(best, None if empty else part.ids)
    return table.emptied() if empty else table
