"""What was decided on the labels of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.guarantees import Guarantee
from hedgerow.decisions.rules import DECISIONS

__all__ = ["BroaderAnswers", "Decisions", "InputDecision", "Quality", "Shift"]

Floats = npt.NDArray[np.float32]


class Shift(Protocol):
    """Whether the inputs are like those that guarantees are about; see `hedgerow.shift.ShiftReport`."""

    @property
    def broken(self) -> bool: ...  # noqa: D102
    @property
    def words(self) -> str: ...  # noqa: D102
    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


class Quality(Protocol):
    """How good the best labels of each input are expected to be; see `hedgerow.ExpectedQuality`."""

    @property
    def k(self) -> int: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102
    def columns(self) -> dict[str, npt.NDArray[np.float64]]: ...  # noqa: D102
    def words(self, row: int) -> str: ...  # noqa: D102
    @staticmethod
    def concatenate(parts: Sequence[Any]) -> Any: ...  # noqa: D102


@dataclass(frozen=True)
class InputDecision:
    """The decisions on one input, labels by name and best first.

    Attributes
    ----------
    accept, review, reject : list
        Labels; of those to reject, only the best few. All labels that are not named are rejected.
    answered : bool
        False where the input as a whole is too uncertain, so that nothing is accepted.
    is_ood : bool or None
        Whether the input is out-of-distribution (OOD).
    p_value : float or None
        The share of in-distribution inputs with an OOD score at least as high.
    broader : list
        With ``broader=True``: broader terms that are accepted, best first.
    """

    accept: list[Any]
    review: list[Any]
    reject: list[Any]
    answered: bool
    is_ood: bool | None
    p_value: float | None
    broader: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class BroaderAnswers:
    """Broader terms that are accepted where nothing narrower is, best first.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The terms of input `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    terms : object array, shape (entries,)
        Labels, or ids of the vocabulary that are no labels.
    probability, total, data, knowledge, variance : float32 array, shape (entries,)
        As of `UncertainLabels`, of "a label at or below the term is right".
    """

    indptr: npt.NDArray[np.int64]
    terms: npt.NDArray[np.object_]
    probability: Floats
    total: Floats
    data: Floats
    knowledge: Floats
    variance: Floats

    def of_input(self, row: int) -> list[Any]:
        """The terms of one input."""
        return list(self.terms[self.indptr[row] : self.indptr[row + 1]])


@dataclass(frozen=True, eq=False)
class Decisions:
    """What to do with the labels of each input.

    All labels that are to be accepted or reviewed are listed, and the best k of each input, best first; all
    others are rejected.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The labels of input `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    labels : array, shape (entries,)
        Labels as in `classes_`: names, or columns of Y.
    columns : int32 array, shape (entries,)
        Their places in `classes_`.
    probability, total, data, knowledge, variance : float32 array, shape (entries,)
        As of `UncertainLabels`.
    decision : int8 array, shape (entries,)
        0, 1 or 2: places in ``("reject", "review", "accept")``.
    answered : bool array, shape (n,)
        False where the input as a whole is too uncertain: what would have been accepted is to be reviewed.
    is_ood : bool array, shape (n,), or None
        Whether the input is out-of-distribution (OOD); None where the model has no OOD detector.
    p_value : float64 array, shape (n,), or None
        The share of in-distribution inputs with an OOD score at least as high.
    bound : float32 array, shape (n,), or None
        How far the probability of any label may be from the one that a search through all labels gives. Where
        it is below `reject_below`, no label that such a search would keep has been lost by the beam.
    expected_cost : float64 array, shape (n,), or None
        With costs: what the decisions on all candidates cost on average.
    reject_below, accept_from : float
        The thresholds; with groups of labels, the lowest of theirs. `accept_from` is infinite where nothing
        is accepted, and `reject_below` where nothing else is kept.
    guarantees : tuple of Guarantee
        What is guaranteed, and what is not though it was asked for.
    remarks : tuple of str
        What is to be known besides: for which inputs that holds.
    broader : BroaderAnswers or None
        With ``broader=True``: broader terms that are accepted where nothing narrower is.
    shift : ShiftReport or None
        Whether all inputs together are like the held-out ones, without which no guarantee is supported; None
        where the model has no policy.
    quality : ExpectedQuality or None
        How good the best five labels of each input are expected to be, whatever was decided on them; None
        where the model has not learned it, or only some labels are allowed.
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    columns: npt.NDArray[np.int32]
    probability: Floats
    total: Floats
    data: Floats
    knowledge: Floats
    variance: Floats
    decision: npt.NDArray[np.int8]
    answered: npt.NDArray[np.bool_]
    is_ood: npt.NDArray[np.bool_] | None
    p_value: npt.NDArray[np.float64] | None
    bound: Floats | None
    expected_cost: npt.NDArray[np.float64] | None
    reject_below: float
    accept_from: float
    guarantees: tuple[Guarantee, ...] = ()
    remarks: tuple[str, ...] = ()
    broader: BroaderAnswers | None = None
    shift: Shift | None = None
    quality: Quality | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def guarantee(self) -> str:
        """All that is guaranteed, in words."""
        return " ".join([*(of.words for of in self.guarantees), *self.remarks])

    def __getitem__(self, row: int) -> InputDecision:
        """The decisions on one input."""
        n = len(self)
        if not -n <= row < n:
            raise IndexError(f"there is no input {row}; there are {n}")
        row %= n
        own = slice(self.indptr[row], self.indptr[row + 1])
        labels, codes = self.labels[own].tolist(), self.decision[own].tolist()
        chosen = {
            name: [label for label, decided in zip(labels, codes, strict=True) if decided == code]
            for code, name in enumerate(DECISIONS)
        }
        return InputDecision(
            **chosen,
            answered=bool(self.answered[row]),
            is_ood=None if self.is_ood is None else bool(self.is_ood[row]),
            p_value=None if self.p_value is None else float(self.p_value[row]),
            broader=[] if self.broader is None else self.broader.of_input(row),
        )

    def __iter__(self) -> Iterator[InputDecision]:
        return (self[row] for row in range(len(self)))

    def count(self, decision: str) -> npt.NDArray[np.int64]:
        """How many labels of each input got this decision.

        Parameters
        ----------
        decision : {"reject", "review", "accept"}
            Of those to reject, only the listed ones count.

        Returns
        -------
        int64 array, shape (n,)
        """
        if decision not in DECISIONS:
            raise ValueError(f"decision is {decision!r}; it must be one of {', '.join(DECISIONS)}")
        rows = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        return np.bincount(rows[self.decision == DECISIONS.index(decision)], minlength=len(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries: the guarantees, the thresholds, and for each input what `iter`
        gives.
        """
        inputs: list[dict[str, Any]] = [asdict(of_input) for of_input in self]
        for row, of_input in enumerate(inputs):
            if self.expected_cost is not None:
                of_input["expected_cost"] = float(self.expected_cost[row])
            if self.quality is not None:
                expected = {name: float(values[row]) for name, values in self.quality.columns().items()}
                of_input["quality"] = {
                    "k": self.quality.k,
                    "confidence": self.quality.confidence,
                    **expected,
                }
        return {
            "shift": None if self.shift is None else self.shift.to_dict(),
            "guarantees": [of.to_dict() for of in self.guarantees],
            "remarks": list(self.remarks),
            "reject_below": self.reject_below if math.isfinite(self.reject_below) else None,
            "accept_from": self.accept_from if math.isfinite(self.accept_from) else None,
            "inputs": inputs,
        }

    @staticmethod
    def concatenate(parts: Sequence[Decisions]) -> Decisions:
        """The decisions of several batches, one after the other; what was said of their shift is dropped."""
        if not parts:
            raise ValueError("there is nothing to concatenate")
        joined = _joined(parts) | {"shift": None}
        broader = [part.broader for part in parts if part.broader is not None]
        if broader:
            joined["broader"] = replace(broader[0], **_joined(broader))
        quality = [part.quality for part in parts if part.quality is not None]
        if quality:
            joined["quality"] = quality[0].concatenate(quality)
        return replace(parts[0], **joined)


def _joined(parts: Sequence[Any]) -> dict[str, Any]:
    """The arrays of several batches, one after the other."""
    ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
    joined: dict[str, Any] = {
        "indptr": np.concatenate(
            [[0], *(part.indptr[1:] + begin for part, begin in zip(parts, ends, strict=False))]
        ).astype(np.int64)
    }
    for part in fields(parts[0]):
        values = [getattr(own, part.name) for own in parts]
        if part.name != "indptr" and isinstance(values[0], np.ndarray):
            joined[part.name] = np.concatenate(values)
    return joined
