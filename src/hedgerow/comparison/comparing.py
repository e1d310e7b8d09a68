"""Two models on the same labelled rows: what is better, what is worse, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.comparison.bootstrap import Interval, Pair, paired_intervals, ratio
from hedgerow.comparison.figures import FIGURES, figure_pairs, guarantee_pairs, of_rows
from hedgerow.comparison.held_rows import HeldRows, held_rows
from hedgerow.comparison.label_changes import label_changes
from hedgerow.comparison.label_union import LabelUnion
from hedgerow.comparison.measuring import Measured, measure
from hedgerow.comparison.results import (
    Comparison,
    ComparisonSettings,
    Difference,
    GroupDifference,
    GuaranteeDifference,
    SeenRows,
)
from hedgerow.comparison.verdict import LEAST_ROWS, verdict_of
from hedgerow.inputs.rows import count, take
from hedgerow.model import Fitted, Model, fitted_model
from hedgerow.progress import Progress, stage

__all__ = ["compare", "compare_models"]

_GROUPS = 30  # those with the most rows; the others are counted together
_OTHERS = "(other groups)"
_NONE = "(none)"

Rows = npt.NDArray[np.bool_]


def compare(
    old: Fitted | Model,
    new: Fitted | Model,
    X: Any,
    Y: Any,
    groups: Sequence[Any] | None = None,
    *,
    classes: Sequence[str] | None = None,
    by: str = "ndcg@5",
    margin: float = 0.5,
    draws: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two models on labelled rows that neither was trained or calibrated on.

    Differences are new - old, each with the interval that holds 95 % of the draws of a paired bootstrap.
    Labels are told apart by their ids, so that the models may know different ones: what a model does not know
    counts as missed. Rows that a model remembers from its training are left out.

    Parameters
    ----------
    old, new : HedgerowClassifier or HedgerowTextClassifier
        Fitted models that read the same inputs.
    X : inputs
        Features of shape (n, d), or texts, as the models take them.
    Y : list of lists of labels, or sparse indicator matrix
        The truth.
    groups : sequence, optional
        The group of each row, such as its language; None for rows without one.
    classes : sequence of str, optional
        The labels of the columns of a matrix Y; without them, labels are the numbers of the columns.
    by : str
        The measure that the verdict is about; see `ComparisonSettings`.
    margin : float
        How much worse still counts as no worse, in points.
    draws, seed : int
        Of the bootstrap.
    progress : callable(share, what), optional
        Called after each batch.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier
    >>> texts = [f"a {kind} with {n} twigs" for n in range(80) for kind in ("thorny shrub", "green tree")]
    >>> labels = [["hawthorn"], ["holly"]] * 80
    >>> model = HedgerowTextClassifier(random_state=0).fit(texts[:20], labels[:20])
    >>> compare(model, model, texts, labels).verdict.word
    'no worse'
    """
    settings = ComparisonSettings(by, margin, draws, seed)
    models = fitted_model(old), fitted_model(new)
    rows = held_rows(X, Y, groups, classes)
    if rows.names.dtype != object and models[0].classes.dtype == object:
        raise ValueError(
            "Y has labels by number, but the models know them by name; give lists of names, or the name of"
            " each column as classes="
        )
    return compare_models(models[0], models[1], rows, settings, progress)


def compare_models(
    old: Model,
    new: Model,
    rows: HeldRows,
    settings: ComparisonSettings,
    progress: Progress | None = None,
) -> Comparison:
    """Do the work of `compare`, for models that may read different fields of the same rows."""
    models = (old, new)
    inputs = [model.inputs(of) for model, of in zip(models, (rows.old_inputs, rows.new_inputs), strict=True)]
    if count(inputs[0]) != count(inputs[1]):
        raise ValueError(f"the models read {count(inputs[0])} and {count(inputs[1])} rows of the same data")
    seen = [model.seen(model.hashes(of)) for model, of in zip(models, inputs, strict=True)]
    kept = np.flatnonzero(~(seen[0] | seen[1]))
    if not kept.size:
        raise ValueError(
            f"all {count(inputs[0]):,} rows were seen in training by one of the models, so nothing is left to"
            " compare on; give rows that neither was trained on"
        )
    Y = rows.Y[kept]
    if not Y.nnz:
        raise ValueError("no row that is left has a label, so there is nothing to compare with")
    union = LabelUnion.of(old.classes, new.classes, rows.names)
    measured = [
        measure(model, take(of, kept), (Y, rows.names), union, stage(progress, f"predicting with {what}"))
        for model, of, what in zip(models, inputs, ("OLD", "NEW"), strict=True)
    ]
    groups = None if rows.groups is None else _grouped([rows.groups[row] for row in kept.tolist()])
    return _Found(models, measured, groups, settings).comparison(
        union, _true_entries(Y, rows.names, union), _seen_rows(models, seen)
    )


