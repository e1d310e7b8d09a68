"""Write results/deep.json and deep.md from what `bench.deep` measured: `python -m bench.deep_report`.

Runs are taken from results/raw/deep-NAME.json, where `bench.deep --out` puts them, and kept in deep.json.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bench.plan import RAW, RESULTS

ROWS = {
    ("linear", "single"): "words alone, single model",
    ("linear", "boosted-bagging"): "words alone, boosted bagging",
    ("frozen", "single"): "MiniLM as it is, single model",
    ("frozen", "boosted-bagging"): "MiniLM as it is, boosted bagging",
    ("tuned", "single"): "XR-Transformer, single model",
    ("tuned", "boosted-bagging"): "XR-Transformer, boosted bagging",
    ("judged", "boosting"): "XR-Transformer, title apart, boosting and judge",
}


def main() -> None:
    record = RESULTS / "deep.json"
    kept: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    for path in sorted(RAW.glob("deep-*.json")):
        whole = json.loads(path.read_text())
        for place in ("encoder", "data", "out"):  # of that machine
            del whole["settings"][place]
        kept[path.stem.removeprefix("deep-")] = whole
    record.write_text(json.dumps(kept, indent=1) + "\n")
    (RESULTS / "deep.md").write_text(page(kept))


def page(kept: dict[str, Any]) -> str:
    found: dict[str, dict[tuple[str, str], dict[int, Any]]] = {}
    latency: dict[str, list[Any]] = {}
    processor: dict[str, Any] = {}
    profiles: dict[str, list[Any]] = {}
    few: dict[str, Any] = {}
    about: dict[str, Any] = {}
    for whole in kept.values():
        if whole["settings"]["device"] == "cpu":
            processor[whole["settings"]["dataset"]] = whole
            continue
        about = whole
        if whole["settings"]["steps"] != "None":  # fine-tuned for a moment, to time one text
            latency[whole["settings"]["dataset"]] = whole["runs"]
            continue
        if whole["settings"]["train"] != "None":
            few[whole["settings"]["dataset"]] = whole
            continue
        if "profile" in whole["settings"]["parts"]:
            profiles[whole["settings"]["dataset"]] = whole["runs"]
            continue
        runs = found.setdefault(whole["settings"]["dataset"], {})
        for run in whole["runs"]:
            if "validation" in run:  # learned from fewer texts than the others
                continue
            runs.setdefault((run["model"], run["method"]), {})[run["seed"]] = run
    return markdown(found, latency, processor, profiles, about) + few_texts(few)


def markdown(
    found: dict[str, dict[tuple[str, str], dict[int, Any]]],
    latency: dict[str, list[Any]],
    processor: dict[str, Any],
    profiles: dict[str, list[Any]],
    about: dict[str, Any],
) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in about["machine"].items())
    lines = [
        "# A transformer beside words alone",
        "",
        "XR-Transformer with MiniLM-L6, ten members over one fine-tuned encoder, beam 20. Percent, mean ±"
        " deviation over seeds (their number in brackets). AUROC finds wrong labels; Energy is that of the"
        f" model's mean probability. {machine}. On a machine with a GPU, `python -m bench.deep --encoder"
        " MiniLM-L6 --dataset NAME --seeds 0 1 2 --out bench/results/raw/deep-NAME.json` repeats it"
        " (`--epochs 2` for debian-tags; `bench/deep_device.sh` does it on a machine without a network), and"
        " `python -m bench.deep_report` writes this page. The time to fit a single XR-Transformer includes"
        " fine-tuning; the ensemble takes over its encoder.",
        "",
    ]
    for data, runs in found.items():
        lines += [
            f"## {data}",
            "",
            "| | P@1 | P@3 | P@5 | R@1 | R@3 | R@5 | AUROC PV | TU | KU | Energy |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for key, title in ROWS.items():
            if key not in runs:
                continue
            seeds = list(runs[key].values())
            cells = [mean([run["precision"][k] for run in seeds]) for k in "135"]
            cells += [mean([run["recall"][k] for run in seeds]) for k in "135"]
            cells += [mean([run["auroc"][m] for run in seeds]) for m in ("PV", "TU", "KU", "Energy")]
            lines.append(f"| {title} ({len(seeds)}) | " + " | ".join(cells) + " |")
        lines += ["", "| | fit, s | one text, ms, median / p99 |", "|---|---|---|"]
        later = {(run["model"], run["method"]) for run in latency.get(data, [])}
        for key, title in ROWS.items():
            if key in runs:
                seeds = list(runs[key].values())
                fit = np.median([run["fit_seconds"] for run in seeds])
                one = [np.median([run["one_text_ms"][q] for run in seeds]) for q in ("median", "p99")]
                told = "see below" if key in later else f"{one[0]:.1f} / {one[1]:.1f}"
                lines.append(f"| {title} | {fit:.0f} | {told} |")
        if data in latency:
            lines += one_text(
                "One text at a time, ms (`python -m bench.deep --encoder MiniLM-L6 --dataset NAME --parts"
                " tuned --steps 100 --test 2000`: as large a model, fine-tuned for a moment only).",
                latency[data],
            )
        if data in processor:
            own = processor[data]
            cores = own["machine"]["cores"]
            lines += one_text(
                f"One text at a time without a GPU, ms, on {cores} cores (`python -m bench.deep --encoder"
                f" MiniLM-L6 --dataset {data} --parts frozen --train {own['train']} --test {own['test']}"
                " --device cpu`: the encoder as it is takes as long as a fine-tuned one).",
                own["runs"],
            )
        tuned = [run for run in runs.get(("tuned", "single"), {}).values() if "fine_tuning" in run]
        if tuned:
            tokens = [run["fine_tuning"]["tokens_per_second"] for run in tuned]
            waits = [100 * run["fine_tuning"]["waiting_share"] for run in tuned]
            busy = [run["gpu_busy_percent"]["median_while_busy"] for run in tuned]
            lines += [
                "",
                f"Fine-tuning: {np.median(tokens):,.0f} tokens per second; steps wait {max(waits):.2f} % of"
                f" the time for their batch; the GPU reports {np.median(busy):.0f} % use while it works"
                + (" (before steps were recorded)." if data in profiles else "."),
            ]
        if data in profiles:
            lines += [
                "",
                "Steps of fine-tuning, with their launches recorded and replayed (`python -m bench.deep"
                " --encoder MiniLM-L6 --dataset NAME --parts profile`):",
                "",
                "| texts of a step | ms per step | share of the time in which kernels run |"
                " kernels per step |",
                "|---|---|---|---|",
            ]
            for run in profiles[data]:
                share, kernels = 100 * run["gpu_busy_share"], run["kernels_a_step"]
                lines.append(
                    f"| {run['batch_size']} | {run['ms_a_step']:.1f} | {share:.0f} % | {kernels:.0f} |"
                )
        lines.append("")
    return "\n".join(lines)


def few_texts(few: dict[str, Any]) -> str:
    """P@1 where there is little to learn from."""
    if not few:
        return ""
    lines = [
        "",
        "## Few training texts",
        "",
        "| P@1, single model | words alone | MiniLM as it is | XR-Transformer |",
    ]
    lines += ["|---|---|---|---|"]
    commands = []
    for data, whole in few.items():
        settings = whole["settings"]
        cells = [
            mean([run["precision"]["1"] for run in whole["runs"] if run["model"] == part])
            for part in ("linear", "frozen", "tuned")
        ]
        lines.append(f"| {data}, {whole['train']:,} texts | " + " | ".join(cells) + " |")
        levels = "" if settings["levels"] == "None" else f" --levels {settings['levels']}"
        commands.append(
            f"`--dataset {data} --train {whole['train']} --test {whole['test']} --methods single --seeds"
            f" 0 1 2 --epochs {float(settings['epochs']):g}{levels}`"
        )
    lines += ["", f"`python -m bench.deep --encoder MiniLM-L6` with {' and '.join(commands)}.", ""]
    return "\n".join(lines)


def one_text(title: str, runs: list[Any]) -> list[str]:
    """A table of the time for one text."""
    parts = ("median", "p99", "one_thread", "encoder")
    lines = [
        "",
        title,
        "",
        "| | median | p99 | on one thread | the encoder alone |",
        "|---|---|---|---|---|",
    ]
    for run in runs:
        times = " | ".join(f"{run['one_text_ms'][part]:.1f}" for part in parts)
        lines.append(f"| {ROWS[run['model'], run['method']]} | {times} |")
    return lines


def mean(values: list[float | None]) -> str:
    if any(value is None for value in values):
        return "-"
    text = f"{np.mean(values):.2f}"  # type: ignore[arg-type]
    return text if len(values) == 1 else f"{text} ± {np.std(values, ddof=1):.2f}"  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
