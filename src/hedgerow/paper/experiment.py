"""Fits every method to every data set with every seed and evaluates it; what is done is not done again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import orjson
from scipy.sparse import csr_array

from hedgerow.data import DataError
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.evaluation.tasks import evaluate
from hedgerow.inputs.labels import align_labels
from hedgerow.inputs.rows import take
from hedgerow.inputs.threads import threads_for
from hedgerow.paper.efficiency import beam_costs, check_theorems
from hedgerow.progress import Progress
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.training.presets import PAPER
from hedgerow.training.settings import METHODS

from .deep_models import OWN_ENCODERS, WORDS, DeepSettings, SharedEncoder, computed_on
from .machine import machine
from .sources import LoadedData, OodTexts, Source, evenly_spread, hash_strings, load

_COST_LABELS = 16_000_000  # inputs times labels of the search through all labels
_THEOREM_LABELS = 2_000_000
_TUNING_WORK = 8  # of fine-tuning, in models that are trained


@dataclass(frozen=True)
class ExperimentSettings:
    """What is tried.

    Each method is fitted with the seeds 0 to `seeds` - 1. `missing` says what stands for a member's vote on a
    label that it did not score; 0 ("delta") in the paper. Weights below `weight_threshold` are dropped, at
    most `ood_rows` inputs of other data are taken, and `quick` trains on at most 2,000 inputs and evaluates
    at most 500. `deep` is the transformer whose embeddings stand beside the words, None for words alone.
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
            if vars(self)[name] < 1:
                raise ValueError(f"{name} is {vars(self)[name]}; it must be at least 1")

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

    @property
    def all_work(self) -> int:
        """How much there is to do for a data set."""
        tuning = 0 if self.deep is None else self.seeds * _TUNING_WORK
        return tuning + sum(self.work(method) for method, _ in self.order)

    def mark(self) -> dict[str, Any]:
        """What must be the same for two experiments to stand in one table."""
        # More methods and seeds can be added later.
        own = {name: value for name, value in vars(self).items() if name not in ("methods", "seeds", "deep")}
        deep = {} if self.deep is None else self.deep.mark()
        return {**own, **deep, "version": metadata.version("hedgerow")}


@dataclass(frozen=True)
class Experiment:
    """One method on one data set with one seed, done.

    `found` is as of `Evaluation.to_dict`; with "fit_seconds", and of boosted bagging "efficiency" and
    "theorems". With a transformer also "fine_tuning", the report on the encoder that the methods of a seed
    share.
    """

    data: str
    method: str
    seed: int
    found: Mapping[str, Any] = field(repr=False)


def run(
    sources: Sequence[Source],
    strangers: Sequence[Source],
    folder: Path,
    settings: ExperimentSettings,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Experiment]:
    """Do all experiments that are not done yet.

    Sources with texts are out-of-distribution inputs to each other; `strangers` only serve as such. Results
    are kept in `folder`; one of another run with other settings, data or out-of-distribution inputs is
    refused.
    """
    _check_names(sources, strangers)
    if settings.deep is not None:
        settings.deep.check()
    clock = _Clock(progress or (lambda share, what: None), len(sources) * settings.all_work)
    ood = OodTexts([*sources, *strangers], settings.ood_rows)
    experiments = []
    for source in sources:
        bench = _Bench(source, ood, settings, folder, n_jobs, clock)
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
    """Refuse data that would have the same name in tables."""
    different = {source.path.resolve(): source.stem for source in (*sources, *strangers)}
    for names in ([source.name for source in sources], list(different.values())):
        if len(set(names)) < len(names):
            raise ValueError(f"two data sets have the same name: {', '.join(sorted(names))}; rename a folder")


class _Clock:
    """Turns the progress of one experiment into that of all; those found on disk count as no work."""

    def __init__(self, report: Progress, work: int) -> None:
        self._report, self._all, self._done = report, work, 0

    def skip(self, work: int) -> None:
        self._all -= work

    def begin(self, title: str, work: int) -> Progress:
        return lambda share, what: self._report(
            min(1.0, (self._done + work * share) / max(1, self._all)), f"{title}: {what}"
        )

    def end(self, work: int) -> None:
        self._done += work


