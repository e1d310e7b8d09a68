"""Fits every method to every data set with every seed and evaluates it; what is done is not done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import xxhash
from scipy.sparse import csr_array

from hedgerow.data import DataError, Part, read_part
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.evaluation.efficiency import beam_costs, check_theorems
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.labels import align_labels
from hedgerow.inputs.rows import take
from hedgerow.inputs.threads import threads_for
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.training.members import METHODS

from .deep_models import OWN_ENCODERS, WORDS, DeepSettings, SharedEncoder, computed_on
from .machine import machine

__all__ = ["Experiment", "Settings", "Source", "run"]

Progress = Callable[[float, str], None]

_QUICK_TRAIN, _QUICK_TEST = 2000, 500
_COST_LABELS = 16_000_000  # inputs times labels of the search through all labels
_THEOREM_LABELS = 2_000_000
_TUNING_WORK = 8  # of fine-tuning, in models that are trained


@dataclass(frozen=True)
class Source:
    """Where data lie.

    Attributes
    ----------
    path : Path
        Folder or file.
    labels_field : str
        The field of records that has the labels.
    """

    path: Path
    labels_field: str = "labels"

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read PATH or PATH:FIELD.

        Examples
        --------
        >>> Source.parse("packages:tags").name
        'packages-tags'
        """
        path, colon, labels_field = text.rpartition(":")
        if Path(text).exists() or not colon or not path or not labels_field or "/" in labels_field:
            return cls(Path(text))
        return cls(Path(path), labels_field)

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.stem if self.labels_field == "labels" else f"{self.stem}-{self.labels_field}"

    @property
    def stem(self) -> str:
        """How tables call it where its texts are out-of-distribution inputs."""
        return self.path.resolve().name.split(".")[0]


