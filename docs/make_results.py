"""Write docs/results.md from what the benchmark measured: `python docs/make_results.py`."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "results.md"
RESULTS = DOCS.parent / "bench/results"
INTRODUCTION = """# Results

Everything here was measured by the commands named, on the machine named, on the same files. Times
mean nothing by themselves; the ratios do. `make bench` repeats the tables of the engine,
`make bench-paired` the ratios taken in turns, `make bench-ensembles` the tables of ensembles and
uncertainty, `make bench-ood` those of out-of-distribution inputs, `make bench-calibration` and
`make bench-decisions` those of probabilities and guarantees, `make bench-serve` those of the server,
`make bench-cluster`, `make bench-scoring` and `make bench-out-of-core` those of clusters and budgets,
`make bench-scaling` draws time against the number of labels, `python -m bench.evaluation` measures the
memory of an evaluation, and `python -m bench.seeds` repeats the accuracy over seeds. The
paper's experiments name their commands. This page is made by `python docs/make_results.py`.

The machine is a shared one, and its speed changes by a third from minute to minute. Where a ratio
matters, trust the table "In turns with PECOS", in which both run side by side, over the ratios of
times that were taken one after the other.

How to read it: "paper" are the settings of the paper (8-means, leaves of 100, weights below 0.001
dropped, squared hinge, beam 50, top 100); "default" differs in the weight threshold only, 0.05.
"one" is one input at a time on one thread, through the Python interface. "n/a" was not measured
yet, or the peer died; the column "died" tells. Steps were capped at 300 to 900 seconds (240 for the
generated set) and 20 GB. P@k is in percent, over test rows that have a label; labels that never
occur in training count against every system.
"""


EXPERIMENTS = {
    "eurlex": "hedgerow reproduce eurlex-4k --weight-threshold 0.001 --missing exact --out results/",
    "texts": "hedgerow reproduce tibkat-en debian:tags debian:depends --ood reuters --out results/",
    "deep-tibkat": "hedgerow reproduce tibkat-en --base transformer --encoder MiniLM-L6 --batch-size 64"
    " --learning-rate 1e-4 --ood reuters --out results/",
    "deep-tags": "hedgerow reproduce debian:tags --base transformer --encoder MiniLM-L6 --epochs 2"
    " --batch-size 64 --learning-rate 1e-4 --ood reuters --encoders --out results/",
}


def experiments() -> str:
    """The paper's experiments: how to read them, then the tables as `hedgerow reproduce` wrote them."""
    parts = ["## The paper's experiments\n", (DOCS / "reading.md").read_text()]
    for name, command in EXPERIMENTS.items():
        folder = RESULTS / "reproduction" / name
        if not (folder / "tables.md").exists():
            continue
        tables = (folder / "tables.md").read_text().removeprefix("# Results\n\n").replace("\n## ", "\n#### ")
        parts.append(f"### `{command}`\n\n{tables}")
        for figure in sorted((folder / "figures").glob("*.svg")):
            title = figure.stem.replace("-", " ")
            parts.append(f"![{title}](../bench/results/reproduction/{name}/figures/{figure.name})")
        parts.append("")
    return "\n".join(parts)


def included(name: str) -> str:
    """A page of the benchmarks as a part of this one; nothing where it was not measured."""
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return ""
    return "\n".join(
        f"#{line}" if line.startswith(("# ", "## ")) else line for line in path.read_text().split("\n")
    )


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        included("engine"),
        included("paired"),
        "## Accuracy over seeds\n\n" + included("seeds"),
        included("ensembles"),
        experiments(),
        included("ood"),
        included("calibration"),
        included("decisions"),
        included("deep"),
        included("serve"),
        included("cluster"),
        included("scoring"),
        included("out_of_core"),
    ]
    if (RESULTS / "scaling.svg").exists():
        parts.append(
            "## Cost as the number of labels grows\n\n20,000 generated rows, 1,000 to 200,000 labels;"
            " PECOS's fits were stopped after 30 s from 70,000 labels on.\n\n"
            "![Time a row against the number of labels](../bench/results/scaling.svg)\n"
        )
    return "\n".join(part for part in parts if part)


if __name__ == "__main__":
    PAGE.write_text(page())
