"""Requests together: who shares a call of the engine, who is turned away, and who goes on regardless."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from served_models import Open

from hedgerow.decisions.goals import Goal
from hedgerow.decisions.macro import Objective
from hedgerow.decisions.planning import Plan
from hedgerow.decisions.rules import Rule
from hedgerow.serve.admission import Admitted
from hedgerow.serve.batching import Batcher
from hedgerow.serve.errors import ApiError
from hedgerow.serve.limits import Limits
from hedgerow.serve.model_slot import ModelSlot, ReloadRunning, ServedModel
from hedgerow.serve.prediction import Wanted
from hedgerow.serve.service import Service
from hedgerow.serve.verdicts import Sorting

PLAIN = Wanted()
MODEL: Any = ServedModel(None, "a")  # type: ignore[arg-type]
OTHER: Any = ServedModel(None, "b")  # type: ignore[arg-type]


class Engine:
    """Answers with what it was asked, remembers every call, and waits at a gate."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str], Wanted]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()

    def __call__(self, served: ServedModel, inputs: list[str], wanted: Wanted) -> list[dict[str, Any]]:
        self.calls.append((served.id, list(inputs), wanted))
        self.began.set()
        self.gate.wait()
        if "poison" in inputs:
            raise ValueError("poison")
        return [{"of": text, "model": served.id, "k": wanted.k} for text in inputs]


def batcher(engine: Engine, **options: Any) -> Batcher:
    return Batcher(engine, ThreadPoolExecutor(1), **options)


async def held_up(engine: Engine, batches: Batcher) -> asyncio.Task[Any]:
    """Let the engine be busy with something."""
    engine.gate.clear()
    task = asyncio.create_task(batches.predict(MODEL, ["first"], 1, PLAIN))
    await asyncio.to_thread(engine.began.wait)
    return task


def test_requests_while_the_engine_is_busy_then_they_share_the_next_call() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine)
        first = await held_up(engine, batches)
        others = [asyncio.create_task(batches.predict(MODEL, [f"t{i}"], 1, PLAIN)) for i in range(10)]
        await asyncio.sleep(0)
        assert batches.waiting == 10
        engine.gate.set()
        assert [answer["of"] for [answer] in await asyncio.gather(first, *others)] == [
            "first",
            *(f"t{i}" for i in range(10)),
        ]
        assert [len(inputs) for _, inputs, _ in engine.calls] == [1, 10]
        assert batches.waiting == 0

    asyncio.run(run())


def test_requests_that_want_other_things_then_they_do_not_share() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine)
        first = await held_up(engine, batches)
        by_share = [
            Wanted(sorting=Sorting(Goal(missed_at_most=share), Plan(Rule(), (), ())))
            for share in (0.1, 0.2, 0.1)
        ]
        wanted = [
            (MODEL, PLAIN),
            (MODEL, Wanted(k=3)),
            (OTHER, PLAIN),
            (MODEL, PLAIN),
            (MODEL, Wanted(k=3)),
            *((MODEL, own) for own in by_share),
        ]
        others = [
            asyncio.create_task(batches.predict(served, [f"t{i}"], 1, own))
            for i, (served, own) in enumerate(wanted)
        ]
        await asyncio.sleep(0)
        engine.gate.set()
        answers = [answer for [answer] in (await asyncio.gather(first, *others))[1:]]
        assert [(answer["model"], answer["k"]) for answer in answers] == [
            (served.id, own.k) for served, own in wanted
        ]
        assert [inputs for _, inputs, _ in engine.calls[1:]] == [
            ["t0", "t3"],
            ["t1", "t4"],
            ["t2"],
            ["t5", "t7"],
            ["t6"],
        ]

    asyncio.run(run())


