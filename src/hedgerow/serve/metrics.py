"""What the server counts, in the text format of Prometheus."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["CONTENT_TYPE", "Histogram", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_INPUTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    r"""Counts values up to bounds.

    Examples
    --------
    >>> sizes = Histogram((1, 10))
    >>> for size in (1, 4, 40):
    ...     sizes.add(size)
    >>> print(*sizes.lines("size", {}), sep="\n")
    size_bucket{le="1"} 1
    size_bucket{le="10"} 2
    size_bucket{le="+Inf"} 3
    size_sum 45
    size_count 3
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: dict[str, str]) -> list[str]:
        """The samples of the histogram."""
        found, below = [], 0
        for bound, count in zip([*map(_number, self._bounds), "+Inf"], self._counts, strict=True):
            below += count
            found.append(f"{name}_bucket{_labels({**labels, 'le': bound})} {below}")
        return [
            *found,
            f"{name}_sum{_labels(labels)} {_number(self._sum)}",
            f"{name}_count{_labels(labels)} {below}",
        ]


class Metrics:
    """Counts requests, their times, and the batches they made."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.inputs = 0
        self.batches = Histogram(_INPUTS)
        self.reloads: Counter[str] = Counter()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Parameters
        ----------
        method : str
            How it was asked.
        path : str
            The route, without what differs between requests.
        status : int
            Status code of the answer.
        seconds : float
            How long it took.
        """
        self._requests[method, path, status] += 1
        if path not in self._seconds:
            self._seconds[path] = Histogram(_SECONDS)
        self._seconds[path].add(seconds)

    def batch(self, inputs: int) -> None:
        """Count a call of the engine."""
        self.inputs += inputs
        self.batches.add(inputs)

    def render(self, model: str, waiting: int, review: int) -> str:
        """Write all as text.

        Parameters
        ----------
        model : str
            The id of the model that answers.
        waiting : int
            Inputs that wait for the engine.
        review : int
            Texts that wait for a reviewer.
        """
        lines = _family(
            "hedgerow_requests_total",
            "counter",
            "Answered requests.",
            (
                "hedgerow_requests_total"
                f"{_labels({'method': method, 'path': path, 'status': str(status)})} {count}"
                for (method, path, status), count in sorted(self._requests.items())
            ),
        )
        lines += _family(
            "hedgerow_request_seconds",
            "histogram",
            "Time from the head of a request to the end of its answer.",
            (
                line
                for path, seconds in sorted(self._seconds.items())
                for line in seconds.lines("hedgerow_request_seconds", {"path": path})
            ),
        )
        lines += _family(
            "hedgerow_batch_inputs",
            "histogram",
            "Inputs of each call of the engine.",
            self.batches.lines("hedgerow_batch_inputs", {}),
        )
        lines += _family(
            "hedgerow_reloads_total",
            "counter",
            "Attempts to load the model file anew.",
            (
                f"hedgerow_reloads_total{_labels({'result': result})} {count}"
                for result, count in sorted(self.reloads.items())
            ),
        )
        for name, kind, about, value in (
            ("hedgerow_inputs_total", "counter", "Predicted inputs.", self.inputs),
            ("hedgerow_in_flight", "gauge", "Requests that are being answered.", self.in_flight),
            ("hedgerow_waiting_inputs", "gauge", "Inputs that wait for the engine.", waiting),
            ("hedgerow_review_waiting", "gauge", "Texts that wait for a reviewer.", review),
        ):
            lines += _family(name, kind, about, [f"{name} {value}"])
        info = f"hedgerow_model_info{_labels({'id': model})} 1"
        lines += _family("hedgerow_model_info", "gauge", "The model that answers.", [info])
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, samples: Iterable[str]) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
