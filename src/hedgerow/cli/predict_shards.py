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

from rich.console import Console

from hedgerow.data.compressed import SUFFIXES
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.storage.atomic_file import atomic_file, leftovers
from hedgerow.storage.container import DIGEST_BYTES, ModelFileError
from hedgerow.training.ray import ClusterError, Crew
from hedgerow.training.tasks import Engine

from .connection import connected
from .failures import ExitCode, Failure, failing_as
from .label_files import check_output, write_labels
from .predict import predict_part
from .terminal import cell, plain, progress_bar

RECORD = "_run.json"


@dataclass(frozen=True)
class Scoring:
    """How files are scored.

    Attributes
    ----------
    model : str
        The model file, where all nodes can read it.
    digest : str
        What its last bytes must be: the checksum of all checksums.
    version : str
        Of hedgerow.
    k : int
        Labels for each input.
    part : str or None
        Which records of a file.
    search : dict
        Ways to search that were asked for.
    uncertainty : bool
        Whether doubts are told.
    tolerance : float or None
        How far to search.
    """

    model: str
    digest: str
    version: str
    k: int
    part: str | None
    search: dict[str, Any]
    uncertainty: bool
    tolerance: float | None


@dataclass(frozen=True)
class Shard:
    """A file of inputs and the file for its predictions."""

    source: str
    target: str
    bytes: int
    changed: int


def run_predict_shards(
    model: Path,
    data: Path,
    k: int,
    out: str | None,
    part_name: str | None,
    cluster: str,
    search: dict[str, Any],
    uncertainty: bool,
    tolerance: float | None,
    overwrite: bool,
) -> None:
    """Score every file that has no predictions yet, on a cluster."""
    if out is None:
        raise Failure(
            ExitCode.USAGE, "--cluster writes a file for each file of inputs; name a folder with --out"
        )
    with failing_as(ExitCode.MODEL, ModelFileError):
        load(model)
    engine = Engine.here()
    path, folder = model.resolve(), Path(out).resolve()
    scoring = Scoring(str(path), _digest(path), engine.version, k, part_name, search, uncertainty, tolerance)
    shards = find_shards(data.resolve(), folder)
    for shard in shards:
        check_output(shard.target)
    with connected(cluster) as crew, failing_as(ExitCode.WRITE):
        _begin(folder, scoring, shards, overwrite)
        todo = [shard for shard in shards if not os.path.exists(shard.target)]
        rows = 0 if crew is None else _score(crew, engine, scoring, shards, todo)
        _tidy(shards)
    there = len(shards) - len(todo)
    console = Console(soft_wrap=True, highlight=False)
    console.print(cell(f"Saved {out}: {rows:,} rows of {len(todo):,} files; {there:,} were there before."))


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
        told = ", ".join(others[:3]) + (f" and {len(others) - 3:,} more" if len(others) > 3 else "")
        print(f"hedgerow: passed over {plain(told)} in {plain(data)}: no files of inputs", file=sys.stderr)
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
    """Note what is about to be done; go on only with what was begun in the same way."""
    inputs = {Path(shard.source).name: [shard.bytes, shard.changed] for shard in shards}
    wanted = json.loads(json.dumps({**asdict(scoring), "inputs": inputs}))
    record = folder / RECORD
    folder.mkdir(parents=True, exist_ok=True)
    if not record.exists() and any(folder.iterdir()):
        raise Failure(
            ExitCode.WRITE, f"{folder} is not empty, and not by this command; choose another folder"
        )
    if record.exists():
        found = _read_record(record)
        if not overwrite and found == wanted:
            return
        if not overwrite:
            raise Failure(
                ExitCode.WRITE,
                f"{folder} holds predictions of other inputs, or made in another way; choose another folder,"
                " or begin anew with --overwrite",
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
    """What an earlier run noted; its names decide what is deleted, so they must be names and no paths."""
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


def _score(crew: Crew, engine: Engine, scoring: Scoring, shards: list[Shard], todo: list[Shard]) -> int:
    """Score files, the largest first."""
    ordered = sorted(todo, key=lambda shard: (-shard.bytes, shard.source))
    everything = max(1, sum(shard.bytes for shard in shards))
    missing = set(ordered)
    rows = 0
    with progress_bar() as report:
        for scored in crew.stream(Scorer, (engine, scoring), ordered):
            if isinstance(scored, (Failure, ClusterError)):
                raise scored
            rows += scored or 0
            missing = {shard for shard in missing if not os.path.exists(shard.target)}
            report(1 - sum(shard.bytes for shard in missing) / everything, "predicting")
    return rows


class Scorer:
    """A process that scores files, with a model that is opened once.

    Parameters
    ----------
    engine : Engine
        Whose bits are asked for.
    scoring : Scoring
        How files are scored.
    """

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
            Path(scoring.model),
            classifier,
            Path(shard.source),
            scoring.part,
            scoring.k,
            scoring.uncertainty,
            scoring.tolerance,
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
        return load(path)


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