def test_requests_that_are_chosen_for_together_then_none_shares_a_call() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine)
        first = await held_up(engine, batches)
        together = Wanted(objective=Objective("macro-f1", 5))
        others = [
            asyncio.create_task(batches.predict(MODEL, [f"t{i}", f"u{i}"], 2, wanted))
            for i, wanted in enumerate((together, PLAIN, together, PLAIN))
        ]
        await asyncio.sleep(0)
        engine.gate.set()
        await asyncio.gather(first, *others)
        called = [inputs for _, inputs, _ in engine.calls[1:]]
        assert called == [["t0", "u0"], ["t1", "u1", "t3", "u3"], ["t2", "u2"]]

    asyncio.run(run())


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 2), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_any_requests_then_each_gets_its_own_answers_in_order(
    requests: list[tuple[int, int, bool]], most: int
) -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine, most=most, waiting=10_000)
        first = await held_up(engine, batches)
        tasks = []
        for number, (count, k, other) in enumerate(requests):
            texts = [f"{number}.{i}" for i in range(count)]
            served = OTHER if other else MODEL
            tasks.append(
                (texts, served, k, asyncio.create_task(batches.predict(served, texts, count, Wanted(k))))
            )
        await asyncio.sleep(0)
        engine.gate.set()
        await first
        for texts, served, k, task in tasks:
            assert await task == [{"of": text, "model": served.id, "k": k} for text in texts]
        assert batches.waiting == 0
        for _, inputs, _ in engine.calls:
            numbers = {text.partition(".")[0] for text in inputs}
            assert len(inputs) <= most or len(numbers) == 1

    asyncio.run(run())


def test_input_that_spoils_a_batch_then_only_its_own_request_fails() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine)
        first = await held_up(engine, batches)
        texts = ("a", "poison", "b")
        others = [asyncio.create_task(batches.predict(MODEL, [text], 1, PLAIN)) for text in texts]
        await asyncio.sleep(0)
        engine.gate.set()
        await first
        good, bad, better = await asyncio.gather(*others, return_exceptions=True)
        assert isinstance(bad, ValueError)
        assert (good[0]["of"], better[0]["of"]) == ("a", "b")

    asyncio.run(run())


def test_more_inputs_than_may_wait_then_they_are_turned_away_at_once() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine, waiting=3)
        first = await held_up(engine, batches)
        others = [asyncio.create_task(batches.predict(MODEL, ["x", "y"], 2, PLAIN)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="at most 3 may") as refused:
            await others[1]
        assert (refused.value.status, refused.value.response().headers["Retry-After"]) == (503, "1")
        engine.gate.set()
        assert len(await others[0]) == 2
        await first
        large = await batches.predict(MODEL, list("abcdef"), 6, PLAIN)  # alone it is taken, whatever its size
        assert len(large) == 6

    asyncio.run(run())


def test_request_that_gave_up_then_the_engine_is_not_bothered() -> None:
    async def run() -> None:
        engine = Engine()
        batches = batcher(engine)
        first = await held_up(engine, batches)
        gone = asyncio.create_task(batches.predict(MODEL, ["gone"], 1, PLAIN))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        engine.gate.set()
        await first
        await batches.predict(MODEL, ["later"], 1, PLAIN)
        assert [inputs for _, inputs, _ in engine.calls] == [["first"], ["later"]]
        assert batches.waiting == 0

    asyncio.run(run())


def test_rows_of_features_then_they_are_put_together() -> None:
    async def run() -> None:
        seen = []
        gate = threading.Event()

        def predict(served: ServedModel, inputs: sp.csr_array, wanted: Wanted) -> list[dict[str, Any]]:
            gate.wait()
            seen.append(inputs.toarray().tolist())
            return [{"sum": float(value)} for value in inputs.sum(axis=1)]

        batches = Batcher(predict, ThreadPoolExecutor(1))
        rows = [sp.csr_array([[float(i), 1.0]]) for i in range(3)]
        tasks = [asyncio.create_task(batches.predict(MODEL, row, 1, PLAIN)) for row in rows]
        await asyncio.sleep(0)
        gate.set()
        assert [answer["sum"] for [answer] in await asyncio.gather(*tasks)] == [1.0, 2.0, 3.0]
        assert seen == [[[0.0, 1.0]], [[1.0, 1.0], [2.0, 1.0]]]

    asyncio.run(run())


def test_request_within_its_time_then_it_goes_on_and_is_not_cancelled_later() -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)

    async def body() -> Any:
        return {"type": "http.request"}

    async def run() -> None:
        scope = {"type": "http", "path": "/predict", "method": "POST", "headers": []}
        await Admitted(answer, Limits(seconds=60))(scope, body, body)
        await asyncio.sleep(0)

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/predict", "/reload", "/queue/export"])
def test_body_that_does_not_end_then_408(path: str) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("there is nothing to answer yet")

    async def nothing_more() -> Any:
        await asyncio.Event().wait()

    async def run() -> None:
        scope = {"type": "http", "path": path, "method": "POST", "headers": []}
        with pytest.raises(ApiError) as caught:
            await Admitted(answer, Limits(seconds=0.001))(scope, nothing_more, nothing_more)
        assert (caught.value.status, caught.value.code) == (408, "slow")

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/reload", "/queue/export"])
def test_load_or_export_then_it_may_take_its_time(path: str) -> None:
    async def run() -> None:
        over = asyncio.Event()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            asyncio.get_running_loop().call_later(0.01, over.set)
            await over.wait()

        async def body() -> Any:
            return {"type": "http.request"}

        scope = {"type": "http", "path": path, "method": "POST", "headers": []}
        await Admitted(answer, Limits(seconds=0.001))(scope, body, body)
        assert over.is_set()

    asyncio.run(run())


