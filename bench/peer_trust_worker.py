"""Try one engine in every way: `python -m bench.peer_trust_worker ENGINE FOLDER`; `bench.peer_trust` runs it.

FOLDER holds the data `one` and `two`. Every case runs in a forked child, which may crash or hang, and is one
line of JSON: what was done, where, and what became of it. The library `tests/trust/fault_shim.c` is loaded
before all others, and kills a child at the system call that is asked for.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench import xmc_text
from bench.datasets import load
from bench.trust_engines import ENGINES, copy_model, files_of

SECONDS = 30
STAND_IN = 12345.5
MEMORY = 8 << 30
CUTS, FLIPS, KILLS = 60, 120, 60
KILL_BEFORE = 1
ANSWERED, REFUSED, OTHERWISE = "answered", "refused", "answered otherwise"
Case = tuple[str, str, str]


def in_child(work: Callable[[], str]) -> str:
    """What the work returns, "refused" if it raises, or how the child died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            ended = work()
        except BaseException:
            ended = REFUSED
        os.write(writer, ended.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        ended = said.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"SIGALRM": "hung", "SIGKILL": "killed"}.get(name, "crashed")
    # A library that calls exit takes the program with it, too.
    return ended or "crashed"


class Trial:
    """One engine with two models, and what they answer."""

    def __init__(self, name: str, folder: Path) -> None:
        self.engine = ENGINES[name]
        self.folder = folder
        self.data = [folder / "one", folder / "two"]
        self.models = [folder / "one.model", folder / "two.model"]
        self.target = folder / "room" / "model"
        self.target.parent.mkdir(exist_ok=True)
        self.X = load(self.data[0], "tst").X
        for data, model in zip(self.data, self.models, strict=True):
            if (ended := in_child(partial(self._fit, data, model, 1))) != ANSWERED:
                raise RuntimeError(f"{name} could not train: {ended}")
        self.answers = [self._answer(model) for model in self.models]
        if self.answers[0] == self.answers[1]:
            raise RuntimeError(f"{name}: the models do not differ")

    def _fit(self, data: Path, model: Path, threads: int) -> str:
        self.engine.fit(data, model, threads)
        return ANSWERED

    def _answer(self, model: Path, threads: int = 1, rows_at_once: int = 0) -> str:
        """All answers of a model as text, from a child of its own."""
        out = self.folder / "answer"
        out.unlink(missing_ok=True)

        def ask() -> str:
            loaded = self.engine.load(model)
            step = rows_at_once or self.X.shape[0]
            found = []
            for begin in range(0, self.X.shape[0], step):
                found += self.engine.predict(loaded, self.X[begin : begin + step], threads)
            out.write_text(repr(found))
            return ANSWERED

        ended = in_child(ask)
        return out.read_text() if ended == ANSWERED else ended

    def _compared(self, model: Path) -> str:
        """Whether a model answers as the first, as the second, otherwise, or not at all."""
        found = self._answer(model)
        if found in self.answers:
            return ("old", "new")[self.answers.index(found)]
        return OTHERWISE if found.startswith("[") else found

    def bad_values(self) -> Iterator[Case]:
        for value in (math.nan, math.inf, -math.inf):
            row = self.X[:1].copy()
            row.data[len(row.data) // 2] = value
            yield "NaN or infinity in an input", str(value), self._ask(row)

    def bad_indices(self) -> Iterator[Case]:
        width = self.X.shape[1]
        row = self.X[:1].copy()
        for index in (-1, width, width + 1000, 2**31 - 1):
            # scipy checks none of this where it is handed the three arrays.
            wrong = sp.csr_matrix((row.data, row.indices.copy(), row.indptr), shape=row.shape)
            wrong.indices[0 if index < 0 else -1] = index
            yield "feature index below 0 or too large", str(index), self._ask(wrong)
        wide = sp.csr_matrix((row.data, row.indices.copy(), row.indptr), shape=(1, width + 1000))
        wide.indices[-1] = width + 500
        yield "feature index below 0 or too large", "wider matrix", self._ask(wide)

    def _ask(self, row: sp.csr_matrix) -> str:
        def ask() -> str:
            found = self.engine.predict(self.engine.load(self.models[0]), row)
            if not found[0]:
                return "answered with no label"
            return f"answered, best score {max(score for _, score in found[0]):.3g}"

        return in_child(ask)

    def bad_training(self) -> Iterator[Case]:
        for value in (math.nan, math.inf):
            data = self.folder / "bad"
            shutil.rmtree(data, ignore_errors=True)
            shutil.copytree(self.data[0], data)
            X, Y = load(data, "trn")
            X.data[len(X.data) // 2] = value
            sp.save_npz(data / "X.trn.npz", X, compressed=False)
            X.data[len(X.data) // 2] = STAND_IN  # the writer refuses them; a user's need not
            xmc_text.write(data / "train.txt", X, Y)
            text = (data / "train.txt").read_text()
            (data / "train.txt").write_text(text.replace(f":{STAND_IN}", f":{value}"))
            ended = in_child(partial(self._fit, data, self.folder / "bad.model", 1))
            yield "NaN or infinity in training", str(value), ended

    def killed_saves(self) -> Iterator[Case]:
        shim = ctypes.CDLL(None)
        shim.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
        shim.fault_calls.restype = ctypes.c_long

        def save(kind: int, at: int) -> str:
            shim.fault_arm(os.fsencode(self.target.parent), kind, at)
            self.engine.save_over(self.models[1], self.data[1], self.target)
            shim.fault_disarm()
            return str(shim.fault_calls())

        copy_model(self.models[0], self.target)
        calls = int(in_child(partial(save, 0, -1)))
        for at in np.unique(np.linspace(0, calls - 1, min(calls, KILLS)).round().astype(int)).tolist():
            copy_model(self.models[0], self.target)
            ended = in_child(partial(save, KILL_BEFORE, at))
            if ended != "killed":
                raise RuntimeError(f"call {at} of {calls} was not reached: {ended}")
            yield "killed while saving over a model", f"{at}/{calls}", self._compared(self.target)

    def cuts(self) -> Iterator[Case]:
        draw = random.Random(0)
        names = files_of(self.models[0])
        for number in range(CUTS):
            copy_model(self.models[0], self.target)
            file = files_of(self.target)[number % len(names)]
            length = draw.randrange(max(1, file.stat().st_size))
            os.truncate(file, length)
            yield "model file cut short", f"{file.name} {length}", self._compared(self.target)

    def flips(self) -> Iterator[Case]:
        draw = random.Random(1)
        sizes = [file.stat().st_size for file in files_of(self.models[0])]
        for _ in range(FLIPS):
            copy_model(self.models[0], self.target)
            place, number = draw.randrange(sum(sizes)), 0
            while place >= sizes[number]:
                place, number = place - sizes[number], number + 1
            file = files_of(self.target)[number]
            content = bytearray(file.read_bytes())
            content[place] ^= 1 << draw.randrange(8)
            file.write_bytes(content)
            yield "one bit of the model flipped", f"{file.name} {place}", self._compared(self.target)

    def repeats(self) -> Iterator[Case]:
        for number, threads in enumerate((1, 2, 2, 2)):
            model = self.folder / "again.model"
            shutil.rmtree(model, ignore_errors=True)
            ended = in_child(partial(self._fit, self.data[0], model, threads))
            if ended == ANSWERED:
                ended = "the same" if self._answer(model) == self.answers[0] else "other answers"
            yield "trained again, with the same seed if it takes one", f"{number}: {threads} threads", ended
        for threads, rows in ((2, 0), (1, 1), (2, 7)):
            same = self._answer(self.models[0], threads, rows) == self.answers[0]
            where = f"{threads} threads, {rows or 'all'} rows at once"
            yield "predicted again, otherwise cut", where, "the same" if same else "other answers"

    def pickles(self) -> Iterator[Case]:
        mark = self.folder / "mark"
        payload = pickle.dumps(_Payload(str(mark)))
        for number, file in enumerate(files_of(self.models[0])):
            for kind in ("pickle", "npz of pickles"):
                copy_model(self.models[0], self.target)
                content = payload if kind == "pickle" else _with_pickles(file.read_bytes(), payload)
                files_of(self.target)[number].write_bytes(content)
                ended = self._compared(self.target)
                yield "pickle in a model", f"{file.name}, {kind}", "code was run" if mark.exists() else ended
                shutil.rmtree(mark, ignore_errors=True)
        if hasattr(self.engine, "load_texts"):
            texts = self.folder / "texts"
            texts.mkdir()
            (texts / "vectorizer.pkl").write_bytes(payload)

            def load_texts() -> str:
                self.engine.load_texts(texts)
                return ANSWERED

            ended = in_child(load_texts)
            yield "pickle in a text model", "vectoriser", "code was run" if mark.exists() else ended
            shutil.rmtree(mark, ignore_errors=True)

    def cases(self) -> Iterator[Case]:
        for kind in (
            self.bad_values,
            self.bad_indices,
            self.bad_training,
            self.killed_saves,
            self.cuts,
            self.flips,
            self.repeats,
            self.pickles,
        ):
            yield from kind()


class _Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def _with_pickles(content: bytes, payload: bytes) -> bytes:
    """The arrays of an npz, or one array where it is none, as arrays of objects that are the payload."""
    names = ["data.npy"]
    if zipfile.is_zipfile(io.BytesIO(content)):
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    array = io.BytesIO()
    np.save(array, np.array([None], dtype=object), allow_pickle=True)
    header = array.getvalue()[: array.getvalue().index(b"\n") + 1]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, header + payload)
    return out.getvalue()


if __name__ == "__main__":
    for case in Trial(sys.argv[1], Path(sys.argv[2])).cases():
        print(json.dumps(case), flush=True)
