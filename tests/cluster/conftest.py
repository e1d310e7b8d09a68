"""One cluster for all files of this folder: to start one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local_cluster import local_cluster


@pytest.fixture(scope="package")
def nodes() -> Iterator[Any]:
    """The cluster, with two nodes of one processor each."""
    with local_cluster() as cluster:
        yield cluster
