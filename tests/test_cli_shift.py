"""What commands say of inputs that are not like the held-out ones, and how they end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from hedgerow import (
    Decisions,
    HedgerowClassifier,
    HedgerowTextClassifier,
    Vocabulary,
    evaluate,
    learn_from_held_out,
    load,
)
from hedgerow.cli.app import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data.sample import load_sample
from hedgerow.shift import drift
from hedgerow.shift.martingale import ConformalMartingale
from hedgerow.storage.container import Malformed, read_model, write_model

SAMPLE = load_sample()
# The rows of the sample are sorted, so held-out and new ones are drawn.
ORDER = np.random.default_rng(0).permutation(len(SAMPLE.test_texts))
HELD, NEW = ORDER[:330], ORDER[330:]


def texts_of(rows: np.ndarray) -> list[str]:
    return [SAMPLE.test_texts[row] for row in rows]


def labels_of(rows: np.ndarray) -> list[list[str]]:
    return [SAMPLE.test_labels[row] for row in rows]


def reversed_texts(rows: np.ndarray) -> list[str]:
    return [text[::-1] for text in texts_of(rows)]


@pytest.fixture(scope="module")
def model() -> HedgerowTextClassifier:
    model = HedgerowTextClassifier(method="bagging", members=2, n_jobs=1, random_state=0)
    model.fit(SAMPLE.train_texts[:600], SAMPLE.train_labels[:600])
    learn_from_held_out(model, texts_of(HELD), labels_of(HELD))
    return model


@pytest.fixture(scope="module")
def files(model: HedgerowTextClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shift")
    model.save(folder / "m.hedgerow")
    old = HedgerowTextClassifier.load(folder / "m.hedgerow")
    old.model_ = replace(old.model_, reference=None)
    old.save(folder / "old.hedgerow")
    for name, texts in (("same", texts_of(NEW)), ("odd", reversed_texts(NEW))):
        records = [
            {"text": text, "labels": labels, "id": f"r{number}"}
            for number, (text, labels) in enumerate(zip(texts, labels_of(NEW), strict=True))
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    (folder / "plain.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts_of(NEW)))
    return folder


COMMANDS = {
    "decide": ["--wrong-at-most", "0.2", "--wrong-of", "inputs"],
    "evaluate": [],
    "drift": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_other_inputs_then_the_first_line_says_so_and_the_exit_status_on_request(
    files: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, str(files / "m.hedgerow"), str(files / "odd.jsonl"), *COMMANDS[command]]
    assert main(arguments) == ExitCode.OK
    first = capsys.readouterr().out.splitlines()[0]
    assert "guarantee" in first.lower()
    assert "Calibrate again with inputs like these." in first
    assert main([*arguments, "--fail-on-shift"]) == ExitCode.SHIFT == 7


@pytest.mark.parametrize("command", COMMANDS)
def test_inputs_like_the_held_out_ones_then_the_last_line_says_so(
    files: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, str(files / "m.hedgerow"), str(files / "same.jsonl"), *COMMANDS[command]]
    assert main([*arguments, "--fail-on-shift"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert "guarantee" not in lines[0].lower()
    assert any(line.startswith("No shift found") for line in lines[-4:])


@pytest.mark.parametrize("command", ["decide", "evaluate"])
def test_file_without_a_reference_then_is_read_and_says_that_shift_is_not_tested(
    files: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, str(files / "old.hedgerow"), str(files / "same.jsonl"), *COMMANDS[command]]
    assert main([*arguments, "--fail-on-shift"]) == ExitCode.OK
    assert "Shift is not tested: the model does not remember its held-out inputs" in capsys.readouterr().out


def test_drift_of_a_file_without_a_reference_then_is_refused_with_a_way_out(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drift", str(files / "old.hedgerow"), str(files / "same.jsonl")]) == ExitCode.MODEL
    assert "run hedgerow calibrate again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"), [("decide", "--json"), ("evaluate", "--json=-"), ("drift", "--json")]
)
def test_json_for_programs_then_the_warning_goes_to_stderr(
    files: Path, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, str(files / "m.hedgerow"), str(files / "odd.jsonl"), *COMMANDS[command], option]
    assert main([*arguments, "--fail-on-shift"]) == ExitCode.SHIFT
    printed = capsys.readouterr()
    assert "guarantee" in printed.err.lower()
    found = [json.loads(line) for line in printed.out.splitlines()]
    if command != "decide":
        assert found[0]["shift"]["broken"] is True
        assert found[0]["shift"]["words"] in printed.err


def test_drift_then_names_what_differs_and_what_does_not(model: HedgerowTextClassifier) -> None:
    same, odd = (drift(model.source, of, labels_of(NEW)) for of in (texts_of(NEW), reversed_texts(NEW)))
    assert same.drifted == []
    assert {"OOD score", "share of unknown words", "expected number of labels"} <= set(odd.drifted)
    assert "words of a text" not in odd.drifted  # as many words, only others
    assert odd.unknown == same.unknown  # the same labels
    by_name = {signal.name: signal for signal in odd.signals}
    assert by_name["unknown_words"].new > 0.9 > 0.4 > by_name["unknown_words"].held_out


def test_drift_then_counts_are_those_of_the_votes(model: HedgerowTextClassifier) -> None:
    found = drift(model.source, texts_of(NEW), labels_of(NEW))
    mean = model.predict_votes(texts_of(NEW)).mean().toarray()
    held = model.predict_votes(texts_of(HELD)).mean().toarray()
    reference = model.source.reference
    assert reference is not None
    assert found.labels_given == (mean >= 0.5).any(axis=0).sum()
    for label in found.labels:
        column = model.source.column[label.label]
        assert label.new == (mean[:, column] >= 0.5).mean()
    # Half of the held-out rows set the thresholds, and only these are remembered.
    assert set(reference.labels.tolist()) <= set(np.flatnonzero((held >= 0.5).any(axis=0)).tolist())
    known = set(model.classes_.tolist())
    counts = dict(zip(model.classes_.tolist(), model.label_counts_.tolist(), strict=True))
    flat = [label for labels in labels_of(NEW) for label in labels]
    assert found.unknown is not None
    assert found.unknown.new == pytest.approx(np.mean([one not in known or not counts[one] for one in flat]))


def test_labels_that_are_new_then_drift_says_so_and_looks_into_the_vocabulary(
    model: HedgerowTextClassifier,
) -> None:
    labels = [[*own, f"new {number % 7}"] for number, own in enumerate(labels_of(NEW))]
    found = drift(model.source, texts_of(NEW), labels)
    assert found.unknown is not None
    assert found.unknown.drifted
    assert found.unknown.not_in_vocabulary is None
    assert "labels never seen in training" in found.drifted
    names = [str(name) for name in model.classes_]
    source = replace(model.source, vocabulary=Vocabulary.from_names({name: name for name in names[1:]}))
    strange = [f"new {number}" for number in range(7)]
    _, truth = source.inputs_and_truth(texts_of(NEW), labels)
    found = drift(source, texts_of(NEW), truth, strange=strange)
    assert found.unknown is not None
    assert found.unknown.not_in_vocabulary is not None
    assert found.unknown.not_in_vocabulary >= 7


def test_page_of_drift_then_has_a_picture_for_each_signal(files: Path, tmp_path: Path) -> None:
    page = tmp_path / "d.html"
    arguments = ["drift", str(files / "m.hedgerow"), str(files / "odd.jsonl"), "--out", str(page)]
    assert main(arguments) == ExitCode.OK
    text = page.read_text()
    for name in ("ood", "unknown_words", "best", "total", "given"):
        assert f'"drift-{name}"' in text
    assert "Guarantees are not supported here" in text
    assert main(arguments) == ExitCode.WRITE  # there is such a file already


def test_drift_of_inputs_without_labels_then_labels_are_not_compared(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drift", str(files / "m.hedgerow"), str(files / "plain.jsonl"), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["unknown"] is None


# --- the library ---


def test_decisions_in_other_order_of_batches_and_threads_then_the_report_is_the_same(
    model: HedgerowTextClassifier,
) -> None:
    reports = []
    for threads in (1, 2):
        model.set_params(n_jobs=threads)
        reports.append(model.decide(texts_of(NEW), wrong_at_most=0.2, wrong_of="inputs").shift)
    model.set_params(n_jobs=1)
    assert reports[0] == reports[1]


def test_sorted_file_then_is_no_shift(model: HedgerowTextClassifier) -> None:
    """Short texts first: as a stream that would be a shift, as a set it is none."""
    texts = sorted(texts_of(NEW), key=len)
    report = model.decide(texts, wrong_at_most=0.2, wrong_of="inputs").shift
    assert report is not None
    assert not report.broken
    watch = model.source.watch(in_order=True)
    assert watch is not None
    watch.add(model.source.answer(model.source.inputs(texts), signals=True))
    assert watch.report().log10 > report.log10


def test_more_inputs_than_are_compared_then_some_are_drawn(
    model: HedgerowTextClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedgerow.shift.watch._MOST", 60)
    report: Any = model.decide(
        [*texts_of(NEW), *reversed_texts(NEW)], wrong_at_most=0.2, wrong_of="inputs"
    ).shift
    assert report.inputs == 2 * len(NEW)
    assert report.broken
    monkeypatch.setattr("hedgerow.shift.watch._MOST", 3)
    assert not model.decide(reversed_texts(NEW), wrong_at_most=0.2, wrong_of="inputs").shift.broken  # type: ignore[union-attr]


def test_decisions_on_some_labels_then_only_the_inputs_are_compared(model: HedgerowTextClassifier) -> None:
    some = model.classes_[:5].tolist()
    report: Any = model.decide(texts_of(NEW), wrong_at_most=0.2, wrong_of="inputs", only=some).shift
    assert {one.name for one in report.evidence} == {"ood", "unknown_words", "words"}
    assert not report.broken
    assert model.decide(reversed_texts(NEW), wrong_at_most=0.2, wrong_of="inputs", only=some).shift.broken  # type: ignore[union-attr]


def test_parts_that_are_joined_then_have_no_report(model: HedgerowTextClassifier) -> None:
    parts = [
        model.decide(texts_of(NEW[:5]), wrong_at_most=0.2, wrong_of="inputs"),
        model.decide(texts_of(NEW[5:]), wrong_at_most=0.2, wrong_of="inputs"),
    ]
    assert Decisions.concatenate(parts).shift is None


def test_evaluation_with_the_wrong_truth_then_the_guarantee_is_broken_but_nothing_has_shifted(
    model: HedgerowTextClassifier,
) -> None:
    labels = [["use::organizing"] for _ in NEW]
    report = evaluate(model, texts_of(NEW), labels).shift
    assert report is not None
    assert report.broken
    assert not report.shifted
    assert report.words.startswith("A guarantee is broken: at most")


def test_evaluation_then_each_guarantee_that_has_something_to_count_is_tested(
    model: HedgerowTextClassifier,
) -> None:
    found = evaluate(model, texts_of(NEW), labels_of(NEW))
    assert found.shift is not None
    expected = []
    for of in found.decisions:
        kind, promised = of.guarantee.kind, of.guarantee.promised
        if promised is None or of.achieved is None:
            continue
        losses = (promised, of.achieved) if kind != "review" else (1 - promised, 1 - of.achieved)
        ratio = of.guarantee.of in ("labels", "answered")
        assert (of.p_value is None) != ratio
        # Each text has a label that the model knows; ratios are about those that are given any.
        expected.append((*losses, of.inputs if ratio else len(NEW)))
    assert [(test.asked, test.reached, test.rows) for test in found.shift.kept] == expected
    assert {of.guarantee.kind for of in found.decisions} == {"wrong", "missed", "review"}
    assert len(expected) > 4
    assert not any(test.broken for test in found.shift.kept)


def test_evaluation_with_another_search_then_shift_is_not_tested(model: HedgerowTextClassifier) -> None:
    model.set_params(beam=3)
    report = evaluate(model, texts_of(NEW), labels_of(NEW)).shift
    model.set_params(beam=10)
    assert report is not None
    assert "searches otherwise" in report.words
    assert report.kept == ()


def test_model_without_a_policy_then_there_is_no_report() -> None:
    texts = ["a thorny shrub", "an evergreen tree"] * 20
    model = HedgerowTextClassifier(random_state=0).fit(texts, [["hawthorn"], ["holly"]] * 20)
    assert evaluate(model, texts, [["hawthorn"], ["holly"]] * 20).shift is None
    with pytest.raises(ValueError, match="not calibrated"):
        drift(model.source, texts)


def test_reference_then_is_that_of_the_rows_of_the_policy_and_goes_with_it(
    model: HedgerowTextClassifier,
) -> None:
    source = model.source
    reference = source.reference
    assert reference is not None
    assert source.policy is not None
    assert reference.rows == source.policy.rows
    assert source.uncalibrated().reference is None
    assert source.ood is not None
    assert "ood" not in source.with_ood(source.ood).reference.names  # type: ignore[union-attr]
    again = HedgerowTextClassifier(method="bagging", members=2, n_jobs=1, random_state=0)
    again.fit(SAMPLE.train_texts[:600], SAMPLE.train_labels[:600])
    assert again.source.reference is None
    assert again.describe()["shift"] is None
    assert model.describe()["shift"]["rows"] == reference.rows


def test_features_that_are_shuffled_then_it_alarms() -> None:
    random = np.random.default_rng(0)

    def made(rows: int) -> tuple[sp.csr_array, np.ndarray]:
        Y = random.random((rows, 10)) < 0.2
        Y[~Y.any(axis=1), 0] = True
        own = np.repeat(Y, 5, axis=1) & (random.random((rows, 50)) < 0.5)
        return sp.csr_array((own | (random.random((rows, 50)) < 0.05)).astype(np.float32)), Y.astype(np.int8)

    model = HedgerowClassifier(method="bagging", members=2, leaf_size=4, random_state=0, n_jobs=1)
    model.fit(*made(400))
    learn_from_held_out(model, *made(600))
    X, _ = made(300)
    report = model.decide(X, wrong_at_most=0.2, wrong_of="inputs").shift
    assert report is not None
    assert not report.broken
    shuffled = model.decide(
        X[:, np.random.default_rng(1).permutation(50)], wrong_at_most=0.2, wrong_of="inputs"
    ).shift
    assert shuffled is not None
    assert shuffled.broken


def test_many_cuts_of_held_out_inputs_then_at_most_one_in_a_hundred_alarms(
    model: HedgerowTextClassifier,
) -> None:
    """Real signals, which depend on each other, of inputs that are exchangeable by how they are cut."""
    watch = model.source.watch()
    assert watch is not None
    answer = model.source.answer(model.source.inputs(SAMPLE.test_texts), signals=True)
    bins = watch.bins(answer)  # type: ignore[union-attr]
    alarms = 0
    for seed in range(500):
        order = np.random.default_rng(seed).permutation(len(bins))
        martingale = ConformalMartingale(bins[order[:80]], seed)
        martingale.add(bins[order[80:160]])
        alarms += martingale.alarmed
    assert alarms <= 12  # more in one case of a thousand, at 1 %


# --- files ---


def test_saved_reference_then_comes_back_as_it_was(model: HedgerowTextClassifier, files: Path) -> None:
    before, after = model.source.reference, load(files / "m.hedgerow").source.reference
    assert before is not None
    assert after is not None
    assert before.describe() == after.describe()
    for name in ("scores", "labels", "counts"):
        assert getattr(before, name).tobytes() == getattr(after, name).tobytes()


def _scores(change: Any) -> Any:
    return lambda sections, header: sections.update(
        {"reference.scores": change(sections["reference.scores"])}
    )


def _given(change: Any) -> Any:
    return lambda sections, header: sections.update({"reference.given": change(sections["reference.given"])})


def _header(**changes: Any) -> Any:
    return lambda sections, header: header["reference"].update(changes)


BAD = {
    "other signals": _header(signals=["ood", "x"]),
    "no signals": _header(signals=[]),
    "signals that are no names": _header(signals=[[1]]),
    "signals twice": _header(signals=["best"] * 7),
    "negative counts": _header(unknown_rows=-1),
    "more unknown than true labels": _header(unknown_labels=10**9),
    "counts that are no numbers": _header(true_labels="3"),
    "unsorted scores": _scores(lambda of: np.ascontiguousarray(of[:, ::-1])),
    "scores out of range": _scores(lambda of: np.full_like(of, 1024)),
    "scores of another type": _scores(lambda of: of.astype(np.int32)),
    "fewer scores": _scores(lambda of: of[:-1].copy()),
    "no scores": _scores(lambda of: of[:, :0].copy()),
    "labels that do not ascend": _given(lambda of: np.ascontiguousarray(of[:, ::-1])),
    "labels beyond the model": _given(lambda of: of + 10**6),
    "counts above the rows": _given(lambda of: of * np.array([[1], [10**6]])),
    "labels of another shape": _given(lambda of: of[0].copy()),
    "no section": lambda sections, header: sections.pop("reference.scores"),
    "no policy": lambda sections, header: header.pop("policy"),
    "no OOD detector": lambda sections, header: header.pop("familiar"),
    "not a table": lambda sections, header: header.update(reference=[]),
}


@pytest.mark.parametrize("change", BAD.values(), ids=list(BAD))
def test_crafted_reference_then_is_refused(files: Path, tmp_path: Path, change: Any) -> None:
    file = read_model(files / "m.hedgerow")
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    change(sections, header)
    write_model(tmp_path / "bad.hedgerow", sections, header)
    with pytest.raises(Malformed, match="does not hold a whole model"):
        load(tmp_path / "bad.hedgerow")
