"""A candidate answers what clients ask, too, and nobody but the statistics sees its answers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hedgerow.decisions.goals import Goal
from hedgerow.storage.container import ModelFileError

from .errors import ApiError
from .logs import log_failure
from .model_slot import load_model
from .prediction import Inputs, Wanted, predict
from .served_model import AllowedLabels, ServedModel

__all__ = ["LiveAnswer", "Shadow", "ShadowReport", "ShadowSettings"]

_BEST = 5
_LISTED = 20  # labels that the candidate gives; what is not among them counts as probability 0
_WAITING = 64  # requests; more are dropped, so that a slow candidate fills no memory
_NICENESS = 10


@dataclass(frozen=True)
class ShadowSettings:
    """The file of the candidate, and the share of requests that it answers, too."""

    model: Path
    share: float = 1.0


@dataclass(frozen=True)
class ShadowReport:
    """How the candidate's answers differ from those that clients got, since it began or the model changed.

    Shares and means are None where there is nothing to count.
    """

    model: str
    live: str
    share: float
    requests: int
    inputs: int
    dropped: int
    errors: int
    best_differs: float | None
    set_differs: float | None
    decided: int
    accepted_differs: float | None
    probability_difference: float | None
    seconds: float | None
    live_seconds: float | None


@dataclass(frozen=True)
class LiveAnswer:
    """What a client asked and got: the best labels of each input, those accepted (None where nothing is
    decided), and how long that took.
    """

    model: str
    inputs: Inputs
    goal: Goal | None
    allowed: AllowedLabels
    best: list[dict[Any, float]]
    accepted: list[frozenset[Any]] | None
    seconds: float

    @classmethod
    def of(
        cls,
        model: str,
        inputs: Inputs,
        asked: tuple[int, Goal | None, AllowedLabels],
        results: Any,
        seconds: float,
    ) -> LiveAnswer:
        """Take from the results what is compared; `asked` are k, the goal and the labels."""
        k, goal, allowed = asked
        return cls(
            model,
            inputs,
            goal,
            allowed,
            [_best_of(one, min(k, _BEST)) for one in results],
            None if goal is None else [_accepted_of(one) for one in results],
            seconds,
        )


@dataclass
class _Tally:
    live: str
    requests: int = 0
    inputs: int = 0
    dropped: int = 0
    errors: int = 0
    best: int = 0
    sets: int = 0
    decided: int = 0
    accepted: int = 0
    compared: int = 0
    difference: float = 0.0
    seconds: float = 0.0
    live_seconds: float = 0.0
    kinds: set[str] = field(default_factory=set)


class Shadow(Collector):
    """Lets a candidate answer a share of the requests, too, in a thread that gives way to the others."""

    def __init__(self, served: ServedModel, live: ServedModel, share: float) -> None:
        if served.reads_texts != live.reads_texts:
            kinds = ["texts" if of.reads_texts else "features" for of in (live, served)]
            raise ModelFileError(f"the model reads {kinds[0]}, but the one of --shadow reads {kinds[1]}")
        self._served, self._share = served, share
        self._lock = threading.Lock()
        self._tally = _Tally(live.id)
        self._due = 0.0
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "shadow", initializer=_step_back)

    @classmethod
    def open(cls, settings: ShadowSettings, live: ServedModel) -> Shadow:
        """Load the candidate, for one thread. Raises ModelFileError if it cannot answer."""
        return cls(load_model(settings.model, 1), live, settings.share)

    def is_due(self) -> bool:
        """Whether the next request is one for the candidate: of a share of 0.1, every tenth is."""
        self._due += self._share
        if self._due < 1 - 1e-9:
            return False
        self._due -= 1
        return True

    def observe(self, answer: LiveAnswer) -> None:
        """Let the candidate answer the same, later; returns at once."""
        with self._lock:
            if self._tally.live != answer.model:
                self._tally = _Tally(answer.model)
            if self._waiting >= _WAITING:
                self._tally.dropped += 1
                return
            self._waiting += 1
        self._thread.submit(self._work, answer)

    def close(self) -> None:
        """End the thread; what waits is dropped."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def report(self) -> ShadowReport:
        """What was found so far."""
        with self._lock:
            own = self._tally
            return ShadowReport(
                self._served.id,
                own.live,
                self._share,
                own.requests,
                own.inputs,
                own.dropped,
                own.errors,
                _share_of(own.best, own.inputs),
                _share_of(own.sets, own.inputs),
                own.decided,
                _share_of(own.accepted, own.decided),
                _share_of(own.difference, own.compared),
                _share_of(own.seconds, own.requests),
                _share_of(own.live_seconds, own.requests),
            )

    def collect(self) -> Iterator[Metric]:
        """The same for Prometheus."""
        found = self.report()
        for name, words in (
            ("requests", "Requests that the candidate answered, too."),
            ("inputs", "Inputs of these."),
            ("dropped", "Requests that it was too slow for."),
            ("errors", "Requests that it failed on."),
        ):
            yield CounterMetricFamily(f"hedgerow_shadow_{name}", words, getattr(found, name))
        for name, words in (
            ("best_differs", "Share of inputs with another best label."),
            ("set_differs", "Share of inputs with other best five labels."),
            ("accepted_differs", "Share of inputs decided on with other accepted labels."),
            (
                "probability_difference",
                "Mean absolute difference of the probability of the best five labels.",
            ),
            ("seconds", "Mean time of the candidate for a request."),
            ("live_seconds", "Mean time of the model that answers for the same requests, waiting included."),
        ):
            value = getattr(found, name)
            yield GaugeMetricFamily(
                f"hedgerow_shadow_{name}", words, float("nan") if value is None else value
            )

    def _work(self, answer: LiveAnswer) -> None:
        try:
            begin = time.perf_counter()
            results, decided = self._answer(answer)
            seconds = time.perf_counter() - begin
            with self._lock:
                if self._tally.live == answer.model:
                    self._add(answer, results, decided, seconds)
        except Exception as error:
            with self._lock:
                self._tally.errors += 1
                kind = type(error).__name__
                known = kind in self._tally.kinds
                self._tally.kinds.add(kind)
            if not known:  # once, for the next request may fail alike
                log_failure(error, shadow=self._served.id)
        finally:
            with self._lock:
                self._waiting -= 1

    def _answer(self, answer: LiveAnswer) -> tuple[list[dict[str, Any]], bool]:
        """The candidate's results, and whether it could decide."""
        sorting = None
        if answer.goal is not None:
            with contextlib.suppress(ApiError):  # it guarantees nothing like that
                sorting = self._served.sorting(answer.goal)
        wanted = Wanted(
            k=_LISTED, uncertainty=False, sorting=sorting, subset=self._served.subset(answer.allowed)
        )
        return predict(self._served, answer.inputs, wanted), sorting is not None

    def _add(
        self, answer: LiveAnswer, results: Sequence[dict[str, Any]], decided: bool, seconds: float
    ) -> None:
        own = self._tally
        own.requests += 1
        own.seconds += seconds
        own.live_seconds += answer.seconds
        for row, (best, result) in enumerate(zip(answer.best, results, strict=True)):
            theirs = _best_of(result, len(best))
            every = {one["label"]: float(one["probability"]) for one in result["labels"]}
            own.inputs += 1
            own.best += next(iter(best), None) != next(iter(theirs), None)
            own.sets += best.keys() != theirs.keys()
            own.compared += len(best)
            own.difference += sum(abs(value - every.get(label, 0.0)) for label, value in best.items())
            if decided and answer.accepted is not None:
                own.decided += 1
                own.accepted += answer.accepted[row] != _accepted_of(result)


def _step_back() -> None:
    """Give way to all other threads of the process."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _best_of(result: dict[str, Any], k: int) -> dict[Any, float]:
    return {one["label"]: float(one["probability"]) for one in result["labels"][:k]}


def _accepted_of(result: dict[str, Any]) -> frozenset[Any]:
    return frozenset(one["label"] for one in result["labels"] if one.get("decision") == "accept")


def _share_of(part: float, whole: int) -> float | None:
    return part / whole if whole else None
