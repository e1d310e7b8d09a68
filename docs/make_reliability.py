"""Write docs/reliability.md from what was measured: `python docs/make_reliability.py`.

The figures are kept in `docs/reliability/`, and the peers' in `bench/results/`. `--counts` takes over what
`make damage` counted, `--coverage` what coverage.py and gcovr found, `--sanitizer` how many tests passed
without a report; `make soak`, `make mutate` and `make fuzz-long` write theirs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PAGE = Path(__file__).with_name("reliability.md")
FIGURES = Path(__file__).with_name("reliability")
PEERS = Path(__file__).parent.parent / "bench/results/peer_trust.json"
INTRODUCTION = """# Reliability

What is tried before every release, and how often. Every case must end as the last column says, or there is no
release. `make trust` runs all of it except the hours of fuzzing (`make fuzz-long`) and writes this page;
`make test` runs a sample.

| what is done | cases | what must happen |
|---|---:|---|
"""
# In the order of the page: what the tests count, in their words, and what they ask for.
REQUIREMENTS = {
    "every bit flipped": "a model file with any one bit changed is refused",
    "cut off at every byte": "a model file that ends early is refused, also with `verify=False`",
    "wrong, but with right checksums": "refused; memory stays below twice the file plus 8 MiB",
    "headers made to be costly": "refused; memory stays below twice the file plus 8 MiB",
    "bad arguments of the library": "`ValueError` or `TypeError`, or a defined answer; also with `-O`",
    "ways to the same model": "the same model file and the same predictions, for each seed",
    "files of every format so far": "every file loads and predicts what it did before",
    "killed while saving": "a reader sees the old model or the new one, complete",
    "killed while updating": "the old model or the new one, with its records; the next update works",
    "killed while promoting": "the next process serves the old model or the new one, complete",
    "killed while learning from reviews": "the old model or the new one, with its records; the next goes on",
    "killed while training": "the next run ends with the same bits",
    "system calls that fail while saving": "a clear error; the old model stays, or the new one is complete",
    "system calls that fail while updating": "the same; the next update works",
    "allocations that fail while loading": "a model, or an error that does not blame the file",
    "inputs that fuzzing found": "refused with the right error, or read; the same after writing",
    "attacks": "they fail: nothing is executed, written elsewhere or exhausted",
}
FUZZED = {
    "xmc_text": "XMC text: the parser, and what it reads written and read again",
    "jsonl": "JSONL: the reader, packed and plain, and what it reads written and read again",
    "sparse_rows": "CSR matrices: the checks where they enter, then search and training",
    "model_file": "model files with right checksums: loading, then every question to the model",
    "records": "files of records with right checksums: reading, then changes, writing and reading again",
    "model_structure": "the tree and the weights of a model file: their checks, then search",
}
INTRODUCTION_TO_FUZZING = """
## Fuzzing

A fuzzer changes inputs at random and keeps those that reach new code, under AddressSanitizer and
UndefinedBehaviorSanitizer where the code is C++. `make fuzz` does so for a minute each; `make test` runs what
was found before. The table is of `make fuzz-long`, which adds up to an hour of processor time for each. Every
finding is fixed.

| what is fuzzed | inputs tried | processor time | edges reached |
|---|---:|---:|---:|
"""
SANITIZED = {
    "address,undefined": "AddressSanitizer, UndefinedBehaviorSanitizer",
    "thread": "ThreadSanitizer",
}
INTRODUCTION_TO_SANITIZERS = """
## Sanitizers

The tests of the engine run against an extension that is built with a sanitizer (`make sanitize`). There is no
separate test suite in C++, and none of our code is exempt.

| sanitizer | tests | reports |
|---|---:|---:|
"""

SOAK = """
## Under load

`make soak` keeps two servers and two loops of the library busy for {minutes:g} minutes, with valid, invalid,
oversized, slow and aborted requests, and kills one of each pair at random. Every answer must have the bits
that the library gave beforehand, every text that a queue acknowledged must be there after a kill, and no
process may grow.

| | last run |
|---|---:|
| requests | {requests:,} |
| answers compared, bit by bit | {answers:,} |
| rounds of save, load, predict and decide, every fourth with a fit | {rounds:,} |
| changes of the model under load | {changes:,} |
| kills of the server, of the library | {server_kills:,}, {library_kills:,} |
| requests to a server that was just killed, before it was back | {lost:,} |
| valid requests refused because the machine was busy (503, 504) | {away:,} |
| wrong answers, lost texts, broken files, lost connections | {wrong} |
| growth of the server, of the library (MiB; allowed: {allowed:g}) | {server:.1f}, {library:.1f} |
"""
TESTS = """
## The tests themselves

The tests run {python:.1f} % of the lines of Python and {native:.1f} % of those of C++ (`make coverage`).
To see whether they would notice a mistake, `make mutate` makes some, one token each, in a random sample of
the code for uncertainty, metrics and search. A mutant is *equivalent* if it changes no result; each of
these is listed with its reason in `docs/reliability/mutation.json`, as is every survivor.

