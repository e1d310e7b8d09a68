"""Questions for a human: the greedy choice is what a plain one over dense matrices gives."""

from __future__ import annotations

import csv
import functools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dense_oracle import random_problem
from named_texts import named_texts
from scipy.sparse import csr_array, vstack

import hedgerow
from hedgerow import (
    HedgerowClassifier,
    HedgerowTextClassifier,
    instance_uncertainty,
    label_uncertainty,
    query,
)
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.vocabulary import VocabularyWarning

Choice = list[tuple[int, Any, float, float]]


@functools.cache
def fitted(seed: int = 0, **parameters: Any) -> tuple[HedgerowClassifier, csr_array]:
    X, Y = random_problem(seed, 60, 30, 25, density=0.3)
    options: dict[str, Any] = {"method": "bagging", "members": 4, "random_state": seed, "n_jobs": 1}
    return HedgerowClassifier(leaf_size=5, branching=3, **(options | parameters)).fit(X, Y), X


def cosines(X: csr_array) -> Any:
    dense = X.toarray().astype(np.float64)
    lengths = np.sqrt((dense**2).sum(axis=1))
    scaled = dense / np.where(lengths > 0, lengths, 1)[:, None]
    found = np.clip(scaled @ scaled.T, 0, 1)
    found[np.ix_(lengths == 0, lengths == 0)] = 1
    np.fill_diagonal(found, 1)
    return found


def naive(
    questions: list[tuple[int, Any]], knowledge: list[float], X: csr_array, n: int, diversity: float
) -> Choice:
    """Score all that is left, take the first of the best whose input came least often, and begin again."""
    similarity = cosines(X)
    chosen: Choice = []
    left = list(range(len(questions)))
    while left and len(chosen) < n:
        scores = []
        for i in left:
            near = max((similarity[questions[i][0], row] for row, *_ in chosen), default=0.0)
            scores.append(knowledge[i] * max(0.0, 1 - diversity * (1.0 if near > 1 - 1e-9 else near)))
        came = [sum(questions[i][0] == row for row, *_ in chosen) for i in left]
        best = max(range(len(left)), key=lambda place: (scores[place], -came[place], -place))
        i = left.pop(best)
        chosen.append((*questions[i], scores[best], knowledge[i]))
    return chosen


def naive_inputs(model: HedgerowClassifier, X: csr_array, n: int, diversity: float) -> Choice:
    knowledge = model.predict_uncertain(X, k=1).instance.knowledge.astype(float).tolist()
    return naive([(row, None) for row in range(X.shape[0])], knowledge, X, n, diversity)


def naive_pairs(model: HedgerowClassifier, X: csr_array, n: int, diversity: float) -> Choice:
    votes = model.predict_votes(X)
    rows = np.repeat(np.arange(len(votes)), np.diff(votes.indptr))
    # Of one input, the label with more knowledge uncertainty goes first even where both score 0.
    knowledge = label_uncertainty(votes).knowledge
    order = np.lexsort((votes.labels, -knowledge, rows))
    questions = list(zip(rows[order].tolist(), votes.labels[order].tolist(), strict=True))
    return naive(questions, knowledge[order].tolist(), X, n, diversity)


def assert_same(found: hedgerow.Queries, expected: Choice) -> None:
    assert found.rows.tolist() == [row for row, *_ in expected]
    if found.labels is not None:
        assert found.labels.tolist() == [label for _, label, *_ in expected]
    np.testing.assert_allclose(found.score, [score for _, _, score, _ in expected], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.knowledge, [known for *_, known in expected], rtol=1e-6)


