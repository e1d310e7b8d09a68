"""Fixtures that several test files use."""

from __future__ import annotations

from report_browser import browser, open_page
from served_models import client, deciding_model, feature_model, open_client, other_text_model, text_model
from tiny_encoder import tiny_encoder

__all__ = [
    "browser",
    "client",
    "deciding_model",
    "feature_model",
    "open_client",
    "open_page",
    "other_text_model",
    "text_model",
    "tiny_encoder",
]
