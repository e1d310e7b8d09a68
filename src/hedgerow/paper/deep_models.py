"""The models of the paper's deep tables: rankers over one encoder, which is fine-tuned once per seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import orjson
import xxhash

from hedgerow.data import Part
from hedgerow.deep.extra import check_device, load_torch
from hedgerow.estimators.transformer import HedgerowTransformerClassifier
from hedgerow.progress import Progress
from hedgerow.storage.atomic_file import atomic_file
from hedgerow.training.settings import METHODS

WORDS = "linear"  # a single model that sees words alone
OWN_ENCODERS = "boosted-bagging-encoders"  # every member has an encoder of its own
DEEP_METHODS = (WORDS, *METHODS, OWN_ENCODERS)

# What decides the weights of an encoder that is fine-tuned, apart from data and seed.
_TUNING = ("epochs", "steps", "levels", "batch_size", "learning_rate")
_READING = ("max_length", "pooling")
_HASHED = ("config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class DeepSettings:
    """The transformer of a reproduction; most fields are as of `HedgerowTransformerClassifier`.

    `encoder` is a folder or a name on the hub. `encoders` also fine-tunes one for each member of boosted
    bagging, as the paper did. Fine-tuned encoders and embeddings go to `kept`, or beside the results.
    """

    encoder: str
    encoders: bool = False
    epochs: float = 1.0
    steps: int | None = None
    levels: int | None = None
    batch_size: int = 32
    learning_rate: float = 5e-5
    max_length: int = 128
    pooling: str = "mean"
    device: str = "auto"
    kept: Path | None = None

    def check(self) -> None:
        """Raise now what would fail after long work."""
        check_device(self.device)
        self.estimator("single").check_encoder()

    def mark(self) -> dict[str, Any]:
        """What must be the same for two experiments to stand in one table, on whatever machine they ran."""
        own = {name: vars(self)[name] for name in (*_TUNING, *_READING)}
        return {"base": "transformer", "encoder": _content(self.encoder), **own}

    def estimator(
        self, method: str, tuned: Path | None = None, **options: Any
    ) -> HedgerowTransformerClassifier:
        """An estimator that fine-tunes by itself, or takes an encoder that was fine-tuned."""
        tuning = {name: vars(self)[name] for name in _TUNING}
        if tuned is not None:
            tuning |= {"epochs": 0.0, "steps": None}
        own = {name: vars(self)[name] for name in _READING}
        if method == OWN_ENCODERS:
            method = "boosted-bagging"
            own["encoders"] = options["members"]
        return HedgerowTransformerClassifier(
            encoder=self.encoder if tuned is None else tuned,
            method=method,
            device=self.device,
            **tuning,
            **own,
            **options,
        )


class SharedEncoder:
    """The encoder of one data set and seed, and the embeddings that it makes.

    `data` is the name and fingerprint of what it learns from; other encoders may lie in the same folder.
    """

    def __init__(self, settings: DeepSettings, folder: Path, data: str, seed: int) -> None:
        digest = xxhash.xxh3_64(orjson.dumps([settings.mark(), data, seed])).hexdigest()
        self._settings, self._seed = settings, seed
        self._folder = folder / digest

    @property
    def path(self) -> Path:
        """The encoder itself."""
        return self._folder / "encoder"

    @property
    def embeddings(self) -> Path:
        """The folder of the embeddings."""
        return self._folder / "embeddings"

    def tune(self, train: Part, n_jobs: int | None, progress: Progress) -> dict[str, Any]:
        """Fine-tune it and return the report; what is there after a stop is used, and nothing done twice."""
        report = self._folder / "fine_tuning.json"
        if not self.path.exists() or not report.exists():
            model = self._settings.estimator(
                "single", random_state=self._seed, n_jobs=n_jobs, cache=self.embeddings
            )
            state = self._folder / "state"
            if self.path.exists():  # it was stopped between the two
                found: dict[str, Any] = {}
            else:
                found = model.fine_tune(
                    train.texts or [],
                    train.Y,
                    self.path,
                    classes=train.label_names,
                    checkpoint=state,
                    progress=progress,
                ).to_dict()
            with atomic_file(report, overwrite=True) as file:
                file.write(orjson.dumps(found))
            for path in state.glob("*"):
                path.unlink()
        return cast("dict[str, Any]", orjson.loads(report.read_bytes()))

    def forget_embeddings(self) -> None:
        """Free the disk; the encoder stays, for methods that may be added."""
        for path in self.embeddings.glob("*.npy"):
            path.unlink()


def computed_on(device: str) -> dict[str, str]:
    """What computes embeddings, for the record."""
    torch = load_torch()
    from hedgerow.deep.device import choose_device

    chosen = choose_device(device)
    gpu = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "none"
    return {"GPU": gpu, "torch": torch.__version__}


def _content(encoder: str) -> str:
    """A name for an encoder that is the same on all machines: of a folder, a hash of what is in it."""
    folder = Path(encoder)
    if not folder.is_dir():
        return os.fspath(encoder)
    there = [folder / name for name in _HASHED if (folder / name).exists()]
    return _hash(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in there))


@lru_cache(maxsize=4)
def _hash(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = xxhash.xxh3_128()
    for path, _, _ in files:
        digest.update(path.name.encode())
        whole = path.read_bytes()
        if path.suffix != ".safetensors":
            digest.update(whole)
            continue
        # Programs differ in how they write the header: only what it says of the arrays counts.
        data = 8 + int.from_bytes(whole[:8], "little")
        for name, of in sorted(orjson.loads(whole[8:data]).items()):
            if name != "__metadata__":
                begin, end = of["data_offsets"]
                digest.update(repr((name, of["dtype"], of["shape"])).encode())
                digest.update(whole[data + begin : data + end])
    return str(digest.hexdigest())
