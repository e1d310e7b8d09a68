"""Fixtures that several test files use."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from report_browser import browser, open_page
from serve_browser import demo_model, demo_server, open_served, serve_model
from served_models import client, deciding_model, feature_model, open_client, other_text_model, text_model
from tiny_encoder import tiny_encoder
from trust_counts import count
from whole_model import whole_file

# Programs that the tests start, which are no modules to look for examples in.
collect_ignore_glob = ["trust/[!t]*.py", "fuzz/[!t]*.py", "golden/*.py"]

# A sanitizer takes several times as long; what it looks for, it finds in few examples or many.
settings.register_profile(
    "sanitize", max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

__all__ = [
    "browser",
    "client",
    "count",
    "deciding_model",
    "demo_model",
    "demo_server",
    "feature_model",
    "open_client",
    "open_page",
    "open_served",
    "other_text_model",
    "serve_model",
    "text_model",
    "tiny_encoder",
    "whole_file",
]
