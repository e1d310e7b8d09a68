"""The model of what a cluster costs keeps to what no schedule can get round."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))
scale_model = pytest.importorskip("bench.scale_model")

CONSTANTS = scale_model.Constants(
    work=9e-8,
    look=1e-8,
    aggregate=4e-8,
    cluster=6e-8,
    start=1e-3,
    store=1e-9,
    label_bytes=20.0,
    label_power=0.3,
    share=[(0.0, 0.0), (1.0, 0.4)],
    skew=0.5,
    merge=0.2,
)
shapes = st.builds(
    scale_model.Shape,
    name=st.just("any"),
    rows=st.integers(1000, 10**6),
    features=st.integers(1000, 10**6),
    labels=st.integers(10, 10**5),
    features_each=st.floats(1, 500),
    labels_each=st.floats(1, 40),
)


@settings(max_examples=30, deadline=None)
@given(shapes, st.sampled_from([1, 4, 64]), st.sampled_from([1, 10]))
def test_fit_when_scheduled_then_is_no_shorter_than_its_parts(
    shape: object, count: int, members: int
) -> None:
    nodes = scale_model.Nodes()
    cost = scale_model.fit_cost(shape, CONSTANTS, nodes, count, members)
    least = cost.growing if members > 1 else cost.growing / nodes.processors
    assert cost.seconds >= least + cost.longest + cost.writing
    trained = cost.processor_seconds - members * cost.growing
    assert cost.seconds >= trained / (count * nodes.processors)
    assert cost.dollars == pytest.approx(cost.seconds / 3600 * count * nodes.dollars_an_hour)


@given(shapes)
@settings(max_examples=30, deadline=None)
def test_work_of_nodes_adds_up_to_that_of_their_layer(shape: object) -> None:
    layers = scale_model.node_work(shape, CONSTANTS)
    assert [len(each) for each in layers] == shape.layers  # type: ignore[attr-defined]
    root = shape.rows * (shape.features_each + 16)  # type: ignore[attr-defined]
    lanes = min(8.0, shape.labels) if len(layers) > 1 else shape.labels  # type: ignore[attr-defined]
    assert layers[0].sum() == pytest.approx(root * np.ceil(lanes / 16))
