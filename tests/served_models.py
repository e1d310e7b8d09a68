"""Model files to serve, and clients of a server that runs in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from starlette.testclient import TestClient

from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.data.sample import load_sample
from hedgerow.estimators.held_out import learn_from_held_out
from hedgerow.serve.app import build
from hedgerow.serve.limits import Limits
from hedgerow.serve.security import Access
from hedgerow.serve.service import ServerSettings, Service

MEMBERS = 3
WIDTH = 40
Open = Callable[..., TestClient]


def a_text_model(seed: int = 0, rows: int = 600) -> HedgerowTextClassifier:
    sample = load_sample()
    model = HedgerowTextClassifier(method="bagging", members=MEMBERS, n_jobs=1, random_state=seed)
    model.fit(sample.train_texts[:rows], sample.train_labels[:rows])
    return model.learn_ood(sample.test_texts[:60])


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three members, trained on texts, that can tell out-of-distribution inputs."""
    path = tmp_path_factory.mktemp("served") / "tags.hedgerow"
    a_text_model().save(path)
    return path


@pytest.fixture(scope="session")
def deciding_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, calibrated, and with a policy."""
    sample = load_sample()
    model = a_text_model()
    learn_from_held_out(model, sample.test_texts[100:], sample.test_labels[100:])
    path = tmp_path_factory.mktemp("served") / "deciding.hedgerow"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def other_text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, to take its place."""
    path = tmp_path_factory.mktemp("served") / "other.hedgerow"
    a_text_model(seed=1, rows=500).save(path)
    return path


@pytest.fixture(scope="session")
def feature_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three members, trained on features, whose labels are numbers."""
    random = np.random.default_rng(0)
    X = sp.random_array((200, WIDTH), density=0.2, rng=random, format="csr", dtype=np.float32)
    Y = sp.random_array((200, 15), density=0.15, rng=random, format="csr")
    Y.data[:] = 1
    path = tmp_path_factory.mktemp("served") / "numbers.hedgerow"
    HedgerowClassifier(method="bagging", members=MEMBERS, n_jobs=1, random_state=0).fit(X, Y).save(path)
    return path


@pytest.fixture
def open_client(text_model: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens a server and gives a client of it; the next one has a queue of its own."""
    opened: list[TestClient] = []

    def open_one(
        model: Path = text_model,
        access: Access | None = None,
        limits: Limits | None = None,
        queue: Path | None = None,
        change: Callable[[Service], Any] = lambda service: None,
        **options: Any,
    ) -> TestClient:
        queue = queue or tmp_path / f"{len(opened)}.sqlite"
        service = Service(ServerSettings(model, queue, 1, limits or Limits()))
        change(service)
        client = TestClient(build(service, access), base_url="http://127.0.0.1:8000", **options)
        client.__enter__()
        opened.append(client)
        return client

    yield open_one
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(open_client: Open) -> TestClient:
    """A client of a server with a text model."""
    return open_client()
