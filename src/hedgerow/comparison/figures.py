"""The figures that two models are compared by, as sums over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.comparison.bootstrap import Floats, Pair, Statistic, ratio
from hedgerow.comparison.measuring import GuaranteeRows, Measured
from hedgerow.decisions.guarantees import Guarantee

__all__ = ["ACCURACY", "FIGURES", "Figure", "figure_pairs", "guarantee_pairs", "of_rows"]

_BINS = 15
_LEAST = 1e-6  # no probability counts as less, or one sure mistake would decide the mean
_CALIBRATED = 5


@dataclass(frozen=True)
class Figure:
    """A figure, what kind it is, and whether more of it is better. Log loss is no share."""

    name: str
    kind: str
    higher_is_better: bool = True
    is_share: bool = True


ACCURACY = ("precision@1", "precision@3", "precision@5", "ndcg@5", "ndcg@10", "f1@5", "recall@5")
FIGURES = (
    *(Figure(name, "accuracy") for name in ACCURACY),
    Figure("ece@5", "calibration", higher_is_better=False),
    Figure("log_loss@5", "calibration", higher_is_better=False, is_share=False),
    Figure("auroc_total", "uncertainty"),
)


def of_rows(measured: Measured, name: str) -> Floats:
    """A measure of accuracy for each row; 0 of rows without true labels, which do not count.

    Examples
    --------
    >>> none = np.zeros(0)
    >>> right = np.array([[True, False, True, False, False] + [False] * 5])
    >>> of = Measured(np.zeros((1, 10), int), np.zeros((1, 10)), right, np.array([2]), none, ())
    >>> [round(float(of_rows(of, name)[0]), 3) for name in ("precision@3", "recall@5", "f1@5", "ndcg@5")]
    [0.667, 1.0, 0.571, 0.92]
    """
    measure, _, cut = name.partition("@")
    k = int(cut)
    right, true = measured.right[:, :k], measured.true
    hits = right.sum(axis=1)
    some = np.maximum(true, 1)
    if measure == "precision":
        return np.asarray(hits / k)
    if measure == "recall":
        return np.asarray(hits / some)
    if measure == "f1":
        return np.asarray(2 * hits / np.maximum((measured.labels[:, :k] >= 0).sum(axis=1) + true, 1))
    discounts = 1 / np.log2(np.arange(2, k + 2))
    return np.asarray((right @ discounts) / np.cumsum(discounts)[np.minimum(some, k) - 1])


def figure_pairs(old: Measured, new: Measured) -> list[Pair]:
    """All of `FIGURES`, in their order."""
    labelled = (old.true > 0).astype(np.float64)
    both = ~np.isnan(old.auroc) & ~np.isnan(new.auroc)
    return [
        *(
            Pair(ratio(of_rows(old, name), labelled), ratio(of_rows(new, name), labelled))
            for name in ACCURACY
        ),
        Pair(_calibration_error(old), _calibration_error(new)),
        Pair(_log_loss(old), _log_loss(new)),
        Pair(ratio(np.where(both, old.auroc, 0), both), ratio(np.where(both, new.auroc, 0), both)),
    ]


def _listed(measured: Measured) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Probabilities of the best labels, which of them are right, and which there are."""
    cut = slice(_CALIBRATED)
    return measured.probability[:, cut], measured.right[:, cut], measured.labels[:, cut] >= 0


def _calibration_error(measured: Measured) -> Statistic:
    """ECE of the best labels, as `hedgerow.evaluation.reliability` has it."""
    probability, right, shown = _listed(measured)
    group = np.searchsorted(np.linspace(0, 1, _BINS + 1)[1:-1], probability)
    rows = np.arange(len(probability))[:, None]
    gaps = np.zeros((len(probability), _BINS))
    np.add.at(gaps, (np.broadcast_to(rows, group.shape)[shown], group[shown]), (probability - right)[shown])
    return Statistic(
        np.column_stack([gaps, shown.sum(axis=1)]),
        lambda sums: _quotient(np.abs(sums[:, :-1]).sum(axis=1), sums[:, -1]),
    )


def _log_loss(measured: Measured) -> Statistic:
    probability, right, shown = _listed(measured)
    said = np.clip(np.where(right, probability, 1 - probability), _LEAST, None)
    return ratio((-np.log(said) * shown).sum(axis=1), shown.sum(axis=1))


def _quotient(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below != 0))


def guarantee_pairs(
    old: Measured, new: Measured
) -> Iterator[tuple[GuaranteeRows, GuaranteeRows, Pair | None]]:
    """The guarantees that both models have, and their shares; None where one of them refuses.

    Missed labels are shares of all true labels here, whether a model knows them or not: each model by its own
    labels would be no comparison.
    """
    of_new = {_key(rows.kept.guarantee): rows for rows in new.guarantees}
    for own in old.guarantees:
        other = of_new.get(_key(own.kept.guarantee))
        if other is not None:
            shares = [_share(rows, old.true) for rows in (own, other)]
            pair = None if shares[0] is None or shares[1] is None else Pair(shares[0], shares[1])
            yield own, other, pair


def _key(guarantee: Guarantee) -> tuple[str, str | None, float]:
    return guarantee.kind, guarantee.of, guarantee.asked


def _share(rows: GuaranteeRows, true: npt.NDArray[np.int64]) -> Statistic | None:
    given, right = rows.given, rows.right
    if given is None or right is None:
        return None
    guarantee = rows.kept.guarantee
    if guarantee.kind == "wrong":
        if guarantee.of == "labels":
            return ratio(given - right, given)
        answered = given > 0
        wrong = (given - right) / np.maximum(given, 1)
        return ratio(wrong, answered if guarantee.of == "answered" else np.ones(len(given)))
    found = right / np.maximum(true, 1)
    return ratio(found if guarantee.kind == "review" else 1 - found, true > 0)
