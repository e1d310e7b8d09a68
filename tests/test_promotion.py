"""A new model file takes the place of another only if it is good enough, and there is a way back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from served_models import a_text_model

import hedgerow
from hedgerow import HedgerowTextClassifier
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.comparison import promote, rollback
from hedgerow.comparison.held_rows import RowsWanted
from hedgerow.comparison.model_files import ChangedMeanwhile, ModelFiles, NoOtherModel
from hedgerow.comparison.promotion import Judge
from hedgerow.data import DataError
from hedgerow.data.sample import load_sample
from hedgerow.storage.container import ModelFileError


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Held-out texts that ask for "no worse"."""
    sample = load_sample()
    path = tmp_path_factory.mktemp("judge") / "held.jsonl"
    rows = zip(sample.test_texts[100:220], sample.test_labels[100:220], strict=True)
    path.write_bytes(b"".join(orjson.dumps({"text": t, "labels": own}) + b"\n" for t, own in rows))
    return Judge(RowsWanted((path,), threads=1))


@pytest.fixture(scope="session")
def worse_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has learned from a tenth of the texts."""
    path = tmp_path_factory.mktemp("worse") / "worse.hedgerow"
    a_text_model(rows=60).save(path)
    return path


@pytest.fixture(scope="session")
def equal_model(text_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another file whose model predicts the same."""
    path = tmp_path_factory.mktemp("equal") / "equal.hedgerow"
    hedgerow.load(text_model).learn_ood(load_sample().test_texts[:50]).save(path)
    assert path.read_bytes() != text_model.read_bytes()
    return path


@pytest.fixture
def used(text_model: Path, tmp_path: Path) -> Path:
    """A copy of the model in use."""
    path = tmp_path / "used.hedgerow"
    path.write_bytes(text_model.read_bytes())
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_truly_worse_model_then_it_is_refused_and_nothing_changes(
    used: Path, worse_model: Path, text_model: Path, judge: Judge
) -> None:
    found = promote(used, worse_model, judge)
    assert not found.promoted
    assert found.words.startswith("worse: ndcg@5 falls by")
    assert found.comparison is not None
    assert found.comparison.verdict.word == "worse"
    assert used.read_bytes() == text_model.read_bytes()
    assert names(used.parent) == {used.name}


def test_equal_model_then_it_is_no_worse_but_not_better(
    used: Path, equal_model: Path, text_model: Path, judge: Judge
) -> None:
    assert not promote(used, equal_model, replace(judge, target="better")).promoted
    assert used.read_bytes() == text_model.read_bytes()
    found = promote(used, equal_model, judge)
    assert (found.promoted, found.comparison.verdict.word) == (True, "no worse")  # type: ignore[union-attr]
    assert used.read_bytes() == equal_model.read_bytes()
    assert names(used.parent) == {used.name, f"{used.name}.previous"}
    assert ModelFiles(used).previous.read_bytes() == text_model.read_bytes()
    assert found.to_dict()["comparison"]["verdict"]["word"] == "no worse"


def test_better_model_then_it_takes_the_place_and_a_rollback_brings_the_old_one_back(
    tmp_path: Path, worse_model: Path, text_model: Path, judge: Judge
) -> None:
    used = tmp_path / "used.hedgerow"
    used.write_bytes(worse_model.read_bytes())
    assert promote(used, text_model, replace(judge, target="better")).promoted
    assert used.read_bytes() == text_model.read_bytes()
    rollback(used)
    assert used.read_bytes() == worse_model.read_bytes()
    files = ModelFiles(used)
    assert files.refused.read_bytes() == text_model.read_bytes()
    with pytest.raises(NoOtherModel, match="no previous model to go back to"):
        rollback(used)
    files.promote_refused()
    assert used.read_bytes() == text_model.read_bytes()
    with pytest.raises(NoOtherModel, match="nothing can be promoted"):
        files.promote_refused()
    rollback(used)
    assert used.read_bytes() == worse_model.read_bytes()


def test_model_that_lost_what_clients_ask_for_then_it_is_refused_without_a_comparison(
    tmp_path: Path, deciding_model: Path, text_model: Path, feature_model: Path, judge: Judge
) -> None:
    used = tmp_path / "used.hedgerow"
    used.write_bytes(deciding_model.read_bytes())
    found = promote(used, text_model, judge)
    assert (found.promoted, found.comparison) == (False, None)
    assert found.words == (
        "the old model is calibrated and the new one is not; run hedgerow calibrate on the new one"
    )
    assert "reads texts and the new one features" in promote(used, feature_model, judge).words
    assert used.read_bytes() == deciding_model.read_bytes()


