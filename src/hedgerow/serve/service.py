"""What the server does, apart from HTTP: predict, explain, list labels, keep the queue, change the model."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import scipy.sparse as sp

from hedgerow.comparison.model_files import ModelFiles, NoOtherModel
from hedgerow.comparison.promotion import Judge
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.macro import Objective
from hedgerow.decisions.together import what_is_optimised
from hedgerow.explanation import Explanation, explain, label_number
from hedgerow.judge.name_verdict import name_entry
from hedgerow.judge.verdict import verdict_entry
from hedgerow.storage.container import ModelFileError

from .adaptation import Adaptation
from .batching import Batcher
from .errors import ApiError, overloaded
from .examples import examples_for
from .filling import FALSE_ALARM, REVIEWED, fill_queue, queued
from .label_search import find_labels
from .learning import Learner
from .limits import Limits
from .logs import log_event
from .metrics import Metrics
from .model_slot import ModelSlot, ReloadRunning, load_model
from .prediction import Wanted, predict, said_of
from .promoting import Promoter
from .queue_store import QueueCounts, QueueError, QueueFull, QueueItem, QueueStore, ReviewedText, TextInput
from .served_model import ALL_LABELS, AllowedLabels, ServedModel
from .shadowing import LiveAnswer, Shadow, ShadowSettings
from .verdicts import Sorting, flag_ood

Found = TypeVar("Found")

_NAMED_AT_ONCE = 500  # labels of an answer that are named without a thread
_IGNORED = (
    "MODEL.accepted is there, from a server with --promote-if; without that option, MODEL is served as it is"
)
_BETWEEN_TRIES = 0.05  # seconds
_SLOW_JOBS = 32  # explanations and searches of labels that may wait for their thread


@dataclass(frozen=True)
class Asked:
    """What a request asks of each input: goal, labels and language in its own words."""

    wanted: Wanted
    goal: Goal | None = None
    allowed: AllowedLabels = ALL_LABELS
    false_alarm: float = FALSE_ALARM
    lang: str | None = None


@dataclass(frozen=True)
class ServerSettings:
    """The files of model and review queue, the threads per prediction, and how much a client may ask for.

    With `adapt`, thresholds of accepted labels follow reviews, for goals with this share of wrong labels.
    With a `judge`, a changed model file answers only if that says so. With `shadow`, a candidate answers,
    too, and is only compared.
    """

    model: Path
    queue: Path
    threads: int = 1
    limits: Limits = field(default_factory=Limits)
    adapt: float | None = None
    judge: Judge | None = None
    shadow: ShadowSettings | None = None


class Service:
    """A model, its queue, and the threads they run in; model and queue are opened at once."""

    def __init__(self, settings: ServerSettings) -> None:
        self.limits = settings.limits
        self.metrics = Metrics()
        self.promoter: Promoter | None = None
        if settings.judge is not None:
            self.promoter = Promoter(settings.model, settings.judge, settings.threads)
        elif ModelFiles(settings.model).accepted.exists():
            log_event("accepted model ignored", logging.WARNING, reason=_IGNORED)
        self.slot = ModelSlot(
            settings.model,
            load_model(settings.model, settings.threads) if self.promoter is None else self.promoter.open(),
            settings.threads,
        )
        self.shadow: Shadow | None = None
        if settings.shadow is not None:
            self.shadow = Shadow.open(settings.shadow, self.slot.current)
            self.metrics.also(self.shadow)
        self.store = QueueStore(settings.queue, settings.limits.queue)
        self.adaptation: Adaptation | None = None
        if settings.adapt is not None:
            self.adaptation = Adaptation(self.store, settings.adapt)
            self.adaptation.check(self.slot.current)
        self.learner = Learner(
            settings.model, settings.queue, settings.judge, settings.threads, self._follow_learned
        )
        self._engine = _thread("engine")
        self._slow = _thread("slow")
        self._loader = _thread("loader")
        self._writer = _thread("queue")
        self._slow.submit(self.slot.current.prepare_search)  # nobody waits for it, but the first search
        self._slow_jobs = 0
        self.batcher = Batcher(
            partial(predict, most=settings.limits.labels, watch=True),
            self._engine,
            waiting=settings.limits.waiting,
            observe=self.metrics.batch,
        )

    def fill_queue(self, texts: Sequence[TextInput]) -> None:
        """Put texts into the queue before the server runs."""
        if texts:
            fill_queue(self.store, self.slot.current, texts)

    def close(self) -> None:
        """End the threads and close the queue."""
        for executor in (self._engine, self._slow, self._loader, self._writer):
            executor.shutdown(wait=True)
        if self.shadow is not None:
            self.shadow.close()
        self.store.close()

    # --- predictions ---

    async def predict_texts(self, texts: Sequence[TextInput], asked: Asked, where: str) -> dict[str, Any]:
        """The answer to a request: the id of the model, what it says of each text, and what is guaranteed."""
        served = self.slot.current
        results = await self._predict_texts(served, texts, asked, where)
        return await self._told(served, results, asked)

    async def _predict_texts(
        self, served: ServedModel, texts: Sequence[TextInput], asked: Asked, where: str
    ) -> list[dict[str, Any]]:
        self._check_texts(served, texts, where)
        return await self._predict(served, list(texts), len(texts), asked)

    async def predict_features(
        self, rows: Sequence[tuple[Sequence[int], Sequence[float]]], asked: Asked
    ) -> dict[str, Any]:
        """The same for rows of features: columns and values."""
        served = self.slot.current
        if served.reads_texts:
            raise ApiError(422, "kind", "the model reads texts; send text or texts", "features")
        self._check_count(len(rows), "features")
        matrix = _matrix(rows, served.model.reader.width, self.limits.entries)
        results = await self._predict(served, matrix, len(rows), asked)
        return await self._told(served, results, asked)

    async def _told(self, served: ServedModel, results: list[dict[str, Any]], asked: Asked) -> dict[str, Any]:
        await self._name(served, _listed(results), asked.lang)
        told: dict[str, Any] = {"model": served.id}
        if asked.goal is not None and (warning := served.watched.warning()) is not None:
            told["shift"] = warning
        told["results"] = results
        if asked.goal is not None:
            guarantees = self._sorting(served, asked.goal).plan.guarantees
            told["guarantees"] = [of.to_dict() for of in guarantees]
        if (objective := asked.wanted.objective) is not None:
            told |= {"guarantees": [], "remarks": [what_is_optimised(objective, len(results))]}
        return told

    def _sorting(self, served: ServedModel, goal: Goal) -> Sorting:
        sorting = served.sorting(goal)
        return sorting if self.adaptation is None else self.adaptation.sorting(served, sorting)

    async def _name(self, served: ServedModel, labels: list[dict[str, Any]], lang: str | None) -> None:
        """Put the name of each label beside it, where there are names."""
        naming = served.naming(lang)
        if naming is None:
            return

        def work() -> None:
            for one in labels:
                before = dict(one)
                one.clear()  # so that the name stands beside the label
                one |= {"label": before["label"], "name": naming.of(before["label"]), **before}

        if len(labels) > _NAMED_AT_ONCE:
            await asyncio.to_thread(work)
        else:
            work()

    async def _predict(
        self, served: ServedModel, inputs: Any, count: int, asked: Asked
    ) -> list[dict[str, Any]]:
        wanted = asked.wanted
        if wanted.k > self.limits.k:
            raise ApiError(422, "invalid", f"k is {wanted.k}; at most {self.limits.k} labels are listed", "k")
        if wanted.objective is not None:
            self._check_objective(served, wanted.objective)
        for name, labels in vars(asked.allowed).items():
            if labels is not None and len(labels) > self.limits.subset:
                raise ApiError(
                    422,
                    "too_many",
                    f"{name} has {len(labels):,} labels; send at most {self.limits.subset:,}",
                    name,
                )
        allowed = asked.allowed
        if allowed.by_vocabulary:
            subset = await self._slowly(lambda: served.subset(allowed))
        else:
            subset = served.subset(allowed)
        wanted = replace(wanted, subset=subset)
        if asked.goal is not None:
            wanted = replace(wanted, sorting=self._sorting(served, asked.goal))
        begin = time.perf_counter()
        results = await self.batcher.predict(served, inputs, count, wanted)
        flag_ood(results, asked.false_alarm)
        if self.shadow is not None and wanted.objective is None and self.shadow.is_due():
            seconds = time.perf_counter() - begin
            question = wanted.k, asked.goal, asked.allowed
            self.shadow.observe(LiveAnswer.of(served.id, inputs, question, results, seconds))
        return results

    def _check_objective(self, served: ServedModel, objective: Objective) -> None:
        where = "decide.optimise"
        if objective.k > self.limits.k:
            words = f"optimise asks for {objective.k} labels of an input; at most {self.limits.k} are listed"
            raise ApiError(422, "invalid", words, where)
        if not served.model.calibrated:
            raise ApiError(
                422,
                "not_calibrated",
                f"to optimise {objective} needs calibrated probabilities, and the model's are not calibrated;"
                " run hedgerow calibrate",
                where,
            )

    async def explain(
        self, text: TextInput, label: str | int, top: int, lang: str | None = None
    ) -> dict[str, Any]:
        """Which words of a text moved a label."""
        served = self.slot.current
        self._check_texts(served, [text], "text")
        try:
            label_number(served.model, label)
        except (ValueError, TypeError) as error:
            raise ApiError(422, "unknown_label", str(error), "label") from error

        def work() -> tuple[Explanation, Any, Any]:
            return explain(served.model, text, label), *said_of(served, text, label)

        why, probability, votes = await self._slowly(work)
        naming = served.naming(lang)
        return {
            "label": label,
            **({} if naming is None else {"name": naming.of(label)}),
            "probability": probability,
            "votes": votes,
            "speaks_for": [_effect(found) for found in why.for_(top)],
            "speaks_against": [_effect(found) for found in why.against(top)],
            "members_probability": why.members_probability,
            "judge": None if why.verdict is None else verdict_entry(why.verdict),
            "names": None if why.names is None else name_entry(why.names),
            "sentences": why.sentences(),
        }

    # --- the model ---

    async def labels(self, query: str, offset: int, limit: int, lang: str | None = None) -> dict[str, Any]:
        """The labels that a query may mean."""
        served = self.slot.current
        naming = served.naming(lang)
        found = await self._slowly(lambda: find_labels(served, query, naming))
        parts = ("label", "count") if naming is None else ("label", "name", "count", "matched")
        return {
            "total": len(found),
            "labels": [{part: vars(one)[part] for part in parts} for one in found[offset : offset + limit]],
        }

    def model(self) -> dict[str, Any]:
        """What the model is."""
        served = self.slot.current
        return {
            "id": served.id,
            "labels": len(served.labels),
            "members": served.model.members,
            "method": served.model.method.value,
            "texts": served.reads_texts,
            "fields": served.fields,
            "languages": None if served.model.vocabulary is None else served.model.vocabulary.languages,
            "calibrated": served.model.calibrated,
            "detects_ood": served.model.ood is not None,
            "policy": served.choices,
            "broader": served.model.coarser is not None,
            "schemes": served.schemes,
            "hierarchy": served.has_hierarchy,
            "shift": served.watched.describe(),
            "adapted": None if self.adaptation is None else self.adaptation.describe(served),
            "promotion": None if self.promoter is None else self.promoter.describe(),
        }

    async def examples(self) -> list[dict[str, str]]:
        """Texts to try."""
        served = self.slot.current
        return await self._slowly(lambda: examples_for(served))

    async def reload(self) -> tuple[str, str, int]:
        """Re-load the model file.

        Gives the ids of the model before and of the one that answers now, and how many labels of that have
        left its vocabulary.
        """
        promoter = self.promoter
        try:
            if promoter is None:
                before, now = await self.slot.reload(self._loader)
            else:
                before, now = await self.slot.change(self._loader, self._considered(promoter))
        except ReloadRunning as error:
            raise ApiError(409, "reloading", str(error), retry_after=1) from error
        except Exception as error:  # whatever is wrong with the new one, the old one goes on
            self.metrics.reload("refused")
            log_event("reload refused", logging.ERROR, reason=str(error))
            raise ApiError(
                422, "bad_model", f"the model file cannot be served, and the model stays as it was: {error}"
            ) from error
        self.metrics.reload("same" if now is before else "changed")
        if now is not before:
            self.learner.forget()
        left = 0 if now.model.left is None else len(now.model.left)
        log_event("reload", before=before.id, model=now.id, labels_that_left=left)
        return before.id, now.id, left

    def _considered(self, promoter: Promoter) -> Callable[[ServedModel], ServedModel]:
        def consider(current: ServedModel) -> ServedModel:
            before = promoter.standing
            try:
                return promoter.consider(current)
            finally:
                if promoter.standing is not before:
                    self.metrics.promotion(promoter.standing.state)

        return consider

    async def roll_back(self) -> dict[str, Any]:
        """Let the model before the current one answer again."""
        told = await self._swap(lambda promoter: promoter.roll_back)
        self.learner.forget()
        return told

    async def promote(self) -> dict[str, Any]:
        """Let the model answer that was refused or rolled back."""
        return await self._swap(lambda promoter: promoter.promote_refused)

    async def _swap(
        self, choose: Callable[[Promoter], Callable[[ServedModel], ServedModel]]
    ) -> dict[str, Any]:
        promoter = self.promoter
        if promoter is None:
            raise ApiError(409, "no_promotion", "the server was started without --promote-if")
        try:
            before, now = await self.slot.change(self._loader, choose(promoter))
        except ReloadRunning as error:
            raise ApiError(409, "reloading", str(error), retry_after=1) from error
        except NoOtherModel as error:
            raise ApiError(409, "no_other_model", str(error)) from error
        except (ModelFileError, OSError) as error:
            log_event("swap refused", logging.ERROR, reason=str(error))
            raise ApiError(422, "bad_model", f"the model stays as it was: {error}") from error
        self.metrics.promotion(promoter.standing.state)
        return {"model": now.id, "before": before.id, "promotion": promoter.describe()}

    # --- learning from reviews ---

    async def learn(self) -> dict[str, Any]:
        """Begin to learn from reviews, in a process of its own."""
        served, texts = self.slot.current, await self._write(self._reviewed)
        self.learner.start(await self._slowly(lambda: self.learner.obstacle(served, texts)))
        return await self.learning()

    async def learning(self) -> dict[str, Any]:
        """What could be learned from reviews, how far that is, or what came of it."""
        served, told = self.slot.current, self.learner.describe()
        if not self.learner.runs:  # and so no other process renames the files that are looked at
            texts = await self._write(self._reviewed)
            told |= await self._slowly(lambda: self.learner.survey(served, texts))
        can = self.promoter is not None and self.promoter.describe()["can_roll_back"]
        return told | {"can_roll_back": can}

    def _reviewed(self) -> list[ReviewedText]:
        return list(self.store.reviewed())

    async def _follow_learned(self, words: str) -> None:
        """Let the model answer that another process promoted, once no other is being loaded."""
        promoter = self.promoter
        if promoter is None:
            return
        while True:
            try:
                before, now = await self.slot.change(self._loader, lambda of: promoter.follow(of, words))
            except ReloadRunning:
                await asyncio.sleep(_BETWEEN_TRIES)
                continue
            log_event("reload", before=before.id, model=now.id)
            return

    def shadow_report(self) -> dict[str, Any]:
        """How the candidate that only listens differs."""
        if self.shadow is None:
            raise ApiError(404, "no_shadow", "the server was started without --shadow")
        return asdict(self.shadow.report())

    # --- the queue ---

    async def add_to_queue(
        self, texts: Sequence[TextInput], text_ids: Sequence[str | None] | None = None
    ) -> list[int]:
        """Predict texts and keep them, with ids of their own, for a human to review."""
        served = self.slot.current
        results = await self._predict_texts(served, texts, Asked(REVIEWED), "texts")
        try:
            return await self._write(lambda: self.store.add(queued(texts, results), served.id, text_ids))
        except QueueFull as error:
            raise ApiError(507, "queue_full", str(error)) from error

    async def queue(self, limit: int, lang: str | None = None) -> list[QueueItem]:
        """The texts that wait, the most informative first; labels are called as they are called now."""
        items = await self._write(lambda: self.store.waiting(limit))
        labels = [one for item in items for one in item.prediction["labels"]]
        await self._name(self.slot.current, labels, lang)
        return items

    async def review(self, number: int, state: str, labels: Sequence[str | int]) -> None:
        """Store the labels that a human gave to a text."""
        adaptation, served = self.adaptation, self.slot.current

        def work() -> bool:
            if adaptation is not None:
                return adaptation.review(served, number, state, labels)
            return self.store.decide(number, state, labels)

        if not await self._write(work):
            raise ApiError(404, "not_found", f"the queue has no text {number}", "id")

    async def counts(self) -> QueueCounts:
        """How many texts are in each state."""
        return await self._write(self.store.counts)

    async def export(self, lang: str | None = None) -> AsyncIterator[bytes]:
        """The reviewed texts with their labels, and what these are called, as lines of JSON."""
        naming = self.slot.current.naming(lang)
        after = 0
        while page := await self._write(partial(self.store.export_page, after)):
            yield b"".join(
                orjson.dumps(
                    {
                        **({} if one.text_id is None else {"id": one.text_id}),
                        **({} if naming is None else {"names": [naming.of(label) for label in one.labels]}),
                        **({"text": one.text} if isinstance(one.text, str) else one.text),
                        "labels": one.labels,
                    },
                    option=orjson.OPT_APPEND_NEWLINE,
                )
                for one in page
            )
            after = page[-1].id

    async def check_ready(self) -> str:
        """The id of the model; refuses where the queue cannot be written."""
        try:
            await self._write(self.store.check)
        except QueueError as error:
            raise ApiError(503, "queue", "the review queue cannot be written", retry_after=5) from error
        return self.slot.current.id

    # --- threads and checks ---

    async def _write(self, work: Callable[[], Found]) -> Found:
        """Do what concerns the queue, in its thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, work)
        except sqlite3.Error as error:  # such as a full disk
            log_event("queue", logging.ERROR, reason=str(error))
            raise ApiError(
                503, "queue", "the review queue cannot be read or written; see the server's log", None, 5
            ) from error

    async def _slowly(self, work: Callable[[], Found]) -> Found:
        """Do what takes long beside the predictions, in a thread of its own."""
        if self._slow_jobs >= _SLOW_JOBS:
            raise overloaded(f"{self._slow_jobs} explanations and searches wait already")
        self._slow_jobs += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._slow, work)
        finally:
            self._slow_jobs -= 1

    def _check_texts(self, served: ServedModel, texts: Sequence[TextInput], where: str) -> None:
        if not served.reads_texts:
            raise ApiError(422, "kind", "the model reads features, not texts; send features", where)
        self._check_count(len(texts), where)
        for number, text in enumerate(texts):
            place = where if where == "text" else f"{where}.{number}"
            _check_fields(served, text, place)
            size = len(text) if isinstance(text, str) else sum(map(len, text.values()))
            if size > self.limits.text:
                raise ApiError(
                    422,
                    "too_long",
                    f"the text has {size} characters; send at most {self.limits.text}",
                    place,
                )

    def _check_count(self, count: int, where: str) -> None:
        if count > self.limits.batch:
            raise ApiError(
                422, "too_many", f"there are {count} inputs; send at most {self.limits.batch} at once", where
            )


