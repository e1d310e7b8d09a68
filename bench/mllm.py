"""Annif's lexical backend MLLM on the records of bench.records: `python -m bench.mllm`.

Annif runs as its users run it: unmodified, from its command line (load-vocab, train, index), in an
environment of its own. One project for each language of the records, both over the same vocabulary with the
same names: a name in the other language is an alternative name, so that neither project lacks what is named
in one language only. Settings are Annif's defaults, stems are Snowball's. Trained on random records of
tibkat's part `train`, judged on `dev`. Writes `results/mllm.json` and `results/mllm.md`, which
docs/results/records.md shows.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RESULTS, ROOT
from bench.records import accuracy, read

ANNIF = ROOT / ".venv-annif/bin/annif"
LANGUAGES = {"de": "german", "en": "english"}
VOCABULARY = "tibkat"  # its name for Annif
TRAIN = 10_000
LIMIT = 20
MEMORY = 8 * 2**30
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PROJECT = """\
[{language}]
name={language}
language={language}
backend=mllm
vocab={vocabulary}
analyzer=snowball({stems})
transform=select(title,abstract)

"""
SKOS = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
SHOWN = {"de": "German", "en": "English", "all": "all"}
COLUMNS = (
    ("trained on", "train_records", ",.0f"),
    ("train, CPU s", "train_cpu_seconds", ".0f"),
    ("judged on", "records", ",.0f"),
    ("suggest, CPU s", "suggest_cpu_seconds", ".0f"),
    ("P@1", "p@1", ".1f"),
    ("F1@5", "f1@5", ".4f"),
    ("nDCG@20", "ndcg@20", ".4f"),
    ("unseen@20, %", "unseen@20", ".1f"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--train", type=int, default=TRAIN, help="random training records (%(default)s)")
    parser.add_argument("--dev", type=int, help="judge on so many random records (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn; Annif itself takes none")
    asked = parser.parse_args()
    train, dev = read(asked.data)
    random = np.random.default_rng(asked.seed)
    taught, judged = drawn(train, asked.train, random), drawn(dev, asked.dev, random)
    seen = {label for record in train for label in record["labels"]}
    measure.WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=measure.WORK) as work:
        folder = Path(work)
        rows = write_inputs(folder, entries(asked.data), taught, judged)
        costs = run(folder)
        found = {language: answers(folder, language) for language in LANGUAGES}
    results = {language: costs[language] | scores(found[language], rows[language], seen) for language in rows}
    results["all"] = total(results) | scores(
        [best for language in rows for best in found[language]],
        [record for language in rows for record in rows[language]],
        seen,
    )
    for language in rows:
        results[language]["train_records"] = sum(record["lang"] == language for record in taught)
    described = {
        "machine": machine.describe(PYTHONS | {"annif": ANNIF.with_name("python")}),
        "seed": asked.seed,
        "dev_records": len(dev),
        "runs": results | {"all": results["all"] | {"train_records": len(taught)}},
        "vocabulary": costs["vocabulary"],
    }
    (RESULTS / "mllm.json").write_text(json.dumps(described, indent=1) + "\n")
    (RESULTS / "mllm.md").write_text(markdown(described))
    print(markdown(described))


def drawn(records: list[dict[str, Any]], count: int | None, random: np.random.Generator) -> list[dict]:
    """So many records at random, in their order; all where there are no more."""
    if count is None or count >= len(records):
        return records
    return [records[i] for i in np.sort(random.permutation(len(records))[:count])]


def entries(source: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Identifiers of the vocabulary, with the name in each language that has one."""
    with lzma.open(source / "tibkat/vocabulary.tsv.xz", "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row["id"], {language: row[f"name_{language}"] for language in LANGUAGES}


def turtle(identifier: str, names: dict[str, str]) -> str:
    """A concept in SKOS: in each language its own name is preferred, any other one an alternative."""
    parts = ["a skos:Concept"]
    for language, own in names.items():
        others = sorted({name for name in names.values() if name} - {own})
        preferred = own or others[0]
        parts.append(f"skos:prefLabel {literal(preferred, language)}")
        parts += [f"skos:altLabel {literal(name, language)}" for name in others if name != preferred]
    return f"<{identifier}> {' ; '.join(parts)} .\n"


def document(record: dict[str, Any], taught: bool) -> str:
    """A line that Annif reads: a record, with its labels where they are taught."""
    made: dict[str, Any] = {"metadata": {field: record[field] for field in ("title", "abstract")}}
    if taught:
        made["subjects"] = [{"uri": label} for label in record["labels"]]
    return json.dumps(made) + "\n"


def literal(name: str, language: str) -> str:
    """A name in Turtle, whose strings are escaped as those of JSON are."""
    return f"{json.dumps(name, ensure_ascii=False)}@{language}"


def write_inputs(
    folder: Path, vocabulary: Iterable[tuple[str, dict[str, str]]], train: list[dict], dev: list[dict]
) -> dict[str, list[dict]]:
    """All that Annif reads; returned are the records to be judged, by language."""
    with (folder / "vocabulary.ttl").open("w", encoding="utf-8") as written:
        written.write(SKOS)
        written.writelines(turtle(identifier, names) for identifier, names in vocabulary)
    projects = (
        PROJECT.format(language=own, stems=LANGUAGES[own], vocabulary=VOCABULARY) for own in LANGUAGES
    )
    (folder / "projects.cfg").write_text("".join(projects))
    rows: dict[str, dict[str, list[dict]]] = {}
    for part, records in (("train", train), ("dev", dev)):
        rows[part] = {own: [record for record in records if record["lang"] == own] for own in LANGUAGES}
        for own, chosen in rows[part].items():
            documents = (document(record, taught=part == "train") for record in chosen)
            (folder / f"{part}.{own}.jsonl").write_text("".join(documents))
    return rows["dev"]


def run(folder: Path) -> dict[str, dict[str, float]]:
    """Load the vocabulary once, then train and suggest; the languages run beside each other."""
    load = together(folder, {VOCABULARY: ["load-vocab", VOCABULARY, "vocabulary.ttl"]})
    train = together(folder, {own: ["train", own, f"train.{own}.jsonl", "--jobs", "1"] for own in LANGUAGES})
    options = ["--limit", str(LIMIT), "--no-include-doc", "--output"]
    index = {own: ["index", own, f"dev.{own}.jsonl", *options, f"answers.{own}.jsonl"] for own in LANGUAGES}
    suggest = together(folder, index)
    costs = {"vocabulary": load[VOCABULARY]}
    for own in LANGUAGES:
        costs[own] = {
            "train_cpu_seconds": train[own]["cpu_seconds"],
            "suggest_cpu_seconds": suggest[own]["cpu_seconds"],
            "peak_bytes": max(train[own]["peak_bytes"], suggest[own]["peak_bytes"]),
        }
    return costs


def together(folder: Path, commands: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """What commands of Annif took, all at the same time; where one fails, the others end."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            running[name] = started(folder, command)
        return {name: finished(process) for name, process in running.items()}
    finally:
        for process in running.values():
            if process.returncode is None:
                process.kill()
                process.wait()


def started(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    """A command of Annif on one thread, behind all others, within a limit of memory."""
    print(time.strftime("%H:%M:%S"), "annif", *command, flush=True)
    settings = os.environ | ONE_THREAD | {"ANNIF_DATADIR": str(folder / "data")}
    limits = ["nice", "-n", "10", "prlimit", f"--as={MEMORY}"]
    return subprocess.Popen([*limits, str(ANNIF), *command], cwd=folder, env=settings)


def finished(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """What a command took, once it has ended; Linux lets its peak begin at that of this process."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}; what it said is above")
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}