def test_model_that_lacks_a_field_of_the_old_one_then_it_is_refused(judge: Judge) -> None:
    records = [
        {"title": f"{kind} {number}", "body": "a tree"} for number in range(20) for kind in ("oak", "elm")
    ]
    labels = [["oak"], ["elm"]] * 20
    old, new = (
        HedgerowTextClassifier(fields=fields, n_jobs=1, random_state=0).fit(records, labels).source
        for fields in (["title", "body"], ["title"])
    )
    found = judge.judge(old, new)
    assert (found.accepted, found.comparison) == (False, None)
    assert found.words == "the new model does not read the field 'body', which the old one does"


def test_what_cannot_be_judged_then_it_is_an_error_and_nothing_is_left(
    used: Path, text_model: Path, equal_model: Path, judge: Judge, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(equal_model.read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        promote(used, damaged, judge)
    damaged.unlink()
    with pytest.raises(DataError, match="no such file"):
        promote(used, equal_model, replace(judge, rows=RowsWanted((tmp_path / "none.jsonl",))))
    with pytest.raises(FileNotFoundError):
        promote(used, tmp_path / "none", judge)
    assert used.read_bytes() == text_model.read_bytes()
    assert names(used.parent) == {used.name}
    with pytest.raises(ValueError, match="better, no-worse"):
        replace(judge, target="worse")


def test_file_system_without_hard_links_then_models_are_copied(
    used: Path, equal_model: Path, text_model: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: Any, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    assert promote(used, equal_model, judge).promoted
    rollback(used)
    files = ModelFiles(used)
    assert used.read_bytes() == text_model.read_bytes()
    assert files.refused.read_bytes() == equal_model.read_bytes()
    assert names(used.parent) == {used.name, files.refused.name}


def test_model_named_by_a_link_then_the_files_are_beside_its_target(
    used: Path, equal_model: Path, judge: Judge, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "current"
    link.symlink_to(used)
    assert promote(link, equal_model, judge).promoted
    assert used.read_bytes() == equal_model.read_bytes()
    assert names(elsewhere) == {"current"}
    assert ModelFiles(link).previous.parent == used.parent


def test_model_that_a_server_keeps_then_promotion_and_rollback_change_both_names(
    used: Path, equal_model: Path, text_model: Path, judge: Judge
) -> None:
    files = ModelFiles(used)
    files.stage()
    files.begin()
    used.write_bytes(b"somebody writes in place")  # which does not harm the one that answers
    assert files.answering.read_bytes() == text_model.read_bytes()
    assert promote(used, equal_model, judge).promoted
    for path in (used, files.accepted):
        assert path.read_bytes() == equal_model.read_bytes()
    rollback(used)
    for path in (used, files.accepted):
        assert path.read_bytes() == text_model.read_bytes()
    assert not list(used.parent.glob("*.candidate*"))


def test_model_that_changed_while_another_was_judged_then_that_is_not_promoted(
    used: Path, equal_model: Path, worse_model: Path, judge: Judge
) -> None:
    first, second = ModelFiles(used), ModelFiles(used)
    first.stage(worse_model)
    assert promote(used, equal_model, judge).promoted
    with pytest.raises(ChangedMeanwhile, match="try again"):
        first.accept()
    with pytest.raises(ChangedMeanwhile):
        first.install()
    assert used.read_bytes() == equal_model.read_bytes()
    second.clean_up()
    assert first.candidate.exists()  # it is in use
    first.discard()
    first.candidate.write_bytes(b"of a process that was killed")
    second.clean_up()
    assert not first.candidate.exists()


def test_model_that_others_may_not_read_then_the_promoted_one_is_as_private(
    used: Path, equal_model: Path, judge: Judge
) -> None:
    used.chmod(0o640)
    equal_model.chmod(0o644)
    assert promote(used, equal_model, judge).promoted
    assert used.stat().st_mode & 0o777 == 0o640
    assert ModelFiles(used).previous.stat().st_mode & 0o777 == 0o640


def test_rollback_command_then_it_says_what_is_where(
    used: Path, equal_model: Path, text_model: Path, judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollback", str(used)]) == ExitCode.MODEL
    assert "has no previous model to go back to" in capsys.readouterr().err
    assert promote(used, equal_model, judge).promoted
    assert main(["rollback", str(used)]) == 0
    assert capsys.readouterr().out.startswith(f"{used} is the previous model again")
    assert used.read_bytes() == text_model.read_bytes()


def test_rollback_to_a_damaged_file_then_nothing_changes(
    used: Path, equal_model: Path, judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert promote(used, equal_model, judge).promoted
    ModelFiles(used).previous.unlink()
    ModelFiles(used).previous.write_bytes(b"no model")
    assert main(["rollback", str(used)]) == ExitCode.MODEL
    assert used.read_bytes() == equal_model.read_bytes()
