"""Who may ask the server, what browsers are told, and what its logs hold."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from served_models import Open
from starlette.testclient import TestClient

from hedgerow.serve.errors import error_body
from hedgerow.serve.limits import Limits
from hedgerow.serve.logs import LOGGER, _JsonLines
from hedgerow.serve.security import Access, is_loopback

TOKEN = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8000", "a:b:c"]
)
def test_host_of_another_name_then_it_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/model", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "host"


def test_host_that_a_proxy_wrote_then_the_refusal_says_what_to_allow_and_what_to_pass_on(
    client: TestClient,
) -> None:
    said = client.get("/model", headers={"Host": "backend.internal:8000"}).json()["error"]["message"]
    assert "the Host 'backend.internal'" in said
    assert "start it with --allow-host backend.internal." in said
    assert "A proxy in front of it must pass on the Host that the browser sent" in said
    assert "proxy_set_header Host $http_host" in said
    none = client.get("/model", headers={"Host": ""}).json()["error"]["message"]
    assert "the request has no Host header" in none
    assert "--allow-host NAME" in none
    long = client.get("/model", headers={"Host": 5000 * "a"}).json()["error"]["message"]
    assert len(long) < 1000


def test_origin_of_the_own_page_behind_a_proxy_that_writes_host_then_the_refusal_says_what_to_pass_on(
    client: TestClient,
) -> None:
    headers = {"Origin": "https://tags.example", "Host": "127.0.0.1:8000"}
    answer = client.post("/predict", json={"text": "a"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin")
    said = answer.json()["error"]["message"]
    assert "a page of https://tags.example, but with the Host '127.0.0.1:8000'" in said
    assert "must pass on the Host that the browser sent" in said
    assert "--allow-host NAME" in said


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_host_of_this_machine_then_it_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/model", headers={"Host": host}).status_code == 200


def test_further_host_then_it_is_answered_with_a_token(open_client: Open) -> None:
    client = open_client(access=Access.of("127.0.0.1", TOKEN, ["tags.example"]))
    headers = {"Host": "tags.example", **BEARER}
    assert client.get("/model", headers=headers).status_code == 200
    origin = {**headers, "Origin": "https://tags.example"}
    assert client.post("/predict", json={"text": "a"}, headers=origin).status_code == 200
    assert client.get("/model", headers={**headers, "Host": "other.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://127.0.0.1:8000.evil.example"},
        {"Origin": "http://[evil"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_post_from_another_site_then_it_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    for path in ("/predict", "/reload", "/queue", "/queue/1"):
        answer = client.post(path, json={"text": "a"}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin")


def test_post_from_the_own_page_then_it_is_answered(client: TestClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/predict", json={"text": "a"}, headers=headers).status_code == 200


def test_preflight_then_no_other_site_is_allowed(client: TestClient) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/predict", headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "given",
    [
        None,
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \xe4\xf6",
        TOKEN,
    ],
)
def test_token_that_is_missing_or_wrong_then_401(open_client: Open, given: str | None) -> None:
    client = open_client(access=Access(TOKEN))
    headers = {} if given is None else {b"Authorization": given.encode("latin-1")}
    for path in ("/model", "/metrics", "/openapi.json", "/queue", "/queue/export", "/nothing"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text
    assert client.post("/predict", json={"text": "a"}, headers=headers).status_code == 401


def test_token_then_only_the_page_and_the_probes_do_without(open_client: Open) -> None:
    client = open_client(access=Access(TOKEN))
    assert client.get("/model", headers=BEARER).status_code == 200
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    for page in ("/", "/static/main.js", "/static/look.css"):
        assert client.get(page).status_code == 200
    for page in (
        "/static/../model",
        "/static/%2e%2e/model",
        "/static//model",
        "http://127.0.0.1:8000//model",  # "//model" alone is a host for the client
        "/healthz/../model",
    ):
        assert client.get(page).status_code in (401, 404)


def test_header_twice_then_it_is_refused(client: TestClient) -> None:
    headers = [("Host", "127.0.0.1"), ("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
    assert client.get("/model", headers=headers).status_code == 400


@pytest.mark.parametrize("path", ["/model", "/nothing", "/", "/healthz", "/queue/export"])
def test_every_answer_then_browsers_are_told_to_run_nothing_else(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers
    assert headers["cache-control"] in ("no-store", "no-cache")


@pytest.mark.parametrize(
    "name", ["..%2f__init__.py", "%2e%2e%2fapp.py", "app.py", "", "index.html%00", "page"]
)
def test_static_file_that_is_none_then_404(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize(
    ("host", "token", "more"),
    [
        ("0.0.0.0", None, ()),
        ("::", None, ()),
        ("192.168.1.5", None, ()),
        ("127.0.0.1", None, ("tags.example",)),
    ],
)
def test_access_for_others_without_a_token_then_it_is_refused(
    host: str, token: str | None, more: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="a token is needed"):
        Access.of(host, token, more)


@pytest.mark.parametrize("token", ["short", "x" * 15, "ä" * 20, "a b\n" * 10])
def test_token_that_is_weak_or_not_printable_then_it_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        Access.of("127.0.0.1", token)


def test_limit_that_is_not_positive_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="batch is 0; a limit must be a positive number"):
        Limits(batch=0)


def test_error_then_its_body_is_json_without_what_is_missing() -> None:
    assert error_body("not_found", "there is no such page") == (
        b'{"error":{"code":"not_found","message":"there is no such page"}}'
    )


def test_loopback_then_only_addresses_of_this_machine_are() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LocalHost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example", "")))


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(_JsonLines().format(record)) for record in caplog.records]


def test_logs_then_a_request_is_one_line_without_texts_or_tokens(
    open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(access=Access(TOKEN))
    with caplog.at_level(logging.INFO, LOGGER.name):
        client.post("/predict", json={"texts": ["swordfish", "b"]}, headers=BEARER)
        client.get("/labels?query=swordfish", headers=BEARER)
        client.get("/swordfish", headers=BEARER)
        client.post("/explain", json={"text": "swordfish", "label": "swordfish"}, headers=BEARER)
        client.get("/model", headers={"Authorization": "Bearer swordfish"})
    lines = logged(caplog)
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("POST", "/predict", 200),
        ("GET", "/labels", 200),
        ("GET", "other", 404),
        ("POST", "/explain", 422),
        ("GET", "other", 401),
    ]
    assert lines[0]["inputs"] == 2
    assert "swordfish" not in json.dumps(lines)
    assert TOKEN not in json.dumps(lines)


def test_bug_then_500_without_a_trace_and_the_log_tells_where(
    open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    def break_it(service: Any) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("swordfish")

        service.batcher._predict = fail

    client = open_client(change=break_it, raise_server_exceptions=False)
    with caplog.at_level(logging.INFO, LOGGER.name):
        answer = client.post("/predict", json={"text": "a"})
    assert answer.status_code == 500
    assert answer.json() == {"error": {"code": "internal", "message": "the server has a bug; see its log"}}
    assert "content-security-policy" in answer.headers
    failure, request = logged(caplog)
    assert (failure["event"], failure["exception"], request["status"]) == ("failure", "RuntimeError", 500)
    assert any("test_serve_security" in place for place in failure["stack"])
    assert "swordfish" not in json.dumps([failure, request])
    assert client.get("/healthz").status_code == 200
