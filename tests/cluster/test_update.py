"""A model fitted on a cluster is updated like one that was fitted here; Ray and its nodes are real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dense_oracle import random_problem

from hedgerow import HedgerowClassifier

if not os.environ.get("CI"):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'hedgerow[ray]'")

SMALL: dict[str, Any] = {"leaf_size": 4, "branching": 4, "random_state": 3, "n_jobs": 1}
AT = "2030-01-01T00:00:00"


def files(folder: Path, **settings: Any) -> tuple[bytes, bytes]:
    """Those of a model after a fit, an update, and a record that is forgotten."""
    X, Y = random_problem(1, 120, 50, 60, density=0.3)
    model = HedgerowClassifier(**SMALL, **settings)
    model.fit(X[:100], Y[:100], ids=[f"r{row}" for row in range(100)], keep_records=True)
    model.update(X[100:], Y[100:], remove=["r3"], at=AT)
    model.forget(["r7"])
    path = folder / "model.hedgerow"
    model.save(path, overwrite=True)
    return path.read_bytes(), Path(f"{path}.data").read_bytes()


@pytest.mark.parametrize("how", [{}, {"method": "bagging", "members": 2}], ids=["single", "bagging"])
def test_model_when_fitted_on_a_cluster_then_is_updated_to_the_same_files(
    nodes: Any, tmp_path: Path, how: dict[str, Any]
) -> None:
    assert files(tmp_path, cluster="auto", **how) == files(tmp_path, **how)
