"""Guarantees while the world moves, with and without feedback: `python -m bench.shift`.

Library records (tibkat, a part of its training records) teach models that know only one kind of record:
books, or English ones, those without some labels, or all. Held-out records of the same kind set thresholds.
Then a stream begins like them and shifts. Beside each other: thresholds that stay, and thresholds that
follow the truth of each record once it is known (adaptive conformal inference). The test martingale watches.
Also: how soon it alarms for other data, and how often it does without shift, over random cuts. Writes
`results/shift.json`, `results/shift.md` and `docs/how-to/drift.svg`.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import datasets, machine, measure
from bench.plan import PYTHONS, RAW, RESULTS, store
from hedgerow import HedgerowClassifier, HedgerowTextClassifier, learn_from_held_out, preset_parameters
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.risk import GRID, RiskCurve
from hedgerow.estimators.held_out import split_rows
from hedgerow.model import Model
from hedgerow.shift import AdaptiveThreshold, ConformalMartingale
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.shift.martingale import ALARM
from hedgerow.votes.batches import answer_batches

PICTURE = Path(__file__).parent.parent / "docs/how-to/drift.svg"
TRAIN, HELD_OUT, BEFORE, AFTER = 20_000, 4_000, 1_000, 4_000
WRONG, MISSED, CONFIDENCE = 0.1, 0.2, 0.9
TYPES, LANGUAGES = "other types of records", "another language"
TIME, REPLACED = "new labels over time", "labels replaced over time"
FEATURES = "features"
PARTS = (TYPES, LANGUAGES, TIME, REPLACED, FEATURES)
FATES = {
    "wrong": ("an input's accepted labels", "wrong"),
    "missed": ("an input's right candidates", "rejected"),
}
FEEDBACK = (1.0, 0.2)  # the share of records whose truth is learned
NEWS = "reuters/articles.jsonl.xz"
LATE = 0.3  # of labels, in the stream whose labels appear over time
CUTS, CUT_ROWS = 500, 400
WINDOW = 500  # records that a point of the picture is the mean of


@dataclass(frozen=True)
class Stream:
    """Records to learn from, and those that come: `BEFORE` like them, then the shifted."""

    name: str
    train: list[dict[str, Any]]
    held_out: list[dict[str, Any]]
    coming: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Of a record: probabilities of its candidates, and which are right."""

    mean: np.ndarray
    right: np.ndarray

    def wrong(self, threshold: float) -> tuple[float, int]:
        """The share of wrong labels among those accepted, and how many are."""
        accepted = self.mean >= np.float32(threshold)
        given = int(accepted.sum())
        return float((accepted & ~self.right).sum()) / max(1, given), given

    def missed(self, threshold: float) -> tuple[float, int]:
        """The share of the right candidates that are rejected, NaN without any; and how many are not."""
        kept = self.mean >= np.float32(threshold)
        true = int(self.right.sum())
        return float((~kept & self.right).sum()) / true if true else np.nan, int(kept.sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=datasets.SOURCE)
    parser.add_argument("--cache", type=Path, default=datasets.CACHE)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--fresh", action="store_true", help="forget the stored measurements")
    arguments = parser.parse_args()
    for part in arguments.parts:
        stored = raw(part)
        if arguments.fresh or not stored.exists():
            store(stored, measured(part, arguments.data, arguments.cache))
            print(f"{part}: measured", flush=True)
    if not all(raw(part).exists() for part in PARTS):
        return
    found: dict[str, Any] = {"machine": machine.describe({"hedgerow": PYTHONS["hedgerow"]})}
    for part in PARTS:
        for name, of in json.loads(raw(part).read_text()).items():
            found[name] = found.get(name, {}) | of if isinstance(of, dict) else of
    (RESULTS / "shift.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "shift.md").write_text(markdown(found))
    draw(found["streams"])


def raw(part: str) -> Path:
    """Where the measurements of a part are kept."""
    return RAW / f"shift.{part.replace(' ', '-')}.json"


def measured(part: str, data: Path, cache: Path) -> dict[str, Any]:
    """A stream and, with the model of the first, alarms for other texts; or alarms for features."""
    if part == FEATURES:
        return {"alarms": feature_alarms(data, cache)}
    stream = next(one for one in streams(data) if one.name == part)
    source = fitted(stream).source
    found: dict[str, Any] = {"streams": {part: followed(source, stream)}}
    if part == TYPES:
        found |= {
            "alarms": alarms(source, data),
            "cuts": cuts(source, stream),
            "words": said_of(source, data),
        }
    return found


def streams(data: Path) -> Iterator[Stream]:
    """The streams; each has records of its own for training, thresholds and the stream."""
    records = list(datasets.records(data / "tibkat/records.jsonl.xz"))
    order = np.random.default_rng(0).permutation(len(records))
    shuffled = [records[place] for place in order]
    train = [one for one in shuffled if one["split"] == "train"]
    test = [one for one in shuffled if one["split"] == "test"]

    def cut(name: str, like: Any, coming: list[dict[str, Any]]) -> Stream:
        own = [one for one in train if like(one)][: TRAIN + HELD_OUT]
        before = [one for one in test if like(one)][:BEFORE]
        return Stream(name, own[:-HELD_OUT], own[-HELD_OUT:], before + coming)

    others = [one for one in test if one["type"] != "Book"]
    yield cut(TYPES, lambda one: one["type"] == "Book", others[:AFTER])
    german = [one for one in test if one["lang"] == "de"]
    yield cut(LANGUAGES, lambda one: one["lang"] == "en", german[:AFTER])

    def is_late(label: str) -> bool:
        return zlib.crc32(label.encode()) % 1000 < 1000 * LATE

    def early(one: dict[str, Any]) -> bool:
        return not any(map(is_late, one["labels"]))

    random = np.random.default_rng(1)
    old = iter([one for one in test if early(one)][BEFORE:])
    new = iter([one for one in test if not early(one)])
    growing = [next(new if random.random() < place / AFTER else old) for place in range(AFTER)]
    yield cut(TIME, early, growing)

    def replaced(label: str, place: int) -> str:
        return f"{label} (new)" if zlib.crc32(label.encode()) % AFTER < place else label

    renamed = [
        one | {"labels": [replaced(label, place) for label in one["labels"]]}
        for place, one in enumerate(test[BEFORE : BEFORE + AFTER])
    ]
    yield cut(REPLACED, lambda one: True, renamed)


def text_of(record: dict[str, Any]) -> str:
    return f"{record['title']}. {record['abstract']}"


def fitted(stream: Stream) -> HedgerowTextClassifier:
    """A model by the fast preset, calibrated on the held-out records."""
    texts, labels = [text_of(one) for one in stream.train], [one["labels"] for one in stream.train]
    chosen = preset_parameters("fast", texts, labels)
    model = HedgerowTextClassifier(**chosen, random_state=0, n_jobs=measure.THREADS).fit(texts, labels)
    held_out = [text_of(one) for one in stream.held_out]
    learn_from_held_out(model, held_out, [one["labels"] for one in stream.held_out])
    return model


def candidates(source: Model, records: list[dict[str, Any]]) -> tuple[list[Candidates], np.ndarray]:
    """What the model says of records beside the truth, and what the martingale sees of them."""
    inputs, truth = source.inputs_and_truth(
        [text_of(one) for one in records], [one["labels"] for one in records]
    )
    watch, found, bins = source.watch(in_order=True), [], []
    assert watch is not None
    for rows, answer in answer_batches(source, inputs, signals=True):
        bins.append(watch.bins(answer))  # type: ignore[union-attr]
        votes, own = answer.votes, truth[rows]
        matched = Matched(votes, own, np.ones(truth.shape[1], dtype=bool))
        for begin, end in zip(votes.indptr[:-1], votes.indptr[1:], strict=True):
            found.append(Candidates(matched.mean[begin:end], matched.right[begin:end]))
    return found, np.concatenate(bins)


def followed(source: Model, stream: Stream) -> dict[str, Any]:
    """Both goals over a stream, with thresholds that stay and that follow."""
    policy, reference = source.policy, source.reference
    assert policy is not None
    assert reference is not None
    coming, bins = candidates(source, stream.coming)
    martingale = ConformalMartingale(reference.scores.T)
    logs = []
    for row in bins:
        martingale.add(row[None])
        logs.append(martingale.log10)
    alarm = np.flatnonzero(np.array(logs) >= np.log10(ALARM))
    wrong_curve = policy.wrong["probability"]
    place = wrong_curve.tested(WRONG, CONFIDENCE)
    assert place is not None
    missed_curve = curve_of_missed(source, stream)
    largest = missed_curve.largest(MISSED)
    assert largest is not None
    stays = {
        "wrong": float(wrong_curve.thresholds[place]),
        "missed": float(missed_curve.thresholds[largest]),
    }
    follows = {
        "wrong": AdaptiveThreshold.of_wrong(wrong_curve, WRONG),
        "missed": AdaptiveThreshold.of_missed(missed_curve, MISSED),
    }
    result: dict[str, Any] = {
        "trained on": len(stream.train),
        "labels": len(source.classes),
        "held out": policy.rows,
        "alarm at": int(alarm[0]) + 1 if alarm.size else None,
        "log10": [round(value, 2) for value in logs[:: len(logs) // 200]],
    }
    for goal, target in (("wrong", WRONG), ("missed", MISSED)):
        fixed = [getattr(one, goal)(stays[goal]) for one in coming]
        result[goal] = {"target": target, "stays": figures(fixed)}
        labels, fate = FATES[goal]
        counted = int(np.isfinite([loss for loss, _ in fixed[BEFORE:]]).sum())
        after = Achieved(labels, fate, target, result[goal]["stays"]["after"], counted)
        (test,) = kept_tests([after], policy.rows)
        result[goal] |= {"broken": test.broken, "sentence": test.sentence}
        for share in FEEDBACK:
            adaptive, given = follows[goal], []
            reviewed = np.random.default_rng(2).random(len(coming)) < share
            for one, learned in zip(coming, reviewed, strict=True):
                given.append(getattr(one, goal)(adaptive.threshold))
                if learned and not np.isnan(given[-1][0]):
                    adaptive = adaptive.updated(given[-1][0])
            result[goal][f"follows {share:g}"] = figures(given) | {"bound": adaptive.bound}
    return result


def curve_of_missed(source: Model, stream: Stream) -> RiskCurve:
    """Right candidates below each threshold, on the held-out records that set the thresholds."""
    _, second = split_rows(len(stream.held_out), 0.5, 0)
    held_out, _ = candidates(source, [stream.held_out[place] for place in second])
    some = [one for one in held_out if one.right.any()]
    totals = sum(np.array([(one.mean[one.right] < GRID[:, None]).mean(axis=1) for one in some]))
    return RiskCurve(GRID, totals, len(some))


def figures(given: list[tuple[float, int]]) -> dict[str, Any]:
    """Mean losses and numbers of labels before and after the shift, and the losses in windows."""
    losses, labels = (np.array(column, dtype=float) for column in zip(*given, strict=True))
    ends = range(WINDOW, len(losses) + 1, WINDOW // 10)
    return {
        "before": np.nanmean(losses[:BEFORE]),
        "after": np.nanmean(losses[BEFORE:]),
        "whole": np.nanmean(losses),
        "labels before": labels[:BEFORE].mean(),
        "labels after": labels[BEFORE:].mean(),
        "running": [round(float(np.nanmean(losses[end - WINDOW : end])), 4) for end in ends],
    }


def alarmed_at(source: Model, inputs: Any) -> int | None:
    """After how many of these inputs the martingale alarms."""
    watch = source.watch(in_order=True)
    assert watch is not None
    for _, answer in answer_batches(source, source.inputs(inputs), signals=True):
        for row in watch.bins(answer):  # type: ignore[union-attr]
            watch.add_bins(row[None])  # type: ignore[union-attr]
            if watch.log10 >= np.log10(ALARM):
                return watch.inputs
    return None


def said_of(source: Model, data: Path) -> str:
    """What is said of a hundred other texts."""
    texts = [one["text"] for one in datasets.records(data / NEWS) if one["split"] == "test"][:100]
    watch = source.watch()
    assert watch is not None
    watch.add(source.answer(source.inputs(texts), signals=True))
    return watch.report().words


def alarms(source: Model, data: Path) -> dict[str, Any]:
    """How soon a model of books alarms for other texts."""
    others = {
        "news (reuters)": NEWS,
        "descriptions of software (debian)": "debian/packages.jsonl.xz",
    }
    found = {}
    for name, path in others.items():
        texts = [one["text"] for one in datasets.records(data / path) if one["split"] == "test"][:1000]
        found[f"books, then {name}"] = alarmed_at(source, texts)
    return found


def feature_alarms(data: Path, cache: Path) -> dict[str, Any]:
    """The same for a model of features: its own test rows, and rows whose features are shuffled."""
    folder = datasets.prepare("eurlex-4k", data, cache)
    train, test = datasets.load(folder, "trn"), datasets.load(folder, "tst")
    model = HedgerowClassifier(random_state=0, n_jobs=measure.THREADS).fit(train.X, train.Y)
    order = np.random.default_rng(0).permutation(test.X.shape[0])
    learn_from_held_out(model, test.X[order[:2000]], test.Y[order[:2000]])
    own = sp.csr_array(test.X[order[2000:3000]])
    columns = np.random.default_rng(1).permutation(own.shape[1])
    return {
        "eurlex-4k, its own test rows": alarmed_at(model.source, own),
        "eurlex-4k, features shuffled": alarmed_at(model.source, own[:, columns]),
    }


def cuts(source: Model, stream: Stream) -> dict[str, Any]:
    """Alarms over random cuts of records without shift: the held-out ones, each time in two other parts."""
    held_out = [one for one in stream.held_out]
    _, bins = candidates(source, held_out)
    rows, half = len(bins), CUT_ROWS
    raised = 0
    for seed in range(CUTS):
        order = np.random.default_rng(seed).permutation(rows)
        martingale = ConformalMartingale(bins[order[:half]], seed)
        martingale.add(bins[order[half : 2 * half]])
        raised += martingale.alarmed
    return {"cuts": CUTS, "held out": half, "inputs": half, "alarms": raised}


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def markdown(found: dict[str, Any]) -> str:
    described = found["machine"]
    lines = [
        "# Shift",
        "",
        f"`make bench-shift` on {described['cpu']}, {measure.THREADS} threads, {described['date']}; hedgerow"
        f" {described['environments']['hedgerow'].get('hedgerow', '')}, preset fast. Streams of"
        f" {BEFORE + AFTER:,} records of tibkat: {BEFORE:,} like those that the model knows, then {AFTER:,}"
        " others.",
        "",
        "## Guarantees over streams that shift",
        "",
        "Wrong: mean over records of the share of wrong labels among those accepted, at most"
        f" {percent(WRONG)} % with a confidence of {percent(CONFIDENCE)} % (Learn then Test). Missed: mean"
        " over records of the share of right candidates that are rejected, at most"
        f" {percent(MISSED)} % (conformal risk control); records without a right candidate do not"
        " count. In percent, after the shift; in brackets over the whole stream. Labels: how many"
        " are accepted, or not rejected, per record after the shift.",
        "",
        "| stream | alarm after | goal | before | stays | follows all | follows 1 in 5 | labels: stays |"
        " follows all |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, of in found["streams"].items():
        for goal in ("wrong", "missed"):
            own = of[goal]
            stays, all_, some = (own[key] for key in ("stays", "follows 1", "follows 0.2"))
            mark = "**" if own["broken"] else ""
            alarm = "none" if of["alarm at"] is None else f"{of['alarm at'] - BEFORE:,}"
            lines.append(
                f"| {name} | {alarm} | {goal}, {percent(own['target'])} | {percent(stays['before'])} |"
                f" {mark}{percent(stays['after'])}{mark} ({percent(stays['whole'])}) |"
                f" {percent(all_['after'])} ({percent(all_['whole'])}) |"
                f" {percent(some['after'])} ({percent(some['whole'])}) |"
                f" {stays['labels after']:.2f} | {all_['labels after']:.2f} |"
            )
    lines += [
        "",
        f"Alarm after: records after the shift began until the test martingale reached {ALARM:g}; negative"
        " would be a false alarm. Bold: a one-sided test calls the guarantee broken.",
        "",
        "The test of those that are broken, as `hedgerow evaluate` makes it:",
        "",
        *(
            f"- {name}: {of[goal]['sentence']}"
            for name, of in found["streams"].items()
            for goal in ("wrong", "missed")
            if of[goal]["broken"]
        ),
        "",
        "## How soon it alarms",
        "",
        "| inputs | alarm after |",
        "|---|---|",
    ]
    for name, at in found["alarms"].items():
        lines.append(f"| {name} | {'none in 1,000' if at is None else f'{at:,}'} |")
    own = found["cuts"]
    lines += [
        "",
        "What `hedgerow decide` says of a hundred articles, with the model of books:",
        "",
        f"> {found['words']}",
        "",
        f"Without shift: {own['cuts']} random cuts of held-out books, {own['held out']:,} as held-out ones"
        f" and {own['inputs']:,} as the stream: {own['alarms']} alarms; at most 1 % are expected.",
        "",
    ]
    return "\n".join(lines)


def draw(found: dict[str, Any]) -> None:
    """Losses in a window that moves over each stream."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "hedgerow"
    figure, axes = plt.subplots(2, len(found), figsize=(13, 5.4), sharex=True, sharey="row", squeeze=False)
    for column, (name, of) in enumerate(found.items()):
        for row, goal in enumerate(("wrong", "missed")):
            axis, own = axes[row, column], of[goal]
            for key, title, colour in (
                ("stays", "threshold stays", "#bc4c00"),
                ("follows 1", "threshold follows the truth", "#1a7f37"),
            ):
                losses = own[key]["running"]
                places = WINDOW + np.arange(len(losses)) * (WINDOW // 10)
                axis.plot(places, 100 * np.array(losses), color=colour, label=title)
            axis.axhline(100 * own["target"], color="#59636e", linestyle="--", label="guaranteed: at most")
            axis.axvline(BEFORE, color="#59636e", linewidth=0.8, label="the shift begins")
            if of["alarm at"] is not None:
                axis.axvline(of["alarm at"], color="#8250df", linestyle=":", label="alarm")
            if row == 0:
                axis.set_title(name)
            if column == 0:
                axis.set_ylabel(f"{goal}, % of labels")
        axes[1, column].set_xlabel("records")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
