"""The benchmark of Annif's MLLM: what Annif is given, what comes of its answers, and what is on record."""

from __future__ import annotations

import configparser
import importlib
import json
import math
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("bench.mllm")
mllm = importlib.import_module("bench.mllm")

NAMES = {"de": 'Ein "Zeichen" \\ und\tmehr 😀', "en": "A sign"}


def record(lang: str, *labels: str) -> dict:
    return {"lang": lang, "title": f"Titel {lang}", "abstract": "Etwas.", "labels": list(labels)}


def test_names_of_both_languages_are_known_in_each() -> None:
    rdflib = pytest.importorskip("rdflib")
    concepts = [("x:1", NAMES), ("x:2", {"de": "", "en": "Only"}), ("x:3", {"de": "Alike", "en": "Alike"})]
    graph = rdflib.Graph()
    graph.parse(data=mllm.SKOS + "".join(mllm.turtle(*each) for each in concepts), format="turtle")
    skos = rdflib.namespace.SKOS
    found = {
        (str(concept), kind, str(name), name.language)
        for kind, relation in (("preferred", skos.prefLabel), ("other", skos.altLabel))
        for concept, name in graph.subject_objects(relation)
    }
    assert found == {
        ("x:1", "preferred", NAMES["de"], "de"),
        ("x:1", "other", "A sign", "de"),
        ("x:1", "preferred", "A sign", "en"),
        ("x:1", "other", NAMES["de"], "en"),
        *(("x:2", "preferred", "Only", language) for language in ("de", "en")),
        *(("x:3", "preferred", "Alike", language) for language in ("de", "en")),
    }
    assert len(set(graph.subjects(rdflib.namespace.RDF.type, skos.Concept))) == 3


def test_annif_sees_labels_of_what_it_learns_from_and_no_others(tmp_path: Path) -> None:
    train = [record("de", "x:1"), record("en", "x:2", "x:1"), record("de", "x:2")]
    dev = [record("en", "x:1"), record("de", "x:2"), record("en", "x:3")]
    rows = mllm.write_inputs(tmp_path, [("x:1", NAMES)], train, dev)
    assert rows == {"de": [dev[1]], "en": [dev[0], dev[2]]}

    def lines(name: str) -> list[dict]:
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    taught = [[one["uri"] for one in line["subjects"]] for line in lines("train.de.jsonl")]
    assert taught == [["x:1"], ["x:2"]]
    assert [len(line["subjects"]) for line in lines("train.en.jsonl")] == [2]
    assert lines("dev.de.jsonl") == [{"metadata": {"title": "Titel de", "abstract": "Etwas."}}]
    assert len(lines("dev.en.jsonl")) == 2
    projects = configparser.ConfigParser()
    projects.read(tmp_path / "projects.cfg")
    assert projects.sections() == ["de", "en"]
    assert projects["en"]["analyzer"] == "snowball(english)"
    assert {project["vocab"] for project in (projects["de"], projects["en"])} == {mllm.VOCABULARY}


def test_what_is_drawn_is_drawn_once_and_in_order() -> None:
    records = [{"id": i} for i in range(50)]
    drawn = mllm.drawn(records, 20, np.random.default_rng(1))
    numbers = [each["id"] for each in drawn]
    assert len(numbers) == 20
    assert numbers == sorted(set(numbers))
    assert numbers != list(range(20))
    for count in (None, 50, 70):
        assert mllm.drawn(records, count, np.random.default_rng(1)) == records


def test_scores_are_those_of_sets() -> None:
    """Against the definitions, with fewer suggestions than asked for, more, and none."""
    random = np.random.default_rng(3)
    labels = [f"x:{i}" for i in range(40)]
    records = [record("de", *random.permutation(labels)[: random.integers(1, 6)]) for _ in range(60)]
    found = [[str(label) for label in random.permutation(labels)[: random.integers(0, 26)]] for _ in records]
    found[0] = []
    seen = set(labels[:30])
    first, f1, gain, unseen = [], [], [], []
    for row, each in zip(found, records, strict=True):
        true, best = set(each["labels"]), row[:20]
        first.append(bool(best) and best[0] in true)
        f1.append(2 * len(true & set(best[:5])) / (len(true) + len(best[:5])))
        discounts = [1 / math.log2(place + 2) for place in range(20)]
        gained = sum(share for label, share in zip(best, discounts, strict=False) if label in true)
        gain.append(gained / sum(discounts[: len(true)]))
        unseen += [label in best for label in true - seen]
    scores = mllm.scores(found, records, seen)
    assert scores["p@1"] == pytest.approx(100 * np.mean(first))
    assert scores["f1@5"] == pytest.approx(np.mean(f1))
    assert scores["ndcg@20"] == pytest.approx(np.mean(gain))
    assert scores["unseen@20"] == pytest.approx(100 * np.mean(unseen))
    assert 0 < scores["unseen@20"] < 100
    assert (scores["records"], scores["unseen_labels"]) == (60, len(unseen))


def test_a_missing_answer_is_no_result() -> None:
    with pytest.raises(ValueError, match="answered 1 of 2 records"):
        mllm.scores([["x:1"]], [record("de", "x:1"), record("de", "x:2")], set())


def test_a_command_that_fails_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mllm, "ANNIF", Path(sys.executable))
    lines = {"one": ["-c", "raise SystemExit(3)"], "two": ["-c", "import signal; signal.pause()"]}
    with pytest.raises(RuntimeError, match="ended with 3"):
        mllm.together(tmp_path, lines)


def test_what_a_command_took_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mllm, "ANNIF", Path(sys.executable))
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100_000_000
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    took = mllm.together(tmp_path, {"wide": ["-c", f"b'x' * {size}"], "busy": ["-c", busy]})
    assert took["busy"]["peak_bytes"] < size <= took["wide"]["peak_bytes"]
    assert took["busy"]["cpu_seconds"] >= 0.5


def test_a_command_keeps_within_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mllm, "ANNIF", Path(sys.executable))
    with pytest.raises(RuntimeError, match="ended with 1"):
        mllm.together(tmp_path, {"greedy": ["-c", f"bytearray({mllm.MEMORY})"]})


def test_page_is_what_the_numbers_on_record_make() -> None:
    described = json.loads((ROOT / "bench/results/mllm.json").read_text())
    assert (ROOT / "bench/results/mllm.md").read_text() == mllm.markdown(described)
