"""The learned judge: what members and scorers say of a candidate becomes its probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import _native

__all__ = [
    "HEADROOM",
    "MOST_SURPRISE",
    "Judge",
    "LeftOut",
    "NoJudge",
    "evidence_names",
    "judged_each",
    "surprise",
    "term_count",
    "terms",
]

Floats = npt.NDArray[np.float64]

MOST_SURPRISE = 4.4
# A score above 1 is as probable as 1 elsewhere. Scorers lower theirs by this much, so that labels that they
# are sure of can be told apart.
HEADROOM = 1.5
# Labels of each member, its best ones, that are judged; and of all members together. The others are hardly
# ever true, but uncertainty is about what might be true.
_JUDGED_EACH, _JUDGED_TOGETHER = 400, 1000
_LEAST = 1e-37
_LOG_ODDS = (-20.0, 13.5)  # what floats can tell from certainty
SOURCES = ("held-out", "out-of-bag")


class LeftOut(StrEnum):
    """Why a model has no judge."""

    NOT_ASKED = "not asked for"
    TOO_LITTLE = "too little data"
    NOT_BETTER = "not better on validation"


@dataclass(frozen=True)
class NoJudge:
    """Why a model has no judge.

    Attributes
    ----------
    reason : LeftOut
        The reason.
    before, after : float or None
        Where the judge was not better: nDCG@5 on inputs that it was not learned from, of the members alone
        and of the judge.
    """

    reason: LeftOut
    before: float | None = None
    after: float | None = None

    def describe(self) -> dict[str, Any]:
        """For people and programs."""
        found: dict[str, Any] = {"reason": str(self.reason)}
        if self.before is not None and self.after is not None:
            found |= {"ndcg_before": round(self.before, 4), "ndcg": round(self.after, 4)}
        return found

    def to_header(self) -> dict[str, Any]:
        """An entry of a model file's header."""
        return asdict(self)

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> NoJudge:
        """Take back what `to_header` gave, after checking it."""
        figures = (header["before"], header["after"])
        if not all(figure is None or type(figure) is float for figure in figures):
            raise ValueError("the figures of the judge that was left out are not numbers")
        return cls(LeftOut(header["reason"]), *figures)


def surprise(probability: npt.ArrayLike) -> Floats:
    """The cube root of minus the logarithm: 0 for a sure label, growing slowly as probabilities fall."""
    p = np.clip(np.asarray(probability, dtype=np.float64), _LEAST, 1.0)
    return np.minimum(MOST_SURPRISE, np.cbrt(-np.log(p)))


