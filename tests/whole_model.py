"""The smallest model whose file has every kind of section there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hedgerow import HedgerowTextClassifier, Policy
from hedgerow.decisions.abstention import Abstention
from hedgerow.decisions.risk import RiskCurve

WORDS = ["ash", "elm", "hazel", "holly", "ivy", "oak", "rose", "sloe", "willow", "yew"]
LABELS = ["berry", "climber", "dell <b>", "edge", "Farn \N{HERB}", "gall"]
KNOTS = 100  # every so manieth of a policy is kept


def some_texts(rows: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Texts whose words speak for their labels, mostly."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(rows):
        own = sorted(set(random.geometric(0.4, size=2).clip(1, len(LABELS)) - 1))
        words = [WORDS[number] for number in own] + random.choice(WORDS, size=4).tolist()
        texts.append(" ".join(words))
        labels.append([LABELS[number] for number in own])
    return texts, labels


def whole_model(seed: int = 0, n_jobs: int | None = 1) -> HedgerowTextClassifier:
    """Two members, label names, what is familiar, a calibration by frequency, a policy, a training record."""
    model = HedgerowTextClassifier(
        method="bagging", members=2, ngrams=(1, 2), min_count=6, leaf_size=3, n_jobs=n_jobs, random_state=seed
    )
    model.fit(*some_texts(60, seed + 1))
    texts, labels = some_texts(1500, seed + 2)
    known = model.seen_in_training(texts)
    held = [number for number in range(len(texts)) if not known[number]]
    first, second = held[:-300], held[-300:]
    model.learn_ood([texts[number] for number in second[:60]])
    model.calibrate([texts[number] for number in first], [labels[number] for number in first], by="frequency")
    model.learn_policy([texts[number] for number in second], [labels[number] for number in second])
    return model


def thinned(policy: Policy) -> Policy:
    """The same curves at fewer thresholds, so that a file can be damaged in every bit."""

    def few(curve: RiskCurve) -> RiskCurve:
        return replace(curve, thresholds=curve.thresholds[kept], totals=curve.totals[kept])

    def fewer(rule: Abstention) -> Abstention:
        return Abstention.from_arrays(rule.to_arrays()[every(len(rule.knots))])

    kept = every(len(policy.missed.thresholds))
    return replace(
        policy,
        missed=few(policy.missed),
        wrong={by: few(curve) for by, curve in policy.wrong.items()},
        withheld={by: few(curve) for by, curve in policy.withheld.items()},
        size=few(policy.size),
        proven=None if policy.proven is None else policy.proven[kept],
        groups=tuple(replace(group, missed=few(group.missed)) for group in policy.groups),
        inputs={name: fewer(rule) for name, rule in policy.inputs.items()},
    )


def every(knots: int) -> npt.NDArray[np.int64]:
    """Every so manieth knot, and the last, which is infinite."""
    return np.unique([*range(0, knots - 1, KNOTS), knots - 1])


@pytest.fixture(scope="session")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of such a model."""
    model = whole_model()
    model.model_ = replace(model.model_, policy=thinned(model.policy_))
    path = tmp_path_factory.mktemp("whole") / "whole.hedgerow"
    model.save(path)
    return path
