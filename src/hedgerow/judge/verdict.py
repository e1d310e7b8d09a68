"""Why the judge says what it says of a label: what it saw, and how each part of that moved its answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from hedgerow.judge.judging import HEADROOM, Judge, evidence_names, surprise

__all__ = [
    "Evidence",
    "Said",
    "Verdict",
    "judge_verdicts",
    "percent",
    "plain_probability",
    "shapley_values",
    "verdict_entry",
]

Floats = npt.NDArray[np.float64]

_WHO = {
    "members": "The trees",
    "wide": "The wide classifier",
    "label": "The label's own classifier, without the way to it,",
}


@dataclass(frozen=True, eq=False)
class Said:
    """What members and scorers say of some labels of one input, before the judge.

    Attributes
    ----------
    labels : int32 array, shape (entries,)
        Numbers of the labels.
    probs : float32 array, shape (entries, members)
        What the members say.
    scores : float32 array, shape (entries, scorers)
        What the scorers say.
    """

    labels: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]

    def only(self, places: Any) -> Said:
        """Some of these labels."""
        return Said(self.labels[places], self.probs[places], self.scores[places])


@dataclass(frozen=True)
class Evidence:
    """One thing that the judge saw of a label, and what that did to its answer.

    Attributes
    ----------
    name : {"members", "wide", "label", "centroid", "frequency"}
        What it is: the mean probability of the members, the probability of the wide classifier, that of the
        label's own classifier there without the way to it, the cosine of the input and the mean of the
        label's inputs in training, the number of these inputs.
    value : float
        What the judge saw.
    reference : float
        The same of a typical candidate: the median over all labels that the search found for the input.
    effect : float
        How much this raised the judge's log-odds; its exponential is a factor on the odds.
    """

    name: str
    value: float
    reference: float
    effect: float


@dataclass(frozen=True)
class Verdict:
    """The judge's answer on one label, as a sum.

    ``base`` plus the effects of the evidence is ``log_odds``. The effects are Shapley values: what a part of
    the evidence adds to the log-odds in place of that of a typical candidate, the mean over all orders in
    which the parts can be put in.

    Attributes
    ----------
    evidence : tuple of Evidence
        What the judge saw.
    base : float
        The judge's log-odds of a typical candidate, whose evidence is the `reference` of each part.
    log_odds : float
        The judge's log-odds of this label.
    """

    evidence: tuple[Evidence, ...]
    base: float
    log_odds: float

    @property
    def probability(self) -> float:
        """What the judge says."""
        return float(expit(self.log_odds))

    @property
    def base_probability(self) -> float:
        """What it would say of a typical candidate."""
        return float(expit(self.base))

    def sentences(self) -> list[str]:
        """The same in words."""
        said = [f"{_said(one)}, which {_moved(one.effect)}." for one in self.evidence]
        return [
            f"The judge starts from {percent(self.base_probability)}, its answer for a typical candidate of"
            " this input.",
            *said,
            f"The judge's answer: {percent(self.probability)}.",
        ]


def judge_verdicts(judge: Judge, own: Said, candidates: Said, transform: str) -> list[Verdict]:
    """Explain what the judge says of labels of one input.

    Parameters
    ----------
    judge : Judge
        It is only asked, with some of the evidence replaced by that of a typical candidate.
    own : Said
        The labels to explain.
    candidates : Said
        All that the search found for the input, at least one.
    transform : {"l3-hinge", "sigmoid"}
        How the scores of the wide classifier become probabilities.
    """
    names = evidence_names(judge.scorers)
    typical = np.median(judge.evidence(candidates.labels, candidates.probs, candidates.scores), axis=0)
    references = [_of_number(name, at, transform) for name, at in zip(names, typical.tolist(), strict=True)]
    seen = judge.evidence(own.labels, own.probs, own.scores)
    means = own.probs.astype(np.float64).mean(axis=1)
    values = np.column_stack([means, own.scores, judge.label_counts[own.labels]])
    verdicts = []
    for point, numbers in zip(seen, values.tolist(), strict=True):
        base, effects = shapley_values(judge.log_odds, point, typical)
        evidence = [
            Evidence(name, _shown(name, value, transform), reference, effect)
            for name, value, reference, effect in zip(
                names, numbers, references, effects.tolist(), strict=True
            )
        ]
        verdicts.append(Verdict(tuple(evidence), base, float(judge.log_odds(point[None])[0])))
    return verdicts


def verdict_entry(verdict: Verdict) -> dict[str, Any]:
    """The same for programs, as JSON has it."""
    return {
        "probability": verdict.probability,
        "log_odds": verdict.log_odds,
        "base": verdict.base,
        "evidence": [asdict(one) for one in verdict.evidence],
    }


def shapley_values(
    function: Callable[[Floats], Floats], point: Floats, reference: Floats
) -> tuple[float, Floats]:
    """The value of a function at the reference, and what each coordinate of the point adds to it.

    All 2^n mixtures of both are computed, so the values are exact, whatever the function is: base and values
    add up to the function at the point.

    Examples
    --------
    >>> def product(x):
    ...     return x[:, 0] + x[:, 0] * x[:, 1]
    >>> base, values = shapley_values(product, np.array([1.0, 2.0]), np.zeros(2))
    >>> base, values.tolist()
    (0.0, [2.0, 1.0])
    """
    count = len(point)
    chosen = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    found = np.asarray(function(np.where(chosen, point, reference)), dtype=np.float64)
    sizes = chosen.sum(axis=1)
    values = np.zeros(count)
    for own in range(count):
        without = np.flatnonzero(~chosen[:, own])
        weights = [
            math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for size in sizes[without].tolist()
        ]
        values[own] = np.dot(weights, found[without + (1 << own)] - found[without])
    return float(found[0]), values


def plain_probability(scores: npt.ArrayLike, transform: str) -> Floats:
    """Probabilities as they are before scores are lowered for the judge, so that sure labels differ.

    That is exact for a label's own classifier; of a tree, the way to the leaf is taken as part of the score.
    """
    if transform == "l3-hinge":
        return np.asarray(np.exp(-(np.maximum(0.0, surprise(scores) - HEADROOM) ** 3)))
    return np.asarray(expit(logit(np.asarray(scores, dtype=np.float64)) + HEADROOM))


def percent(probability: float) -> str:
    """A probability for people: small ones keep a digit, and none but 0 and 1 become 0 or 100."""
    share = 100 * probability
    if 0 < share < 0.01:
        return "less than 0.01 %"
    if 99.99 < share < 100:
        return "more than 99.99 %"
    digits = 0 if 9.5 <= share <= 99 or share in (0, 100) else 1 if 0.95 <= share < 99.9 else 2
    return f"{share:.{digits}f} %"


def _shown(name: str, value: float, transform: str) -> float:
    if name in ("wide", "label"):
        return float(plain_probability(value, transform))
    if name == "centroid":
        return float(1.0 + HEADROOM - surprise(value))
    return value


def _of_number(name: str, seen: float, transform: str) -> float:
    """The value that the judge sees as this number."""
    if name == "frequency":
        return math.expm1(seen)
    return _shown(name, math.exp(-(seen**3)), transform)


def _said(one: Evidence) -> str:
    if one.name in _WHO:
        who = _WHO[one.name]
        return f"{who} gave {percent(one.value)} (typical: {percent(one.reference)})"
    if one.name == "centroid":
        return (
            f"The similarity to the label's training inputs is {one.value:.2f} (typical: {one.reference:.2f})"
        )
    often = "once" if one.value == 1 else f"{one.value:,.0f} times"
    return f"The label occurs {often} in training (typical: {one.reference:,.0f})"


def _moved(effect: float) -> str:
    """An effect on log-odds in words."""
    factor = math.exp(abs(effect))
    verb = "raised" if effect > 0 else "lowered"
    if factor < 1.005:
        return "hardly moved the odds"
    if factor >= 1.995:
        times = f"{factor:,.0f}" if factor >= 9.95 else f"{factor:.1f}"
        return f"{verb} the odds {times} times" if effect > 0 else f"divided the odds by {times}"
    return f"{verb} the odds by {100 * (factor - 1 if effect > 0 else 1 - 1 / factor):.0f} %"