def judged_each(members: int) -> int:
    """How many labels of each member a judge hears of, where nobody asks for more."""
    return max(_JUDGED_EACH, _JUDGED_TOGETHER // members)


def evidence_names(scorers: tuple[str, ...]) -> tuple[str, ...]:
    """What the judge sees of a candidate, in order."""
    return ("members", *scorers, "frequency")


def terms(evidence: Floats) -> Floats:
    """A constant, each number, products of each with itself and all after it, cubes of all but the last.

    The shape is (n, terms).
    """
    count = evidence.shape[1]
    products = [evidence[:, i] * evidence[:, j] for i in range(count) for j in range(i, count)]
    return np.column_stack([np.ones(len(evidence)), evidence, *products, evidence[:, :-1] ** 3])


def term_count(seen: int) -> int:
    """How many terms there are of so many numbers."""
    return 1 + seen + seen * (seen + 1) // 2 + seen - 1


@dataclass(frozen=True, eq=False)
class Judge:
    """Log-odds of a candidate as a polynomial of what is known of it.

    Attributes
    ----------
    scorers : tuple of str
        Who besides the members is asked about each candidate: some of `hedgerow.judge.scorers.SCORERS`.
    coefficients : float64 array
        Of `terms`, in their order.
    range : float64 array, shape (len(`evidence_names`), 2)
        The lowest and the highest that the judge has seen of each number; what is outside counts as these.
    label_counts : int64 array, shape (n_labels,)
        How often each label occurs in training.
    source : {"held-out", "out-of-bag"}
        What the judge was learned from.
    rows : int
        The number of inputs it was learned from.
    before, after : float
        nDCG@5 on inputs that the judge was not learned from: of the members alone, and of the judge. Only
        labels that all scorers of these inputs know are ranked.
    """

    scorers: tuple[str, ...]
    coefficients: Floats
    range: Floats
    label_counts: npt.NDArray[np.int64]
    source: str
    rows: int
    before: float
    after: float

    @cached_property
    def log_counts(self) -> npt.NDArray[np.float32]:
        """The frequency of labels as the judge sees it."""
        return np.log1p(self.label_counts).astype(np.float32)

    def apply(
        self,
        labels: npt.NDArray[np.int32],
        probs: npt.NDArray[np.float32],
        scores: npt.NDArray[np.float32],
        threads: int,
    ) -> npt.NDArray[np.float32]:
        """The members' probabilities of candidates, moved so that their mean is what the judge says."""
        return _native.judge_candidates(
            labels, probs, scores, self.coefficients, self.range.ravel(), self.log_counts, threads
        )

    def evidence(
        self,
        labels: npt.NDArray[np.int32],
        probs: npt.NDArray[np.float32],
        scores: npt.NDArray[np.float32],
    ) -> Floats:
        """What the judge sees of candidates, shape (entries, len(`evidence_names`))."""
        means = probs.astype(np.float64).mean(axis=1)
        seen = np.column_stack([surprise(means), surprise(scores), self.log_counts[labels]])
        return np.asarray(np.clip(seen, self.range[:, 0], self.range[:, 1]))

    def log_odds(self, evidence: Floats) -> Floats:
        """What the judge says of what it sees, before members move there: shape (entries,)."""
        inside = np.clip(evidence, self.range[:, 0], self.range[:, 1])
        return np.clip(terms(inside) @ self.coefficients, *_LOG_ODDS)

    def describe(self) -> dict[str, Any]:
        """What it is, for people and programs."""
        return {
            "sees": list(evidence_names(self.scorers)),
            "source": self.source,
            "rows": self.rows,
            "ndcg_before": round(self.before, 4),
            "ndcg": round(self.after, 4),
        }

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        return {
            "scorers": list(self.scorers),
            "source": self.source,
            "rows": self.rows,
            "before": self.before,
            "after": self.after,
        }

    def to_sections(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a model file; the counts of labels are there already."""
        return {"judge.coefficients": self.coefficients, "judge.range": self.range}

    @classmethod
    def from_sections(
        cls,
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        label_counts: npt.NDArray[np.int64] | None,
    ) -> Judge:
        """Take back what `to_header` and `to_sections` gave, after checking it."""
        scorers, coefficients = tuple(header["scorers"]), sections["judge.coefficients"]
        if label_counts is None:
            raise ValueError("the judge needs the frequencies of the labels")
        if header["source"] not in SOURCES or type(header["rows"]) is not int:
            raise ValueError("the judge does not say what it was learned from")
        if any(type(header[name]) is not float for name in ("before", "after")):
            raise ValueError("the judge does not say how good it is")
        seen = len(evidence_names(scorers))
        if coefficients.dtype != np.float64 or coefficients.shape != (term_count(seen),):
            raise ValueError("the judge has the wrong number of coefficients")
        known = sections["judge.range"]
        if known.dtype != np.float64 or known.shape != (seen, 2):
            raise ValueError("the judge has the wrong range")
        if not (np.isfinite(coefficients).all() and np.isfinite(known).all()):
            raise ValueError("the coefficients or the range of the judge are not finite numbers")
        if (known[:, 0] > known[:, 1]).any():
            raise ValueError("the judge has an empty range")
        return cls(
            scorers,
            np.asarray(coefficients),
            np.asarray(known),
            label_counts,
            header["source"],
            header["rows"],
            header["before"],
            header["after"],
        )
