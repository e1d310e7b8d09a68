"""What the server counts, as a reader of Prometheus sees it."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from served_models import Open
from starlette.testclient import TestClient

from hedgerow.serve.limits import Limits
from hedgerow.serve.metrics import CONTENT_TYPE, Metrics
from hedgerow.serve.watching import WatchedShares

NOTHING = WatchedShares(*[math.nan] * 6)
PATHS = {"/predict": {"text": "a"}, "/explain": {"text": "a", "label": "b"}, "/queue/7": {"state": "skipped"}}


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_then_requests_batches_and_inputs_are_counted(client: TestClient) -> None:
    client.post("/predict", json={"texts": ["a", "b", "c"]})
    client.post("/predict", json={"text": "a"})
    client.post("/predict", json={"text": 1})
    client.get("/no/such/page")
    client.post("/queue", json={"texts": ["a", "b"]})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.headers["content-type"] == CONTENT_TYPE
    found = samples(answer.text)

    def requests(method: str, path: str, status: int) -> float:
        labels = {"method": method, "path": path, "status": str(status)}
        return found["hedgerow_requests_total", frozenset(labels.items())]

    assert requests("POST", "/predict", 200) == 2
    assert requests("POST", "/predict", 422) == 1
    assert requests("GET", "other", 404) == 1
    assert found["hedgerow_inputs_total", frozenset()] == 6
    assert found["hedgerow_batch_inputs_count", frozenset()] == 3
    assert found["hedgerow_batch_inputs_sum", frozenset()] == 6
    assert found["hedgerow_request_seconds_count", frozenset({("path", "/predict")})] == 3
    assert found["hedgerow_review_waiting", frozenset()] == 2
    assert found["hedgerow_waiting_inputs", frozenset()] == 0
    assert found["hedgerow_in_flight", frozenset()] == 1
    model = client.get("/model").json()["id"]
    assert found["hedgerow_model_info", frozenset({("id", model)})] == 1


def test_any_paths_and_methods_then_the_number_of_series_stays_small(client: TestClient) -> None:
    for number in range(30):
        client.request(f"ODD{number}", f"/{number}")
        client.get(f"/static/{number}")
        client.post(f"/queue/{number}", json={"state": "skipped"})
    assert len(samples(client.get("/metrics").text)) < 120


@pytest.mark.parametrize("path", PATHS)
def test_body_that_is_not_json_then_it_is_counted_under_its_path(client: TestClient, path: str) -> None:
    headers = {"Content-Type": "text/plain"}
    assert client.post(path, content="a text", headers=headers).status_code == 415
    labels = {"method": "POST", "path": path.replace("7", "{id}"), "status": "415"}
    found = samples(client.get("/metrics").text)
    assert found["hedgerow_requests_total", frozenset(labels.items())] == 1
    assert not any(("path", "other") in labels for _, labels in found)


def test_body_that_is_too_large_then_it_is_counted_under_its_path(open_client: Open) -> None:
    client = open_client(limits=Limits(body=10))
    for path, body in PATHS.items():
        assert client.post(path, json=body).status_code == 413
    assert client.post("/no/such/page", json={"text": "a"}).status_code == 413
    found = samples(client.get("/metrics").text)
    for path in ("/predict", "/explain", "/queue/{id}", "other"):
        labels = {"method": "POST", "path": path, "status": "413"}
        assert found["hedgerow_requests_total", frozenset(labels.items())] == 1


def test_two_services_then_each_counts_its_own() -> None:
    first, second = Metrics(), Metrics()
    first.batch(3)
    assert samples(first.render("m", 0, 0, NOTHING).decode())["hedgerow_inputs_total", frozenset()] == 3
    assert samples(second.render("m", 0, 0, NOTHING).decode())["hedgerow_inputs_total", frozenset()] == 0


@given(st.lists(st.floats(0, 100) | st.sampled_from([1.0, 2.0, 10.0]), min_size=1))
def test_histogram_then_buckets_count_what_is_at_most_their_bound(values: list[float]) -> None:
    metrics = Metrics()
    for value in values:
        metrics.request("GET", "b", 200, value)
    found = samples(metrics.render("m", 0, 0, NOTHING).decode())
    own = ("path", "b")
    for bound in (1.0, 2.0, 10.0):
        expected = bisect_left(sorted(values), bound) + values.count(bound)
        labels = frozenset({own, ("le", str(bound))})
        assert found["hedgerow_request_seconds_bucket", labels] == expected
    assert found["hedgerow_request_seconds_count", frozenset({own})] == len(values)
    assert found["hedgerow_request_seconds_sum", frozenset({own})] == pytest.approx(sum(values))


def test_labels_with_quotes_then_they_are_escaped() -> None:
    metrics = Metrics()
    metrics.request("GET", 'a"b\\c\nd', 200, 0.1)
    found = samples(metrics.render("m", 0, 0, NOTHING).decode())
    labels = {"method": "GET", "path": 'a"b\\c\nd', "status": "200"}
    assert found["hedgerow_requests_total", frozenset(labels.items())] == 1


def test_ready_then_it_needs_a_queue_that_can_be_written(open_client: Open) -> None:
    services = []
    client = open_client(change=services.append)
    assert client.get("/readyz").json()["status"] == "ready"
    services[0].store._connection.execute("PRAGMA query_only = 1")
    services[0].store._connection.execute("BEGIN")
    answer = client.get("/readyz")
    services[0].store._connection.execute("ROLLBACK")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue")
    assert client.get("/healthz").json() == {"status": "alive"}
