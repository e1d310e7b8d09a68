"""``hedgerow evaluate --over-time``, and ``hedgerow fit --until``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from changing_stream import PERIODS, ROWS, changing_stream

from hedgerow import HedgerowTextClassifier, load
from hedgerow.chronology import Plan, Strategy, over_time
from hedgerow.cli import main, options
from hedgerow.cli.app import over_time_command
from hedgerow.cli.failures import ExitCode
from hedgerow.data.times import UNITS
from hedgerow.report import render
from hedgerow.report.over_time import compose_over_time

STREAM = changing_stream()
FAST = ["--preset", "fast", "--threads", "1"]


def write(path: Path, rows: range = range(len(STREAM.texts)), **more: Any) -> Path:
    with path.open("w") as file:
        for row in rows:
            record = {
                "text": STREAM.texts[row],
                "labels": STREAM.labels[row],
                "year": STREAM.years[row],
                "date": f"{STREAM.years[row]}-{row % 12 + 1:02}-01",
                **more,
            }
            file.write(json.dumps(record) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("stream") / "records.jsonl")


def run(data: Path, *arguments: str) -> int:
    return main(["evaluate", "--over-time", str(data), *FAST, *arguments])


# --- what it says ---


def test_table_json_and_page_say_what_the_library_finds(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = tmp_path / "time.html", tmp_path / "time.json"
    assert (
        run(data, "--time-field", "year", "--period", "year", "--out", str(out), "--json", str(figures)) == 0
    )
    printed = capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert [period["name"] for period in found["periods"]] == ["2000", "2001", "2002", "2003"]
    assert list(found["judged"]) == [strategy.value for strategy in Strategy]
    for judged in found["judged"].values():
        assert [one["period"] for one in judged] == ["2001", "2002", "2003"]
        for one in judged:
            assert one["inputs"] == ROWS
            shares = (one["precision"]["1"], one["unknown_labels"] / one["true_labels"])
            assert all(f"{100 * share:.1f}" in printed for share in shares)
            for of in one["guarantees"]:
                if of["achieved"] is not None:
                    assert f"{100 * of['achieved']:.1f} {of['failed']}/{of['counted']}" in printed
    page = out.read_text()
    assert "Accuracy over time" in page
    assert "Unknown labels over time" in page


def test_json_alone_is_all_that_is_printed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--strategy", "never-updated", "--periods", "2", "--json", "-"]
    assert run(data, "--time-field", "date", *more) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["judged"]) == ["never-updated"]
    assert found["plan"]["periods"] == 2
    assert found["data"] == [str(data)]
    assert found["model"]["preset"] == "fast"


def test_several_files_are_one_stream(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = len(STREAM.texts) // 2
    old = write(tmp_path / "old.jsonl", range(half))
    new = write(tmp_path / "new.jsonl", range(half, 2 * half))
    asked = ["--time-field", "year", "--strategy", "never-updated", "--json", "-"]
    found = []
    for files in ([str(data)], [str(old), str(new)]):
        assert main(["evaluate", "--over-time", *files, *FAST, *asked]) == 0
        of = json.loads(capsys.readouterr().out)
        found.append([one | {"seconds": 0} for one in of["judged"]["never-updated"]])
    assert found[0] == found[1]


def test_options_of_fit_reach_the_models(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--time-field", "year", "--periods", "2", "--strategy", "never-updated", "--json", "-"]
    more = ["--method", "bagging", "--members", "3", "--language", "en", "--min-count", "3", "--ngrams", "1"]
    assert run(data, *asked, *more) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert (model["settings"]["method"], model["settings"]["members"]) == ("bagging", 3)
    assert model["texts"]["language"] == "en"
    assert (model["texts"]["min_count"], model["texts"]["ngrams"]) == (3, [1, 1])


def test_until_and_start_bound_the_periods(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--time-field", "date", "--period", "year", "--strategy", "never-updated", "--json", "-"]
    assert run(data, *asked, "--start", "2002", "--until", "2002") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(period["inputs"], period["last"][:4]) for period in found["periods"]] == [
        (2 * ROWS, "2001"),
        (ROWS, "2002"),
    ]


def test_a_page_has_a_line_for_each_strategy_in_each_figure() -> None:
    plan = Plan(unit="year", strategies=("never-updated", "fitted-again"), wrong_at_most=0.2)
    classifier = HedgerowTextClassifier(random_state=0, n_jobs=1, ngrams=(1, 1))
    found = over_time(classifier, STREAM.texts, STREAM.labels, STREAM.years, plan)
    content = compose_over_time(found, "<b>over</b> time")
    figures = {figure.id: figure for figure in content.figures}
    assert set(figures) == {
        *("time-precision", "time-ndcg", "time-wrong", "time-missed", "time-unknown", "time-ece", "time-ood")
    }
    for figure in figures.values():
        lines = {series.name: list(series.y) for series in figure.series}
        assert {"never updated", "fitted again"} <= set(lines)
        assert list(figure.x_ticks) == [(1, "2001"), (2, "2002"), (3, "2003")]
    never = found.judged["never-updated"]
    lines = {series.name: list(series.y) for series in figures["time-unknown"].series}
    assert lines["never updated"] == [one.unknown_labels / one.true_labels for one in never]
    assert lines["in no earlier period"] == [
        period.new_labels / period.true_labels for period in found.periods[1:]
    ]
    broken = [one for one in never if one.guarantees[0].broken]
    assert broken
    for one in broken:
        said = f"never updated, {one.period}: a guarantee is broken. {100 * one.guarantees[0].achieved:.1f} %"
        assert any(note.startswith(said) for note in content.notes)
    assert "<b>over" not in render(content)


@pytest.mark.slow
def test_the_example_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parent.parent / "docs/how-to/over-time.md").read_text()
    found = re.search(
        r"```python\n(.*?)```\n\n```sh\nhedgerow (.*?)\n```.*?```text\n(.*?)```", text, re.DOTALL
    )
    assert found is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(found[1], "over-time.md", "exec"), {})
    assert main(found[2].split()) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    shown = [line for line in found[3].splitlines() if line != "..."]
    assert len(shown) > 15
    for line in shown:
        # Other SIMD levels have other last bits, which may turn a label or two.
        assert any(same(line, own) for own in printed), line


def same(one: str, other: str) -> bool:
    number = r"[0-9][0-9.,]*"
    values = [
        [float(found.replace(",", "").rstrip(".")) for found in re.findall(number, text)]
        for text in (one, other)
    ]
    words = [re.sub(number, "", text).split() for text in (one, other)]
    return words[0] == words[1] and values[0] == pytest.approx(values[1], rel=0.02, abs=1.0)


# --- what it refuses ---


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], ExitCode.USAGE, "--time-field: name the field"),
        (["--time-field", "when"], ExitCode.DATA, "records.jsonl:1: the record has no 'when'"),
        (["--time-field", "text"], ExitCode.DATA, "records.jsonl:1: the text: 'row0"),
        (["--time-field", "year", "--period", "month"], ExitCode.DATA, "2000 is not a date, so it has no"),
        (["--time-field", "year", "--period", "year", "--periods", "3"], ExitCode.USAGE, "not both"),
        (["--time-field", "year", "--start", "2030"], ExitCode.DATA, "all records are before 2030"),
        (["--time-field", "date", "--until", "soon"], ExitCode.USAGE, "--until'?: 'soon' is not a time"),
        (["--time-field", "date", "--period", "month"], ExitCode.DATA, "a larger --held-out"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: ExitCode, problem: str
) -> None:
    capsys.readouterr()
    assert run(data, *arguments) == code
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert re.search(problem, error)


def test_files_that_exist_and_features_are_refused_before_anything_is_trained(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.html").write_text("precious")
    assert run(data, "--time-field", "year", "--out", str(tmp_path / "there.html")) == ExitCode.WRITE
    assert (tmp_path / "there.html").read_text() == "precious"
    (tmp_path / "features.txt").write_text("1 2 1\n0 0:1.0\n")
    capsys.readouterr()
    assert run(tmp_path / "features.txt", "--time-field", "year") == ExitCode.DATA
    assert "no records with fields" in capsys.readouterr().err


def test_ctrl_c_leaves_no_file_and_names_the_checkpoint(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hedgerow.chronology.running as running

    work, judged = running.judge, 0

    def stop(*arguments: Any) -> Any:
        nonlocal judged
        judged += 1
        if judged == 3:
            raise KeyboardInterrupt
        return work(*arguments)

    out, figures, folder = tmp_path / "time.html", tmp_path / "time.json", tmp_path / "periods"
    files = ["--out", str(out), "--json", str(figures), "--checkpoint", str(folder)]
    with monkeypatch.context() as patch:
        patch.setattr(running, "judge", stop)
        assert run(data, "--time-field", "year", *files) == ExitCode.INTERRUPTED
    message = capsys.readouterr().err
    assert f"finished periods are kept in {folder}; the same command continues from there" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["periods"]
    assert len(list(folder.glob("*-[0-9]*.json"))) == 2
    assert run(data, "--time-field", "year", *files) == 0
    assert len(list(folder.glob("*-[0-9]*.json"))) == len(Strategy) * (PERIODS - 1)
    assert run(data, "--time-field", "year", "--checkpoint", str(folder), "--seed", "7") == ExitCode.WRITE


# --- help ---


def test_its_help_is_its_own(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["evaluate", "--over-time", "--help"]) == 0
    own = capsys.readouterr().out
    assert "Usage: hedgerow evaluate --over-time [OPTIONS]" in own
    assert "--time-field" in own
    assert main(["evaluate", "--help"]) == 0
    usual = capsys.readouterr().out
    assert "--over-time" in usual
    assert "--time-field" not in usual.partition("Options")[2]
    first, *_, last = [line.strip() for line in over_time_command().help.splitlines() if line.strip()]
    assert len(first) <= 80
    assert first.endswith(".")
    assert last.startswith("hedgerow evaluate --over-time ")


def test_its_help_does_not_import_the_library() -> None:
    code = """
