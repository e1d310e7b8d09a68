"""`hedgerow evaluate`, `hedgerow report` and `hedgerow reproduce`: what they write, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.paper import Experiment, ExperimentSettings, Source
from hedgerow.paper.figures import write_figures
from hedgerow.paper.published import COLUMNS, DATA_SETS, MISCLASSIFICATION, OOD_DETECTION, PERFORMANCE
from hedgerow.paper.table import Cell, Table
from hedgerow.paper.tables import make_tables

TREES = ("hawthorn", "holly", "elder", "hazel", "<b>yew</b>")
FISH = ("trout", "salmon", "eel")


def records(kinds: tuple[str, ...], place: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Sentences that name a kind of thing and where it is."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind = kinds[int(random.integers(len(kinds)))]
        words = random.choice(["old", "young", "small", "large", "green", "brown"], 3)
        text = f"the {' '.join(words)} {kind} {place} number {number % 7}"
        found.append({"id": f"r{number}", "text": text, "labels": [kind, words[0]], "sizes": [words[1]]})
    return found


def write(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for name, lines in parts.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    test = records(TREES, "in the hedge", 120, 1)
    test[3]["labels"] = ["a label that training lacks"]
    write(root / "trees", train=records(TREES, "in the hedge", 200, 0), test=test)
    write(
        root / "fish",
        train=records(FISH, "swims under bridges", 150, 2),
        test=records(FISH, "swims under bridges", 100, 3),
    )
    assert main(["fit", f"{root}/trees", f"{root}/m.hedgerow", "--method", "bagging", "--members", "3"]) == 0
    return root


@pytest.fixture
def quiet(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert captured.err.startswith("hedgerow: error: ")
    assert captured.err.count("\n") == 1
    return code, captured.err


# --- evaluate ---


def test_evaluate_writes_the_documented_keys(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    arguments = ["evaluate", folder / "m.hedgerow", folder / "trees", "--ood", folder / "fish", "--json", out]
    assert main([str(argument) for argument in arguments]) == 0
    shown = quiet.readouterr().out
    found = json.loads(out.read_text())
    for name in ("precision", "recall"):
        assert set(found[name]) == {"1", "3", "5"}
        assert all(0 <= value <= 1 for value in found[name].values())
    assert {"variance", "total", "knowledge", "energy"} <= set(found["misclassification"])
    scores = {"variance", "total", "knowledge", "joint_energy", "ood"}
    assert scores <= set(found["ood"]["fish"])
    assert found["ood"]["fish"]["ood"] > 0.95
    details = found["ood_details"]["fish"]
    assert details["total"]["direction"] == "low"
    assert details["ood"]["direction"] == "high"
    assert len(details["ood"]["by_frequency"]) == 10
    assert found["seconds"] > 0
    assert found["settings"]["unknown_labels"] == 1
    assert "120 inputs, 240 true labels" not in shown  # one input has one label only
    assert "120 inputs, 239 true labels, of which the model does not know 1" in shown
    assert "How well it detects out-of-distribution inputs: fish" in shown
    assert "trained on" not in shown


def test_evaluate_on_training_data_tells(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    model, data = str(folder / "m.hedgerow"), str(folder / "trees")
    assert main(["evaluate", model, data, "--part", "train"]) == 0
    assert (
        "The model was trained on 200 of these inputs, so this says little about others."
        in quiet.readouterr().out
    )
    assert main(["report", model, data, "--part", "train", "--out", str(tmp_path / "r.html")]) == 0
    assert "trained on 200 of these inputs, so this page says little" in (tmp_path / "r.html").read_text()


def test_evaluate_with_a_dash_prints_json_only(folder: Path, quiet: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", f"{folder}/m.hedgerow", f"{folder}/trees", "--json", "-"]) == 0
    captured = quiet.readouterr()
    assert json.loads(captured.out)["settings"]["inputs"] == 120
    assert captured.err == ""


def test_evaluate_uses_what_the_model_has_learned_as_familiar(folder: Path, tmp_path: Path) -> None:
    from hedgerow import load
    from hedgerow.data import read_part
    from hedgerow.evaluation.tasks import evaluate
    from hedgerow.inputs.labels import align_labels

    model = load(folder / "m.hedgerow")
    trees, fish = (read_part(folder / name, "test") for name in ("trees", "fish"))
    assert trees.texts is not None
    assert fish.texts is not None
    model.learn_ood(trees.texts)
    Y, _ = align_labels(trees.Y, trees.label_names, model.classes_)  # type: ignore[arg-type]
    found = evaluate(model, trees.texts, Y, ood={"fish": fish.texts})
    expected = model.ood_scores(trees.texts).p_value
    assert found.p_values is not None
    assert np.array_equal(found.p_values, expected)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ([], "data.jsonl has no rows"),
        (
            [{"text": "a hedge"}],
            "has no labels to compare with: there is no field 'labels', but there are text",
        ),
        ([{"text": "a hedge", "labels": []}], "the field 'labels' is empty in all records"),
        ([{"text": "a hedge", "labels": ["no such label"]}], "none of the labels is known to the model"),
    ],
)
def test_evaluate_refuses_data_it_cannot_judge(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str], part: list[Any], message: str
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in part))
    code, line = failure(quiet, "evaluate", folder / "m.hedgerow", data)
    assert code == ExitCode.DATA
    assert message in line


def test_evaluate_refuses_features_for_a_model_of_texts_and_too_wide_ones(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    narrow, wide = tmp_path / "narrow.txt", tmp_path / "wide.txt"
    narrow.write_text("2 3 2\n0 0:1\n1 2:1\n")
    wide.write_text("2 4 2\n0 0:1\n1 3:1\n")
    code, line = failure(quiet, "evaluate", folder / "m.hedgerow", narrow)
    assert (code, "was trained on texts" in line) == (ExitCode.DATA, True)
    assert main(["fit", str(narrow), f"{tmp_path}/n.hedgerow"]) == 0
    quiet.readouterr()
    code, line = failure(quiet, "evaluate", tmp_path / "n.hedgerow", wide)
    assert code == ExitCode.DATA
    assert "has 4 features" in line
    assert "was trained on 3" in line


def test_evaluate_refuses_outsiders_without_texts(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    features = tmp_path / "features.txt"
    features.write_text("1 3 2\n0 0:1\n")
    arguments = ("evaluate", folder / "m.hedgerow", folder / "trees", "--ood", features)
    code, line = failure(quiet, *arguments)
    assert (code, "has only features; give it texts" in line) == (ExitCode.DATA, True)


def test_evaluate_does_not_replace_a_file_unasked(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    out.write_text("mine")
    code, line = failure(quiet, "evaluate", folder / "m.hedgerow", folder / "trees", "--json", out)
    assert (code, "exists already" in line) == (ExitCode.WRITE, True)
    assert out.read_text() == "mine"


# --- report ---


def test_report_is_one_page_with_figures_examples_and_escaped_labels(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    arguments = ["report", folder / "m.hedgerow", folder / "trees", "--ood", folder / "fish", "--out", out]
    assert main([str(argument) for argument in arguments]) == 0
    page = out.read_text()
    assert "<b>yew" not in page
    block = page.split('type="application/json"', 1)[1].split(">", 1)[1].split("</script>", 1)[0]
    content = json.loads(block)
    ids = [figure["id"] for figure in content["figures"]]
    wanted = {
        "long-tail",
        "risk-coverage",
        "reliability",
        "frequency",
        "roc-0",
        "regret",
        "uncertainty-error",
    }
    assert wanted <= set(ids)
    assert {label["label"] for label in content["labels"]} & set(TREES)
    example = content["uncertain"][0]
    assert example["text"]
    assert len(example["predicted"][0]["votes"]) == 3
    assert 0 < example["ood"] <= 1
    best = [example["predicted"][0]["probability"] for example in content["uncertain"]]
    assert best == sorted(best)
    for example in content["wrong"]:
        assert not example["predicted"][0]["is_true"]
    assert "Written" in quiet.readouterr().out


def test_report_of_a_model_on_features_has_no_texts(
    tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.txt"
    lines = [f"{i % 3} {i % 5}:1 {5 + (i * 7) % 6}:0.5" for i in range(60)]
    data.write_text(f"{len(lines)} 11 3\n" + "\n".join(lines) + "\n")
    assert main(["fit", str(data), f"{tmp_path}/f.hedgerow"]) == 0
    assert main(["report", f"{tmp_path}/f.hedgerow", str(data), "--out", f"{tmp_path}/r.html"]) == 0
    assert '"text":null' in (tmp_path / "r.html").read_text()


# --- reproduce ---


def run_reproduce(folder: Path, out: Path, *more: str) -> int:
    data = [f"{folder}/trees", f"{folder}/fish"]
    return main(["reproduce", *data, "--out", str(out), "--quick", "--threads", "1", *more])


@pytest.fixture(scope="module")
def reproduced(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one whole run wrote."""
    out = tmp_path_factory.mktemp("reproduced") / "results"
    assert run_reproduce(folder, out) == 0
    return out


