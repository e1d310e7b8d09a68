"""The documents say what the code does."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from serve_browser import Server

import hedgerow
import hedgerow.chronology
import hedgerow.data
import hedgerow.evaluation
import hedgerow.shift

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*.md"),
        *ROOT.glob(".github/**/*.md"),
    ],
    key=str,
)


@pytest.mark.parametrize("script", ["make_reliability", "make_scale"])
def test_page_is_what_its_script_makes(script: str) -> None:
    spec = importlib.util.spec_from_file_location(script, ROOT / f"docs/{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), f"run: python docs/{script}.py"


def test_example_of_the_readme_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(found[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == found[2]


def test_readme_is_short_and_says_what_people_search_for() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 130
    for word in ("epistemic", "aleatoric", "conformal", "out-of-distribution", "make demo", "make test"):
        assert word in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_lead_to_headings(page: Path) -> None:
    for link, section in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        target = page.parent / link if link else page
        if "reference" not in target.parts:  # those headings are made of docstrings; `make docs` checks them
            assert section in anchors(target), f"{link}#{section}"


def anchors(page: Path) -> set[str]:
    """What links can name in a page: its headings as the site spells them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading.strip()) for heading in kept}


MODULES = [hedgerow, hedgerow.chronology, hedgerow.data, hedgerow.evaluation, hedgerow.shift]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_all_that_is_public_is_in_the_reference(module: Any) -> None:
    reference = "\n".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    described = set(re.findall(r"^::: (\S+)$", reference, re.MULTILINE))
    public = {f"{module.__name__}.{name}" for name in module.__all__ if name != "__version__"}
    assert sorted(public - described) == []


def test_every_command_is_in_the_reference() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "hedgerow", "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    commands = re.findall(r"^\W{1,3}([a-z-]+)  ", printed[printed.index("Train and predict") :], re.MULTILINE)
    assert {"fit", "predict", "serve"} <= set(commands)
    page = (ROOT / "docs/reference/command-line.md").read_text()
    assert [command for command in commands if f"`hedgerow {command} " not in page] == ["demo"]
    assert "`hedgerow demo`" in page


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/results.md",
        "docs/how-to/ood.md",
        "docs/how-to/drift.md",
        "docs/how-to/transformers.md",
    ],
)
def test_figures_in_tables_are_on_record(name: str) -> None:
    folder = ROOT / "bench/results"
    recorded: set[str] = set()
    for page in [*folder.glob("*.md"), *folder.glob("reproduction/*/tables.md")]:
        recorded |= set(re.findall(r"\d[\d,]*\.\d+|\d[\d,]*", page.read_text()))
    rounded = {f"{float(number.replace(',', '')):.1f}" for number in recorded}
    shown = [
        number
        for line in (ROOT / name).read_text().splitlines()
        if line.startswith("|")
        for cell in line.split("|")[2:]
        for number in re.findall(r"\d[\d,]*\.\d+", cell)
    ]
    assert shown
    assert [number for number in shown if number not in recorded | rounded] == []


def test_raw_tables_are_included_from_where_they_are_measured() -> None:
    included = {
        Path(name)
        for page in (ROOT / "docs/results").glob("*.md")
        for name in re.findall(r'^--8<-- "([^":]+)', page.read_text(), re.MULTILINE)
    }
    folder = ROOT / "bench/results"
    measured = {*folder.glob("*.md"), *folder.glob("reproduction/*/tables.md")}
    assert {ROOT / name for name in included} == measured


def test_server_answers_what_its_page_shows(demo_server: Server) -> None:
    text = (ROOT / "docs/how-to/serve.md").read_text()
    found = re.search(r"/predict --json '(.*?)'\n```\n\n```json\n(.*?)```", text, re.DOTALL)
    assert found is not None
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{demo_server.url}predict", found[1].encode(), head)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answered = json.load(answer)
    shown = json.loads(found[2])
    del answered["model"], shown["model"]  # other SIMD levels have other last bits
    found_leaves, shown_leaves = _leaves(answered), _leaves(shown)
    assert found_leaves.keys() == shown_leaves.keys()
    for place, value in shown_leaves.items():
        expected = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
        assert found_leaves[place] == expected, place


def _leaves(value: Any, at: str = "") -> dict[str, Any]:
    parts = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if parts is None:
        return {at: value}
    return {place: leaf for key, part in parts for place, leaf in _leaves(part, f"{at}/{key}").items()}
