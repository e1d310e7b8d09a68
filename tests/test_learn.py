"""`hedgerow learn`: what people reviewed is learned, and the result answers if it is good enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reviewed_models import REVIEWS, TRAINED, Desk, desk, recorded_model

from hedgerow import load
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.comparison import Judge, RowsWanted
from hedgerow.comparison.learned_records import LearnedRecords, Reviewed
from hedgerow.comparison.learning import STAGES, learn_reviewed
from hedgerow.comparison.model_files import ModelFiles, file_id
from hedgerow.data.sample import load_sample
from hedgerow.records.file import beside
from hedgerow.serve.reviews import read_reviewed

__all__ = ["desk", "recorded_model"]

Learn = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def learn(desk: Desk, capsys: pytest.CaptureFixture[str]) -> Learn:
    """Runs the command; gives its exit status and what it says as JSON."""

    def run(*options: object, margin: float = 90) -> tuple[int, dict[str, Any]]:
        words = ["learn", desk.model, "--judge-on", desk.held, "--margin", margin, "--threads", 1, "--json"]
        capsys.readouterr()
        code = main([*map(str, words), *map(str, options)])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else {}

    return run


def ids_of(model: Path) -> set[str]:
    return set(load(model).records().places())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# --- outcomes ---


def test_reviews_then_a_good_update_takes_the_place_of_the_model_with_its_records(
    desk: Desk, learn: Learn
) -> None:
    desk.review_more()
    before = file_id(desk.model)
    code, told = learn()
    assert (code, told["reviewed"], told["known"]) == (0, REVIEWS, 0)
    assert told["promotion"]["promoted"]
    assert (told["update"]["event"]["added"], told["candidate"]) == (REVIEWS, None)
    assert file_id(desk.model) != before
    model = load(desk.model)
    sample = load_sample()
    assert model.seen_in_training(sample.train_texts[: TRAINED + REVIEWS]).all()
    assert model.records().texts.values() == sample.train_texts[: TRAINED + REVIEWS]
    assert file_id(ModelFiles(desk.model).previous) == before
    tags = desk.model.name
    assert names(desk.model.parent) == {
        tags,
        f"{tags}.data",
        f"{tags}.data.previous",
        f"{tags}.previous",
        desk.queue.name,
    }


def test_texts_without_ids_then_they_are_named_after_their_number_in_the_queue(
    desk: Desk, learn: Learn
) -> None:
    numbers = desk.review(["an oak", "an elm", "a yew"], [["oak"], ["elm"], ["yew"]], [None, "e", None])
    assert learn()[0] == 0
    new = ids_of(desk.model) - {f"t{i}" for i in range(TRAINED)}
    assert new == {f"review-{numbers[0]}", "e", f"review-{numbers[2]}"}


def test_nothing_new_then_no_byte_changes_and_the_judge_is_not_asked(desk: Desk, learn: Learn) -> None:
    sample = load_sample()
    desk.review(sample.train_texts[:5], sample.train_labels[:5], [f"t{i}" for i in range(5)])
    before = {path: path.read_bytes() for path in (desk.model, beside(desk.model))}
    desk.held.unlink()
    code, told = learn()
    assert (code, told["reviewed"], told["known"]) == (0, 5, 5)
    assert (told["update"], told["promotion"]) == (None, None)
    assert {path: path.read_bytes() for path in before} == before


def test_learned_twice_then_the_second_time_finds_nothing_new(desk: Desk, learn: Learn) -> None:
    desk.review_more()
    assert learn()[1]["promotion"]["promoted"]
    code, told = learn()
    assert (code, told["known"], told["update"]) == (0, REVIEWS, None)


def test_review_that_changes_then_only_that_text_is_new_and_corrects_its_record(
    desk: Desk, learn: Learn
) -> None:
    desk.review_more()
    assert learn()[0] == 0
    desk.review(load_sample().train_texts[TRAINED + 1 : TRAINED + 2], [["another"]], ["new-1"])
    told = learn()[1]
    assert told["reviewed"] - told["known"] == 1
    event = told["update"]["event"]
    assert (event["added"], event["corrected"]) == (0, 1)
    assert "another" in load(desk.model).classes_


def test_update_that_is_much_worse_then_it_is_refused_and_the_model_stays(desk: Desk, learn: Learn) -> None:
    desk.review_badly()
    before = {path: path.read_bytes() for path in (desk.model, beside(desk.model))}
    code, told = learn("--fail-if-refused", margin=0.5)
    assert code == ExitCode.WORSE
    assert told["promotion"]["words"].startswith("worse: ndcg@5 falls by")
    assert told["candidate"] == f"{desk.model}.learned"
    assert "wrong" in load(told["candidate"]).classes_
    assert {path: path.read_bytes() for path in before} == before
    assert learn(margin=0.5)[0] == 0  # without the option, a refusal is no failure


def test_rollback_then_learning_again_gives_the_same_model(desk: Desk, learn: Learn) -> None:
    desk.review_more()
    before = file_id(desk.model)
    assert learn()[1]["promotion"]["promoted"]
    predicted = load(desk.model).top(["a game"], k=5)
    assert main(["rollback", str(desk.model)]) == 0
    assert file_id(desk.model) == before
    assert ids_of(desk.model) == {f"t{i}" for i in range(TRAINED)}
    code, told = learn()
    assert (code, told["known"], told["promotion"]["promoted"]) == (0, 0, True)
    again = load(desk.model).top(["a game"], k=5)
    assert again.labels.tolist() == predicted.labels.tolist()
    assert again.probability.tolist() == predicted.probability.tolist()
    assert len(ids_of(desk.model)) == TRAINED + REVIEWS


def test_model_that_a_server_rolled_back_then_the_one_that_answers_learns(desk: Desk, learn: Learn) -> None:
    desk.review_more()
    files = ModelFiles(desk.model)
    files.stage()
    files.begin()  # as a server with --promote-if does
    old = file_id(files.accepted)
    assert learn()[1]["promotion"]["promoted"]
    files.roll_back()
    assert (file_id(files.accepted), file_id(files.path) == old) == (old, False)
    told = learn()[1]
    assert (told["known"], told["promotion"]["promoted"]) == (0, True)
    assert file_id(files.accepted) == file_id(files.path) != old
    assert len(ids_of(desk.model)) == TRAINED + REVIEWS


def test_model_that_is_a_link_then_its_records_stay_beside_the_link(desk: Desk, learn: Learn) -> None:
    desk.review_more()
    store = desk.model.parent / "store"
    store.mkdir()
    desk.model.rename(store / "v1.hedgerow")
    desk.model.symlink_to(store / "v1.hedgerow")
    assert learn()[1]["promotion"]["promoted"]
    assert desk.model.is_symlink()
    told = learn()[1]
    assert (told["known"], told["update"]) == (REVIEWS, None)
    assert main(["rollback", str(desk.model)]) == 0
    assert len(ids_of(desk.model)) == TRAINED


def test_words_then_they_say_what_was_learned_and_how_to_go_back(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.review_more(4)
    words = ["learn", desk.model, "--judge-on", desk.held, "--threads", 1, "--margin"]
    assert main([*map(str, words), "90"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 texts are reviewed.\nUpdated: 4 records added, 0 corrected.\n")
    assert f"To go back: hedgerow rollback {desk.model}\n" in out
    assert main([*map(str, words), "90"]) == 0
    assert capsys.readouterr().out == (
        "4 texts are reviewed; MODEL has learned 4 of them already.\nThere is nothing new to learn.\n"
    )


# --- what cannot be learned from ---


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no review queue"), (b"no database" * 99, "cannot be used as a queue")],
)
def test_wrong_queue_then_it_is_an_error_of_data_that_says_the_way_out(
    desk: Desk, learn: Learn, capsys: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    other = desk.model.with_name("other.sqlite")
    if content is not None:
        other.write_bytes(content)
    code = main(["learn", str(desk.model), "--judge-on", str(desk.held), "--from", str(other)])
    message = capsys.readouterr().err
    assert code == ExitCode.DATA
    assert words in message
    assert other.exists() == (content is not None)  # none is made


def test_model_without_records_then_it_says_what_to_do(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.review_more(2)
    beside(desk.model).unlink()
    code = main(["learn", str(desk.model), "--judge-on", str(desk.held)])
    assert code == ExitCode.DATA
    assert "is missing, which holds the records" in capsys.readouterr().err


# --- the function behind it ---


def test_stages_then_each_is_entered_once_and_in_order(desk: Desk) -> None:
    desk.review_more(4)
    entered: list[str] = []
    judge = Judge(RowsWanted((desk.held,), threads=1), "no-worse")
    lesson = learn_reviewed(desk.model, read_reviewed(desk.queue), judge, threads=1, entered=entered.append)
    assert lesson.promotion is not None
    assert tuple(entered) == STAGES if lesson.promotion.promoted else STAGES[:3]


def test_learned_records_then_they_lack_what_differs_in_id_text_or_labels(desk: Desk) -> None:
    model = load(desk.model)
    text, other = load_sample().train_texts[:2]
    own = load_sample().train_labels[0]
    cases = [
        ("t0", text, own, False),
        ("t0", text, own[::-1], False),  # their order says nothing
        ("t0", text, [*own, own[0]], False),
        ("t0", text, [*own, "more"], True),
        ("t0", text, own[1:], True),
        ("t0", other, own, True),
        ("t1", text, own, True),
        ("", text, own, True),
    ]
    reviewed = Reviewed([c[1] for c in cases], [c[2] for c in cases], [c[0] for c in cases])
    found = LearnedRecords.of(model.records()).lacks(model.source, reviewed)
    assert found == [number for number, case in enumerate(cases) if case[3]]