def _check_fields(served: ServedModel, text: TextInput, where: str) -> None:
    """Refuse texts by name that the model does not have."""
    if isinstance(text, str):
        return
    if served.fields is None:
        raise ApiError(422, "fields", "the model reads one text without fields; send a string", where)
    for name in text:
        if name not in served.fields:
            raise ApiError(
                422, "fields", f"the model has no such field; it reads {', '.join(served.fields)}", where
            )


def _thread(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)


def _effect(found: Any) -> dict[str, Any]:
    effect = {"word": str(found.feature), "effect": found.effect, "disagreement": found.disagreement}
    others = {name: getattr(found, name) for name in ("field", "members_effect", "wide_effect")}
    return effect | {name: value for name, value in others.items() if value is not None}


def _listed(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All labels and broader terms of results."""
    return [one for result in results for one in (*result["labels"], *result.get("broader", ()))]


def _matrix(rows: Sequence[tuple[Sequence[int], Sequence[float]]], width: int, most: int) -> sp.csr_array:
    """Rows of features as a matrix with sorted columns, or a refusal that says which entry is wrong."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    columns, values = [], []
    for number, (indices, data) in enumerate(rows):
        where = f"features.{number}"
        if len(indices) != len(data):
            raise ApiError(422, "invalid", f"there are {len(indices)} indices and {len(data)} values", where)
        if len(indices) > most:
            raise ApiError(
                422, "too_many", f"there are {len(indices)} features; send at most {most} per input", where
            )
        own = np.asarray(indices, dtype=np.int64)
        if own.size and own.max() >= width:
            raise ApiError(
                422,
                "invalid",
                f"index {own.max()} is beyond the model's {width} features",
                f"{where}.indices",
            )
        order = np.argsort(own, kind="stable")
        own = own[order]
        twice = np.flatnonzero(own[1:] == own[:-1])
        if twice.size:
            raise ApiError(422, "invalid", f"index {own[twice[0]]} occurs twice", f"{where}.indices")
        columns.append(own)
        values.append(np.asarray(data, dtype=np.float32)[order])
        indptr[number + 1] = indptr[number] + len(own)
    return sp.csr_array(
        (np.concatenate(values), np.concatenate(columns).astype(np.int32), indptr), shape=(len(rows), width)
    )