class _Bench:
    """Where the experiments of one data set are done; its data are read when they are needed."""

    def __init__(
        self,
        source: Source,
        ood: OodTexts,
        settings: ExperimentSettings,
        folder: Path,
        n_jobs: int | None,
        clock: _Clock,
    ) -> None:
        self._source, self._settings, self._n_jobs = source, settings, n_jobs
        self._ood, self._clock = ood, clock
        self._encoders: dict[int, SharedEncoder] = {}
        self._kept = folder / "encoders"
        if settings.deep is not None and settings.deep.kept is not None:
            self._kept = settings.deep.kept

    @cached_property
    def data(self) -> LoadedData:
        self._clock.begin(self._source.name, 0)(0, "reading")
        loaded = load(self._source, self._settings.quick, threads_for(self._n_jobs))
        if self._settings.deep is not None and not loaded.has_texts:
            raise DataError(
                self._source.path, "it has features and no texts, which a transformer reads; give it texts"
            )
        return loaded

    @cached_property
    def ood(self) -> dict[str, list[str]]:
        """Texts of other data; to data without texts there are none."""
        return self._ood.beside(self._source) if self.data.has_texts else {}

    @cached_property
    def ood_marks(self) -> dict[str, str]:
        """A hash of the texts of each other data set."""
        return {name: hash_strings(texts) for name, texts in self.ood.items()}

    def check(self, path: Path, found: Mapping[str, Any]) -> None:
        """Refuse an experiment on other data of the same name, or with other out-of-distribution inputs.

        Its file may come from another machine, or from a release that noted neither.
        """
        if "data" in found and found["data"] != self.data.fingerprint:
            raise ValueError(
                f"{path} was made with other data of the name {self._source.name}; choose another folder, or"
                " delete it"
            )
        known = found.get("ood_marks")
        if known is not None and known != self.ood_marks:
            names, wanted = (", ".join(sorted(marks)) or "none" for marks in (known, self.ood_marks))
            raise ValueError(
                f"{path} was made with other out-of-distribution inputs ({names}) than those of now"
                f" ({wanted}); choose another folder, or delete it"
            )

    def experiment(self, method: str, seed: int, path: Path) -> dict[str, Any]:
        """Fit and evaluate; members that are trained are kept until that is done."""
        shared, tuning = None, None
        if self._settings.deep is not None and method not in (WORDS, OWN_ENCODERS):
            shared, tuning = self._shared(seed)
        work = self._settings.work(method)
        progress = self._clock.begin(f"{self._source.name}, {method}, seed {seed}", work)
        members = path.with_suffix(".members")
        if self._settings.deep is not None:
            members = self._kept / self._source.name / members.name
        model = self._model(method, seed, shared)
        found = self._fit_and_evaluate(model, members, progress)
        if method == "boosted-bagging" and seed == 0:
            found |= self._search_costs(model, progress)
        shutil.rmtree(members, ignore_errors=True)
        found["reproduction"] = self._settings.mark()
        found["data"] = self.data.fingerprint
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
            data = f"{self._source.name} {self.data.fingerprint}"
            self._encoders[seed] = SharedEncoder(deep, self._kept, data, seed)
        progress = self._clock.begin(f"{self._source.name}, encoder of seed {seed}", _TUNING_WORK)
        report = self._encoders[seed].tune(self.data.train, self._n_jobs, progress)
        if new:
            self._clock.end(_TUNING_WORK)
        return self._encoders[seed], report

    def _model(self, method: str, seed: int, shared: SharedEncoder | None) -> HedgerowClassifier:
        settings = self._settings
        options: dict[str, Any] = {
            "members": settings.members,
            "beam": settings.beam,
            "missing": settings.missing,
            **PAPER,
            "weight_threshold": settings.weight_threshold,
            "random_state": seed,
            "n_jobs": self._n_jobs,
        }
        if settings.deep is None or method == WORDS:
            kind = HedgerowTextClassifier if self.data.has_texts else HedgerowClassifier
            return kind(method="single" if method == WORDS else method, **options)
        if shared is None:
            return settings.deep.estimator(method, **options)
        return settings.deep.estimator(method, shared.path, cache=shared.embeddings, **options)

    def _fit_and_evaluate(
        self, model: HedgerowClassifier, members: Path, progress: Progress
    ) -> dict[str, Any]:
        train = self.data.train
        inputs, queries = self.data.inputs
        start = time.perf_counter()
        model.fit(
            inputs,
            train.Y,
            classes=train.label_names,
            checkpoint=None if model.method in ("single", "mc-dropout") else members,
            progress=lambda share, what: progress(0.6 * share, what),
        )
        seconds = time.perf_counter() - start
        found = evaluate(
            model,
            queries,
            self._truth(model),
            ood=self.ood,
            progress=lambda share, what: progress(0.6 + 0.3 * share, what),
        ).to_dict()
        return {**found, "fit_seconds": seconds}

    def _truth(self, model: HedgerowClassifier) -> csr_array:
        test = self.data.test
        return align_labels(cast("csr_array", test.Y), test.label_names, model.classes_)[0]

    def _search_costs(self, model: HedgerowClassifier, progress: Progress) -> dict[str, Any]:
        """What beam search costs and loses, on as many inputs as a search through all labels allows."""
        Y, (_, queries) = self._truth(model), self.data.inputs
        progress(0.9, "searching through all labels")
        rows = evenly_spread(Y.shape[0], _COST_LABELS // Y.shape[1])
        costs = beam_costs(model, take(queries, rows), Y[rows])
        progress(0.97, "checking the theorems")
        few = evenly_spread(Y.shape[0], _THEOREM_LABELS // Y.shape[1])
        return {
            "efficiency": [asdict(cost) for cost in costs],
            "efficiency_inputs": len(rows),
            "theorems": asdict(check_theorems(model, take(queries, few))),
        }


def _read(path: Path, settings: ExperimentSettings) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
        mark = found["reproduction"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a finished experiment; delete it to do it again") from error
    wanted = settings.mark()
    for name in {**wanted, **mark}:
        if mark.get(name) != wanted.get(name):
            raise ValueError(
                f"{path} was made with {name} = {mark.get(name)!r}, not {wanted.get(name)!r}; choose another"
                " folder, or delete this one"
            )
    return found


def _write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, overwrite=True) as file:
        file.write(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