def test_answer_that_takes_too_long_then_504(open_client: Open) -> None:
    gate = threading.Event()

    def slow_down(service: Service) -> None:
        predict = service.batcher._predict

        def slow(*arguments: Any) -> Any:
            gate.wait()
            return predict(*arguments)

        service.batcher._predict = slow

    client = open_client(limits=Limits(seconds=0.05), change=slow_down)
    answer = client.post("/predict", json={"text": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert client.get("/healthz").status_code == 200
    gate.set()


def test_too_many_requests_in_flight_then_503_but_probes_are_answered(open_client: Open) -> None:
    gate, began = threading.Event(), threading.Event()

    def hold(service: Service) -> None:
        predict = service.batcher._predict

        def held(*arguments: Any) -> Any:
            began.set()
            gate.wait()
            return predict(*arguments)

        service.batcher._predict = held

    client = open_client(limits=Limits(in_flight=1), change=hold)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/predict", json={"text": "a"})
        began.wait()
        answer = client.post("/predict", json={"text": "b"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200
        assert "hedgerow_in_flight 2" in client.get("/metrics").text  # this one, too
        gate.set()
        assert first.result().status_code == 200


def test_reload_then_a_request_under_way_ends_on_the_model_it_began_with(
    open_client: Open, text_model: Path, other_text_model: Path, tmp_path: Path
) -> None:
    gate, began = threading.Event(), threading.Event()
    served = tmp_path / "served.hedgerow"
    served.write_bytes(text_model.read_bytes())

    def hold(service: Service) -> None:
        predict = service.batcher._predict

        def held(*arguments: Any) -> Any:
            began.set()
            gate.wait()
            return predict(*arguments)

        service.batcher._predict = held

    client = open_client(served, change=hold)
    old = client.get("/model").json()["id"]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/predict", json={"text": "a game"})
        began.wait()
        other = tmp_path / "new"
        other.write_bytes(other_text_model.read_bytes())
        other.replace(served)
        told = client.post("/reload").json()
        assert told["before"] == old
        assert told["model"] == client.get("/model").json()["id"] != old
        gate.set()
        assert first.result().json()["model"] == old
    assert client.post("/predict", json={"text": "a game"}).json()["model"] == told["model"]
    assert client.post("/reload").json() == {
        "model": told["model"],
        "before": told["model"],
        "labels_that_left": 0,
    }


@pytest.mark.parametrize("content", [b"", b"nonsense" * 100, None])
def test_reload_of_a_bad_file_then_the_model_stays(
    open_client: Open, text_model: Path, tmp_path: Path, content: bytes | None
) -> None:
    served = tmp_path / "served.hedgerow"
    whole = text_model.read_bytes()
    served.write_bytes(whole)
    client = open_client(served)
    old = client.get("/model").json()["id"]
    # The old file stays mapped; only another one may take its name.
    served.rename(tmp_path / "aside")
    if content is not None:
        served.write_bytes(content)
    answer = client.post("/reload")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_model")
    assert "stays as it was" in answer.json()["error"]["message"]
    assert client.post("/predict", json={"text": "a"}).json()["model"] == old
    served.unlink(missing_ok=True)
    served.write_bytes(whole)
    assert client.post("/reload").status_code == 200
    assert 'hedgerow_reloads_total{result="refused"} 1' in client.get("/metrics").text


def test_reload_while_one_is_under_way_then_it_is_refused() -> None:
    async def run() -> None:
        gate, began = threading.Event(), threading.Event()

        def load(path: Path, threads: int) -> ServedModel:
            began.set()
            gate.wait()
            return OTHER  # type: ignore[no-any-return]

        slot = ModelSlot(Path("m"), MODEL, loader=load)
        with ThreadPoolExecutor(1) as pool:
            first = asyncio.create_task(slot.reload(pool))
            await asyncio.to_thread(began.wait)
            with pytest.raises(ReloadRunning):
                await slot.reload(pool)
            assert slot.current is MODEL
            gate.set()
            assert await first == (MODEL, OTHER)
            assert slot.current is OTHER

    asyncio.run(run())
