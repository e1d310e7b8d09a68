"""What a model remembers of the held-out inputs, to compare new ones with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.policy import PREDICTED
from hedgerow.shift.observing import BINS, SIGNALS, Bins, binned, observe
from hedgerow.votes.signals import OODScores
from hedgerow.votes.votes import Votes

__all__ = ["Reference", "ReferenceLearner", "labels_given"]

_MOST_ROWS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Reference:
    """The held-out inputs that set the thresholds of decisions: what is watched of them, in order of size.

    Attributes
    ----------
    names : tuple of str
        The signals.
    scores : uint16 array, shape (signals, rows)
        Their bins over the held-out inputs, ascending.
    labels, counts : int64 array
        Labels with a probability of one half or more, by number and ascending; and on how many inputs.
    true_labels, unknown_labels, unknown_rows : int
        True labels of the held-out inputs; those that the model has never seen; inputs that have such ones.
    """

    names: tuple[str, ...]
    scores: Bins
    labels: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    true_labels: int
    unknown_labels: int
    unknown_rows: int

    @property
    def rows(self) -> int:
        """Number of held-out inputs."""
        return int(self.scores.shape[1])

    def without_ood(self) -> Reference:
        """The same without OOD scores, which change when the OOD detector is learned again."""
        kept = [place for place, name in enumerate(self.names) if name != "ood"]
        names = tuple(self.names[place] for place in kept)
        return replace(self, names=names, scores=np.ascontiguousarray(self.scores[kept]))

    def about_inputs(self) -> Reference:
        """The same with only what does not depend on which labels may be answered."""
        kept = [place for place, name in enumerate(self.names) if SIGNALS[name].about_input]
        names = tuple(self.names[place] for place in kept)
        return replace(self, names=names, scores=np.ascontiguousarray(self.scores[kept]))

    def describe(self) -> dict[str, Any]:
        """What is remembered, for people and programs."""
        return {
            "rows": self.rows,
            "signals": list(self.names),
            "labels_given": len(self.labels),
            "true_labels": self.true_labels,
            "unknown_labels": self.unknown_labels,
        }

    def to_sections(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """A header entry and arrays for a model file."""
        header = {
            "signals": list(self.names),
            "true_labels": self.true_labels,
            "unknown_labels": self.unknown_labels,
            "unknown_rows": self.unknown_rows,
        }
        given = np.stack([self.labels, self.counts])
        return header, {"reference.scores": self.scores, "reference.given": given}

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]], n_labels: int) -> Reference:
        """Take back what `to_sections` gave, after checking it."""
        names = header["signals"]
        if not isinstance(names, list) or not names or not all(name in SIGNALS for name in names):
            raise ValueError("the reference of held-out inputs has unknown signals")
        if len(set(names)) != len(names):
            raise ValueError("the reference of held-out inputs has a signal twice")
        scores, given = sections["reference.scores"], sections["reference.given"]
        if scores.dtype != np.uint16 or scores.ndim != 2 or len(scores) != len(names):
            raise ValueError("the scores of the held-out inputs have the wrong type or shape")
        if not 0 < scores.shape[1] <= _MOST_ROWS or scores.max() >= BINS:
            raise ValueError("the scores of the held-out inputs are none, or out of range")
        if (scores[:, 1:] < scores[:, :-1]).any():
            raise ValueError("the scores of the held-out inputs are not sorted")
        if given.dtype != np.int64 or given.ndim != 2 or len(given) != 2:
            raise ValueError("the labels given to held-out inputs have the wrong type or shape")
        labels, counts = given
        if labels.size and not 0 <= labels[0] <= labels[-1] < n_labels:
            raise ValueError("the labels given to held-out inputs are not labels of the model")
        if (labels[1:] <= labels[:-1]).any() or (counts < 1).any() or (counts > scores.shape[1]).any():
            raise ValueError("the labels given to held-out inputs do not ascend, or have impossible counts")
        true, unknown, rows = (header[name] for name in ("true_labels", "unknown_labels", "unknown_rows"))
        for number in (true, unknown, rows):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise ValueError(f"the reference of held-out inputs has {number!r} as a count")
        if unknown > true or rows > min(unknown, scores.shape[1]):
            raise ValueError("the unknown labels of the held-out inputs have impossible counts")
        return cls(tuple(names), scores, labels, counts, true, unknown, rows)


class ReferenceLearner:
    """Gathers what is watched of held-out inputs, batch by batch.

    `known` says which columns of the truth are labels that the model has seen in training.
    """

    def __init__(self, known: npt.NDArray[np.bool_]) -> None:
        self._known = known
        self._parts: list[Bins] = []
        self._names: tuple[str, ...] = ()
        self._given: dict[int, int] = {}
        self._true = self._unknown = self._unknown_rows = 0

    def add(self, votes: Votes, scores: OODScores | None, truth: sp.csr_array) -> None:
        """Add votes on the next inputs, their OOD scores, and their true labels."""
        observed = observe(votes, scores)
        self._names = tuple(name for name in SIGNALS if name in observed)
        self._parts.append(binned(observed, self._names, len(votes)))
        for label, count in zip(*labels_given(votes), strict=True):
            self._given[int(label)] = self._given.get(int(label), 0) + int(count)
        strange = ~self._known[truth.indices]
        owners = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
        self._true += int(truth.nnz)
        self._unknown += int(strange.sum())
        self._unknown_rows += len(np.unique(owners[strange]))

    def finish(self) -> Reference | None:
        """What was gathered; None where nothing was added."""
        if not self._parts:
            return None
        scores = np.sort(np.concatenate(self._parts).T, axis=1)
        labels = sorted(self._given)
        return Reference(
            self._names,
            np.ascontiguousarray(scores),
            np.array(labels, dtype=np.int64),
            np.array([self._given[label] for label in labels], dtype=np.int64),
            self._true,
            self._unknown,
            self._unknown_rows,
        )


def labels_given(votes: Votes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Labels with a probability of one half or more, ascending, and on how many inputs."""
    labels, counts = np.unique(votes.labels[votes.means() >= PREDICTED], return_counts=True)
    return labels.astype(np.int64), counts.astype(np.int64)
