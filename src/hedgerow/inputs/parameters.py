"""Checks of parameters: the message names the value and what would be accepted."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np


class ParameterError(ValueError, TypeError):
    """A parameter has a type or value that it cannot have."""


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise unless the value is one of the choices.

    Examples
    --------
    >>> check_choice("loss", "hinge", ("squared_hinge", "logistic"))
    Traceback (most recent call last):
    ...
    hedgerow.inputs.parameters.ParameterError: loss is 'hinge'; it must be 'squared_hinge' or 'logistic'
    """
    flags = all(isinstance(choice, bool) for choice in choices)
    if (
        isinstance(value, str | bool | np.bool_)
        and isinstance(value, bool | np.bool_) == flags
        and value in choices
    ):
        return
    named = [repr(choice) for choice in choices]
    accepted = " or ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    raise ParameterError(f"{name} is {value!r}; it must be {accepted}")


def check_integer(name: str, value: Any, at_least: int | None = None, at_most: int | None = None) -> None:
    """Raise unless the value is an integer within these bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and (at_least is None or value >= at_least) and (at_most is None or value <= at_most):
        return
    bounds = ""
    if at_least is not None:
        bounds = f" of at least {at_least}" if at_most is None else f" from {at_least} to {at_most}"
    raise ParameterError(f"{name} is {value!r}; it must be an integer{bounds}")


def check_real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Raise unless the value is a finite number within these bounds."""
    bounds = {"above": above, "of at least": at_least, "below": below, "of at most": at_most}
    sound = not isinstance(value, bool) and isinstance(value, Real) and bool(np.isfinite(float(value)))
    if (
        sound
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    ):
        return
    named = " and ".join(f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None)
    raise ParameterError(f"{name} is {value!r}; it must be a finite number{' ' * bool(named)}{named}")
