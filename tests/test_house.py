"""The shape of the code: what no linter checks. Who may import whom is in pyproject.toml."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
LONGEST = 600  # lines


def modules() -> dict[str, Path]:
    """The files of the package by the names of their modules."""
    named = {}
    for file in SOURCE.rglob("*.py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return named


def imported(name: str, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports: anywhere in it, and also for type checking only."""
    found = set()
    package = name.split(".")
    if known[name].name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(known[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner != "hedgerow._native":
                    found.add(inner if inner in known else source)
    return found & known.keys()


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def test_no_module_imports_itself_through_others() -> None:
    known = modules()
    edges = {name: imported(name, known) for name in known}
    assert {name for name in known if name in reachable(name, edges)} == set()


def test_files_are_short_enough_to_hold_one_idea() -> None:
    files = [file for ending in ("py", "js") for file in (SOURCE / "hedgerow").rglob(f"*.{ending}")]
    files += [file for ending in ("h", "cpp") for file in (ROOT / "native").rglob(f"*.{ending}")]
    assert len(files) > 100
    long = {
        file.relative_to(ROOT).as_posix() for file in files if len(file.read_text().splitlines()) > LONGEST
    }
    assert long == set()


def test_make_mutate_names_files_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests/trust")
    import mutate

    files = {*mutate.TARGETS, *(name for name, _ in mutate.EQUIVALENT)}
    files |= {f"tests/test_{test}.py" for tests in mutate.TARGETS.values() for test in tests}
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []


PEERS = {"napkinxc", "omikuji", "pecos", "qualle"}


@pytest.mark.parametrize("name", sorted(file.stem for file in (ROOT / "bench").glob("[a-z]*.py")))
def test_benchmarks_import_what_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    try:
        importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        if error.name not in PEERS | {"torch", "tokenizers", "transformers", "ray", "schemathesis"}:
            raise
