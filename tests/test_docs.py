"""The documents say what the code does."""

from __future__ import annotations

import importlib.util
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from serve_browser import Server

import hedgerow
import hedgerow.data
import hedgerow.evaluation

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["make_api", "make_reliability", "make_results", "make_scale"])
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


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], key=str), ids=lambda p: p.name
)
def test_links_between_documents_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("module", [hedgerow, hedgerow.data, hedgerow.evaluation], ids=lambda m: m.__name__)
def test_all_that_is_public_is_in_the_reference(module: Any) -> None:
    described = set(re.findall(r"^### `(\w+)`$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    assert sorted(set(module.__all__) - described - {"__version__"}) == []


def test_server_answers_what_its_page_shows(demo_server: Server) -> None:
    text = (ROOT / "docs/server.md").read_text()
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