@dataclass(frozen=True)
class Settings:
    """What is tried.

    Attributes
    ----------
    methods : sequence of str
        Ways to train.
    seeds : int
        Each method is fitted with the seeds 0 to `seeds` - 1.
    members : int
        Members of an ensemble.
    beam : int
        Width of the search.
    missing : {"delta", "exact", "bound"}
        What stands for a member's vote on a label that it did not meet; 0 ("delta") in the paper.
    weight_threshold : float
        Weights smaller than this are dropped.
    ood_rows : int
        At most so many inputs of other data.
    quick : bool
        Train on at most 2,000 inputs and evaluate at most 500.
    deep : DeepSettings or None
        The transformer whose embeddings stand beside the words; None for words alone.
    """

    methods: Sequence[str] = METHODS
    seeds: int = 3
    members: int = 10
    beam: int = 50
    missing: str = "delta"
    weight_threshold: float = 0.05
    ood_rows: int = 2000
    quick: bool = False
    deep: DeepSettings | None = None

    def __post_init__(self) -> None:
        unknown = [method for method in self.methods if method not in METHODS]
        if unknown or not self.methods:
            raise ValueError(f"methods is {list(self.methods)}; choose from {', '.join(METHODS)}")
        for name in ("seeds", "members", "beam", "ood_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def rows(self) -> list[str]:
        """The rows of the tables: with a transformer, words alone stand beside."""
        if self.deep is None:
            return list(self.methods)
        return [WORDS, *self.methods, *([OWN_ENCODERS] if self.deep.encoders else [])]

    @property
    def order(self) -> list[tuple[str, int]]:
        """Rows and seeds as they are done: all that share an encoder one after the other."""
        if self.deep is None:
            return [(row, seed) for row in self.rows for seed in range(self.seeds)]
        return [(row, seed) for seed in range(self.seeds) for row in self.rows]

    def work(self, method: str) -> int:
        """How much there is to do for a method, in models that are trained."""
        if method == OWN_ENCODERS:
            return self.members * (1 + _TUNING_WORK)
        return 1 if method in ("single", "mc-dropout", WORDS) else self.members


@dataclass(frozen=True)
class Experiment:
    """One method on one data set with one seed, done.

    Attributes
    ----------
    data, method : str
        Their names.
    seed : int
        Seed of the model.
    found : dict
        As of `Evaluation.to_dict`; with "fit_seconds", and of boosted bagging "efficiency" and "theorems".
        With a transformer also "fine_tuning", the report on the encoder that the methods of a seed share.
    """

    data: str
    method: str
    seed: int
    found: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class _Loaded:
    """A data set in memory."""

    train: Part
    test: Part

    @property
    def estimator(self) -> type[HedgerowClassifier]:
        return HedgerowTextClassifier if self.train.X is None else HedgerowClassifier

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what is learned and judged, the same wherever the data lie."""
        digest = xxhash.xxh3_128()
        for part in (self.train, self.test):
            for strings in (part.texts, part.label_names):
                _add_strings(digest, strings or ())
            for matrix in (part.X, part.Y):
                if matrix is not None:
                    digest.update(np.asarray(matrix.indptr, dtype=np.int64).tobytes())
                    digest.update(np.asarray(matrix.indices, dtype=np.int64).tobytes())
            if part.X is not None:
                digest.update(np.asarray(part.X.data, dtype=np.float32).tobytes())
        return str(digest.hexdigest())


def _add_strings(digest: xxhash.xxh3_128, strings: Iterable[object]) -> None:
    for text in strings:
        encoded = str(text).encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)


def run(
    sources: Sequence[Source],
    strangers: Sequence[Source],
    folder: Path,
    settings: Settings,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Experiment]:
    """Do all experiments that are not done yet.

    Parameters
    ----------
    sources : sequence of Source
        Data to fit and evaluate. Those with texts are out-of-distribution inputs to each other, too.
    strangers : sequence of Source
        Data that serve as out-of-distribution inputs only.
    folder : Path
        Where results are kept; a folder of another run with other settings, data or out-of-distribution
        inputs is refused.
    settings : Settings
        What is tried.
    n_jobs : int or None
        Threads.
    progress : callable(share, what), optional
        Called as the work goes on.

    Returns
    -------
    list of Experiment
    """
    _check_names(sources, strangers)
    told = progress or (lambda share, what: None)
    if settings.deep is not None:
        settings.deep.check()
    work = sum(settings.work(method) for method, _ in settings.order)
    if settings.deep is not None:
        work += settings.seeds * _TUNING_WORK
    clock = _Clock(told, len(sources) * work)
    texts: dict[Source, list[str]] = {}

    def ood(source: Source, loaded: _Loaded) -> dict[str, list[str]]:
        return _ood(source, loaded, [*sources, *strangers], settings, texts)

    experiments = []
    for source in sources:
        bench = _Bench(source, ood, settings, folder, n_jobs, clock, told)
        for method, seed in settings.order:
            path = folder / "experiments" / source.name / f"{method}-{seed}.json"
            found = _read(path, settings)
            if found is None:
                found = bench.experiment(method, seed, path)
                _write(path, found)
            else:
                bench.check(path, found)
                clock.skip(settings.work(method))
            experiments.append(Experiment(source.name, method, seed, found))
            if method == settings.rows[-1]:
                bench.end_seed(seed)
    return experiments


def _check_names(sources: Sequence[Source], strangers: Sequence[Source]) -> None:
    """Refuse data that tables could not tell apart."""
    different = {source.path.resolve(): source.stem for source in (*sources, *strangers)}
    for names in ([source.name for source in sources], list(different.values())):
        if len(set(names)) < len(names):
            raise ValueError(f"two data sets have the same name: {', '.join(sorted(names))}; rename a folder")


class _Clock:
    """Turns the progress of one experiment into that of all; those found on disk count as no work."""

    def __init__(self, told: Progress, work: int) -> None:
        self._told, self._all, self._done = told, work, 0

    @property
    def share(self) -> float:
        return self._done / max(1, self._all)

    def skip(self, work: int) -> None:
        self._all -= work

    def begin(self, title: str, work: int) -> Progress:
        return lambda share, what: self._told(
            min(1.0, (self._done + work * share) / max(1, self._all)), f"{title}: {what}"
        )

    def end(self, work: int) -> None:
        self._done += work


def _load(source: Source, settings: Settings, n_jobs: int | None) -> _Loaded:
    threads = threads_for(n_jobs)
    train = read_part(source.path, "train", labels_field=source.labels_field, threads=threads)
    test = read_part(source.path, "test", labels_field=source.labels_field, threads=threads)
    for name, part in (("train", train), ("test", test)):
        if part.Y is None or part.n == 0:
            raise DataError(source.path, f"its {name} part has no labels; name their field as PATH:FIELD")
    if settings.deep is not None and train.X is not None:
        raise DataError(source.path, "it has features and no texts, which a transformer reads; give it texts")
    if (train.X is None) != (test.X is None):
        raise DataError(source.path, "one of its parts has features and the other has texts")
    if settings.quick:
        train, test = _thinned(train, _QUICK_TRAIN), _thinned(test, _QUICK_TEST)
    return _Loaded(train, test)


def _thinned(part: Part, most: int) -> Part:
    """Some rows, evenly spread; the label space stays."""
    if part.n <= most:
        return part
    rows = np.linspace(0, part.n - 1, most).astype(int)
    return Part(
        X=None if part.X is None else part.X[rows],
        texts=None if part.texts is None else [part.texts[row] for row in rows],
        Y=None if part.Y is None else part.Y[rows],
        label_names=part.label_names,
        ids=None if part.ids is None else [part.ids[row] for row in rows],
    )


def _ood(
    own: Source, loaded: _Loaded, others: Sequence[Source], settings: Settings, texts: dict[Source, list[str]]
) -> dict[str, list[str]]:
    """Texts of other data; data without texts have no out-of-distribution inputs and are none."""
    if loaded.train.X is not None:
        return {}
    found: dict[str, list[str]] = {}
    seen = {own.path.resolve()}
    for other in others:
        if other.path.resolve() in seen:
            continue
        seen.add(other.path.resolve())
        if other not in texts:
            texts[other] = _read_texts(other, settings)
        if texts[other]:
            found[other.stem] = texts[other]
    return found


def _read_texts(source: Source, settings: Settings) -> list[str]:
    part = read_part(source.path, "test" if source.path.is_dir() else None, labels_field=None)
    return (_thinned(part, settings.ood_rows).texts if part.texts else None) or []


class _Bench:
    """Where the experiments of one data set are done; its data are read when they are needed."""

    def __init__(
        self,
        source: Source,
        ood: Callable[[Source, _Loaded], dict[str, list[str]]],
        settings: Settings,
        folder: Path,
        n_jobs: int | None,
        clock: _Clock,
        told: Progress,
    ) -> None:
        self._source, self._settings, self._n_jobs = source, settings, n_jobs
        self._ood, self._clock, self._told = ood, clock, told
        self._encoders: dict[int, SharedEncoder] = {}
        self._kept = folder / "encoders"
        if settings.deep is not None and settings.deep.kept is not None:
            self._kept = settings.deep.kept

    @cached_property
    def loaded(self) -> _Loaded:
        self._told(self._clock.share, f"{self._source.name}: reading")
        return _load(self._source, self._settings, self._n_jobs)

    @cached_property
    def ood(self) -> dict[str, list[str]]:
        return self._ood(self._source, self.loaded)

    @cached_property
    def ood_marks(self) -> dict[str, str]:
        """A hash of the texts of each out-of-distribution input."""
        marks = {}
        for name, texts in self.ood.items():
            digest = xxhash.xxh3_128()
            _add_strings(digest, texts)
            marks[name] = str(digest.hexdigest())
        return marks

    def check(self, path: Path, found: Mapping[str, Any]) -> None:
        """Refuse an experiment on other data of the same name, or with other out-of-distribution inputs.

        Its file may come from another machine, or from a release that noted neither.
        """
        if "data" in found and found["data"] != self.loaded.fingerprint:
            raise ValueError(
                f"{path} was made with other data of the name {self._source.name}; choose another folder, or"
                " delete it"
            )
        known = found.get("ood_marks")
        if known is not None and known != self.ood_marks:
            names = ", ".join(sorted(known)) or "none"
            wanted = ", ".join(sorted(self.ood_marks)) or "none"
            raise ValueError(
                f"{path} was made with other out-of-distribution inputs ({names}) than those of now"
                f" ({wanted}); choose another"
                " folder, or delete it"
            )

    def experiment(self, method: str, seed: int, path: Path) -> dict[str, Any]:
        title = f"{self._source.name}, {method}, seed {seed}"
        shared, tuning = None, None
        if self._settings.deep is not None and method not in (WORDS, OWN_ENCODERS):
            shared, tuning = self._shared(seed)
        work = self._settings.work(method)
        report = self._clock.begin(title, work)
        model = _model(self.loaded, method, seed, self._settings, self._n_jobs, shared)
        kept = path.with_suffix(".members")
        if self._settings.deep is not None:
            kept = self._kept / self._source.name / kept.name
        found = _experiment(self.loaded, model, self.ood, method, seed, kept, report)
        found["reproduction"] = _mark(self._settings)
        found["data"] = self.loaded.fingerprint
        found["ood_marks"] = self.ood_marks
        if self._settings.deep is not None:
            found["machine"] = {**machine(self._n_jobs), **computed_on(self._settings.deep.device)}
        if tuning is not None:
            found["fine_tuning"] = tuning
        self._clock.end(work)
        return found

    def end_seed(self, seed: int) -> None:
        """All methods of a seed are done."""
        if seed in self._encoders:
            self._encoders[seed].forget_embeddings()
        elif self._settings.deep is not None:
            self._clock.skip(_TUNING_WORK)

    def _shared(self, seed: int) -> tuple[SharedEncoder, dict[str, Any]]:
        deep = cast("DeepSettings", self._settings.deep)
        new = seed not in self._encoders
        if new:
            data = f"{self._source.name} {self.loaded.fingerprint}"
            self._encoders[seed] = SharedEncoder(deep, self._kept, data, seed)
        title = f"{self._source.name}, encoder of seed {seed}"
        report = self._encoders[seed].tune(
            self.loaded.train, self._n_jobs, self._clock.begin(title, _TUNING_WORK)
        )
        if new:
            self._clock.end(_TUNING_WORK)
        return self._encoders[seed], report


def _model(
    data: _Loaded,
    method: str,
    seed: int,
    settings: Settings,
    n_jobs: int | None,
    shared: SharedEncoder | None,
) -> HedgerowClassifier:
    options: dict[str, Any] = {
        "members": settings.members,
        "beam": settings.beam,
        "missing": settings.missing,
        "weight_threshold": settings.weight_threshold,
        "random_state": seed,
        "n_jobs": n_jobs,
    }
    if settings.deep is None or method == WORDS:
        return data.estimator(method="single" if method == WORDS else method, **options)
    if shared is None:
        return settings.deep.estimator(method, **options)
    return settings.deep.estimator(method, shared.path, cache=shared.embeddings, **options)


def _experiment(
    data: _Loaded,
    model: HedgerowClassifier,
    ood: Mapping[str, list[str]],
    method: str,
    seed: int,
    kept: Path,
    progress: Progress,
) -> dict[str, Any]:
    train, test = data.train, data.test
    inputs = train.texts if train.X is None else train.X
    queries = test.texts if test.X is None else test.X
    start = time.perf_counter()
    model.fit(
        inputs,
        train.Y,
        classes=train.label_names,
        checkpoint=None if model.method in ("single", "mc-dropout") else kept,
        progress=lambda share, what: progress(0.6 * share, what),
    )
    seconds = time.perf_counter() - start
    Y, _ = align_labels(cast("csr_array", test.Y), test.label_names, model.classes_)
    found = evaluate(
        model,
        queries,
        Y,
        ood=ood,
        progress=lambda share, what: progress(0.6 + 0.3 * share, what),
    ).to_dict()
    found["fit_seconds"] = seconds
    if method == "boosted-bagging" and seed == 0:
        progress(0.9, "searching through all labels")
        rows = _spread(test.n, _COST_LABELS // Y.shape[1])
        found["efficiency"] = [asdict(cost) for cost in beam_costs(model, take(queries, rows), Y[rows])]
        found["efficiency_inputs"] = len(rows)
        progress(0.97, "checking the theorems")
        rows = _spread(test.n, _THEOREM_LABELS // Y.shape[1])
        found["theorems"] = asdict(check_theorems(model, take(queries, rows)))
    shutil.rmtree(kept, ignore_errors=True)
    return found


def _spread(count: int, most: int) -> np.ndarray:
    return np.linspace(0, count - 1, max(1, min(count, most))).astype(int)


def _mark(settings: Settings) -> dict[str, Any]:
    """What must be the same for two experiments to stand in one table."""
    own = {of.name: getattr(settings, of.name) for of in fields(settings)}
    # More methods and seeds can be added later.
    mark = {name: own[name] for name in own if name not in ("methods", "seeds", "deep")}
    return {
        **mark,
        **({} if settings.deep is None else settings.deep.mark()),
        "version": metadata.version("hedgerow"),
    }


def _read(path: Path, settings: Settings) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
        mark = found["reproduction"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no finished experiment; delete it to do it again") from error
    if mark != _mark(settings):
        wanted = _mark(settings)
        other = next(name for name in {**wanted, **mark} if mark.get(name) != wanted.get(name))
        raise ValueError(
            f"{path} was made with {other} = {mark.get(other)!r}, not {wanted.get(other)!r}; choose another"
            " folder, or delete this one"
        )
    return found


def _write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, overwrite=True) as file:
        file.write(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