def _true_entries(
    Y: Any, names: npt.NDArray[Any], union: LabelUnion
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    places = np.array([union.columns[name] for name in names.tolist()], dtype=np.int64)
    return np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr)), places[Y.indices]


def _seen_rows(models: tuple[Model, Model], seen: list[Rows]) -> SeenRows:
    forgotten = [name for name, model in zip(("old", "new"), models, strict=True) if model.training is None]
    return SeenRows(int(seen[0].sum()), int(seen[1].sum()), int((seen[0] | seen[1]).sum()), tuple(forgotten))


def _grouped(groups: list[Any]) -> dict[str, Rows]:
    """The rows of each group, the largest first."""
    named = np.array([_NONE if group is None else str(group) for group in groups], dtype=object)
    ordered = [name for name, _ in Counter(named.tolist()).most_common()]
    found = {name: np.asarray(named == name) for name in ordered[:_GROUPS]}
    if len(ordered) > _GROUPS:
        found[_OTHERS] = ~np.logical_or.reduce(list(found.values()))
    return found


class _Found:
    """All figures of both models, whose intervals come from the same draws."""

    def __init__(
        self,
        models: tuple[Model, Model],
        measured: list[Measured],
        groups: dict[str, Rows] | None,
        settings: ComparisonSettings,
    ) -> None:
        self._models, self._settings = models, settings
        self._measured = old, new = measured
        self._labelled = old.true > 0
        self._groups = groups or {}
        self._guarantees = list(guarantee_pairs(old, new))
        pairs = figure_pairs(old, new)
        pairs += [pair for _, _, pair in self._guarantees if pair is not None]
        pairs += [self._of_group(rows) for rows in self._groups.values()]
        self._intervals = iter(paired_intervals(pairs, settings.draws, settings.seed))

    def comparison(
        self,
        union: LabelUnion,
        true: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        seen: SeenRows,
    ) -> Comparison:
        old, new = self._measured
        settings, labelled = self._settings, int(self._labelled.sum())
        differences = tuple(
            Difference(of.name, of.kind, of.higher_is_better, of.is_share, **vars(next(self._intervals)))
            for of in FIGURES
        )
        guarantees = tuple(self._guarantee_differences())
        groups = tuple(self._group_difference(*group) for group in self._groups.items())
        deciding = next(of for of in differences if of.name == settings.by)
        interval = Interval(deciding.old, deciding.new, deciding.difference, deciding.low, deciding.high)
        known = [set(model.classes.tolist()) for model in self._models]
        return Comparison(
            verdict=verdict_of(settings.by, interval, settings.margin, labelled),
            rows=len(self._labelled),
            labelled=labelled,
            seen=seen,
            differences=differences,
            guarantees=guarantees,
            labels=tuple(label_changes(old, new, union, true)),
            groups=groups,
            shared=len(known[0] & known[1]),
            only_old=len(known[0] - known[1]),
            only_new=len(known[1] - known[0]),
            remarks=tuple(self._remarks(seen, known, {union.ids[place] for place in set(true[1].tolist())})),
            settings=settings,
        )

    def _of_group(self, rows: Rows) -> Pair:
        counted = (rows & self._labelled).astype(np.float64)
        return Pair(*(ratio(of_rows(of, self._settings.by), counted) for of in self._measured))

    def _guarantee_differences(self) -> list[GuaranteeDifference]:
        found = []
        for old, new, pair in self._guarantees:
            of = old.kept.guarantee
            interval = None if pair is None else next(self._intervals)
            found.append(
                GuaranteeDifference(
                    of.title, of.kind, of.of, of.asked, old.kept.kept, new.kept.kept, interval
                )
            )
        return found

    def _group_difference(self, name: str, rows: Rows) -> GroupDifference:
        interval = next(self._intervals)
        number = int((rows & self._labelled).sum())
        low, high = (interval.low, interval.high) if number >= LEAST_ROWS else (None, None)
        return GroupDifference(name, number, interval.old, interval.new, interval.difference, low, high)

    def _remarks(self, seen: SeenRows, known: list[set[Any]], true: set[Any]) -> list[str]:
        found = []
        if seen.left_out:
            found.append(
                f"{seen.left_out:,} rows were left out because a model was trained on them: OLD on"
                f" {seen.old:,}, NEW on {seen.new:,}."
            )
        for name in seen.forgotten:
            found.append(
                f"{name.upper()} does not remember what it was trained on, so rows that it has seen are not"
                " left out."
            )
        lost = (known[0] - known[1]) & true
        if lost:
            found.append(f"NEW does not know {len(lost):,} of the labels here that OLD knows.")
        old, new = (model.policy is not None for model in self._models)
        if old and not new:
            found.append("OLD has guarantees and NEW has none; run hedgerow calibrate on NEW.")
        return found
