"""Extreme multi-label classification that knows when it does not know."""

from importlib.metadata import version

from hedgerow.estimator import HedgerowClassifier, HedgerowTextClassifier, TopLabels, load
from hedgerow.label_tree import LabelTree
from hedgerow.text import TfidfVectorizer

__version__ = version("hedgerow")

__all__ = [
    "HedgerowClassifier",
    "HedgerowTextClassifier",
    "LabelTree",
    "TfidfVectorizer",
    "TopLabels",
    "__version__",
    "load",
]
