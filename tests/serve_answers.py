"""Answers of a server, made up so that a test knows every number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def entropy(p: float) -> float:
    return 0.0 if p in (0.0, 1.0) else -p * math.log(p) - (1 - p) * math.log(1 - p)


def a_label(label: str, votes: Sequence[float]) -> dict[str, Any]:
    """A predicted label whose measures are those of its votes."""
    mean = sum(votes) / len(votes)
    data = sum(map(entropy, votes)) / len(votes)
    return {
        "label": label,
        "probability": mean,
        "total": entropy(mean),
        "data": data,
        "knowledge": entropy(mean) - data,
        "variance": sum((p - mean) ** 2 for p in votes) / len(votes),
        "votes": list(votes),
        "decision": None,
    }


def a_prediction(labels: Sequence[dict[str, Any]], p_value: float | None = 0.5) -> dict[str, Any]:
    sums = {name: sum(one[name] for one in labels) for name in ("total", "data", "knowledge", "variance")}
    odd = None if p_value is None else {"score": 1.0, "p_value": p_value, "is_ood": p_value <= 0.05}
    return {
        "labels": list(labels),
        "input": {"expected": sum(one["probability"] for one in labels), **sums},
        "ood": odd,
    }


def an_answer(prediction: dict[str, Any], model: str = "made-up") -> dict[str, Any]:
    return {"model": model, "results": [prediction]}


def a_policy() -> dict[str, Any]:
    """Every kind of choice: at 5 % nothing can be accepted, and 15 % cannot be chosen."""
    accept = {0.05: None, 0.1: 0.9, 0.11: 0.8, 0.12: 0.6, 0.13: 0.3, 0.2: 0.02}
    return {
        "wrong": [
            {"share": share, "accept_from": least, "words": f"At most {100 * share:g} %, <b>surely</b>."}
            for share, least in accept.items()
        ],
        "most": 3,
        "review": [
            {"labels": number, "share": 0.5 + number / 200, "words": f"The {number} best contain much."}
            for number in (1, 3, 5, 10)
        ],
        "default": {"wrong_at_most": 0.1, "review_at_most": 10},
        "limits": "This holds for texts like those seen.",
    }


def a_model(**changes: Any) -> dict[str, Any]:
    return {
        "id": "made-up",
        "labels": 1234,
        "members": 10,
        "method": "bagging",
        "texts": True,
        "calibrated": True,
        "detects_ood": True,
        "policy": a_policy(),
        **changes,
    }
