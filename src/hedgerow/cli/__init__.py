"""The command line: ``hedgerow fit``, ``predict``, ``inspect`` and ``demo``."""

from __future__ import annotations

from .app import main

__all__ = ["main"]
