"""Which labels may be answered, where not all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LabelSubset", "label_subset"]

_NAMED = 3  # unknown labels in an error


@dataclass(frozen=True, eq=False)
class LabelSubset:
    """Labels that may be answered, by their ascending columns. A search leaves out all others.

    One object for many searches is faster than many equal ones: what it means for the trees is remembered.
    """

    columns: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        self.columns.setflags(write=False)

    def __len__(self) -> int:
        return len(self.columns)


def label_subset(
    column: Mapping[Any, int], only: Iterable[Any] | None, exclude: Iterable[Any] | None
) -> LabelSubset:
    """The labels of `only`, or else all, without those of `exclude`; `column` has the column of each label.

    Examples
    --------
    >>> column = {"elm": 0, "holly": 1, "yew": 2}
    >>> label_subset(column, ["yew", "elm"], None).columns
    array([0, 2], dtype=int32)
    >>> label_subset(column, None, ["elm"]).columns
    array([1, 2], dtype=int32)
    """
    allowed = np.full(len(column), only is None)
    if only is not None:
        allowed[_columns("only", only, column)] = True
    if exclude is not None:
        allowed[_columns("exclude", exclude, column)] = False
    if not allowed.any():
        why = "only is empty" if exclude is None else "exclude leaves no label"
        raise ValueError(f"{why}, so nothing could be answered; allow at least one label")
    return LabelSubset(np.flatnonzero(allowed).astype(np.int32))


def _columns(name: str, labels: Iterable[Any], column: Mapping[Any, int]) -> list[int]:
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"{name} is {labels!r}; give a list of labels, such as [{next(iter(column))!r}]")
    try:
        wanted = list(labels)
    except TypeError as error:  # an array without dimensions
        raise TypeError(f"{name} is {labels!r}; give a list of labels") from error
    named = isinstance(next(iter(column)), str)
    usual = {str} if named else {int}
    for place, label in enumerate(wanted if set(map(type, wanted)) - usual else ()):
        if isinstance(label, bool | np.bool_) or not isinstance(label, str if named else Integral):
            kind = "strings" if named else "integers"
            raise TypeError(
                f"{name}[{place}] is {label!r} of type {type(label).__name__}; the model's labels are {kind}"
            )
    columns = [column.get(label, -1) for label in wanted]
    if -1 in columns:
        unknown = [label for label, found in zip(wanted, columns, strict=True) if found < 0]
        others = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        shown = ", ".join(map(repr, unknown[:_NAMED])) + others
        raise ValueError(
            f"{name} has labels that the model does not know: {shown}; check their spelling, or leave"
            " them out"
        )
    return columns
