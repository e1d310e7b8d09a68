"""How long vocabularies take to load: each in a new process, with the import of rdflib where it is needed."""

from __future__ import annotations

import argparse
import json
import lzma
import os
import statistics
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import machine
from .datasets import SOURCE
from .plan import PYTHONS, RESULTS

LOAD = """
import sys, time, json
from hedgerow import read_vocabulary
start = time.process_time()
vocabulary = read_vocabulary(sys.argv[1])
spent = time.process_time() - start
names = sum(len(vocabulary.names(id)) for id in vocabulary.ids)
print(json.dumps({"entries": len(vocabulary), "names": names, "processor": spent}))
"""


def in_rdf_xml(turtle: Path, folder: Path) -> Path:
    """The same SKOS as rdflib writes it."""
    import rdflib

    rdflib.NORMALIZE_LITERALS = False
    path = folder / "stw.rdf"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rdflib.Graph().parse(turtle, format="turtle").serialize(path, format="xml")
    return path


def loaded(path: Path, rounds: int) -> dict[str, Any]:
    """Medians of rounds."""
    found = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", LOAD, os.fspath(path)], capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout))
    first = found[0]
    return {
        "entries": first["entries"],
        "names": first["names"],
        "megabytes": path.stat().st_size / 1e6,
        "rounds": rounds,
        "processor_seconds": statistics.median(one["processor"] for one in found),
    }


def measured(data: Path, rounds: int) -> dict[str, Any]:
    """Each vocabulary as a plain file; unpacking is not part of it."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        plain = {"STW, SKOS as Turtle": "stw/stw-skos.ttl.xz", "tibkat, TSV": "tibkat/vocabulary.tsv.xz"}
        paths = {}
        for name, packed in plain.items():
            path = paths[name] = folder / Path(packed).stem
            path.write_bytes(lzma.decompress((data / packed).read_bytes()))
        paths["STW, SKOS as RDF/XML"] = in_rdf_xml(paths["STW, SKOS as Turtle"], folder)
        return {name: loaded(paths[name], rounds) for name in sorted(paths)}


def markdown(described: dict[str, Any]) -> str:
    about = described["machine"]
    rows = "".join(
        f"| {name} | {one['entries']:,} | {one['names']:,} | {one['megabytes']:.1f} |"
        f" {one['processor_seconds']:.1f} s |\n"
        for name, one in described["vocabularies"].items()
    )
    rounds = next(iter(described["vocabularies"].values()))["rounds"]
    return (
        f"**Machine**: {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB,"
        f" {about['date']}; one thread, medians of {rounds} rounds, each in a new process. The RDF/XML is the"
        " Turtle, written by rdflib.\n\n"
        "| vocabulary | entries | names | MB | processor time |\n|---|---|---|---|---|\n" + rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SOURCE)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    described = {"vocabularies": measured(asked.data, asked.rounds), "machine": machine.describe(PYTHONS)}
    (RESULTS / "vocabulary.json").write_text(json.dumps(described, indent=1) + "\n")
    (RESULTS / "vocabulary.md").write_text(markdown(described))
    print(markdown(described))


if __name__ == "__main__":
    main()
