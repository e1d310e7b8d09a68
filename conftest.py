"""Marks tests and examples by what they need beyond the extra `test`; leaves out what cannot run."""

from __future__ import annotations

import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
# For each mark the package that its files import, and the files.
NEEDS = {
    "deep": (
        "torch",
        ["tests/test_deep_*.py", "tests/test_cli_extend_transformer.py", "src/hedgerow/deep/*.py"],
    ),
    "ray": ("ray", ["tests/cluster/test_*.py", "tests/trust/test_cluster.py"]),
    "browser": (
        "playwright",
        ["tests/test_report_charts.py", "tests/test_report_page.py", "tests/test_serve_page*.py"],
    ),
    "schema": ("schemathesis", ["tests/test_serve_schema.py"]),
}


def needs(path: Path) -> str | None:
    """The mark of a file, if it has one."""
    if not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    return next((m for m, (_, files) in NEEDS.items() if any(fnmatch.fnmatch(name, f) for f in files)), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-all",
        action="store_true",
        help="fail where a package or a browser is missing, instead of leaving out its tests",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose package is not installed; importing them would fail."""
    mark = needs(collection_path)
    missing = mark is not None and find_spec(NEEDS[mark][0]) is None
    return True if missing and not config.getoption("--require-all") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := needs(item.path):
            item.add_marker(mark)


def pytest_report_header() -> list[str]:
    missing = [mark for mark, (package, _) in NEEDS.items() if find_spec(package) is None]
    return [f"left out, because their packages are not installed: {', '.join(missing)}"] if missing else []