def answers(folder: Path, language: str) -> list[list[str]]:
    """The labels that Annif suggests for each record, best first."""
    lines = (folder / f"answers.{language}.jsonl").read_text().splitlines()
    return [[one["uri"] for one in json.loads(line)["results"]] for line in lines]


def scores(found: list[list[str]], records: list[dict], seen: set[str]) -> dict[str, float]:
    """The figures of bench.records, and how many of the true labels that no training record has are found."""
    if len(found) != len(records):
        raise ValueError(f"Annif answered {len(found)} of {len(records)} records")
    best = np.array([row[:LIMIT] + [""] * (LIMIT - len(row)) for row in found])
    truth = [record["labels"] for record in records]
    unseen = [set(own) - seen for own in truth]
    hits = sum(len(new & set(row[:LIMIT])) for new, row in zip(unseen, found, strict=True))
    count = sum(map(len, unseen))
    return {
        "records": len(records),
        "unseen_labels": count,
        "unseen@20": 100 * hits / count if count else 0.0,
        "suggestions": sum(map(len, found)) / len(found),
        **accuracy(best, truth),
    }


def total(results: dict[str, dict[str, float]]) -> dict[str, float]:
    """Processor time of all languages together."""
    return {
        key: sum(each[key] for each in results.values())
        for key in ("train_cpu_seconds", "suggest_cpu_seconds")
    }


def markdown(described: dict[str, Any]) -> str:
    about, runs = described["machine"], described["runs"]
    versions = ", ".join(f"{name} {version}" for name, version in about["environments"]["annif"].items())
    part = "" if runs["all"]["records"] == described["dev_records"] else ", a random part of it"
    peak = max(step["peak_bytes"] for step in (described["vocabulary"], *map(runs.get, LANGUAGES))) / 2**30
    lines = [
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; a process for each language, one thread each; {versions}.",
        "",
        f"| MLLM, judged on dev{part} | " + " | ".join(head for head, *_ in COLUMNS) + " |",
        "|" + "---|" * (len(COLUMNS) + 1),
    ]
    for name, shown in SHOWN.items():
        cells = (format(runs[name][key], style) for _, key, style in COLUMNS)
        lines.append(f"| {shown} records | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Before that, {described['vocabulary']['cpu_seconds']:.0f} CPU s to load the vocabulary."
        f" {runs['all']['unseen_labels']:,} true labels never occur in training."
        f" {runs['all']['suggestions']:.1f} labels are suggested for a record, of {LIMIT} at most."
        f" At most {peak:.1f} GiB of memory a process.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
