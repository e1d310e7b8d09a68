"""Warnings of the library that users read as a line on stderr."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from .terminal import plain


@contextlib.contextmanager
def warnings_as_lines(*kinds: type[Warning]) -> Iterator[None]:
    """Print warnings of these kinds as one line each; others are shown as Python does."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, kinds):
                print(f"hedgerow: {plain(message)}", file=sys.stderr)
            else:
                shown(message, category, *place, **more)

        warnings.showwarning = show
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
