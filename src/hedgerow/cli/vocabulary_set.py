"""``hedgerow vocabulary set``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .failures import ExitCode, failing_as
from .options import AsJson, ModelFile, Overwrite
from .targets import check_new_file
from .terminal import print_json, say

_SHOWN = 10  # labels that are named


def set_vocabulary(
    model: ModelFile,
    file: Annotated[Path, typer.Argument(help="The vocabulary.", metavar="FILE")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="Write another model file, and leave MODEL as it is."),
    ] = None,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Give the labels of MODEL names: keep the vocabulary in FILE in the model.

    MODEL is replaced when the new file is complete, unless --out names another one. Labels that the
    vocabulary lacks are listed, and predicted as before. If the model judges by names, and names of labels
    change, so do probabilities: then its calibration and policy are discarded. What was learned of broader
    terms always is. What is discarded is printed; hedgerow calibrate learns it again. All else stays.

    \b
    Examples:
      hedgerow vocabulary set tags.hedgerow stw.ttl
      hedgerow vocabulary set tags.hedgerow stw.ttl --out named.hedgerow
    """  # noqa: D301
    target = model if out is None else out
    check_new_file(target, overwrite or out is None)
    import warnings

    from hedgerow.vocabulary import VocabularyWarning
    from hedgerow.vocabulary.coverage import coverage

    from .inputs import load_model
    from .vocabularies import read_names

    vocabulary = read_names(file)
    classifier = load_model(model)
    before = classifier.source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocabularyWarning)  # said below
        classifier.set_vocabulary(vocabulary)
    with failing_as(ExitCode.WRITE):
        classifier.save(target, overwrite=overwrite or out is None)
    found = coverage(vocabulary, classifier.classes_)
    after = classifier.source
    left = [] if after.left is None else after.left.ids
    kinds = {
        "calibration": (before.calibration, after.calibration),
        "policy": (before.policy, after.policy),
        "calibration of broader terms": (before.broader, after.broader),
        "policy for broader terms": (before.coarser, after.coarser),
    }
    discarded = [what for what, (had, has) in kinds.items() if had is not None and has is None]
    summary: dict[str, Any] = {
        "model": str(target),
        "entries": len(vocabulary),
        "languages": list(vocabulary.languages),
        "labels": found.labels,
        "labels_with_a_name": found.named,
        "labels_without_an_entry": found.missing,
        "labels_that_left": left,
        "discarded": discarded,
    }
    if json:
        print_json(summary)
        return
    say(
        f"Saved {target}: {found.named:,} of {found.labels:,} labels have a name; the vocabulary has"
        f" {len(vocabulary):,} entries."
    )
    if left:
        by_name = "" if after.names is None else ", by their old names, too, until the model is fitted again"
        say(f"{len(left):,} labels left the vocabulary: {_listed(left)}.")
        say(f"They are predicted as before{by_name}.")
    if others := [label for label in found.missing if str(label) not in set(left)]:
        say(f"{len(others):,} labels are not in the vocabulary: {_listed(others)}")
    if discarded:
        say(f"Discarded, as it holds no more: {', '.join(discarded)}. hedgerow calibrate learns it again.")


def _listed(labels: list[Any]) -> str:
    return ", ".join(map(str, labels[:_SHOWN])) + (", ..." if len(labels) > _SHOWN else "")
