"""Why the judge says what it says of a label: what it saw, and how each part of that moved its answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
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
    "label": "Within its group of similar labels, the label's own classifier",
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
        What it is: the mean probability of the members; the probability of the wide classifier; that of the
        label's own classifier in the wide classifier or, without one, in the only tree, as if the groups that
        lead to the label were certain; the cosine of the input and the mean of the label's inputs in
        training; the number of these inputs.
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
        said = [f"{_said(one)}, which {_moved(one.effect)}." for one in _without_repetition(self.evidence)]
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
        How the scores of the wide classifier and of labels' own classifiers become probabilities.
    """
    names = evidence_names(judge.scorers)
    typical = np.median(judge.evidence(candidates.labels, candidates.probs, candidates.scores), axis=0)
    numbers = np.append(np.exp(-(typical[:-1] ** 3)), np.expm1(typical[-1]))
    references = _shown(names, numbers, transform)
    seen = judge.evidence(own.labels, own.probs, own.scores)
    means = own.probs.astype(np.float64).mean(axis=1)
    values = np.column_stack([means, own.scores, judge.label_counts[own.labels]])
    verdicts = []
    for point, heard in zip(seen, values, strict=True):
        base, effects = shapley_values(judge.log_odds, point, typical)
        parts = zip(names, _shown(names, heard, transform), references, effects.tolist(), strict=True)
        evidence = tuple(Evidence(*part) for part in parts)
        verdicts.append(Verdict(evidence, base, float(judge.log_odds(point[None])[0])))
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
    """Probabilities of labels' own classifiers before their scores are lowered for the judge."""
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


def _shown(names: tuple[str, ...], numbers: Floats, transform: str) -> list[float]:
    """What the judge hears of one label, as people know it: plain probabilities, the cosine, the count."""
    shown = dict(zip(names, numbers.tolist(), strict=True))
    shown["centroid"] = float(1.0 + HEADROOM - surprise(shown["centroid"]))
    if "label" in shown:
        lowered = shown["label"]
        shown["label"] = float(plain_probability(lowered, transform))
        if "wide" in shown:
            # Only the label's own score is lowered, not those of the groups that lead to it.
            groups = min(1.0, shown["wide"] / lowered) if lowered > 0 else 0.0
            shown["wide"] = groups * shown["label"]
    return [shown[name] for name in names]


def _without_repetition(evidence: tuple[Evidence, ...]) -> list[Evidence]:
    """What is to be said: a label's own classifier only where groups of labels make a difference.

    Else it would give the numbers of the tree that it is a part of, which were said just before.
    """
    told: list[Evidence] = []
    for one in evidence:
        if one.name == "label" and told and _numbers(told[-1]) == _numbers(one):
            told[-1] = replace(told[-1], effect=told[-1].effect + one.effect)
        else:
            told.append(one)
    return told


def _numbers(one: Evidence) -> str:
    if one.name in _WHO:
        return f"{percent(one.value)} (typical: {percent(one.reference)})"
    # Rounded first, and 0.0 added: no -0.00.
    return f"{round(one.value, 2) + 0.0:.2f} (typical: {round(one.reference, 2) + 0.0:.2f})"


def _said(one: Evidence) -> str:
    if one.name in _WHO:
        return f"{_WHO[one.name]} gave {_numbers(one)}"
    if one.name == "centroid":
        return f"The similarity to the label's training inputs is {_numbers(one)}"
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
