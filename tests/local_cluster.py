"""A Ray cluster on this machine, with nodes that can be killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

STORE = 80_000_000  # bytes; Ray wants at least 75 MiB


@contextlib.contextmanager
def local_cluster() -> Iterator[Any]:
    """Two nodes of one processor each, and a head without any; lost nodes are noticed within a second."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "_system_config": {
                "health_check_initial_delay_ms": 0,
                "health_check_period_ms": 300,
                "health_check_failure_threshold": 3,
            },
        },
    )
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