@pytest.mark.parametrize("diversity", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_inputs_are_those_of_a_plain_greedy_choice(seed: int, diversity: float) -> None:
    model, X = fitted(seed)
    found = query(model, X, n=15, diversity=diversity)
    assert found.labels is None
    assert len(found) == 15
    assert_same(found, naive_inputs(model, X, 15, diversity))


@pytest.mark.parametrize("diversity", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pairs_are_those_of_a_plain_greedy_choice(
    seed: int, diversity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X = fitted(seed)
    monkeypatch.setattr("hedgerow.active_learning._ROWS_AT_ONCE", 7)
    found = query(model, X, n=15, pairs=True, diversity=diversity)
    assert_same(found, naive_pairs(model, X, 15, diversity))


def test_diversity_0_gives_the_plain_ranking() -> None:
    model, X = fitted()
    knowledge = model.predict_uncertain(X, k=1).instance.knowledge
    found = query(model, X, n=60, diversity=0)
    np.testing.assert_array_equal(found.rows, np.argsort(-knowledge, kind="stable"))
    np.testing.assert_array_equal(found.score, found.knowledge)


@pytest.mark.parametrize("pairs", [False, True])
def test_duplicates_are_not_chosen_while_others_remain(pairs: bool) -> None:
    model, X = fitted()
    knowledge = model.predict_uncertain(X, k=1).instance.knowledge
    few = X[[row for row in np.argsort(-knowledge) if X[[row]].nnz][:8]]
    # Other lengths, the same directions: the same inputs to a model that scales them.
    several = vstack([few, few * 3, few * np.float32(0.1)]).tocsr()
    found = query(model, several, n=8, pairs=pairs, diversity=1)
    assert sorted(found.rows % 8) == list(range(8))
    assert (found.score > 0).all()
    if not pairs:
        again = query(model, several, n=24, diversity=1)
        assert sorted(again.rows) == list(range(24))
        assert (again.score[8:] == 0).all()


def test_pairs_ask_about_no_input_twice_while_others_remain() -> None:
    model, X = fitted()
    found = query(model, X[[3] * 4], n=8, pairs=True, diversity=1)
    assert found.rows.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (found.score[1:] == 0).all()
    assert len(set(zip(found.rows.tolist(), found.labels.tolist(), strict=True))) == 8  # type: ignore[union-attr]
    rows = query(model, X[[*[3] * 4, *range(10, 30)]], n=24, pairs=True, diversity=1).rows
    assert sorted(rows.tolist()) == list(range(24))


def test_empty_inputs_are_alike() -> None:
    model, X = fitted()
    nothing = csr_array((3, X.shape[1]), dtype=np.float32)
    found = query(model, vstack([nothing, X[1:6]]).tocsr(), n=8)
    first = next(row for row in found.rows.tolist() if row < 3)
    assert first == 0
    assert found.score[np.isin(found.rows, (1, 2))].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("pairs", [False, True])
def test_more_questions_than_there_are_give_all(pairs: bool) -> None:
    model, X = fitted()
    found = query(model, X[:5], n=100_000, pairs=pairs, diversity=0.5)
    if pairs:
        votes = model.predict_votes(X[:5])
        asked = set(zip(found.rows.tolist(), found.labels.tolist(), strict=True))  # type: ignore[union-attr]
        assert len(asked) == len(found) == len(votes.labels)
    else:
        assert sorted(found.rows) == list(range(5))


def test_equal_scores_go_to_the_lower_row() -> None:
    model, X = fitted()
    same = vstack([X[[3]]] * 4).tocsr()
    assert query(model, same, n=4).rows.tolist() == [0, 1, 2, 3]
    assert query(model, same, n=4, diversity=0).rows.tolist() == [0, 1, 2, 3]


def test_dense_and_other_inputs_give_the_same_and_stay_as_they_are() -> None:
    model, X = fitted()
    before = X.copy()
    expected = query(model, X, n=5)
    for other in (X.toarray(), X.tocsc(), X.astype(np.float64), X.toarray().tolist()):
        np.testing.assert_array_equal(query(model, other, n=5).rows, expected.rows)
    assert (before != X).nnz == 0


def test_memory_does_not_grow_with_the_square_of_the_rows() -> None:
    model, X = fitted(members=2)
    random = np.random.default_rng(0)
    many = X[random.integers(0, 60, 20_000)]
    tracemalloc.start()
    query(model, many, n=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000 * 20_000 / 4  # a dense matrix of bytes would be 4 times that


def test_passes_of_dropout_can_disagree() -> None:
    model, X = fitted(method="mc-dropout", members=5, dropout=0.3)
    assert query(model, X, n=3).knowledge[0] > 0


def test_single_model_is_refused_with_the_way_out() -> None:
    for parameters in ({"method": "single"}, {"members": 1}):
        model, X = fitted(**parameters)
        with pytest.raises(ValueError, match=r"no knowledge uncertainty.*--method bagging"):
            query(model, X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": 2.5}, "n is 2.5"),
        ({"n": True}, "n is True"),
        ({"diversity": -0.1}, "between 0 and 1"),
        ({"diversity": 1.5}, "between 0 and 1"),
        ({"diversity": float("nan")}, "between 0 and 1"),
        ({"diversity": "1"}, "between 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    model, X = fitted()
    with pytest.raises(ValueError, match=message):
        query(model, X, **options)


def test_bad_inputs_are_refused() -> None:
    model, X = fitted()
    with pytest.raises(ValueError, match="expecting 30 features"):
        query(model, X[:, :7])
    with pytest.raises(ValueError, match="empty"):
        query(model, X[:0])
    with pytest.raises(TypeError, match="model is a str"):
        query("model", X)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not fitted"):
        query(HedgerowClassifier(), X)


def test_frame_has_a_row_for_each_question() -> None:
    model, X = fitted()
    found = query(model, X, n=4)
    frame = found.to_frame()
    assert frame.columns.tolist() == ["input", "score", "knowledge"]
    assert frame["input"].tolist() == found.rows.tolist()
    pairs = query(model, X, n=4, pairs=True)
    assert pairs.to_frame()["label"].tolist() == pairs.labels.tolist()  # type: ignore[union-attr]


def test_progress_is_told() -> None:
    model, X = fitted()
    for pairs in (False, True):
        told: list[tuple[float, str]] = []
        query(model, X, pairs=pairs, progress=lambda share, what, told=told: told.append((share, what)))  # type: ignore[misc]
        assert all(0 <= share <= 1 for share, _ in told)
    assert told[0] == (0.0, "predicting")


def test_query_is_a_function_however_its_module_was_imported() -> None:
    import hedgerow.active_learning
    import hedgerow.cli.query

    assert hedgerow.query is hedgerow.active_learning.query
    assert hedgerow.query is hedgerow.active_learning.query  # the second time, too


# --- the command line ---

TEXTS = ["red apple tree", "green apple", "yellow pear", "green pear tree", "a plum", "blue plum tree"] * 3
KINDS = [["apple"], ["apple"], ["[red]pear[/red]"], ["[red]pear[/red]"], ["plum"], ["plum"]] * 3
NEW = ["green tree", "green tree", "a red plum\x1b[2J", "yellow apple", "blue pear"]


@pytest.fixture(scope="module")
def fruit() -> HedgerowTextClassifier:
    return HedgerowTextClassifier(method="bagging", members=4, random_state=0, n_jobs=1).fit(TEXTS, KINDS)


@pytest.fixture
def saved(fruit: HedgerowTextClassifier, tmp_path: Path) -> Path:
    fruit.save(tmp_path / "fruit.hedgerow")
    return tmp_path / "fruit.hedgerow"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps({"id": f"t{i}", "text": text}) + "\n" for i, text in enumerate(NEW)))
    return path


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return code, captured.err


def test_texts_are_chosen_by_their_words(fruit: HedgerowTextClassifier) -> None:
    found = query(fruit, iter(NEW), n=4)
    assert len({NEW[row] for row in found.rows}) == 4
    expected = naive_inputs_of_texts(fruit, NEW, 4)
    assert_same(found, expected)


def naive_inputs_of_texts(model: HedgerowTextClassifier, texts: list[str], n: int) -> Choice:
    knowledge = model.predict_uncertain(texts, k=1).instance.knowledge.astype(float).tolist()
    features = model.vectorizer_.transform(texts)
    return naive([(row, None) for row in range(len(texts))], knowledge, features, n, 1.0)


@pytest.mark.parametrize("pairs", [False, True])
def test_command_prints_what_the_function_finds(
    saved: Path,
    new: Path,
    fruit: HedgerowTextClassifier,
    pairs: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [
        "query",
        str(saved),
        str(new),
        "-n",
        "3",
        "--diversity",
        "0.5",
        *(["--pairs"] if pairs else []),
    ]
    expected = query(fruit, NEW, n=3, pairs=pairs, diversity=0.5)
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == len(NEW)
    assert [one["row"] for one in found["queries"]] == expected.rows.tolist()
    assert [one["id"] for one in found["queries"]] == [f"t{row}" for row in expected.rows]
    assert [one["score"] for one in found["queries"]] == pytest.approx(expected.score.tolist())
    assert [one["knowledge"] for one in found["queries"]] == pytest.approx(expected.knowledge.tolist())
    if pairs:
        assert expected.labels is not None
        assert [one["label"] for one in found["queries"]] == expected.labels.tolist()
    assert main(command) == 0
    text = capsys.readouterr().out
    assert all(f"t{row}" in text for row in expected.rows)
    assert "\x1b" not in text


def test_command_escapes_labels_and_texts(
    saved: Path, new: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["query", str(saved), str(new), "-n", "50", "--pairs"]) == 0
    text = capsys.readouterr().out
    assert "[red]pear[/red]" in text
    assert r"a red plum\x1b[2J" in text


def test_all_formats_hold_the_same_questions(
    saved: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    command = ["query", str(saved), str(new), "--pairs", "-n", "4"]
    assert main([*command, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["queries"]
    for name in ("q.jsonl", "q.csv", "q.parquet"):
        assert main([*command, "--out", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == ""
    assert [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()] == expected
    with open(tmp_path / "q.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {"row": int, "id": str, "label": str, "score": float, "knowledge": float, "text": str}
    for row, record in zip(rows, expected, strict=True):
        assert {name: kind(row[name]) for name, kind in kinds.items()} == {
            name: record[name] for name in kinds
        }
        suggested = zip(
            json.loads(row["suggestions"]), json.loads(row["suggested_probabilities"]), strict=True
        )
        assert [{"label": label, "probability": share} for label, share in suggested] == record["suggestions"]
    assert parquet.read_table(tmp_path / "q.parquet").to_pylist() == expected


def test_inputs_without_ids_and_labels_without_names_are_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, X = fitted()
    model.save(tmp_path / "m")
    hedgerow.data.write_xmc_text(tmp_path / "x.txt", X[:6], csr_array((6, 25), dtype=np.float32))
    assert main(["query", str(tmp_path / "m"), str(tmp_path / "x.txt"), "--pairs", "-n", "2", "--json"]) == 0
    for one in json.loads(capsys.readouterr().out)["queries"]:
        assert "id" not in one
        assert type(one["label"]) is int
    assert main(["query", str(tmp_path / "m"), str(tmp_path / "x.txt"), "-n", "2"]) == 0
    assert "row " in capsys.readouterr().out


def test_command_refuses_what_cannot_work(
    saved: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HedgerowTextClassifier(random_state=0, n_jobs=1).fit(TEXTS, KINDS).save(tmp_path / "single")
    code, message = failure(capsys, "query", tmp_path / "single", "nothing")
    assert (code, "--method bagging" in message) == (ExitCode.MODEL, True)
    assert failure(capsys, "query", tmp_path / "none", new)[0] == ExitCode.MODEL
    assert failure(capsys, "query", saved, tmp_path / "none.jsonl")[0] == ExitCode.DATA
    for option in ("--diversity=2", "--diversity=nan", "-n=0"):
        assert failure(capsys, "query", saved, new, option)[0] == ExitCode.USAGE
    (tmp_path / "old.csv").write_text("precious")
    code, message = failure(capsys, "query", "nothing", new, "--out", tmp_path / "old.csv")
    assert (code, "--overwrite" in message) == (ExitCode.WRITE, True)
    assert failure(capsys, "query", "nothing", new, "--out", tmp_path / "q.xls")[0] == ExitCode.USAGE
    assert (tmp_path / "old.csv").read_text() == "precious"
    assert main(["query", str(saved), str(new), "--out", str(tmp_path / "old.csv"), "--overwrite"]) == 0
    assert (tmp_path / "old.csv").read_text().startswith("row,id,score,knowledge")


@pytest.mark.parametrize("pairs", [False, True])
def test_a_model_that_judges_by_names_asks_about_texts(pairs: bool, tmp_path: Path, capsys: Any) -> None:
    named = named_texts(0)
    model = HedgerowTextClassifier(method="bagging", members=3, judge=True, random_state=0, n_jobs=1)
    model.fit(named.texts, named.labels, vocabulary=named.vocabulary)
    assert model.model_.names is not None
    texts = named.test_texts[:30]
    asked = query(model, texts, n=3, pairs=pairs, diversity=0)
    votes = model.predict_votes(texts)
    knowledge = label_uncertainty(votes).knowledge if pairs else instance_uncertainty(votes).knowledge
    np.testing.assert_allclose(asked.score, np.sort(knowledge)[::-1][:3], rtol=1e-5)
    model.save(tmp_path / "named.hedgerow")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command = ["query", str(tmp_path / "named.hedgerow"), str(tmp_path / "new.jsonl"), "-n", "2"]
    assert main([*command, *(["--pairs"] if pairs else [])]) == 0
    assert capsys.readouterr().out


# --- suggestions, and the queue of a server ---


def test_suggestions_then_they_are_the_models_best_labels_beside_the_text(
    fruit: HedgerowTextClassifier, saved: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", str(saved), str(new), "-n", "3", "-k", "2", "--json"]) == 0
    for record in json.loads(capsys.readouterr().out)["queries"]:
        text = NEW[record["row"]]
        assert record["text"] == text
        shares = dict(zip(fruit.classes_.tolist(), shares_of(fruit, text), strict=True))
        best = sorted(shares, key=lambda label: -shares[label])[:2]
        assert [one["label"] for one in record["suggestions"]] == best
        for one in record["suggestions"]:
            assert one["probability"] == pytest.approx(shares[one["label"]], abs=1e-6)
    assert main(["query", str(saved), str(new), "-k", "0", "--json"]) == 0
    assert all("suggestions" not in one for one in json.loads(capsys.readouterr().out)["queries"])


def shares_of(model: HedgerowTextClassifier, text: str) -> list[float]:
    """The probability of each label, by its column."""
    found: list[float] = np.asarray(model.predict_proba([text]).todense()).ravel().tolist()
    return found


def test_suggestions_of_a_model_with_a_vocabulary_then_they_have_names(
    saved: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = hedgerow.load(saved)
    with pytest.warns(VocabularyWarning, match="1 of 3 labels"):
        model.set_vocabulary(hedgerow.Vocabulary.from_names({"apple": "Apfel", "plum": "Pflaume"}, "de"))
    model.save(saved, overwrite=True)
    assert main(["query", str(saved), str(new), "-n", "1", "-k", "3", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["queries"]
    names = {one["label"]: one["name"] for one in record["suggestions"]}
    assert names == {"apple": "Apfel", "plum": "Pflaume", "[red]pear[/red]": None}


def test_texts_by_name_then_they_stand_beside_the_rest_as_readers_want_them(tmp_path: Path) -> None:
    records = [
        {"title": text, "abstract": "fruit", "labels": kinds}
        for text, kinds in zip(TEXTS, KINDS, strict=True)
    ]
    model = HedgerowTextClassifier(
        method="bagging", members=3, fields=["title", "abstract"], min_count=1, random_state=0, n_jobs=1
    ).fit(records, KINDS)
    model.save(tmp_path / "m")
    (tmp_path / "new.jsonl").write_text('{"title": "a plum", "abstract": "of a tree"}\n')
    out = tmp_path / "ask.jsonl"
    assert main(["query", str(tmp_path / "m"), str(tmp_path / "new.jsonl"), "--out", str(out)]) == 0
    part = hedgerow.data.read_part(out, None, text_fields=["title", "abstract"])
    assert part.texts == [{"title": "a plum", "abstract": "of a tree"}]


def test_queue_then_the_texts_chosen_wait_in_it_with_their_ids_and_predictions(
    fruit: HedgerowTextClassifier, saved: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    from hedgerow.serve.queue_store import QueueStore

    queue = tmp_path / "queue.sqlite"
    rows = query(fruit, NEW, n=2).rows.tolist()
    command = ["query", str(saved), str(new), "-n", "2", "--queue", str(queue)]
    for _ in range(2):  # the second time, they wait already
        assert main(command) == 0
        said = capsys.readouterr().out
        assert "2 texts wait" in said
        assert f"hedgerow serve {saved} --queue {queue}" in said
    store = QueueStore(queue)
    waiting = {item.text_id: item for item in store.waiting(10)}
    store.close()
    assert {id: item.text for id, item in waiting.items()} == {f"t{row}": NEW[row] for row in rows}
    for item in waiting.values():
        shares = dict(zip(fruit.classes_.tolist(), shares_of(fruit, str(item.text)), strict=True))
        for one in item.prediction["labels"]:
            assert one["probability"] == pytest.approx(shares[one["label"]], abs=1e-6)
            assert len(one["votes"]) == 4


def test_queue_that_cannot_be_filled_then_it_is_refused_and_untouched(
    saved: Path, new: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    other = tmp_path / "other"
    other.write_text("no queue")
    assert failure(capsys, "query", saved, new, "--queue", other)[0] == ExitCode.WRITE
    assert other.read_text() == "no queue"
    code, message = failure(capsys, "query", saved, new, "--queue", tmp_path / "q", "--pairs")
    assert (code, "leave --pairs out" in message) == (ExitCode.USAGE, True)
    model, X = fitted()
    model.save(tmp_path / "features")
    hedgerow.data.write_xmc_text(tmp_path / "x.txt", X[:6], csr_array((6, 25), dtype=np.float32))
    code, message = failure(
        capsys, "query", tmp_path / "features", tmp_path / "x.txt", "--queue", tmp_path / "q"
    )
    assert (code, "reads features" in message) == (ExitCode.MODEL, True)
    assert not (tmp_path / "q").exists()
