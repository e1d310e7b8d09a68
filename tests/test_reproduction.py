"""The experiments of the paper: what is done is not done again, and never taken for something else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hedgerow.paper import ExperimentSettings, Source, machine, run, write_tables

SETTINGS = ExperimentSettings(methods=["single"], seeds=1)
TREES = ("oak", "elm", "yew", "ash", "fir", "lime", "plane", "beech")
FISH = ("cod", "eel", "ray", "carp", "tench", "perch", "bream", "trout")


def write_texts(folder: Path, words: Sequence[str], labels: int = 8) -> Source:
    folder.mkdir(parents=True)
    for part, count in (("train", 80), ("test", 24)):
        kinds = [words[number % labels] for number in range(count)]
        lines = [
            json.dumps({"text": f"{kind} in {i % 7} places", "labels": [kind]})
            for i, kind in enumerate(kinds)
        ]
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    return Source(folder)


def write_features(folder: Path, value: float) -> Source:
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        lines = [f"{i % 4} {i % 4}:{value} {4 + i % 3}:1" for i in range(40)]
        (folder / f"{part}.txt").write_text("\n".join(["40 7 4", *lines]) + "\n")
    return Source(folder)


def experiments(out: Path) -> list[Path]:
    return sorted((out / "experiments").rglob("*.json"))


def test_finished_experiments_on_other_data_of_the_same_name_are_refused(tmp_path: Path) -> None:
    trees, fish = write_texts(tmp_path / "a" / "set", TREES), write_texts(tmp_path / "b" / "set", FISH)
    out = tmp_path / "out"
    first = run([trees], [], out, SETTINGS, 1)
    with pytest.raises(ValueError, match=r"single-0\.json was made with other data of the name set"):
        run([fish], [], out, SETTINGS, 1)
    assert [one.found for one in run([trees], [], out, SETTINGS, 1)] == [one.found for one in first]


def test_features_of_other_values_are_other_data(tmp_path: Path) -> None:
    low, high = write_features(tmp_path / "a" / "set", 0.5), write_features(tmp_path / "b" / "set", 2.0)
    run([low], [], tmp_path / "out", SETTINGS, 1)
    with pytest.raises(ValueError, match="was made with other data of the name set"):
        run([high], [], tmp_path / "out", SETTINGS, 1)


def test_ood_inputs_that_come_later_or_change_are_not_ignored(tmp_path: Path) -> None:
    trees, fish = write_texts(tmp_path / "trees", TREES), write_texts(tmp_path / "fish", FISH)
    out = tmp_path / "out"
    run([trees], [], out, SETTINGS, 1)
    told = re.escape(
        "was made with other out-of-distribution inputs (none) than those of now (fish); choose"
        " another folder"
    )
    with pytest.raises(ValueError, match=told):
        run([trees], [fish], out, SETTINGS, 1)
    (found,) = run([trees], [fish], tmp_path / "whole", SETTINGS, 1)
    assert list(found.found["ood"]) == ["fish"]
    other = write_texts(tmp_path / "other" / "fish", FISH[::-1])
    with pytest.raises(ValueError, match="was made with other out-of-distribution inputs"):
        run([trees], [other], tmp_path / "whole", SETTINGS, 1)


def test_experiments_that_note_neither_data_nor_ood_inputs_are_taken(tmp_path: Path) -> None:
    trees, fish = write_texts(tmp_path / "trees", TREES), write_texts(tmp_path / "fish", FISH)
    run([trees], [], tmp_path / "out", SETTINGS, 1)
    (path,) = experiments(tmp_path / "out")
    known = json.loads(path.read_text())
    del known["data"], known["ood_marks"]
    path.write_text(json.dumps(known))
    (found,) = run([trees], [fish], tmp_path / "out", SETTINGS, 1)
    assert found.found == known


def test_ood_inputs_of_one_name_are_refused_before_any_work(tmp_path: Path) -> None:
    trees = write_texts(tmp_path / "trees", TREES)
    strangers = [write_texts(tmp_path / place / "fish", FISH) for place in ("sea", "river")]
    with pytest.raises(
        ValueError, match="two data sets have the same name: fish, fish, trees; rename a folder"
    ):
        run([trees], strangers, tmp_path / "out", SETTINGS, 1)
    assert not experiments(tmp_path / "out")
    # One folder with labels of two fields is one out-of-distribution input.
    (again,) = run([trees], [strangers[0], Source(strangers[0].path, "kinds")], tmp_path / "out", SETTINGS, 1)
    assert list(again.found["ood"]) == ["fish"]


@pytest.mark.parametrize("labels", [1, 2, 3, 8])
def test_tables_are_written_however_few_labels_there_are(tmp_path: Path, labels: int) -> None:
    found = run([write_texts(tmp_path / "trees", TREES, labels)], [], tmp_path / "out", SETTINGS, 1)
    write_tables(found, tmp_path / "out", SETTINGS, machine(1))
    share = np.array(found[0].found["coverage"]["share"])
    assert len(share) == labels
    (row,) = json.loads((tmp_path / "out" / "tables.json").read_text())["tail"]["rows"][1:]
    wanted = [100 * share[place] for place in (0, (labels - 1) // 2, -1)]
    shown = [float(re.findall(r"[\d.]+", str(cell))[0]) for cell in row[-3:]]
    assert shown == pytest.approx(wanted, abs=0.01)
