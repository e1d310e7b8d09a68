"""Which centroids of labels `calibrate` adds for OOD detection, and when it leaves them out."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from whole_model import some_texts

from hedgerow import HedgerowTextClassifier, learn_from_held_out, load
from hedgerow.cli.app import main
from hedgerow.estimators.centroid_learning import PAYS, added_by

TRAIN = some_texts(300, 1)
HELD = some_texts(260, 2)


def fitted(members: int = 8) -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(method="bagging", members=members, leaf_size=3, random_state=0, n_jobs=1)
    return model.fit(*TRAIN)


def held_out(model: HedgerowTextClassifier) -> tuple[list[str], list[list[str]]]:
    new = np.flatnonzero(~model.seen_in_training(HELD[0]))
    return [HELD[0][i] for i in new], [HELD[1][i] for i in new]


def nearest(model: HedgerowTextClassifier) -> bool:
    return "nearest_label" in model.ood_detector_.names


def test_centroids_then_their_share_is_that_of_the_bytes_of_the_files_sections(tmp_path: Path) -> None:
    model = fitted()
    sizes = []
    for training in (None, TRAIN):
        model.learn_ood(held_out(model)[0], training=training)
        model.save(tmp_path / "m", overwrite=True)
        sizes.append(os.path.getsize(tmp_path / "m"))
    tables = [int(tree.native.table()[:, 1].sum()) for tree in model.model_.forest.trees]
    added = added_by(model.model_)
    assert added is not None
    # Besides the weights, a section of labels and paddings.
    assert 0 <= sizes[1] - sizes[0] - added * sum(tables) < 6000
    assert added_by(fitted().model_) is None


@pytest.mark.parametrize("members", [1, 8])
def test_training_data_at_hand_then_centroids_are_kept_where_they_add_less_than_a_fifth(members: int) -> None:
    asked, model = fitted(members), fitted(members)
    added = learn_from_held_out(asked, *held_out(asked), centroids=TRAIN).centroids
    assert added is not None
    learned = learn_from_held_out(model, *held_out(model), training=TRAIN) if members > 1 else None
    if learned is None:
        learned = learn_from_held_out(model, *held_out(model), centroids=TRAIN, centroids_at_most=PAYS)
    assert (members > 1) == (added < PAYS)
    assert learned.centroids == (added if added < PAYS else None)
    assert nearest(model) == (added < PAYS)
    assert nearest(asked)


def test_limit_then_it_is_the_share_from_which_on_centroids_are_left_out() -> None:
    model = fitted()
    rows = held_out(model)[0]
    added = added_by(model.learn_ood(rows, training=TRAIN).model_)
    assert nearest(model.learn_ood(rows, training=TRAIN, at_most=math.nextafter(added, 1)))
    assert not nearest(model.learn_ood(rows, training=TRAIN, at_most=added))
    assert model.model_.centroids is None


def test_calibrating_again_then_centroids_stay_unless_they_are_unwanted() -> None:
    model = fitted()
    learn_from_held_out(model, *held_out(model), centroids=TRAIN)
    before = added_by(model.model_)
    assert learn_from_held_out(model, *held_out(model)).centroids == before
    assert nearest(model)
    assert learn_from_held_out(model, *held_out(model), training=TRAIN, centroids=False).centroids is None
    assert not nearest(model)


# --- on the command line ---


def lines(rows: tuple[list[str], list[list[str]]]) -> str:
    pairs = zip(*rows, strict=True)
    return "".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in pairs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its own data as a folder and as files, and a folder of other training data."""
    folder = tmp_path_factory.mktemp("centroids")
    model = fitted()
    model.save(folder / "m.hedgerow")
    for name, train in (("own", TRAIN), ("other", some_texts(300, 9))):
        (folder / name).mkdir()
        (folder / name / "train.jsonl").write_text(lines(train))
        (folder / name / "test.jsonl").write_text(lines(held_out(model)))
    (folder / "held.jsonl").write_text(lines(held_out(model)))
    return folder


@pytest.mark.parametrize(
    ("data", "options", "kept", "said"),
    [
        ("own", [], True, "(--no-centroids leaves them out)"),
        ("own", ["--no-centroids"], False, None),
        ("other", [], False, "With --centroids TRAIN, the training data"),
        ("held.jsonl", [], False, "With --centroids TRAIN, the training data"),
        ("held.jsonl", ["--out-of-bag", "own"], True, "(--no-centroids leaves them out)"),
        ("held.jsonl", ["--out-of-bag", "own", "--no-centroids"], False, None),
        ("held.jsonl", ["--centroids", "own"], True, "(--no-centroids leaves them out)"),
    ],
)
def test_calibrate_then_uses_the_training_data_that_it_has_and_says_so(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    data: str,
    options: list[str],
    kept: bool,
    said: str | None,
) -> None:
    out = tmp_path / "calibrated.hedgerow"
    named = [str(folder / one) if one == "own" else one for one in options]
    assert main(["calibrate", str(folder / "m.hedgerow"), str(folder / data), "--out", str(out), *named]) == 0
    assert nearest(load(out)) == kept
    output = " ".join(capsys.readouterr().out.split())
    assert said is None or said in output
    assert ("entroids" in output) == (said is not None)


def test_calibrate_with_json_then_the_share_is_there(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "calibrated.hedgerow"
    command = ["calibrate", str(folder / "m.hedgerow"), str(folder / "own"), "--out", str(out), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["centroids"] == added_by(load(out).model_)


def test_centroids_asked_for_and_unwanted_then_it_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["calibrate", str(folder / "m.hedgerow"), str(folder / "held.jsonl"), "--no-centroids"]
    assert main([*command, "--centroids", str(folder / "own")]) == 2
    assert "exclude each other" in " ".join(capsys.readouterr().err.split())


def test_records_that_were_kept_with_the_model_then_give_the_centroids(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = HedgerowTextClassifier(method="bagging", members=8, leaf_size=3, random_state=0, n_jobs=1)
    model.fit(*TRAIN, keep_records=True).save(tmp_path / "m.hedgerow")
    command = ["calibrate", str(tmp_path / "m.hedgerow"), str(folder / "held.jsonl"), "--threads", "1"]
    assert main(command) == 0
    assert "(--no-centroids leaves them out)" in " ".join(capsys.readouterr().out.split())
    opened, asked = load(tmp_path / "m.hedgerow"), fitted()
    learn_from_held_out(asked, *held_out(asked), centroids=TRAIN)
    texts = HELD[0][:20]
    assert opened.ood_scores(texts).score.tolist() == asked.ood_scores(texts).score.tolist()
    assert opened.update([TRAIN[0][0] + " shrub"], [TRAIN[1][0]]).learned_again
    assert nearest(opened)
    assert main([*command, "--no-centroids"]) == 0
    assert not nearest(load(tmp_path / "m.hedgerow"))
