"""The processors of a Ray cluster: the one module that uses Ray, apart from Ray Data."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hedgerow.training.ray.shard_stream import stream

__all__ = ["ClusterError", "Crew", "check_address", "open_crew"]

Result = TypeVar("Result")

# How many workers or nodes may be lost during one task.
RETRIES = 20
# Tasks in flight for each processor: the next is there when one is done, and results do not pile up.
_AHEAD = 2
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_ANSWER = 5.0
# Ray's client server starts a process for each client, and now and then that process dies as it is forked.
_CONNECTS = 3
_LONGEST = 400
_HOW = "'auto' (the cluster of this machine), 'local' (one that is started for the fit) or 'ray://HOST:PORT'"


class ClusterError(RuntimeError):
    """The cluster is missing, cannot be used, or failed; the message says what to do."""


def check_address(cluster: str) -> None:
    """Raise ValueError unless this can name a cluster.

    Examples
    --------
    >>> check_address("ray://head.example.org:10001")
    >>> check_address("head.example.org")
    Traceback (most recent call last):
    ...
    ValueError: cluster is 'head.example.org'; it must be 'auto' (the cluster of this machine), ...
    """
    if cluster in ("auto", "local"):
        return
    try:
        parts = urlsplit(cluster)
        sound = parts.scheme == "ray" and bool(parts.hostname) and parts.port is not None
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(f"cluster is {cluster!r}; it must be {_HOW}")


@contextlib.contextmanager
def open_crew(cluster: str) -> Iterator[Crew]:
    """Connect to a cluster; a connection that this process has already is used and left open.

    "local" starts a cluster and ends it. Raises ClusterError where the cluster is missing, does not answer or
    runs other versions, and ImportError without Ray.
    """
    check_address(cluster)
    try:
        import ray
    except ImportError as error:
        raise ImportError(f"a cluster needs Ray: pip install 'hedgerow[ray]' ({error})") from error
    own = not ray.is_initialized()
    try:
        if own:
            _connect(ray, cluster)
        yield Crew(ray)
    finally:
        if own:
            ray.shutdown()


def _connect(ray: Any, cluster: str) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # failures are raised, and need not be logged too
    try:
        if cluster == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(address="local", include_dashboard=False, **quiet)
        elif cluster == "auto":
            ray.init(address="auto", **quiet)
        else:
            _check_answers(cluster)
            _init_through_client_server(ray, cluster, quiet)
    except OSError as error:  # nothing answers, no such host, or no route
        if cluster == "auto":
            raise ClusterError(
                "no Ray cluster runs on this machine; start one with 'ray start --head', name another with"
                " 'ray://HOST:PORT', or use 'local'"
            ) from error
        raise ClusterError(
            f"{cluster} does not answer: {_in_one_line(error)}; check that Ray's client server runs there"
        ) from error
    except RuntimeError as error:
        text = str(error)
        if "ersion mismatch" in text or "version" in text.lower():
            own = f"Ray {ray.__version__} and Python {sys.version.split()[0]}"
            raise ClusterError(
                f"the cluster {cluster} runs other versions than this process, which has {own}; install"
                f" the same on both ({' '.join(text.split())})"
            ) from error
        raise ClusterError(f"the cluster {cluster} cannot be used: {_in_one_line(error)}") from error


def _init_through_client_server(ray: Any, cluster: str, options: dict[str, Any]) -> None:
    for attempt in range(1, _CONNECTS + 1):
        try:
            ray.init(address=cluster, **options)
            return
        except ConnectionAbortedError:
            if attempt == _CONNECTS:
                raise


def _check_answers(cluster: str) -> None:
    """Fail fast: Ray tries for half a minute before it reports that nothing answers."""
    parts = urlsplit(cluster)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), _SECONDS_TO_ANSWER):
        pass


def _in_one_line(error: BaseException) -> str:
    """What an error says; Ray's own can be pages long."""
    text = " ".join(str(error).split())
    return text[:_LONGEST] + ("..." if len(text) > _LONGEST else "") or type(error).__name__


def _stream_all(*given: Any) -> list[Any]:
    return list(stream(*given))


