"""Learning from reviews beside the server: in a process of its own, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from hedgerow.comparison.learned_records import LearnedRecords
from hedgerow.comparison.promotion import Judge
from hedgerow.records.file import find_records, read_records
from hedgerow.storage.container import ModelFileError

from .errors import ApiError
from .learning_worker import Task
from .logs import log_event
from .queue_store import ReviewedText
from .reviews import as_records
from .served_model import ServedModel

__all__ = ["Known", "Learner", "Outcome"]

_LONGEST_LINE = 1 << 22  # of what the process says; a comparison with many groups takes some kilobytes
_NO_JUDGE = (
    "the server was started without --judge-on, so nothing could decide whether the updated model is good"
    " enough; start it with --promote-if no-worse --judge-on DATA"
)
_NO_TEXTS = "the model reads features, so there is no queue to review; update it with hedgerow update"
_NO_RECORDS = (
    "the records that the model was trained on are not beside it (MODEL.data), so it cannot be updated; put"
    " that file back, or fit again with hedgerow fit, which keeps them"
)
_NOTHING = "no text in the queue is reviewed yet; confirm or correct some first"


@dataclass(frozen=True)
class Outcome:
    """What was learned, and whether the model that learned it answers now."""

    learned: int
    known: int
    added: int
    corrected: int
    promoted: bool | None
    verdict: str | None
    words: str

    @classmethod
    def of(cls, lesson: dict[str, Any]) -> Outcome:
        """From what the process says, which is `Lesson.to_dict`."""
        learned = lesson["reviewed"] - lesson["known"]
        if lesson["promotion"] is None:
            return cls(
                0, lesson["known"], 0, 0, None, None, "the model has learned all reviewed texts already"
            )
        event, promotion = lesson["update"]["event"], lesson["promotion"]
        found = promotion["comparison"]
        return cls(
            learned,
            lesson["known"],
            event["added"],
            event["corrected"],
            promotion["promoted"],
            None if found is None else found["verdict"]["word"],
            promotion["words"],
        )


class Known:
    """Which reviewed texts the model that answers has learned. Its methods read files."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._of = ""
        self._learned: LearnedRecords | None = None

    def has_records(self, served: ServedModel) -> bool:
        """Whether the model's records are beside it."""
        return find_records(self._model, served.model.identity) is not None

    def lacks(self, served: ServedModel, texts: list[ReviewedText]) -> tuple[int, int | None]:
        """How many texts can be learned from, and how many of them are new; None where nobody can know."""
        reviewed = as_records(texts)
        learned = self._learned_by(served)
        new = None if learned is None else len(learned.lacks(served.model, reviewed))
        return len(reviewed.ids), new

    def _learned_by(self, served: ServedModel) -> LearnedRecords | None:
        identity = served.model.identity
        if self._of != identity:
            self._learned = None
            file = find_records(self._model, identity)
            if file is None:
                return None
            try:
                self._learned = LearnedRecords.of(read_records(file)[0])
            except (ModelFileError, OSError) as error:  # another process may be renaming it
                log_event("records not read", logging.WARNING, reason=str(error))
                return None
            self._of = identity
        return self._learned


