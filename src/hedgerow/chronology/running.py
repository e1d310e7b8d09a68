"""Trains on the past and judges on what came later, period by period."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import xxhash
from sklearn.base import clone

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.parameters import plain_parameters
from hedgerow.progress import Progress, stage

from .checkpoint import Checkpoint
from .judging import judge
from .periods import Period
from .plan import Plan
from .results import JudgedPeriod, OverTime, PeriodSummary
from .strategies import KEEPERS, FirstModel, Past
from .stream import Stream
from .training import Make, Trainer

__all__ = ["over_time"]


def over_time(
    estimator: HedgerowClassifier | Make,
    X: Any,
    Y: Any,
    times: Any,
    plan: Plan | None = None,
    *,
    classes: list[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    finished: Callable[[JudgedPeriod], None] | None = None,
) -> OverTime:
    """Train on the past and judge on each later period, for several ways to keep a model up to date.

    Records are put in order of time and cut into periods. The first period is only learned from. Before each
    later one, every strategy gives the model that it would have had then; the end of what it learns from is
    held out, and calibrates the model and sets the thresholds of its guarantees. So nothing is judged on
    what a model has seen, and nothing is learned from the future.

    Parameters
    ----------
    estimator : HedgerowClassifier, or callable(X, Y)
        What is fitted, again for each past; it is not changed. A callable makes one for the data at hand,
        such as with the parameters of a preset.
    X : sparse matrix, array, or texts
        Inputs, in any order.
    Y : indicator matrix, or lists of labels
        Their labels.
    times : Times or sequence
        When each input is from: dates, years, numbers, or strings of them, all of one kind.
    plan : Plan, optional
        Periods, strategies and goals.
    classes : list of str, optional
        Names of the columns of an indicator matrix.
    settings : mapping, optional
        What a callable `estimator` depends on; a checkpoint of other settings is refused.
    checkpoint : path-like, optional
        A folder for periods that were judged; the same call goes on from there.
    progress : callable(share, what), optional
        Called while models are trained and judged, with the share of periods that are done.
    finished : callable(JudgedPeriod), optional
        Called after each period of each strategy.

    Returns
    -------
    OverTime

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier
    >>> words = {"elm": "broad leaves", "yew": "red arils"}
    >>> labels = [["elm"] if row % 2 else ["yew"] for row in range(1800)]
    >>> texts = [f"tree {row} has {words[label]}" for row, [label] in enumerate(labels)]
    >>> plan = Plan(periods=3, strategies=("never-updated",))
    >>> found = over_time(HedgerowTextClassifier(random_state=0), texts, labels, range(1800), plan)
    >>> [one.precision["1"] for one in found.judged["never-updated"]]
    [1.0, 1.0]
    """
    plan = plan or Plan()
    stream = Stream.of(X, Y, times, classes)
    periods = plan.cut(stream.times)
    kept = Checkpoint(None, {})
    if checkpoint is not None:
        kept = Checkpoint(Path(checkpoint), _asked(stream, plan, estimator, settings))
    steps = _Steps(len(plan.strategies) * (len(periods) - 1), progress)
    trainer = Trainer(stream, _maker(estimator), plan.held_out, plan.seed, steps.inside)
    first = FirstModel(trainer)
    keepers = {strategy: KEEPERS[strategy](trainer, first) for strategy in plan.strategies}
    judged: dict[str, list[JudgedPeriod]] = {strategy.value: [] for strategy in plan.strategies}
    for number, (period, past) in enumerate(_pasts(periods), start=1):
        for strategy, keeper in keepers.items():
            steps.begin(f"{strategy.words}, {period.name}")
            found = kept.find(strategy.value, number)
            if found is None:
                begin = time.perf_counter()
                model = keeper.model_for(past)
                found = _judged(model, strategy.value, period, stream, plan, steps.inside, begin)
                kept.keep(number, found)
            judged[strategy.value].append(found)
            steps.end()
            if finished is not None:
                finished(found)
    return OverTime(plan, _summaries(stream, periods), {name: tuple(of) for name, of in judged.items()})


def _asked(
    stream: Stream, plan: Plan, estimator: HedgerowClassifier | Make, settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What periods of the same run share; neither more strategies nor threads change what one finds."""
    own = plain_parameters(estimator) if isinstance(estimator, HedgerowClassifier) else dict(settings or {})
    return {
        "hedgerow": version("hedgerow"),
        "data": _fingerprint(stream),
        "plan": {name: value for name, value in plan.to_dict().items() if name != "strategies"},
        "settings": {name: value for name, value in own.items() if name != "n_jobs"},
    }


