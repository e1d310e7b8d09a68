"""The report page: what a model does on a data set, as one HTML file."""

from __future__ import annotations

from .content import Content, Example, Figure, Headline, KnownLabel, LabelName, Prediction, Series, Setting
from .page import render

__all__ = [
    "Content",
    "Example",
    "Figure",
    "Headline",
    "KnownLabel",
    "LabelName",
    "Prediction",
    "Series",
    "Setting",
    "render",
]
