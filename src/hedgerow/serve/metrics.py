"""What the server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from .watching import RECENT, WatchedShares

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_INPUTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# The time at which a series began would double the number of series, and nobody reads it.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts requests, their times, and the batches they made, in a registry of its own."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter(
            "hedgerow_requests", "Answered requests.", ("method", "path", "status"), registry=own
        )
        self._seconds = Histogram(
            "hedgerow_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=own,
        )
        self._batches = Histogram(
            "hedgerow_batch_inputs", "Inputs per call of the engine.", buckets=_INPUTS, registry=own
        )
        self._inputs = Counter("hedgerow_inputs", "Predicted inputs.", registry=own)
        self._reloads = Counter(
            "hedgerow_reloads", "Attempts to re-load the model file.", ("result",), registry=own
        )
        self._promotions = Counter(
            "hedgerow_promotions", "What became of models that were to answer.", ("result",), registry=own
        )
        self._refused = Gauge(
            "hedgerow_candidate_refused",
            "1 while the last model that was to answer is refused.",
            registry=own,
        )
        self.in_flight = Gauge("hedgerow_in_flight", "Requests that are being answered.", registry=own)
        self._waiting = Gauge("hedgerow_waiting_inputs", "Inputs that wait for the engine.", registry=own)
        self._review = Gauge("hedgerow_review_waiting", "Texts that wait for review.", registry=own)
        recent = f"of the last {RECENT:,} inputs"
        self._shares = {
            name: Gauge(f"hedgerow_{metric}", words, registry=own)
            for name, metric, words in (
                ("ood", "ood_share", f"Share {recent} that are flagged as out-of-distribution."),
                ("accepted", "accepted_share", f"Share {recent} decided on that are given a label."),
                ("reviewed", "reviewed_share", f"Share {recent} decided on that have a label to review."),
                ("best", "best_probability_mean", f"Mean probability of the best label {recent}."),
                (
                    "log10",
                    "shift_martingale_log10",
                    "Decimal logarithm of the test martingale for shift, since the model was loaded.",
                ),
                (
                    "highest_log10",
                    "shift_martingale_highest_log10",
                    "Its highest value: 2 or more is an alarm, with a chance of 1 % at most without shift.",
                ),
            )
        }
        self._model = Info("hedgerow_model", "The model that answers.", registry=own)

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an answered request; `path` is the route, without what differs between requests."""
        self._requests.labels(method, path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, inputs: int) -> None:
        """Count a call of the engine."""
        self._inputs.inc(inputs)
        self._batches.observe(inputs)

    def reload(self, result: str) -> None:
        """Count an attempt to re-load the model file: changed, same or refused."""
        self._reloads.labels(result).inc()

    def promotion(self, result: str) -> None:
        """Count what became of a model that was to answer: promoted, refused, rolled-back or failed."""
        self._promotions.labels(result).inc()

    def candidate_refused(self, refused: bool) -> None:
        """Note whether the last model that was to answer is refused."""
        self._refused.set(refused)

    def also(self, collector: Collector) -> None:
        """Ask another one for its counts, too."""
        self._registry.register(collector)

    def render(self, model: str, waiting: int, review: int, shares: WatchedShares) -> bytes:
        """All counts as text; id and shares of the model, inputs and texts that wait are those of now."""
        for name, gauge in self._shares.items():
            gauge.set(getattr(shares, name))
        self._model.info({"id": model})
        self._waiting.set(waiting)
        self._review.set(review)
        return generate_latest(self._registry)
