"""Mixed load on the library and the server for as long as is asked, while processes are killed at random.

`python tests/trust/soak.py --minutes 30 --out docs/reliability/soak.json`. Two servers and two loops of the
library run side by side. Of each pair one is killed again and again, and must come back with the old model or
the new and with every text that its queue acknowledged; the other lives through, with its model changed under
load, and must not grow. Every answer is compared with what the library said beforehand, one text at a time on
one thread. It fails if an answer is wrong, something is lost, or memory or open files grow.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from served_models import a_text_model
from soak_worker import SMALL, digest

import hedgerow
from hedgerow.data.sample import load_sample
from hedgerow.estimators.held_out import learn_from_held_out

HERE = Path(__file__).parent
COMMAND = "import sys; from hedgerow.cli import main; sys.exit(main())"
TEXTS, CLIENTS, K, RISK = 40, 6, 5, 0.2
SAMPLE_SECONDS, SWAP_SECONDS, KILL_SECONDS = 2.0, 20.0, (4.0, 20.0)
PAUSE = 0.02  # of a client after each request, so that the machine is not the limit
WARM_UP = 0.25  # the share of the time before memory is watched
GROWTH_BYTES, GROWTH_FILES = 16 << 20, 4
# A busy machine may make a server turn away so many of its requests, but no more.
TURNED_AWAY, TURNED_AWAY_SHARE = "valid requests turned away: 503, 504", 0.01
MEASURES = ("probability", "total", "data", "knowledge", "variance")
Oracle = dict[str, list[dict[str, Any]]]


class Diary:
    """What was tried, how often, and what was wrong; shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def note(self, what: str, cases: int = 1) -> None:
        with self._lock:
            self.counts[what] += cases

    def blame(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)

    def thread(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """A thread whose end by an error is a fault, and not silence."""

        def watched() -> None:
            try:
                work(*arguments)
            except Exception as error:
                self.blame(f"{getattr(work, '__qualname__', work)} ended: {error!r}")

        return threading.Thread(target=watched)


class Server:
    """`hedgerow serve` in a process of its own, on one port for life."""

    def __init__(self, model: Path, queue: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self._arguments = [str(model), "--port", str(self.port), "--threads", "1", "--queue", str(queue)]
        self.up = False
        self.kills = 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", *self._arguments, "--max-seconds", "3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise RuntimeError(f"the server did not start: {self.process.wait()}")
        self.up = True

    def kill(self) -> None:
        # From here on a lost connection is no wonder.
        self.up = False
        self.kills += 1
        self.process.kill()
        self.process.communicate()


def expected_answers(path: Path, texts: list[str]) -> list[dict[str, Any]]:
    """What a model says of each text, asked alone and on one thread."""
    model = hedgerow.load(path).set_params(n_jobs=1)
    answers = []
    for text in texts:
        found, decided = model.predict_uncertain([text], k=K), model.decide([text], missed_at_most=RISK, k=K)
        verdict = dict(zip(decided.labels.tolist(), decided.decision.tolist(), strict=True))
        answers.append(
            {
                "labels": found.labels[0].tolist(),
                **{name: getattr(found, name)[0] for name in MEASURES},
                "decision": [("reject", "review", "accept")[verdict[label]] for label in found.labels[0]],
                "p_value": float(model.ood_scores([text]).p_value[0]),
            }
        )
    return answers


def same(result: dict[str, Any], expected: dict[str, Any], decided: bool) -> bool:
    """Whether an answer has the bits of the oracle."""
    labels, others = result["labels"][:K], result["labels"][K:]
    # Where decisions are asked for, whatever is not rejected follows.
    if any(not decided or one["decision"] == "reject" for one in others):
        return False
    if [one["label"] for one in labels] != expected["labels"]:
        return False
    if any(
        not np.array_equal(np.array([one[name] for one in labels], np.float32), expected[name])
        for name in MEASURES
    ):
        return False
    if decided and [one["decision"] for one in labels] != expected["decision"]:
        return False
    return bool(result["ood"]["p_value"] == expected["p_value"])


class Client:
    """Sends whatever comes to mind, and looks at every answer."""

    def __init__(self, server: Server, oracle: Oracle, texts: list[str], diary: Diary, seed: int) -> None:
        self.server, self.oracle, self.texts, self.diary = server, oracle, texts, diary
        self.draw, self.seed = random.Random(seed), seed
        self.queued = 0
        self.perhaps_queued = 0

    def run(self, end: float) -> None:
        kinds: list[tuple[int, Callable[[], None]]] = [
            (12, self.one_text),
            (4, self.many_texts),
            (2, self.to_queue),
            (3, self.invalid),
            (2, self.look),
            (1, self.oversized),
            (1, self.cut),
            (1, self.slow),
        ]
        weights, calls = zip(*kinds, strict=True)
        while time.monotonic() < end:
            was_up, kills = self.server.up, self.server.kills
            call = self.draw.choices(calls, weights)[0]
            try:
                call()
                self.diary.note(f"requests: {call.__name__}")
            except (OSError, http.client.HTTPException) as error:
                if was_up and self.server.kills == kills:
                    self.diary.blame(f"{call.__name__}: {type(error).__name__}: {error}")
                self.diary.note("requests lost to a kill")
                time.sleep(10 * PAUSE)
            time.sleep(PAUSE)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if path != "/metrics" else content
        finally:
            connection.close()

    def predicted(self, body: dict[str, Any], numbers: list[int]) -> None:
        status, answer = self.ask("POST", "/predict", json.dumps(body).encode())
        if status in (503, 504):  # in words, and in time: the machine was too busy
            self.diary.note(TURNED_AWAY)
            return
        if status != 200:
            self.diary.blame(f"a valid request got {status}: {answer}")
            return
        expected = self.oracle[answer["model"]]
        for number, result in zip(numbers, answer["results"], strict=True):
            if not same(result, expected[number], "decide" in body):
                self.diary.blame(f"another answer to text {number} from model {answer['model']}")
        self.diary.note("answers compared with the oracle", len(numbers))

    def one_text(self) -> None:
        number = self.draw.randrange(len(self.texts))
        body = {"text": self.texts[number], "k": K, "votes": self.draw.random() < 0.3}
        self.predicted(
            body | ({"decide": {"missed_at_most": RISK}} if self.draw.random() < 0.5 else {}), [number]
        )

    def many_texts(self) -> None:
        numbers = [self.draw.randrange(len(self.texts)) for _ in range(self.draw.randint(1, 30))]
        self.predicted({"texts": [self.texts[number] for number in numbers], "k": K}, numbers)

    def to_queue(self) -> None:
        self.perhaps_queued += 1
        # A text of its own: one that waits already is not added again.
        text = f"{self.draw.choice(self.texts)} {self.seed} {self.perhaps_queued}"
        status, answer = self.ask("POST", "/queue", json.dumps({"texts": [text]}).encode())
        if status == 200:
            self.queued += 1
        elif status in (503, 504):
            self.diary.note(TURNED_AWAY)
        else:
            self.diary.blame(f"the queue answered {status}: {answer}")

    def invalid(self) -> None:
        body = self.draw.choice(
            [
                b"{",
                b'{"text": 7}',
                b'{"text": "a", "k": -1}',
                b'{"text": "a", "decide": {"wrong_at_most": NaN}}',
                b'{"features": [{"indices": [1], "values": [1.0]}]}',
                b'{"text": "\xff"}',
                b"[" * 5000,
                json.dumps({"texts": ["a"] * 300}).encode(),
                json.dumps({"text": "a" * 100_001}).encode(),
            ]
        )
        status, answer = self.ask("POST", "/predict", body)
        if status != 422:
            self.diary.blame(f"an invalid request got {status}: {str(answer)[:200]}")

    def look(self) -> None:
        path = self.draw.choice(["/model", "/labels?query=a", "/queue?limit=5", "/metrics", "/readyz"])
        status, answer = self.ask("GET", path)
        if status != 200:
            self.diary.blame(f"{path} answered {status}: {str(answer)[:200]}")

    def _say(self, said: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        connection.sendall(said)
        return connection

    def _head(self, length: int) -> bytes:
        return (
            b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (self.server.port, length)
        )

    def oversized(self) -> None:
        """The length alone is too much; nothing need be sent."""
        with self._say(self._head(5 << 20)) as connection:
            if not (answer := connection.recv(100)).startswith(b"HTTP/1.1 413"):
                if not answer:
                    raise ConnectionResetError("closed without an answer")
                self.diary.blame(f"an oversized request got {answer!r}")

    def cut(self) -> None:
        """Half a head, or half a body, and away."""
        with self._say(self.draw.choice([self._head(100)[:40], self._head(100) + b'{"text": "a'])):
            pass

    def slow(self) -> None:
        """A body that never comes to its end."""
        with self._say(self._head(100) + b'{"text": "a') as connection:
            if not (answer := connection.recv(100)).startswith(b"HTTP/1.1 408"):
                if not answer:
                    raise ConnectionResetError("closed without an answer")
                self.diary.blame(f"a slow request got {answer!r}")


class Watched:
    """Memory of its own (not of mapped files) and open files of a process, sample by sample."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.bytes: list[int] = []
        self.files: list[int] = []

    def sample(self) -> None:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        self.bytes.append(next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")))
        self.files.append(len(os.listdir(f"/proc/{self.pid}/fd")))

    def growth(self) -> dict[str, int]:
        """The medians of the last fifth less those of the first, after the warm-up."""
        begin = int(WARM_UP * len(self.bytes))
        fifth = max(1, (len(self.bytes) - begin) // 5)
        found = {}
        for name, values in (("bytes", self.bytes), ("files", self.files)):
            before, after = np.median(values[begin : begin + fifth]), np.median(values[-fifth:])
            found[name] = int(after - before)
            found[f"{name}_at_end"] = int(after)
        return found


def library_loop(folder: Path, target: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE / "soak_worker.py"), str(folder), str(target)],
        stdout=subprocess.PIPE,
        text=True,
    )


def listen_to(process: subprocess.Popen[str], diary: Diary) -> None:
    """Count the rounds of a loop of the library until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        diary.note("rounds of the library")
        if line.strip() != "ok" and line.endswith("\n"):
            diary.blame(f"library: {line.strip()}")


def kill_loops(folder: Path, models: dict[str, str], diary: Diary, end: float) -> None:
    """Start a loop of the library and kill it, again and again; the file it saves over is always whole."""
    draw = random.Random(7)
    target = folder / "mortal.hedgerow"
    while time.monotonic() < end:
        process = library_loop(folder, target)
        listener = threading.Thread(target=listen_to, args=(process, diary))
        listener.start()
        time.sleep(min(draw.uniform(*KILL_SECONDS), max(0.0, end - time.monotonic())))
        if process.poll() is not None:
            diary.blame(f"a loop of the library ended by itself: {process.returncode}")
        process.kill()
        listener.join()
        process.wait()
        diary.note("kills of the library")
        if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() not in models.values():
            diary.blame("a kill left a model file that is neither of the two")
        for left in folder.glob(".mortal*.tmp"):
            left.unlink()


def kill_server(server: Server, clients: list[Client], diary: Diary, end: float) -> None:
    """Kill a server again and again; every text that its queue acknowledged is there when it is back."""
    draw = random.Random(8)
    while time.monotonic() < end:
        time.sleep(min(draw.uniform(*KILL_SECONDS), max(0.0, end - time.monotonic())))
        acknowledged = sum(client.queued for client in clients)
        server.kill()
        server.start()
        diary.note("kills of the server")
        _, counts = clients[0].ask("GET", "/queue/counts")
        sent = sum(client.perhaps_queued for client in clients)
        if not acknowledged <= counts["waiting"] <= sent:
            diary.blame(f"{acknowledged} texts were acknowledged, {sent} sent, {counts['waiting']} are there")


def swap_models(server: Server, folder: Path, served: Path, diary: Diary, end: float) -> None:
    number = 0
    while time.monotonic() + SWAP_SECONDS < end:
        time.sleep(SWAP_SECONDS)
        number += 1
        new = folder / "swap"
        shutil.copyfile(folder / f"{('one', 'two')[number % 2]}.hedgerow", new)
        new.replace(served)
        server.process.send_signal(signal.SIGHUP)
        diary.note("changes of the model under load")


def soak(minutes: float, folder: Path) -> dict[str, Any]:
    diary = Diary()
    sample = load_sample()
    texts = sample.test_texts[-TEXTS:]
    oracle: Oracle = {}
    expected: dict[str, Any] = {"texts": texts}
    hashes = {}
    for seed, name in enumerate(("one", "two")):
        path = folder / f"{name}.hedgerow"
        model = a_text_model(seed=seed)
        learn_from_held_out(model, sample.test_texts[100:], sample.test_labels[100:])
        model.save(path)
        expected[name] = digest(hedgerow.load(path), texts)
        hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    small = folder / "small.hedgerow"
    a_text_model(rows=SMALL).save(small)
    expected["small"] = hashlib.sha256(small.read_bytes()).hexdigest()
    (folder / "expected.json").write_text(json.dumps(expected))
    served = folder / "served.hedgerow"
    shutil.copyfile(folder / "one.hedgerow", served)
    steady, mortal = Server(served, folder / "steady.sqlite"), Server(served, folder / "mortal.sqlite")
    loop = library_loop(folder, folder / "steady.hedgerow")
    try:
        for name in ("one", "two"):
            shutil.copyfile(folder / f"{name}.hedgerow", folder / "next")
            (folder / "next").replace(served)
            client = Client(steady, oracle, texts, diary, 0)
            _, answer = client.ask("POST", "/reload", b"{}")
            oracle[answer["model"]] = expected_answers(folder / f"{name}.hedgerow", texts)
        end = time.monotonic() + 60 * minutes
        clients = [Client(steady, oracle, texts, diary, seed) for seed in range(CLIENTS)]
        others = [Client(mortal, oracle, texts, diary, 100 + seed) for seed in range(CLIENTS // 2)]
        threads = [diary.thread(client.run, end) for client in clients + others]
        threads += [
            diary.thread(listen_to, loop, diary),
            diary.thread(kill_loops, folder, hashes, diary, end),
            diary.thread(kill_server, mortal, others, diary, end),
            diary.thread(swap_models, steady, folder, served, diary, end),
        ]
        for thread in threads:
            thread.start()
        watched = {"server": Watched(steady.process.pid), "library": Watched(loop.pid)}
        while time.monotonic() < end:
            for one in watched.values():
                one.sample()
            time.sleep(SAMPLE_SECONDS)
        if loop.poll() is not None:
            diary.blame(f"the steady loop of the library ended by itself: {loop.returncode}")
        loop.kill()
        for thread in threads:
            thread.join()
        _, counts = clients[0].ask("GET", "/queue/counts")
        sent = sum(client.perhaps_queued for client in clients)
        if not sum(client.queued for client in clients) <= counts["waiting"] <= sent:
            diary.blame("the queue of the steady server does not hold what it acknowledged")
        steady.process.send_signal(signal.SIGTERM)
        if (code := steady.process.wait()) != 0:
            diary.blame(f"the steady server ended with {code}")
    finally:
        for process in (loop, steady.process, mortal.process):
            process.kill()
            process.communicate()
    requests = sum(cases for what, cases in diary.counts.items() if what.startswith("requests: "))
    if diary.counts[TURNED_AWAY] > TURNED_AWAY_SHARE * requests:
        diary.blame(f"{diary.counts[TURNED_AWAY]} of {requests} requests were turned away")
    growth = {name: one.growth() for name, one in watched.items()}
    for name, found in growth.items():
        if found["bytes"] > GROWTH_BYTES or found["files"] > GROWTH_FILES:
            diary.blame(f"{name} grew: {found}")
    return {
        "minutes": minutes,
        "counts": dict(sorted(diary.counts.items())),
        "growth": growth,
        "allowed_growth": {"bytes": GROWTH_BYTES, "files": GROWTH_FILES},
        "wrong": diary.wrong[:100],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = soak(arguments.minutes, Path(folder))
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if arguments.out:
        arguments.out.write_text(text)
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
