"""The files of the page, read once when the server starts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from xxhash import xxh3_64

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The page looks and draws like the report, with the report's own files.
_SHARED = ("look.css", "votes.css", "dom.js", "theme.js", "votes.js")


@dataclass(frozen=True)
class PageFile:
    """A file for a browser: body, media type, and a tag that changes with the body."""

    body: bytes
    kind: str
    tag: str


def read_page() -> dict[str, PageFile]:
    """Read the files of the page, by name.

    Only what is found here is ever sent: no path of a request touches the disk.
    """
    folder = resources.files(__package__).joinpath("page")
    report = resources.files("hedgerow.report")
    entries = [*folder.iterdir(), *(report.joinpath(name) for name in _SHARED)]
    found = {}
    for entry in sorted(entries, key=lambda entry: entry.name):
        kind = _TYPES.get(entry.name[entry.name.rfind(".") :])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = PageFile(body, kind, f'"{xxh3_64(body).hexdigest()}"')
    return found