| mistakes in | noticed | not noticed | equivalent |
|---|---:|---:|---:|"""
BESIDE = """
## Other libraries

The same cases on the same data, each in its own process, through the calls that each library
documents (`make bench-trust`, {date}): Hedgerow {hedgerow}, PECOS {libpecos}, omikuji {omikuji}, napkinXC
{napkinxc}. PECOS has two ways to load a model; "predict only" is the one for serving. All were trained on
generated data with 300 labels. "Other answers" are those of no model that was ever saved; "no model" is a
save that lost the old model and has no new one. There is one kill per system call of a save, at most 60,
and two pickles per file of a model, so the numbers of cases differ in these rows.

"""
COLUMNS = {
    "hedgerow": "Hedgerow",
    "pecos": "PECOS",
    "pecos, predict only": "PECOS, predict only",
    "omikuji": "omikuji",
    "napkinxc": "napkinXC",
}
# What became of a case, in the words of the table; {kind: {what the worker says: what the page says}}.
ANSWERS = {"refused": "refused", "answered": "answered", "crashed": "crashed", "hung": "hung"}
DAMAGED = {
    "refused": "refused",
    "old": "unnoticed, same answers",
    "answered otherwise": "**other answers**",
    "crashed": "**crashed**",
    "hung": "**hung**",
}
SCORED = "NaN or infinity in an input"
REPEATED = {"the same": "the same", "other answers": "other answers"}
BESIDE_CASES: dict[str, dict[str, str]] = {
    SCORED: ANSWERS,
    "NaN or infinity in training": {**ANSWERS, "answered": "trained"},
    "feature index below 0 or too large": ANSWERS,
    "killed while saving over a model": {
        "old": "the old model",
        "new": "the new model",
        "refused": "no model",
        "crashed": "**crashes when loaded**",
        "answered otherwise": "**other answers**",
    },
    "model file cut short": DAMAGED,
    "one bit of the model flipped": DAMAGED,
    "trained again, with the same seed if it takes one": REPEATED,
    "predicted again, otherwise cut": REPEATED,
    "pickle in a model": {**DAMAGED, "code was run": "**code was run**"},
    "pickle in a text model": {**DAMAGED, "code was run": "**code was run**"},
}


def page() -> str:
    """The whole page, from the figures that are kept."""
    return (
        INTRODUCTION
        + required(Counter(_figures("counts")))
        + fuzzing(_figures("fuzzing"))
        + sanitizing(_figures("sanitizers"))
        + load(_figures("soak"))
        + tests(_figures("coverage"), _figures("mutation"))
        + beside(json.loads(PEERS.read_text()))
    )


def _figures(name: str) -> dict[str, Any]:
    path = FIGURES / f"{name}.json"
    figures: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return figures


def required(counts: Counter[str]) -> str:
    """A row for everything that was counted."""
    unknown = set(counts) - set(REQUIREMENTS)
    if unknown:
        raise ValueError(f"nothing is required of {', '.join(sorted(unknown))}; add it to REQUIREMENTS")
    rows = [
        f"| {kind} | {counts[kind]:,} | {result} |" for kind, result in REQUIREMENTS.items() if counts[kind]
    ]
    return "\n".join(rows) + "\n"


def fuzzing(efforts: dict[str, Any]) -> str:
    """How much every reader was fuzzed."""
    rows = [
        f"| {what} | {efforts[name]['executions']:,} | {efforts[name]['cpu_seconds'] / 60:.0f} min"
        f" | {efforts[name]['coverage']:,} |"
        for name, what in FUZZED.items()
        if name in efforts
    ]
    return INTRODUCTION_TO_FUZZING + "\n".join(rows) + "\n"


def sanitizing(passed: dict[str, int]) -> str:
    """How many tests ran under the sanitizers; a run with a report is not put on record."""
    rows = [f"| {what} | {passed[name]:,} | 0 |" for name, what in SANITIZED.items() if name in passed]
    return INTRODUCTION_TO_SANITIZERS + "\n".join(rows) + "\n" if rows else ""


def load(soak: dict[str, Any]) -> str:
    """What became of library and server under load."""
    counts = Counter(soak["counts"])
    requests = sum(cases for what, cases in counts.items() if what.startswith("requests: "))
    grown = {name: found["bytes"] / 2**20 for name, found in soak["growth"].items()}
    return SOAK.format(
        minutes=soak["minutes"],
        requests=requests,
        answers=counts["answers compared with the oracle"],
        rounds=counts["rounds of the library"],
        changes=counts["changes of the model under load"],
        server_kills=counts["kills of the server"],
        library_kills=counts["kills of the library"],
        lost=counts["requests lost to a kill"],
        away=counts["valid requests turned away: 503, 504"],
        wrong=len(soak["wrong"]) or "none",
        server=grown["server"],
        library=grown["library"],
        allowed=soak["allowed_growth"]["bytes"] / 2**20,
    )


def tests(coverage: dict[str, Any], mutation: dict[str, Any]) -> str:
    """How much of the code the tests run, and how much of it they notice."""
    lines = [TESTS.format(python=coverage["python"]["percent"], native=coverage["native"]["percent"])]
    for name, counts in mutation["files"].items():
        cells = [counts.get(ended, 0) for ended in ("killed", "survived", "equivalent")]
        lines.append(f"| `{name}` | {' | '.join(map(str, cells))} |")
    every: Counter[str] = Counter()
    for counts in mutation["files"].values():
        every.update(counts)
    share = every["killed"] / (every["killed"] + every["survived"])
    lines.append(
        f"| all: {share:.0%} noticed | {every['killed']} | {every['survived']} | {every['equivalent']} |"
    )
    text = "\n".join(lines) + "\n"
    if mutation["tried"] < mutation["chosen"]:
        text += (
            f"\nSo far {mutation['tried']} of the {mutation['chosen']} mutants of the sample were tried.\n"
        )
    return text


def percentages(python: Path, native: Path) -> dict[str, Any]:
    """What coverage.py and gcovr found, in short, with the files of which least is run."""
    found: dict[str, Any] = {}
    own = json.loads(python.read_text())
    files = {name: entry["summary"] for name, entry in own["files"].items()}
    found["python"] = _share(
        {name: (entry["covered_lines"], entry["num_statements"]) for name, entry in files.items()}
    )
    other = json.loads(native.read_text())
    found["native"] = _share(
        {entry["filename"]: (entry["line_covered"], entry["line_total"]) for entry in other["files"]}
    )
    return found


def _share(files: dict[str, tuple[int, int]]) -> dict[str, Any]:
    run, lines = (sum(counts) for counts in zip(*files.values(), strict=True))
    least = sorted((100 * own / of, name) for name, (own, of) in files.items() if of)[:5]
    return {
        "lines": lines,
        "run": run,
        "percent": round(100 * run / lines, 1),
        "least": {name: round(percent, 1) for percent, name in least},
    }


def beside(measured: dict[str, Any]) -> str:
    """What became of the same cases in every library."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    scores: defaultdict[str, list[str]] = defaultdict(list)
    for engine, kind, _, ended in measured["cases"]:
        found[kind, engine][ended.partition(",")[0]] += 1
        if kind == SCORED and " best score " in ended:
            scores[engine].append(ended.rpartition(" ")[2])
    versions = {
        **measured["machine"]["environments"]["hedgerow"],
        **measured["machine"]["environments"]["peers"],
    }
    lines = [f"| what is done | {' | '.join(COLUMNS.values())} |", "|---|" + "---|" * len(COLUMNS)]
    for kind, words in BESIDE_CASES.items():
        cells = [_cell(found[kind, engine], words) for engine in COLUMNS]
        if kind == SCORED:
            added = [
                f", best scores {', '.join(scores[engine])}" if scores[engine] else "" for engine in COLUMNS
            ]
            cells = [cell + score for cell, score in zip(cells, added, strict=True)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return BESIDE.format(date=measured["machine"]["date"], **_names(versions)) + "\n".join(lines) + "\n"


def _names(versions: dict[str, str]) -> dict[str, str]:
    return {name: versions[name] for name in ("hedgerow", "libpecos", "omikuji", "napkinxc")}


def _cell(counts: Counter[str], words: dict[str, str]) -> str:
    """Every outcome with its count, in the order of the words."""
    if unknown := set(counts) - set(words):
        raise ValueError(f"no words for {', '.join(sorted(unknown))}")
    return (
        "; ".join(f"{counts[ended]} {word}" for ended, word in words.items() if counts[ended]) or "has none"
    )


def read_counts(path: Path) -> Counter[str]:
    """What was counted, added up."""
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        kind, cases = json.loads(line)
        counts[kind] += cases
    return counts


def passed_tests(folder: Path) -> int:
    """The tests of all JUnit files in a folder that were run and passed."""
    suites = [
        suite
        for path in folder.glob("*.xml")
        for suite in ElementTree.parse(path).getroot().iter("testsuite")
    ]
    return sum(
        int(suite.get("tests", 0))
        - sum(int(suite.get(kind, 0)) for kind in ("errors", "failures", "skipped"))
        for suite in suites
    )


def main() -> None:
    """Take over what was measured, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--coverage", type=Path, nargs=2, metavar=("PYTHON", "NATIVE"))
    parser.add_argument("--sanitizer", nargs=2, metavar=("NAME", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.counts:
        _keep("counts", dict(read_counts(arguments.counts)))
    if arguments.coverage:
        _keep("coverage", percentages(*arguments.coverage))
    if arguments.sanitizer:
        name, tests_run = arguments.sanitizer
        _keep("sanitizers", {**_figures("sanitizers"), name: passed_tests(Path(tests_run))})
    PAGE.write_text(page())


def _keep(name: str, figures: dict[str, Any]) -> None:
    (FIGURES / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