def _maker(estimator: HedgerowClassifier | Make) -> Make:
    if isinstance(estimator, HedgerowClassifier):
        return lambda X, Y: clone(estimator)
    return estimator


def _pasts(periods: list[Period]) -> Iterator[tuple[Period, Past]]:
    """Each period that is judged, and what is known when it begins."""
    for place in range(1, len(periods)):
        over = [period.rows for period in periods[:place]]
        ends = tuple(np.cumsum([len(rows) for rows in over]).tolist())
        yield periods[place], Past(over[0], np.concatenate(over), over[-1], ends)


def _judged(
    model: HedgerowClassifier,
    strategy: str,
    period: Period,
    stream: Stream,
    plan: Plan,
    progress: Progress,
    begin: float,
) -> JudgedPeriod:
    source = model.source
    truth = stream.truth(period.rows, source.classes)
    found = judge(source, stream.take(period.rows), truth, plan, stage(progress, "judging"))
    counts = source.label_counts
    return JudgedPeriod(
        strategy=strategy,
        period=period.name,
        trained=int(source.n_samples or 0),
        known_labels=len(source.classes) if counts is None else int(np.count_nonzero(counts)),
        inputs=len(period.rows),
        true_labels=int(truth.nnz),
        seconds=round(time.perf_counter() - begin, 3),
        **vars(found),
    )


def _summaries(stream: Stream, periods: list[Period]) -> tuple[PeriodSummary, ...]:
    seen = np.zeros(len(stream.names), dtype=bool)
    found = []
    times = stream.times
    for period in periods:
        labels = stream.labels[period.rows].indices
        first, last = (times.show(times.values[row]) for row in period.rows[[0, -1]])
        new = int(np.count_nonzero(~seen[labels]))
        found.append(PeriodSummary(period.name, first, last, len(period.rows), len(labels), new))
        seen[labels] = True
    return tuple(found)


def _fingerprint(stream: Stream) -> str:
    """Of inputs, labels and times."""
    digest = xxhash.xxh3_128()
    inputs: Any = stream.inputs
    arrays = [stream.labels.indptr, stream.labels.indices, stream.times.values]
    if sp.issparse(inputs):
        rows = sp.csr_array(cast(Any, inputs))
        arrays += [rows.indptr, rows.indices, rows.data]
    elif isinstance(inputs, np.ndarray) and inputs.dtype != object:
        arrays.append(inputs)
    else:
        for text in inputs:
            digest.update(repr(text).encode())
    for values in arrays:
        digest.update(np.ascontiguousarray(values).tobytes())
    digest.update("\0".join(stream.names.tolist()).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class _Steps:
    """The share of periods that are done, and what is being done in one."""

    def __init__(self, number: int, progress: Progress | None) -> None:
        self._number, self._progress = number, progress
        self._done, self._what = 0, ""

    def begin(self, what: str) -> None:
        self._what = what
        self._report(what)

    def inside(self, share: float, what: str) -> None:
        self._report(f"{self._what}: {what}, {100 * share:.0f} %")

    def end(self) -> None:
        self._done += 1
        self._report(self._what)

    def _report(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._done / self._number, what)
