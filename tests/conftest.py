"""Fixtures that several test files use."""

from __future__ import annotations

from report_browser import browser, open_page
from serve_browser import demo_model, demo_server, open_served, serve_model
from tiny_encoder import tiny_encoder

__all__ = [
    "browser",
    "demo_model",
    "demo_server",
    "open_page",
    "open_served",
    "serve_model",
    "tiny_encoder",
]
