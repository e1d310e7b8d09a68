"""The tables: what was measured, and how many times the peers' cost is Hedgerow's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import datasets, measure
from bench.plan import SETTINGS, Run, runs


@dataclass(frozen=True)
class Ratio:
    """A peer's figure divided by Hedgerow's, and the least it should be."""

    title: str
    figure: str
    system: str
    setting: str
    hedgerow: str
    goal: float


RATIOS = (
    Ratio("fit, tfn", "fit_seconds", "pecos", "tfn", "paper-tfn", 5),
    Ratio("fit, tfn+man", "fit_seconds", "pecos", "tfn+man", "paper-tfn+man", 5),
    Ratio("batch, paper's threshold", "batch_seconds_per_row", "pecos", "tfn", "paper-tfn", 4),
    Ratio("batch, default threshold", "batch_seconds_per_row", "pecos", "tfn", "default-tfn", 8),
    Ratio("batch, paper's threshold", "batch_seconds_per_row", "omikuji", "paper", "paper-tfn", 4),
    Ratio("batch, both defaults", "batch_seconds_per_row", "omikuji", "default", "default-tfn", 4),
    Ratio("batch, paper's threshold", "batch_seconds_per_row", "napkinxc", "paper", "paper-tfn", 4),
    Ratio("batch, both defaults", "batch_seconds_per_row", "napkinxc", "default", "default-tfn", 4),
    Ratio("one input, p50", "single_p50_seconds", "pecos", "tfn", "paper-tfn", 5),
    Ratio("one input, p99", "single_p99_seconds", "pecos", "tfn", "paper-tfn", 5),
    Ratio("peak memory of the fit", "fit_peak_bytes", "pecos", "tfn", "paper-tfn", 3),
    Ratio("model on disk, same threshold", "model_disk_bytes", "pecos", "tfn", "paper-tfn", 2),
    Ratio("model on disk, default", "model_disk_bytes", "pecos", "tfn", "default-tfn", 10),
    Ratio("model in memory, same threshold", "model_memory_bytes", "pecos", "tfn", "paper-tfn", 2),
    Ratio("model in memory, default", "model_memory_bytes", "pecos", "tfn", "default-tfn", 10),
)

COLUMNS = (
    ("fit s", "fit_seconds", 1.0, ".1f"),
    ("fit CPU s", "fit_cpu_seconds", 1.0, ".1f"),
    ("fit peak MB", "fit_peak_bytes", 1e-6, ".0f"),
    ("disk MB", "model_disk_bytes", 1e-6, ".1f"),
    ("memory MB", "model_memory_bytes", 1e-6, ".1f"),
    ("batch ms/row", "batch_seconds_per_row", 1e3, ".3f"),
    ("one p50 ms", "single_p50_seconds", 1e3, ".2f"),
    ("one p99 ms", "single_p99_seconds", 1e3, ".2f"),
    ("P@1", "p@1", 1.0, ".2f"),
    ("P@3", "p@3", 1.0, ".2f"),
    ("P@5", "p@5", 1.0, ".2f"),
)


def collect(machine: dict[str, Any]) -> dict[str, Any]:
    """Gather all stored measurements and the ratios between them."""
    stored = {run: run.result() for run in runs(list(datasets.NAMES), list(SETTINGS))}
    measurements = [
        {"dataset": run.dataset, "system": run.system, "setting": run.setting} | result
        for run, result in stored.items()
        if result is not None
    ]
    ratios = [
        {"title": ratio.title, "peer": f"{ratio.system} {ratio.setting}", "hedgerow": ratio.hedgerow}
        | {"goal": ratio.goal, "ratios": {name: _ratio(ratio, name) for name in datasets.NAMES}}
        for ratio in RATIOS
    ]
    return {"machine": machine, "measurements": measurements, "ratios": ratios}


def markdown(machine: dict[str, Any]) -> str:
    """Write the page `results/engine.md`."""
    lines = ["# The engine against its peers", ""]
    lines += [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, "
        f"{machine['os']}, {machine['compiler']}, SIMD {machine['simd'] or 'not known'}, {machine['date']}. "
        f"{measure.THREADS} threads for fits and batches, 1 for single inputs; "
        f"beam {measure.BEAM}, top {measure.TOP}.",
        "",
    ]
    for environment, versions in machine["environments"].items():
        lines.append(
            f"- {environment}: " + ", ".join(f"{name} {version}" for name, version in versions.items())
        )
    lines += [
        "",
        "## Ratios: peer / Hedgerow",
        "",
        "Bold: the goal is reached. Higher is better for Hedgerow.",
        "",
    ]
    lines += list(_ratio_table())
    for dataset in datasets.NAMES:
        lines += ["", f"## {dataset}", "", *_measurement_table(dataset)]
    return "\n".join(lines) + "\n"


def _ratio_table() -> Iterator[str]:
    yield from _head(["what", "peer", "hedgerow", "goal", *datasets.NAMES])
    for ratio in RATIOS:
        cells = [_ratio_cell(ratio, _ratio(ratio, name)) for name in datasets.NAMES]
        yield _row(
            [ratio.title, f"{ratio.system} {ratio.setting}", ratio.hedgerow, f"≥ {ratio.goal:g}", *cells]
        )


def _ratio(ratio: Ratio, dataset: str) -> float | None:
    peer = Run(dataset, ratio.system, ratio.setting).result() or {}
    ours = Run(dataset, "hedgerow", ratio.hedgerow).result() or {}
    if ratio.figure not in peer or ratio.figure not in ours:
        return None
    # A model that is mapped rather than read may add next to nothing to the resident memory.
    return float(peer[ratio.figure] / max(ours[ratio.figure], 1e-9))


def _ratio_cell(ratio: Ratio, value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"**{value:.1f}**" if value >= ratio.goal else f"{value:.1f}"


def _measurement_table(dataset: str) -> Iterator[str]:
    yield from _head(["system", *(title for title, *_ in COLUMNS), "died"])
    for run in runs([dataset], list(SETTINGS)):
        result = run.result()
        if result is not None:
            cells = [
                format(result[figure] * scale, style) if figure in result else "n/a"
                for _, figure, scale, style in COLUMNS
            ]
            yield _row([f"{run.system} {run.setting}", *cells, result.get("died", "")])


def _head(titles: list[str]) -> Iterator[str]:
    yield _row(titles)
    yield _row(["---"] * len(titles))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
