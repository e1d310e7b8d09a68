"""The scripts in examples/ run, use only the public API, and say what they promise to show."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hedgerow

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SHOWN = {
    "decide_with_guarantee": ["at most 20 %", "accept:", "true labels missed"],
    "detect_ood": ["like the training data", "out-of-distribution"],
    "sparse_features": ["P@1 0.9", "best labels of the first row: role::program"],
    "tag_texts": ["works-with::audio", "knowledge 0."],
}


def test_every_example_is_expected() -> None:
    assert [script.stem for script in EXAMPLES] == sorted(SHOWN)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs_and_shows_what_it_is_about(script: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert [words for words in SHOWN[script.stem] if words not in done.stdout] == []


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_is_short_and_uses_public_names_only(script: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) <= 40
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hedgerow"):
            names = {alias.name for alias in node.names}
            if node.module == "hedgerow.data.sample":
                assert names == {"load_sample"}
            else:
                assert node.module == "hedgerow"
                assert names <= set(hedgerow.__all__)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