class Learner:
    """Runs the process, keeps what it said last, and lets the server load what it promoted.

    `follow` is called with the words of a promotion before the state is "done".
    """

    def __init__(
        self,
        model: Path,
        queue: Path,
        judge: Judge | None,
        threads: int,
        follow: Callable[[str], Awaitable[None]],
    ) -> None:
        self._task = None if judge is None else Task(model, queue, judge, threads)
        self._follow = follow
        self._running: asyncio.Task[None] | None = None
        self.known = Known(model)
        self.worker = Task.__module__
        self.state = "idle"
        self.stage: str | None = None
        self.share: float | None = None
        self.outcome: Outcome | None = None
        self.failure: str | None = None

    @property
    def runs(self) -> bool:
        """Whether the process is at work, or what it promoted is being loaded."""
        return self.state == "running"

    def describe(self) -> dict[str, Any]:
        """How far it is, and what came of it."""
        return {
            "state": self.state,
            "stage": self.stage,
            "share": self.share,
            "reviewed": None,
            "waiting": None,
            "obstacle": None,
            "outcome": None if self.outcome is None else asdict(self.outcome),
            "failure": self.failure,
        }

    def survey(self, served: ServedModel, texts: list[ReviewedText]) -> dict[str, Any]:
        """What could be learned now; files may have to be read for that."""
        reviewed, waiting = self.known.lacks(served, texts) if served.reads_texts else (0, None)
        obstacle = self.obstacle(served, texts)
        return {
            "reviewed": reviewed,
            "waiting": waiting,
            "obstacle": None if obstacle is None else obstacle[1],
        }

    def forget(self) -> None:
        """Say no more what came of it, since that is undone."""
        if not self.runs:
            self.state, self.outcome, self.failure = "idle", None, None

    def obstacle(self, served: ServedModel, texts: list[ReviewedText]) -> tuple[str, str] | None:
        """Why nothing can be learned now, as a word for programs and as a sentence with the way out."""
        if not served.reads_texts:
            return "no_queue", _NO_TEXTS
        if self._task is None:
            return "no_judge", _NO_JUDGE
        if not self.known.has_records(served):
            return "no_records", _NO_RECORDS
        return None if texts else ("nothing_reviewed", _NOTHING)

    def start(self, obstacle: tuple[str, str] | None) -> None:
        """Begin; refuses where it runs already, or where something is in the way."""
        if self.runs:
            raise ApiError(
                409, "learning", "the server is learning from reviews already; GET /learn says how far it is"
            )
        if obstacle is not None or self._task is None:
            raise ApiError(409, *(obstacle or ("no_judge", _NO_JUDGE)))
        self.state, self.stage, self.share = "running", None, None
        self.outcome = self.failure = None
        self._running = asyncio.get_running_loop().create_task(self._run(self._task))

    async def stop(self) -> None:
        """End the process, if there is one; the model stays whole, and the next start goes on."""
        if self._running is not None:
            self._running.cancel()
            await self.finished()

    async def finished(self) -> None:
        """Wait until nothing runs."""
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self, task: Task) -> None:
        try:
            outcome = Outcome.of(await self._learn(task))
            if outcome.promoted:
                await self._follow(outcome.words)
        except Exception as error:  # whatever it is, the server goes on
            self._end("failed")
            self.failure = str(error) or type(error).__name__
            log_event("learning failed", logging.ERROR, reason=self.failure)
            return
        self._end("done")
        self.outcome = outcome
        log_event("learned", texts=outcome.learned, promoted=outcome.promoted, reason=outcome.words)

    def _end(self, state: str) -> None:
        self.state, self.stage, self.share = state, None, None

    async def _learn(self, task: Task) -> dict[str, Any]:
        """What the process found; whatever happens, it has ended afterwards."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self.worker,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is for the server, which finishes what is in flight
        )
        lesson: dict[str, Any] | None = None
        failure: str | None = None
        try:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the process that learns has no pipes")
            process.stdin.write(task.to_line())
            with contextlib.suppress(ConnectionError):  # it has ended already, and how is found out below
                await process.stdin.drain()
            async for line in process.stdout:
                said = orjson.loads(line)
                if "stage" in said:
                    if self.stage != said["stage"]:
                        log_event("learning", stage=said["stage"])
                    self.stage, self.share = said["stage"], said["share"]
                lesson, failure = said.get("lesson", lesson), said.get("failed", failure)
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if failure is not None:
            raise RuntimeError(failure)
        if lesson is None:
            raise RuntimeError(_ended(status))
        return lesson


def _ended(status: int) -> str:
    how = f"with {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return f"the process that learns was ended {how}; the model is whole, and learning again goes on"