class Crew:
    """The processors of a cluster that this process is connected to; their number may change later."""

    # What tasks may use, as of `training.Workers`: a processor each, and its memory.
    threads = 0
    threads_each = 1
    most_work = float("inf")
    scratch = None
    spreads = True
    watch = None

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.processors = int(ray.cluster_resources().get("CPU", 0))
        if not self.processors:
            raise ClusterError("the cluster has no processors; start nodes with 'ray start --num-cpus'")
        self._room = threading.BoundedSemaphore(_AHEAD * self.processors)
        self._stopped = threading.Event()
        self._remote: dict[Callable[..., Any], Any] = {}

    def put(self, value: Any) -> Any:
        """Place a value in the object store, once for all tasks; None stays None."""
        if value is None:
            return None
        try:
            return self._ray.put(value)
        except self._ray.exceptions.ObjectStoreFullError as error:
            raise ClusterError(
                "the object store of the cluster is full, and so is the disk it spills to; start the nodes"
                " with a larger --object-store-memory"
            ) from error

    def run(
        self, function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        """Call a function for each tuple of arguments; yields (number of the task, result) as they are done.

        Arguments that `put` gave arrive as the values. A task whose worker or node is lost is done again.
        """
        ray = self._ray
        if function not in self._remote:
            self._remote[function] = ray.remote(function).options(num_cpus=1, max_retries=RETRIES)
        remote = self._remote[function]
        waiting = deque(enumerate(tasks))
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                if self._stopped.is_set():
                    raise ClusterError("stopped, because another part of the fit failed")
                while waiting and self._room.acquire(timeout=0 if running else _SECONDS_BETWEEN_LOOKS):
                    number, arguments = waiting.popleft()
                    running[remote.remote(*arguments)] = number
                if not running:
                    continue
                ready, _ = ray.wait(list(running), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
                for reference in ready:
                    number = running.pop(reference)
                    self._room.release()
                    yield number, self._get(reference)
        finally:
            # Tasks that still run are left to end: to cancel one that is just ending can abort this process
            # (Ray 2.60, "Tried to complete task that was not pending").
            for _ in running:
                self._room.release()

    def stream(
        self,
        make: Callable[..., Callable[[Any], Result]],
        arguments: tuple[Any, ...],
        items: Sequence[Any],
    ) -> Iterator[Result | None]:
        """Hand items out through Ray Data, as `shard_stream.stream` does; None means that more will come.

        From outside the cluster, where Ray Data does not work, one of its processes does it.
        """
        if not items:
            return
        try:
            if not self._ray.util.client.ray.is_connected():
                yield from stream(make, arguments, items, self.processors)
                return
            foreman = self._ray.remote(_stream_all).options(num_cpus=0, max_retries=0)
            done = foreman.remote(make, arguments, items, self.processors)
            while not self._ray.wait([done], timeout=_SECONDS_BETWEEN_LOOKS)[0]:
                yield None
            yield from self._get(done)
        except ImportError as error:
            raise ClusterError(f"scoring needs Ray Data: pip install 'hedgerow[ray]' ({error})") from error
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterError(
                f"the cluster failed: {_in_one_line(error)}; run the same command again to resume"
            ) from error

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function once."""
        [(_, result)] = self.run(function, [arguments])
        return result

    def together(self, function: Callable[[int], Result], numbers: Sequence[int]) -> list[Result]:
        """Call a function of this process for each number, in threads: their tasks share the cluster."""
        with ThreadPoolExecutor(max(1, min(len(numbers), self.processors))) as pool:
            futures = [pool.submit(function, number) for number in numbers]
            try:
                # The first failure, before the others are stopped and fail because of that.
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                self._stopped.set()
                for future in futures:
                    future.cancel()
                raise

    def _get(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise ClusterError(f"a task failed on the cluster: {error}") from error
        except (errors.RayError, ConnectionError) as error:
            raise ClusterError(
                f"the cluster failed at a task, after up to {RETRIES} attempts: {_in_one_line(error)}; with a"
                " checkpoint, fit again to resume"
            ) from error
