"""Extreme multi-label classification that knows when it does not know."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.estimator import HedgerowClassifier, HedgerowTextClassifier, TopLabels, load
    from hedgerow.label_tree import LabelTree
    from hedgerow.text import TfidfVectorizer

__version__ = version("hedgerow")

# Loaded when first used: `hedgerow --help` must not wait for scikit-learn.
_HOMES = {
    "HedgerowClassifier": "hedgerow.estimator",
    "HedgerowTextClassifier": "hedgerow.estimator",
    "LabelTree": "hedgerow.label_tree",
    "TfidfVectorizer": "hedgerow.text",
    "TopLabels": "hedgerow.estimator",
    "load": "hedgerow.estimator",
}

__all__ = [
    "HedgerowClassifier",
    "HedgerowTextClassifier",
    "LabelTree",
    "TfidfVectorizer",
    "TopLabels",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
