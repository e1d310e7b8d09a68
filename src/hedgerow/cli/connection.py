"""The connection of a command to a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hedgerow.training.ray import ClusterError, Crew, check_address, open_crew

from .failures import ExitCode, Failure, failing_as, reason


@contextlib.contextmanager
def connected(cluster: str | None) -> Iterator[Crew | None]:
    """Keep a connection to a cluster while a command works, and say in one line what goes wrong."""
    if cluster is None:
        yield None
        return
    with failing_as(ExitCode.USAGE, ValueError):
        check_address(cluster)
    try:
        with open_crew(cluster) as crew:
            yield crew
    except ImportError as error:
        raise Failure(ExitCode.USAGE, reason(error)) from error
    except ClusterError as error:
        raise Failure(ExitCode.CLUSTER, reason(error)) from error
