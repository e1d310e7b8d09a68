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
from hedgerow.evaluation.shifting import with_guarantees
from hedgerow.model import Model
from hedgerow.progress import Stage
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
    p_values: dict[tuple[str, float], tuple[float, bool]] = {}
    shifted = False
    if watch is not None and policy is not None:
        report = with_guarantees(watch.report(), policy, kept)
        shifted = report.shifted
        p_values = {(one.fate, one.asked): (one.p_value, one.broken) for one in report.kept}
    labelled = bool(truth.nnz)
    labels = assessed.labels
    return Findings(
        _unknown(truth, source),
        {str(k): precision_at(labels, assessed.truth, k) for k in _CUTS} if labelled else {},
        {str(k): ndcg_at(labels, assessed.truth, k) for k in _CUTS} if labelled else {},
        _calibration_error(assessed) if labelled else None,
        _flagged(source, signals),
        shifted,
        tuple(_in_period(one, p_values) for one in kept),
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


def _in_period(of: KeptGuarantee, tests: dict[tuple[str, float], tuple[float, bool]]) -> KeptInPeriod:
    guarantee = of.guarantee
    tested = guarantee.kind == "missed" or guarantee.of == "inputs"
    p_value, broken = tests.get((guarantee.kind, guarantee.asked), (None, False)) if tested else (None, False)
    return KeptInPeriod(
        kind=guarantee.kind,
        of=guarantee.of,
        asked=guarantee.asked,
        refused=guarantee.refused,
        achieved=of.achieved,
        kept=of.kept,
        p_value=p_value,
        broken=broken,
        inputs=of.inputs,
        counted=of.counted,
        failed=of.failed,
    )


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