@pytest.mark.slow
def test_reproduce_writes_tables_and_does_nothing_twice(
    folder: Path, reproduced: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = reproduced
    tables = json.loads((out / "tables.json").read_text())
    titles = [row[0] for row in tables["performance"]["rows"]]
    methods = ["Single model", "MC dropout", "Boosting", "Bagging", "Boosted bagging"]
    assert titles == ["trees", *methods, "fish", *methods]
    assert [row[0] for row in tables["ood"]["rows"]] == ["trees → fish", "fish → trees"]
    assert tables["settings"]["quick"] is True
    for name in ("misclassification", "aupr_aurc", "efficiency", "calibration", "times", "tail"):
        assert tables[name]["rows"], name
    markdown, latex = (out / "tables.md").read_text(), (out / "tables.tex").read_text()
    assert "Table 4" in markdown
    assert latex.count(r"\begin{tabular}") == len(tables) - 1
    kept = sorted((out / "experiments").rglob("*.json"))
    assert len(kept) == 10
    before = [path.stat().st_mtime_ns for path in kept]
    quiet.readouterr()
    assert run_reproduce(folder, out) == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    assert json.loads((out / "tables.json").read_text())["performance"] == tables["performance"]


def test_reproduce_refuses_to_mix_settings(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert run_reproduce(folder, out, "--method", "single") == 0
    quiet.readouterr()
    assert run_reproduce(folder, out, "--method", "single", "--beam", "7") == ExitCode.DATA
    assert "was made with beam = 50, not 7; choose another folder" in quiet.readouterr().err


def test_reproduce_tells_where_missing_data_of_the_paper_come_from_and_goes_on(
    folder: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    assert run_reproduce(folder, out, f"{tmp_path}/Amazon-670K", "--method", "single") == 0
    told = quiet.readouterr().err
    assert "Amazon-670K is not there and is left out" in told
    assert "extreme classification repository" in told
    assert "X.trn.npz" in told
    assert (out / "tables.md").exists()


def test_reproduce_refuses_data_that_nobody_knows(tmp_path: Path, quiet: pytest.CaptureFixture[str]) -> None:
    code, line = failure(quiet, "reproduce", tmp_path / "nothing", "--out", tmp_path / "out")
    assert (code, "there is no such file or folder" in line) == (ExitCode.DATA, True)
    code = main(["reproduce", f"{tmp_path}/wiki-500k", "--out", f"{tmp_path}/out"])
    assert code == ExitCode.DATA
    assert "nothing was done" in quiet.readouterr().err


@pytest.mark.slow
def test_reproduce_after_an_interrupt_goes_on_and_ends_with_the_same_tables(
    folder: Path, reproduced: Path, tmp_path: Path, quiet: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "stopped"
    command = [
        sys.executable,
        "-c",
        "import sys; from hedgerow.cli import main; sys.exit(main(sys.argv[1:]))",
    ]
    options = [
        "reproduce",
        f"{folder}/trees",
        f"{folder}/fish",
        "--out",
        str(out),
        "--quick",
        "--threads",
        "1",
    ]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    first = out / "experiments/trees/single-0.json"
    while process.poll() is None and not first.exists():
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode == ExitCode.INTERRUPTED
    assert "the same command continues from there" in told
    done = len(list((out / "experiments").rglob("*.json")))
    assert 1 <= done < 10
    assert not (out / "tables.md").exists()
    assert run_reproduce(folder, out) == 0
    for name in ("performance", "misclassification", "ood"):
        one, other = (json.loads((f / "tables.json").read_text())[name] for f in (out, reproduced))
        assert one == other


def test_source_reads_a_field_after_a_colon_unless_the_path_exists(tmp_path: Path) -> None:
    assert Source.parse("debian:tags") == Source(Path("debian"), "tags")
    assert Source.parse("debian:tags").name == "debian-tags"
    odd = tmp_path / "a:b"
    odd.mkdir()
    assert Source.parse(str(odd)) == Source(odd)


@pytest.mark.parametrize("wrong", [{"methods": ["guessing"]}, {"seeds": 0}, {"methods": []}, {"members": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ExperimentSettings(**wrong)


# --- tables ---


def test_tables_show_means_deviations_and_the_paper_beside(folder: Path) -> None:
    numbers = {"1": 0.80, "3": 0.7, "5": 0.6}
    runs = []
    for seed, shift in enumerate((0.0, 0.02)):
        found: dict[str, Any] = {
            "precision": {k: v + shift for k, v in numbers.items()},
            "recall": numbers,
            "ndcg": numbers,
            "psp": None,
            "macro_f1": numbers,
            "coverage": None,
            "misclassification": {"energy": 0.9, "total": 0.95},
            "ood": {},
            "ood_details": {},
            "seconds_by_step": {"predict": 2.0, "judge": 0.1},
        }
        runs.append(Experiment("eurlex-4k", "single", seed, found))
    tables = {table.id: table for table in make_tables(runs)}
    rows = tables["performance"].rows
    assert rows[0][0] == "Eurlex-4K"
    cell = rows[1][1]
    assert isinstance(cell, Cell)
    assert cell.text == "81.00 ± 1.41"
    assert rows[2][:2] == ["Single model, paper", "81.76"]
    assert tables["misclassification"].rows[1][1] == "83.54"
    assert "**81.00 ± 1.41**" in tables["performance"].to_markdown()
    assert r"\textbf{81.00 $\pm$ 1.41}" in tables["performance"].to_latex()
    share = tables["times"].rows[1][3]
    assert isinstance(share, Cell)
    assert share.mean == pytest.approx(5.0)


def test_names_in_tables_are_no_commands() -> None:
    table = Table("t", "Title", "50 % of \\input{x}", ["", "a_b|c"], [["<script>", Cell([1.0])]])
    assert r"\textbackslash{}input\{x\}" in table.to_latex()
    assert r"a\_b|c" in table.to_latex()
    assert r"a\_b\|c" in table.to_markdown()
    assert "&lt;script>" in table.to_markdown()


def test_figures_of_the_paper_are_whole() -> None:
    assert set(PERFORMANCE) == set(MISCLASSIFICATION) == set(DATA_SETS)
    for data, methods in PERFORMANCE.items():
        assert all(len(figures) == 6 for figures in methods.values()), data
        assert len(methods) == 5
    assert all(len(row) == len(COLUMNS) for row in (*MISCLASSIFICATION.values(), *OOD_DETECTION.values()))
    assert set(OOD_DETECTION) == {
        (own, other) for own in ("wiki10-31k", "amazon-670k") for other in DATA_SETS if other != own
    }


@pytest.mark.slow
def test_figures_are_drawn_and_the_same_every_time(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "results"
    assert run_reproduce(folder, out, "--method", "boosted-bagging") == 0
    drawn = sorted((out / "figures").glob("*.svg"))
    names = {path.name for path in drawn}
    kinds = ("long-tail", "risk-coverage", "reliability", "frequency", "roc", "regret", "uncertainty-error")
    assert names == {f"{data}-{kind}.svg" for data in ("trees", "fish") for kind in kinds}
    before = [path.read_bytes() for path in drawn]
    assert run_reproduce(folder, out, "--method", "boosted-bagging") == 0
    assert [path.read_bytes() for path in drawn] == before


def test_figures_without_matplotlib_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "install hedgerow[figures]" in (write_figures([], tmp_path / "figures") or "")
