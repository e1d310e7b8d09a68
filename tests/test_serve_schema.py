"""The API against its own description: whatever is sent, the answer is one that is described.

`make bench-serve` sends ten thousand requests; here are some hundred.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks
from served_models import Open

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
HOST = {"Host": "127.0.0.1"}
FEW = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", ["text", "features"])
def test_any_request_then_the_answer_is_described_and_no_server_error(
    kind: str, mode: GenerationMode, open_client: Open, text_model: Path, feature_model: Path
) -> None:
    app = open_client(text_model if kind == "text" else feature_model).app
    described = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)
    asked: list[tuple[str, int]] = []
    for found in described.get_all_operations():
        operation = found.ok()
        if kind == "features" and operation.path != "/predict":
            continue

        @FEW
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            answer = case.call_and_validate(headers=HOST, checks=CHECKS)
            asked.append((case.path, answer.status_code))

        with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with some requests
            check()
    statuses = {status for path, status in asked if path == "/predict"}
    assert statuses == ({200, 422} if (kind, mode) == ("text", GenerationMode.POSITIVE) else statuses - {200})
