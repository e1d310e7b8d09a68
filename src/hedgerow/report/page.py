"""One HTML file that needs nothing else: style, scripts and data lie in it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from .content import Content
from .thinning import thinned

# Later ones use the earlier.
_STYLES = ("look.css", "votes.css", "page.css")
_SCRIPTS = ("dom.js", "theme.js", "axes.js", "charts.js", "votes.js", "page.js")
# What could end the data block or a line of script, and halves of surrogate pairs, which UTF-8 cannot hold.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_DIGITS = 6


def render(content: Content) -> str:
    """Render a report as one HTML page that loads nothing.

    Labels and texts may hold anything: they enter the page as JSON, from which the page builds text, never
    markup. The page's policy (Content-Security-Policy) lets only its own scripts run and forbids every
    request. Write the page as UTF-8.
    """
    content = replace(content, figures=[thinned(figure) for figure in content.figures])
    style = "".join(map(_asset, _STYLES))
    scripts = [_asset(name) for name in _SCRIPTS]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash(style)}",
            f"script-src {' '.join(map(_hash, scripts))}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return Template(_asset("page.html")).substitute(
        policy=policy,
        title=html.escape(_UNSAFE.sub(_whole, content.title)),
        style=style,
        content=_escaped_json(content),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(inline: str) -> str:
    digest = hashlib.sha256(inline.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _whole(match: re.Match[str]) -> str:
    return "\ufffd" if "\ud800" <= match[0] <= "\udfff" else match[0]


def _escaped_json(content: Content) -> str:
    text = json.dumps(_plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: Any) -> Any:
    """Dataclasses, arrays and numbers of NumPy as what JSON knows; what is not finite as null."""
    if is_dataclass(value):
        return {name: _plain(of) for name, of in vars(value).items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    raise TypeError(f"a report cannot hold {value!r}, a {type(value).__name__}")
