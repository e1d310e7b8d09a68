"""Fixtures that several test files use."""

from __future__ import annotations

from report_browser import browser, open_page
from tiny_encoder import tiny_encoder

__all__ = ["browser", "open_page", "tiny_encoder"]
