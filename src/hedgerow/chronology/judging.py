"""Judges a model on a period that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow.decisions.guarantees import Guarantee, tried
from hedgerow.decisions.kept import FALSE_ALARM, GuaranteeTally, KeptGuarantee
from hedgerow.decisions.learning import frequencies
from hedgerow.decisions.policy import Policy
from hedgerow.evaluation import ndcg_at, precision_at, reliability
from hedgerow.model import Model
from hedgerow.progress import Stage
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.signals import Signals
from hedgerow.votes.truth import Assessment, assess

from .plan import Plan
from .results import KeptInPeriod

__all__ = ["Findings", "judge"]

_CUTS = (1, 3, 5)


@dataclass(frozen=True)
class Findings:
    """What `JudgedPeriod` says of a model on inputs."""

    unknown_labels: int
    precision: dict[str, float]
    ndcg: dict[str, float]
    ece: float | None
    ood: int | None
    shifted: bool
    guarantees: tuple[KeptInPeriod, ...]


def judge(source: Model, X: Any, truth: sp.csr_array, plan: Plan, progress: Stage | None = None) -> Findings:
    """Predict inputs once, and compare with the truth, whose columns begin with those of the model."""
    inputs, truth = source.inputs_and_truth(X, truth)
    policy = source.policy
    asked = () if policy is None else _asked(policy, plan)
    tally = GuaranteeTally(policy, source.search, source.label_counts, asked)
    watch = source.watch()
    parts: list[Assessment] = []
    signals: list[Signals] = []
    for rows, answer in answer_batches(source, inputs, signals=source.ood is not None, progress=progress):
        found = assess(answer.votes, truth[rows], k=max(_CUTS), n_jobs=source.threads or None)
        parts.append(found)
        tally.add(answer, found.truth)
        if watch is not None:
            watch.add(answer)
        if answer.signals is not None:
            signals.append(answer.signals)
    assessed = Assessment.concatenate(parts)
    kept = tally.finish()
    labelled = bool(truth.nnz)
    labels = assessed.labels
    return Findings(
        _unknown(truth, source),
        {str(k): precision_at(labels, assessed.truth, k) for k in _CUTS} if labelled else {},
        {str(k): ndcg_at(labels, assessed.truth, k) for k in _CUTS} if labelled else {},
        _calibration_error(assessed) if labelled else None,
        _flagged(source, signals),
        watch is not None and watch.report().shifted,
        () if policy is None else _in_period(kept, policy, len(assessed)),
    )


def _asked(policy: Policy, plan: Plan) -> tuple[Guarantee, ...]:
    """What is guaranteed of the goals of a plan, or why it is not."""
    asked = []
    if (share := plan.wrong_at_most) is not None:
        wrong = Guarantee("wrong", plan.wrong_of, share, None, 0.9, None, "")
        asked.append(tried(wrong, lambda one: policy.wrong_guarantee(one.asked, of=plan.wrong_of)[1]))
    if (share := plan.missed_at_most) is not None:
        missed = Guarantee("missed", None, share, None, None, None, "")
        asked.append(tried(missed, lambda one: policy.missed_guarantee(one.asked)[1]))
    return tuple(asked)


def _in_period(kept: list[KeptGuarantee], policy: Policy, rows: int) -> tuple[KeptInPeriod, ...]:
    """What came of guarantees, each with a test of whether it was kept."""
    achieved = {place: found for place, one in enumerate(kept) if (found := _mean_loss(one, policy, rows))}
    tests = dict(zip(achieved, kept_tests(list(achieved.values()), policy.missed.rows), strict=True))
    return tuple(
        KeptInPeriod(
            kind=of.guarantee.kind,
            of=of.guarantee.of,
            asked=of.guarantee.asked,
            refused=of.guarantee.refused,
            achieved=of.achieved,
            kept=of.kept,
            p_value=tests[place].p_value if place in tests else None,
            broken=place in tests and tests[place].broken,
            inputs=of.inputs,
            counted=of.counted,
            failed=of.failed,
        )
        for place, of in enumerate(kept)
    )


def _mean_loss(of: KeptGuarantee, policy: Policy, rows: int) -> Achieved | None:
    """A mean over inputs of a loss between 0 and 1 that is at most what was asked if the guarantee is kept.

    A ratio is no such mean. But all wrong labels are at most a share of all accepted ones if and only if the
    mean over inputs of their difference, wrong ones less the share of accepted ones, is not above 0; and an
    input is given `most` labels at most. The same goes for the inputs that are given any.
    """
    share, guarantee = of.guarantee.promised, of.guarantee
    if share is None or of.achieved is None:
        return None
    if guarantee.kind == "missed":
        return Achieved("right labels", "missed", share, of.achieved, of.inputs)
    loss = of.achieved
    if guarantee.of == "labels" and policy.given is not None:
        loss = share + (of.failed - share * of.counted) / (policy.given.most * rows)
    elif guarantee.of == "answered":
        loss = share + (of.achieved - share) * of.inputs / rows
    return Achieved("accepted labels", "wrong", share, loss, rows)


def _unknown(truth: sp.csr_array, source: Model) -> int:
    counts = source.label_counts
    if counts is None:
        return int((truth.indices >= len(source.classes)).sum())
    return int((frequencies(counts, truth.shape[1])[truth.indices] == 0).sum())


def _calibration_error(assessed: Assessment) -> float:
    shown = assessed.labels >= 0  # an input may have fewer candidates
    return float(reliability(assessed.best.probability[shown], assessed.right()[shown]).ece)


def _flagged(source: Model, signals: list[Signals]) -> int | None:
    if source.ood is None or not signals:
        return None
    found = source.ood.judge(Signals.concatenate(signals))
    return int(np.count_nonzero(found.p_value <= FALSE_ALARM))
