"""Active learning: what to ask a human next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.readers import MatrixReader
from hedgerow.inputs.rows import count as count_inputs
from hedgerow.model import Fitted, Model, fitted_model
from hedgerow.progress import Progress
from hedgerow.votes.measures import label_uncertainty

__all__ = ["Queries", "check_members", "query"]

Floats = npt.NDArray[np.float64]
# Inputs whose votes are held at once: thousands of candidates each, and a number for each of their members.
_ROWS_AT_ONCE = 256
# Cosines above this are those of equal directions, but for rounding.
_SAME = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Queries:
    """The questions on which the members disagree most, the best first. Arrays of shape (n,).

    Attributes
    ----------
    rows : int64 array
        Which input to ask about.
    labels : array or None
        For pairs, the label to ask about, as in `classes_`; None where the question is for all labels.
    score : float64 array
        The knowledge uncertainty, less what the earlier questions already cover.
    knowledge : float64 array
        Knowledge uncertainty of the input; for pairs, of the label.
    """

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[Any] | None
    score: Floats
    knowledge: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each question: input, label (for pairs), score, knowledge."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("tables need pyarrow; install hedgerow[parquet]") from error
        columns: dict[str, Any] = {"input": self.rows}
        if self.labels is not None:
            columns["label"] = self.labels
        return pyarrow.table({**columns, "score": self.score, "knowledge": self.knowledge})

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()


def query(
    model: Fitted | Model,
    X: Any,
    n: int = 10,
    pairs: bool = False,
    diversity: float = 1.0,
    *,
    progress: Progress | None = None,
) -> Queries:
    """Choose the inputs, or the pairs of input and label, on which the members disagree most.

    Measured on inputs like those of training, labels for these were a little better than labels for random
    ones. On inputs of another kind they were not reliably better: choose at random there.

    Questions are chosen one after the other. Each time the score of an input is its knowledge uncertainty
    times ``1 - diversity * s``, where s is its largest cosine similarity to an input that is already chosen,
    not below 0; of equal scores the input is taken that was chosen least often, and of these the lower row.
    A pair has the knowledge uncertainty of its label and the similarity of its input, so that with a
    diversity of 1 no input comes twice while others remain.

    Parameters
    ----------
    model : HedgerowClassifier or HedgerowTextClassifier
        A fitted ensemble. A single model has no knowledge uncertainty.
    X : sparse matrix or array of shape (rows, d), or list of texts
        Inputs without labels.
    n : int, default=10
        How many questions to choose; fewer, if there are fewer.
    pairs : bool, default=False
        Ask whether one label fits, instead of for all labels of an input.
    diversity : float, default=1.0
        From 0, the plain ranking, to 1, never the same again.
    progress : callable(share, what), optional
        Called some ten times a second.

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier
    >>> texts = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"]
    >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]]
    >>> model = HedgerowTextClassifier(method="bagging", members=5, random_state=0).fit(texts, labels)
    >>> query(model, ["an evergreen tree", "evergreen shrub", "evergreen shrub", "a thorny tree"], n=2).rows
    array([1, 3])
    """
    source = check_members(model)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n is {n!r}; it must be a positive integer")
    if not isinstance(diversity, int | float | np.number) or not 0 <= diversity <= 1:
        raise ValueError(f"diversity is {diversity!r}; it must be a number between 0 and 1")
    inputs = source.inputs(X)
    features = source.reader.plain_features(inputs, source.threads).astype(np.float32)
    if source.forest.rows_each == 1 and source.names is None:  # texts were read just now: features are enough
        source, inputs = replace(source, reader=MatrixReader(source.reader.width)), features
    if pairs:
        labels, knowledge = _label_knowledge(source, inputs, int(n), progress)
    else:
        found = source.uncertain(inputs, 1, progress=progress)
        labels, knowledge = None, np.maximum(found.instance.knowledge, 0.0)[:, None].astype(np.float64)
    rows, turns, score = _choose(features, knowledge, int(n), float(diversity))
    return Queries(
        rows, None if labels is None else source.classes[labels[rows, turns]], score, knowledge[rows, turns]
    )


def check_members(model: Fitted | Model) -> Model:
    """Refuse a model whose members cannot disagree."""
    source = fitted_model(model)
    if source.members < 2:
        raise ValueError(
            "a single model has no knowledge uncertainty, because it has no members that disagree; fit an"
            " ensemble with method='bagging' (on the command line: --method bagging)"
        )
    return source


def _label_knowledge(
    source: Model, inputs: Any, n: int, progress: Progress | None
) -> tuple[npt.NDArray[np.int32], Floats]:
    """The n labels of each row with the most knowledge uncertainty, falling; it is -1 where there are fewer.

    A row cannot give more than n questions, and its labels can only be asked for in this order.
    """
    count = count_inputs(inputs)
    width = min(n, len(source.classes))
    labels = np.zeros((count, width), dtype=np.int32)
    knowledge = np.full((count, width), -1.0)
    for begin in range(0, count, _ROWS_AT_ONCE):
        if progress is not None:
            progress(begin / count, "predicting")
        votes = source.answer(inputs[begin : begin + _ROWS_AT_ONCE]).votes
        measured = label_uncertainty(votes).knowledge
        for row, (start, end) in enumerate(zip(votes.indptr[:-1], votes.indptr[1:], strict=True), begin):
            order = np.argsort(-measured[start:end], kind="stable")[:width]
            labels[row, : len(order)] = votes.labels[start:end][order]
            knowledge[row, : len(order)] = measured[start:end][order]
    return labels, knowledge


def _choose(
    features: sp.csr_array, knowledge: Floats, n: int, diversity: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Greedy choice: the rows, which of the row's entries each question is, and the scores.

    Every question costs one product of the matrix with the row that was chosen, never one with itself.
    """
    directions, empty = _directions(features)
    # The next entry of every row; -1 stands behind the last.
    entries = np.pad(knowledge, ((0, 0), (0, 1)), constant_values=-1.0)
    count = min(n, int((knowledge >= 0).sum()))
    turn = np.zeros(len(knowledge), dtype=np.int64)
    offer = entries[:, 0].copy()
    share = np.ones(len(knowledge))
    rows, turns, scores = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    for question in range(count):
        score = np.where(offer < 0, -1.0, offer * share)
        best = np.flatnonzero(score == score.max())
        row = int(best[np.argmin(turn[best])])
        rows[question], turns[question], scores[question] = row, turn[row], score[row]
        turn[row] += 1
        offer[row] = entries[row, turn[row]]
        if diversity > 0:
            np.minimum(share, 1 - diversity * _similarity(directions, empty, row), out=share)
    return rows, turns, scores


def _directions(features: sp.csr_array) -> tuple[sp.csr_array, npt.NDArray[np.bool_]]:
    """Rows scaled to length 1, and which of them have no direction."""
    scaled = features.astype(np.float64)
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    empty = lengths == 0
    scaled.data /= np.repeat(np.where(empty, 1.0, lengths), np.diff(scaled.indptr))
    return scaled, empty


def _similarity(directions: sp.csr_array, empty: npt.NDArray[np.bool_], row: int) -> Floats:
    """Cosines of all rows with one, not below 0. Rows without any feature are like each other."""
    if empty[row]:
        return empty.astype(np.float64)
    here = slice(directions.indptr[row], directions.indptr[row + 1])
    chosen = np.zeros(directions.shape[1])
    chosen[directions.indices[here]] = directions.data[here]
    cosines = np.asarray(directions @ chosen)
    return np.where(cosines > _SAME, 1.0, np.maximum(cosines, 0.0))
