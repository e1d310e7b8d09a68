"""``hedgerow predict --cluster``: many files of inputs, each to a file of predictions of the same name."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hedgerow.data.compressed import SUFFIXES
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.storage.atomic_file import atomic_file, leftovers
from hedgerow.storage.container import DIGEST_BYTES, ModelFileError
from hedgerow.training.ray import ClusterError, Crew
from hedgerow.training.tasks import Engine

from .connection import connected
from .failures import ExitCode, Failure, failing_as
from .inputs import OpenModel, open_model
from .label_files import write_labels
from .predicting import Question, predict_part
from .targets import check_format
from .terminal import Report, plain, say, show_progress

RECORD = "_run.json"


@dataclass(frozen=True)
class Scoring(Question):
    """What is asked, and of which model: its file, which all nodes can read, and the checksum at its end."""

    model: str
    digest: str
    version: str


@dataclass(frozen=True)
class Shard:
    """A file of inputs and the file for its predictions."""

    source: str
    target: str
    bytes: int
    changed: int


def predict_shards(
    model: Path, data: Path, out: Path, question: Question, cluster: str, overwrite: bool, verbose: bool
) -> None:
    """Score every file that has no predictions yet, on a cluster."""
    # What is no model, or not one of its labels or languages, fails here, before a cluster is started.
    opened = open_model(model)
    question.allowed.labels_for(opened.classifier)
    opened.naming(question.lang)
    engine = Engine.here()
    path, folder = model.resolve(), out.resolve()
    scoring = Scoring(**vars(question), model=str(path), digest=_digest(path), version=engine.version)
    shards = find_shards(data.resolve(), folder)
    for shard in shards:
        check_format(shard.target)
    with connected(cluster) as crew, failing_as(ExitCode.WRITE):
        _begin(folder, scoring, shards, overwrite)
        todo = [shard for shard in shards if not os.path.exists(shard.target)]
        with show_progress(verbose) as report:
            rows = 0 if crew is None else _score(crew, (engine, scoring), shards, todo, report)
        _tidy(shards)
    there = len(shards) - len(todo)
    say(f"Saved {out}: {rows:,} rows of {len(todo):,} files; {there:,} were there before.")


def find_shards(data: Path, folder: Path) -> list[Shard]:
    """The files of inputs, by name, and where their predictions go."""
    with failing_as(ExitCode.DATA):
        paths = sorted(data.iterdir()) if data.is_dir() else [data]
        shards, others = [], []
        for path in paths:
            name = _target_name(path.name)
            if name is not None and path.is_file():
                status = path.stat()
                shards.append(Shard(str(path), str(folder / name), status.st_size, status.st_mtime_ns))
            elif not path.name.startswith((".", "_")):
                others.append(path.name)
    if others and shards:
        names = ", ".join(others[:3]) + (f" and {len(others) - 3:,} more" if len(others) > 3 else "")
        print(f"hedgerow: skipped {plain(names)} in {plain(data)}: not files of inputs", file=sys.stderr)
    if not shards:
        raise Failure(ExitCode.DATA, f"{data} has no files of inputs: .jsonl, .csv, .parquet or .txt")
    if folder == (data if data.is_dir() else data.parent):
        raise Failure(ExitCode.USAGE, f"--out {folder} holds the inputs; name another folder")
    seen: dict[str, str] = {}
    for shard in shards:
        if shard.target in seen:
            raise Failure(
                ExitCode.DATA,
                f"{seen[shard.target]} and {shard.source} would both be predicted to {shard.target};"
                " rename one",
            )
        seen[shard.target] = shard.source
    return shards


def _target_name(name: str) -> str | None:
    """As the inputs are called, but for formats that predictions do not have; None for other files."""
    if name.startswith((".", "_")):
        return None
    plain = name
    for suffix in SUFFIXES[1:]:
        plain = plain.removesuffix(suffix)
    if plain.endswith((".jsonl", ".ndjson")):
        return name
    if plain.endswith(".csv") or name.endswith(".parquet"):
        return plain
    return f"{plain.removesuffix('.txt')}.jsonl" if plain.endswith(".txt") else None


def _begin(folder: Path, scoring: Scoring, shards: list[Shard], overwrite: bool) -> None:
    """Record what is about to be done; continue only what was begun in the same way."""
    inputs = {Path(shard.source).name: [shard.bytes, shard.changed] for shard in shards}
    wanted = json.loads(json.dumps({**asdict(scoring), "inputs": inputs}))
    record = folder / RECORD
    folder.mkdir(parents=True, exist_ok=True)
    if not record.exists() and any(folder.iterdir()):
        raise Failure(
            ExitCode.WRITE,
            f"{folder} is not empty, and its files were not written by this command; choose another folder",
        )
    if record.exists():
        found = _read_record(record)
        if not overwrite and found == wanted:
            return
        if not overwrite:
            raise Failure(
                ExitCode.WRITE,
                f"{folder} holds predictions of other inputs, or made in another way; choose another folder,"
                " or start again with --overwrite",
            )
        # What was begun before, also of inputs that are gone now.
        with failing_as(ExitCode.WRITE, ValueError):  # for names that no file can have
            for name in {*found["inputs"], *inputs}:
                target = folder / str(_target_name(name))
                for path in (target, *map(Path, leftovers(target))):
                    path.unlink(missing_ok=True)
    with atomic_file(record, overwrite=True) as file:
        file.write(json.dumps(wanted, indent=1).encode())


def _read_record(path: Path) -> dict[str, Any]:
    """What an earlier run recorded; its names decide what is deleted, so they must be names and no paths."""
    try:
        found = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise Failure(ExitCode.WRITE, f"{path} cannot be read: {error}; choose another folder") from error
    inputs = found.get("inputs") if isinstance(found, dict) else None
    if not isinstance(inputs, dict) or any(_target_name(name) is None or "/" in name for name in inputs):
        raise Failure(
            ExitCode.WRITE, f"{path} is no record of files that were predicted; choose another folder"
        )
    return dict(found)


def _score(
    crew: Crew, work: tuple[Engine, Scoring], shards: list[Shard], todo: list[Shard], report: Report
) -> int:
    """Score files, the largest first, and return how many rows they have."""
    ordered = sorted(todo, key=lambda shard: (-shard.bytes, shard.source))
    everything = max(1, sum(shard.bytes for shard in shards))
    missing = set(ordered)
    rows = 0
    for scored in crew.stream(Scorer, work, ordered):
        if isinstance(scored, (Failure, ClusterError)):
            raise scored
        rows += scored or 0
        missing = {shard for shard in missing if not os.path.exists(shard.target)}
        report(1 - sum(shard.bytes for shard in missing) / everything, "predicting")
    return rows


class Scorer:
    """A process that scores files, with a model that is opened once."""

    def __init__(self, engine: Engine, scoring: Scoring) -> None:
        self._engine = engine
        self._scoring = scoring

    def __call__(self, shard: Shard) -> int | Failure | ClusterError:
        """Score a file and return its number of rows, or what is wrong, which Ray Data would wrap.

        Its predictions appear whole or not at all, so that a second attempt does no harm.
        """
        try:
            return self._score(shard)
        except Failure as failure:
            if shard.source in str(failure):
                return failure
            return Failure(failure.code, f"{shard.source}: {failure}")
        except ClusterError as failure:
            return failure

    def _score(self, shard: Shard) -> int:
        self._engine.check()
        scoring = self._scoring
        classifier = _opened(scoring.model, scoring.digest)
        classifier.set_params(**scoring.search, n_jobs=1)
        table = predict_part(
            OpenModel(Path(scoring.model), classifier),
            Path(shard.source),
            scoring,
            1,
            lambda share, what: None,
            may_be_empty=True,
        )
        with failing_as(ExitCode.WRITE):
            write_labels(shard.target, table, overwrite=True)
        return len(table)


# The file is mapped: all processes of a node share one copy.
@functools.lru_cache(maxsize=1)
def _opened(model: str, digest: str) -> HedgerowClassifier:
    path = Path(model)
    if not path.exists() or _digest(path) != digest:
        raise Failure(
            ExitCode.MODEL,
            f"node {platform.node()} does not see {model}, or sees another file there; keep it where all"
            " nodes can read it",
        )
    with failing_as(ExitCode.MODEL, ModelFileError):
        classifier: HedgerowClassifier = load(path)
        return classifier


def _digest(model: Path) -> str:
    with open(model, "rb") as file:
        file.seek(-DIGEST_BYTES, os.SEEK_END)
        return file.read().hex()


def _tidy(shards: list[Shard]) -> None:
    """Remove what killed processes left of files."""
    for shard in shards:
        for path in leftovers(shard.target):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
