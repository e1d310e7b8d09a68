"""Fixtures that several test files use."""

from __future__ import annotations

from report_browser import browser, open_page

__all__ = ["browser", "open_page"]