import contextlib, io, sys
from hedgerow.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main(["evaluate", "--over-time", "--help"]) == 0
print(*(name for name in ("numpy", "scipy", "sklearn", "torch") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_values_of_its_options_are_those_of_the_library() -> None:
    assert [value.value for value in options.Strategies] == [strategy.value for strategy in Strategy]
    assert [value.value for value in options.Unit] == list(UNITS)


# --- the same by hand ---


def test_fit_until_gives_the_model_of_a_file_that_ends_there(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = write(tmp_path / "cut.jsonl", range(2 * ROWS))
    asked = ["--time-field", "date", "--until", "2001", "--json"]
    assert main(["fit", str(data), f"{tmp_path}/a.hedgerow", *FAST, *asked]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["later_rows"], summary["until"]) == (2 * ROWS, 2 * ROWS, "2001")
    assert main(["fit", str(cut), f"{tmp_path}/b.hedgerow", *FAST]) == 0
    one, other = (load(tmp_path / name) for name in ("a.hedgerow", "b.hedgerow"))
    assert one.classes_.tolist() == other.classes_.tolist()
    assert (tmp_path / "a.hedgerow").read_bytes() == (tmp_path / "b.hedgerow").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--time-field", "year"], "--time-field: it needs --until"),
        (["--until", "2001"], "--until: it needs --time-field"),
    ],
)
def test_fit_needs_both_a_field_and_a_time(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["fit", str(data), f"{tmp_path}/a.hedgerow", *arguments]) == ExitCode.USAGE
    assert problem in capsys.readouterr().err
