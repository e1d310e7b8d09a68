"""Fine-tunes the encoders of a model: one for all members, or one for each on the sample that it draws."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from hedgerow.deep.encoder import Encoder
from hedgerow.deep.fine_tuning import (
    EncoderCheckpoint,
    FineTuning,
    FineTuningReport,
    Targets,
    TuningData,
    fine_tune,
)
from hedgerow.deep.reader import TransformerReader
from hedgerow.deep.team import Team
from hedgerow.progress import Progress
from hedgerow.training.data import Costs, drawn_for
from hedgerow.training.growing import Resources, grow_tree
from hedgerow.training.plan import TrainingPlan
from hedgerow.trees.label_tree import LabelTree

__all__ = ["EncoderTuning", "tune_encoders"]


@dataclass(frozen=True, eq=False)
class EncoderTuning:
    """How encoders are tuned: how many, by which settings, and where their state is kept.

    `parameters` is a text of whatever else determines their weights, for the checkpoint's fingerprint.
    """

    encoders: int
    settings: FineTuning
    parameters: str
    checkpoint: str | os.PathLike[str] | None
    progress: Progress | None


def tune_encoders(
    reader: TransformerReader, texts: tuple[str, ...], plan: TrainingPlan, tuning: EncoderTuning, team: Team
) -> tuple[list[Encoder], list[FineTuningReport]]:
    """Fine-tune the encoders, all from the one that the reader has; `plan` has the tf-idf of the texts."""
    settings, (start,), data = tuning.settings, reader.encoders, plan.data
    if settings.steps_for(len(texts)) == 0 and tuning.encoders == 1:
        return [start], [FineTuningReport()]
    folder = tuning.checkpoint
    mark = "" if folder is None else _fingerprint(start, texts, plan, tuning)
    tokens = start.tokenize(texts)
    first = None
    if reader.cache is not None or tuning.encoders > 1:  # all start from the same embeddings
        first = reader.embed_texts(texts, team.threads, tuning.progress)[0].astype(np.float32)
    trained, reports = [], []
    for number in range(tuning.encoders):
        seed, costs = plan.seed, data.costs
        if tuning.encoders > 1:
            bootstraps = plan.settings.ensemble.method.bootstraps
            seed, costs = drawn_for(number, plan.seed, data.indicator, data.costs, bootstraps)
        encoder = start if tuning.encoders == 1 else start.copied()
        kept = None if folder is None else Path(folder) / f"encoder-{number:04d}.hedgerow"
        reports.append(
            fine_tune(
                encoder,
                TuningData(tokens, Targets(data.indicator, _tree(plan, costs, seed, team), costs), first),
                settings,
                team=team,
                seed=seed,
                checkpoint=None if kept is None else EncoderCheckpoint(kept, f"{mark}-{number}"),
                progress=_of_encoder(tuning.progress, number, tuning.encoders),
            )
        )
        trained.append(encoder)
    return trained, reports


def _tree(plan: TrainingPlan, costs: Costs, seed: int, team: Team) -> LabelTree:
    """The tree to fine-tune over: from words alone, since there are no embeddings yet."""
    if plan.tree is not None:
        return plan.tree
    resources = Resources(team.threads)
    return grow_tree(plan.data, plan.label_features, costs, plan.settings.tree, seed, resources)


def _fingerprint(start: Encoder, texts: tuple[str, ...], plan: TrainingPlan, tuning: EncoderTuning) -> str:
    """A hash of everything that determines the weights of the encoders."""
    digest = xxhash.xxh3_128(repr((tuning.parameters, plan.seed, tuning.encoders)).encode())
    digest.update(start.fingerprint().encode())
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    digest.update(plan.data.fingerprint(plan.tree, plan.label_features, "").encode())
    return str(digest.hexdigest())


def _of_encoder(progress: Progress | None, number: int, count: int) -> Progress | None:
    if progress is None or count == 1:
        return progress
    return lambda share, what: progress(share, f"encoder {number + 1} of {count}: {what}")
