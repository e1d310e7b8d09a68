"""A server for a trained model: an API for programs, a page for people, a queue for reviewers."""

from __future__ import annotations

from .limits import Limits

__all__ = ["Limits"]
