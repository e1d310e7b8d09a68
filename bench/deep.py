"""A transformer beside words alone: `python -m bench.deep --encoder PATH`.

For each seed: words alone (linear), words with the embeddings of the encoder as it is (frozen), words with
those of the fine-tuned encoder (XR-Transformer), each as a single model and as boosted bagging. P@k, R@k,
AUROC of uncertainty against wrong labels, tokens per second, how long steps wait for their batch, how busy
the GPU is, and milliseconds for one text. The encoder is fine-tuned once per seed; single model and ensemble
share it.
`--parts profile` looks at the steps of fine-tuning alone. `--parts judged` trains one model by boosting that
reads titles apart and has a judge, and measures it with and without the judge. Writes JSON after every part,
so that what was measured before a time limit is there.
"""

from __future__ import annotations

import argparse
import bz2
import copy
import json
import lzma
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets import SOURCE
from hedgerow import HedgerowTextClassifier, HedgerowTransformerClassifier
from hedgerow.evaluation.tasks import evaluate

DATASETS = {
    "tibkat-en": ("tibkat-en/records.jsonl", "labels"),
    "debian-tags": ("debian/packages.jsonl", "tags"),
}
PARTS = ("linear", "frozen", "tuned", "profile", "judged")
METHODS = ("single", "boosted-bagging")
MEASURES = {"variance": "PV", "total": "TU", "knowledge": "KU", "energy": "Energy"}
SINGLE_TEXTS = 100
# How the preset for library records reads them.
READING: dict[str, Any] = {
    "fields": {"title": 0.7, "title~chars": 0.7, "title+abstract~words": 1.0},
    "language": "auto",
    "ngrams": (1, 1),
    "char_ngrams": (5, 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", type=Path, required=True, help="folder of the encoder")
    parser.add_argument("--dataset", choices=tuple(DATASETS), default="tibkat-en")
    parser.add_argument("--data", type=Path, default=SOURCE)
    parser.add_argument("--out", type=Path, default=Path("deep.json"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:3]))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--train", type=int, help="this many training texts, drawn at random")
    parser.add_argument("--test", type=int, help="this many test texts, drawn at random")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--wide", type=int, default=900, help="of the judged part: labels to tell apart from")
    parser.add_argument("--tolerance", type=float, default=1.0, help="of the judged part")
    parser.add_argument(
        "--validation", type=int, default=2500, help="of the judged part: this many texts cut from train"
    )
    parser.add_argument("--beam", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--levels", type=int)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--profile-batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--level-loss", choices=("squared_hinge", "logistic"), default="squared_hinge")
    arguments = parser.parse_args()
    train, test = read(arguments.data, arguments.dataset)
    train, test = drawn(train, arguments.train), drawn(test, arguments.test)
    found: dict[str, Any] = {
        "machine": machine(),
        "settings": {name: str(value) for name, value in vars(arguments).items()},
        "train": len(train),
        "test": len(test),
        "runs": [],
    }
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            for result in runs(arguments, train, test, seed, Path(folder)):
                found["runs"].append(result)
                arguments.out.write_text(json.dumps(found, indent=1) + "\n")
                print(line(result), flush=True)


def runs(
    arguments: argparse.Namespace, train: list[Any], test: list[Any], seed: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """All models of a seed, the cheap ones first."""
    search = {"beam": arguments.beam, "missing": "delta"}  # ranks doubt as the exact search does
    common = {"random_state": seed, "n_jobs": arguments.threads, "members": arguments.members, **search}
    encoder = {"encoder": arguments.encoder, "max_length": arguments.max_length, "device": arguments.device}
    if "profile" in arguments.parts:
        for size in arguments.profile_batches:
            yield profiled(arguments, train, seed, size)
    if "linear" in arguments.parts:
        for method in arguments.methods:
            model = HedgerowTextClassifier(method=method, **common)
            yield measured("linear", model, train, test, seed)
    if "frozen" in arguments.parts:
        for method in arguments.methods:
            model = HedgerowTransformerClassifier(
                method=method, epochs=0, cache=folder / "cache", **encoder, **common
            )
            yield measured("frozen", model, train, test, seed)
    tuning: dict[str, Any] = {
        "epochs": arguments.epochs,
        "steps": arguments.steps,
        "levels": arguments.levels,
        "batch_size": arguments.batch_size,
        "learning_rate": arguments.learning_rate,
        "level_loss": arguments.level_loss,
    }
    if "tuned" in arguments.parts:
        for number, method in enumerate(arguments.methods):
            own = {**encoder, **tuning}
            if number:  # its encoder is tuned already
                own = {**encoder, "encoder": folder / "tuned", "epochs": 0}
            model = HedgerowTransformerClassifier(method=method, cache=folder / "cache", **own, **common)
            yield measured("tuned", model, train, test, seed)
            if not number:
                model.encoders_[0].save(folder / "tuned")
    if "judged" in arguments.parts:
        # Beside 10 members stand 3 that the judge learns from, so what a member misses must not count as 0.
        own = {**encoder, **tuning, **common, **READING, "missing": "exact"}
        model = HedgerowTransformerClassifier(
            method="boosting", judge=True, wide=arguments.wide, tolerance=arguments.tolerance, **own
        )
        yield judged(model, train, test, arguments.validation, seed)


def measured(part: str, model: Any, train: list[Any], test: list[Any], seed: int) -> dict[str, Any]:
    """Fit, evaluate and time one model."""
    texts, labels = [text for text, _ in train], [own for _, own in train]
    stages: dict[str, float] = {}
    with gpu_use() as busy:
        start = time.perf_counter()
        model.fit(texts, labels, progress=stage_clock(stages))
        seconds = time.perf_counter() - start
    if part != "linear":
        model.set_params(cache=None)  # what is measured from here on is what serving does
    start = time.perf_counter()
    found = evaluate(model, [text for text, _ in test], [own for _, own in test]).to_dict()
    judged = time.perf_counter() - start
    result = {
        "model": part,
        "method": model.method,
        "seed": seed,
        "fit_seconds": seconds,
        "stages": stages,
        "evaluate_seconds": judged,
        "precision": percent(found["precision"]),
        "recall": percent(found["recall"]),
        "auroc": percent({short: found["misclassification"].get(name) for name, short in MEASURES.items()}),
        "one_text_ms": one_text(model, [text for text, _ in test[:SINGLE_TEXTS]]),
        "gpu_busy_percent": busy,
    }
    reports = [report for report in getattr(model, "fine_tuning_", []) if report.tokens]
    if reports:
        report = reports[0]
        result["fine_tuning"] = {
            **report.to_dict(),
            "waiting_share": report.waiting / report.seconds,
        }
    return result


def judged(
    model: HedgerowTransformerClassifier, train: list[Any], test: list[Any], validation: int, seed: int
) -> dict[str, Any]:
    """Fit and measure a model with a judge, on test texts and on some that are cut from train."""
    train, test = titled(train), titled(test)
    order = np.random.default_rng(1).permutation(len(train))
    cut, train = [train[row] for row in order[:validation]], [train[row] for row in order[validation:]]
    result = measured("judged", model, train, test, seed)
    print(f"fitted in {result['fit_seconds']:.0f} s; test: {result['precision']}", flush=True)
    plain = copy.copy(model)
    plain.model_ = replace(model.model_, judge=None, scorers=None)
    result |= {"judge": model.describe()["judge"], "without_judge": precision(plain, test)}
    if cut:
        result |= {"validation": precision(model, cut), "validation_without_judge": precision(plain, cut)}
    for name in ("judge", "without_judge", "validation", "validation_without_judge"):
        print(f"{name}: {result.get(name)}", flush=True)
    return result


def precision(model: Any, part: list[Any]) -> dict[str, float | None]:
    found = evaluate(model, [text for text, _ in part], [own for _, own in part])
    return percent(found.to_dict()["precision"])


def titled(part: list[Any]) -> list[Any]:
    """Texts as records, whose title ends at the first ". ".

    Of the training texts of tibkat-en, tibkat has the titles apart: 97 % end there, and the others are cut
    short. It has none of the test texts, so all are cut.
    """
    parts = [(text.partition(". "), own) for text, own in part]
    return [({"title": title, "abstract": abstract}, own) for (title, _, abstract), own in parts]


def profiled(arguments: argparse.Namespace, train: list[Any], seed: int, size: int) -> dict[str, Any]:
    """Fine-tune for 200 steps on the coarsest level with batches of one size, and see what the GPU does."""
    model = HedgerowTransformerClassifier(
        encoder=arguments.encoder,
        max_length=arguments.max_length,
        device=arguments.device,
        learning_rate=arguments.learning_rate,
        batch_size=size,
        steps=200,
        levels=1,
        random_state=seed,
        n_jobs=arguments.threads,
    )
    watch = StepWatch()
    with tempfile.TemporaryDirectory() as folder:
        report = model.fine_tune(
            [text for text, _ in train], [own for _, own in train], Path(folder) / "tuned", progress=watch
        )
    return {"model": "profile", "batch_size": size, "seed": seed, **watch.found, **report.to_dict()}


class StepWatch:
    """Profiles the steps from the 21st on: the share of the time in which kernels run, and how many do."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._steps, self._start = 0, 0.0
        self._profiler: Any = None

    def __call__(self, share: float, what: str) -> None:
        import torch

        if not what.startswith("fine-tuning") or not torch.cuda.is_available():
            return
        self._steps += 1
        if self._steps == 20:
            torch.cuda.synchronize()
            self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self._profiler.start()
            self._start = time.perf_counter()
        if share == 1.0 and self._profiler is not None:
            torch.cuda.synchronize()
            seconds = time.perf_counter() - self._start
            self._profiler.stop()
            kernels = [event for event in self._profiler.events() if event.device_type.name == "CUDA"]
            busy = sum(event.time_range.elapsed_us() for event in kernels) / 1e6
            self.found = {
                "gpu_busy_share": busy / seconds,
                "kernels_a_step": len(kernels) / (self._steps - 20),
                "ms_a_step": 1000 * seconds / (self._steps - 20),
            }


def stage_clock(stages: dict[str, float]) -> Any:
    """Adds up the time of each stage of a fit, by what its progress calls it."""
    last = ["start", time.perf_counter()]

    def told(_: float, what: str) -> None:
        now = time.perf_counter()
        stages[str(last[0])] = stages.get(str(last[0]), 0.0) + now - float(last[1])
        last[:] = ["members" if what.startswith("member ") else what, now]

    return told


def one_text(model: Any, texts: list[Any]) -> dict[str, float]:
    """Milliseconds for one text at a time: median and 99th percentile, and medians of parts and variants."""
    for text in texts:  # a GPU records a pass for each length that it meets
        model.top([text], k=5)
    times = clocked(lambda text: model.top([text], k=5), texts)
    found = {"median": float(np.median(times)), "p99": float(np.percentile(times, 99))}
    threads = model.n_jobs
    model.set_params(n_jobs=1)
    found["one_thread"] = float(np.median(clocked(lambda text: model.top([text], k=5), texts)))
    model.set_params(n_jobs=threads)
    if hasattr(model, "encoders_"):
        plain = model.source.reader.words.texts(model.source.inputs(texts))
        found["encoder"] = float(np.median(clocked(lambda text: model.encoders_[0].embed([text]), plain)))
    return found


def clocked(ask: Callable[[Any], Any], texts: Sequence[Any]) -> list[float]:
    times = []
    for text in texts:
        start = time.perf_counter()
        ask(text)
        times.append(1000 * (time.perf_counter() - start))
    return times


@contextmanager
def gpu_use() -> Iterator[dict[str, float]]:
    """How busy the GPU was, as nvidia-smi tells it twice a second; empty without a GPU."""
    found: dict[str, float] = {}
    if shutil.which("nvidia-smi") is None:
        yield found
        return
    samples: list[float] = []
    done = threading.Event()

    def sample() -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not done.wait(0.5):
            answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
            if answer and answer[0].isdigit():
                samples.append(float(answer[0]))

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
        if samples:
            found |= {"mean": float(np.mean(samples)), "median_while_busy": _busy(samples)}


def _busy(samples: list[float]) -> float:
    working = [sample for sample in samples if sample > 0]
    return float(np.median(working)) if working else 0.0


def read(data: Path, name: str) -> tuple[list[Any], list[Any]]:
    """(text, labels) of the training and test texts that have labels."""
    path, field = DATASETS[name]
    parts: dict[str, list[Any]] = {"train": [], "test": []}
    packed = next(p for ending in (".xz", ".bz2") if (p := data / f"{path}{ending}").exists())
    opened = lzma.open if packed.suffix == ".xz" else bz2.open
    with opened(packed, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if record.get(field):
                parts[record["split"]].append((record["text"], record[field]))
    return parts["train"], parts["test"]


def drawn(records: list[Any], count: int | None) -> list[Any]:
    if count is None or count >= len(records):
        return records
    return [records[row] for row in np.random.default_rng(0).permutation(len(records))[:count]]


def percent(values: dict[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(100 * value, 2) for name, value in values.items()}


def machine() -> dict[str, Any]:
    import torch
    import transformers

    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def line(result: dict[str, Any]) -> str:
    if result["model"] == "profile":
        names = ("tokens_per_second", "gpu_busy_share", "kernels_a_step", "ms_a_step")
        told = ", ".join(f"{name} {result[name]:,.2f}" for name in names if name in result)
        return f"batches of {result['batch_size']}: {told}"
    tuning = result.get("fine_tuning")
    speed = (
        f" {tuning['tokens_per_second']:,.0f} tokens/s, waiting {100 * tuning['waiting_share']:.1f} %"
        if tuning
        else ""
    )
    return (
        f"{result['model']} {result['method']} seed {result['seed']}: P {result['precision']}"
        f" R {result['recall']} AUROC {result['auroc']} one text {result['one_text_ms']} ms"
        f" fit {result['fit_seconds']:.0f} s{speed}"
    )


if __name__ == "__main__":
    main()
