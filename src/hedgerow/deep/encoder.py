"""From texts to vectors of length 1 by a transformer, the same ones whatever batch a text is in."""

from __future__ import annotations

import copy
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
import transformers
import xxhash
from torch import nn

from hedgerow.deep.device import choose_device, torch_threads
from hedgerow.deep.extra import GpuMemoryError
from hedgerow.deep.recording import RecordedPasses
from hedgerow.inputs.training_record import Hashes

__all__ = ["DropoutPass", "Encoder", "EncoderNotFound", "Tokens"]

Progress = Callable[[float], None]
Floats = npt.NDArray[np.float32]

POOLINGS = ("mean", "cls")
_TRAINED_ON = "trained_on.npy"  # in the folder of an encoder
_NO_TEXTS: Hashes = np.empty(0, dtype=np.uint64)
# On a GPU all batches of texts of like length have one shape, so that a text gets the same bits in each. A
# single text pays for a whole batch, but in smaller ones the kernels are too short to keep a GPU busy.
_TOKENS_AT_ONCE = 4096
_BATCHES_ON_THE_WAY = 64
_LENGTH_STEP = 16
_TEXTS_A_TASK = 16
# With these the library fetches code, or chooses it.
_CODE_SETTINGS = frozenset(
    {"attn_implementation", "experts_implementation", "auto_map", "quantization_config"}
)


class EncoderNotFound(ValueError):  # noqa: N818 - the name says the cause
    """There is no encoder of that name."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as numbers of tokens, one after the other.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The tokens of text `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    ids : int32 array
        Numbers of tokens.
    """

    indptr: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.indptr)

    def padded(
        self, rows: npt.NDArray[np.integer[Any]], pad: int, width: int = 0
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Some texts as a matrix, filled up with `pad`, and ones where there is text."""
        lengths = self.lengths[rows]
        width = max(width, int(lengths.max(initial=1)))
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, pad, dtype=np.int64)
        entries = np.repeat(self.indptr[rows], lengths) + _counted(lengths)
        ids[mask] = self.ids[entries]
        return ids, mask.astype(np.int64)


@dataclass(frozen=True)
class DropoutPass:
    """One pass with dropout: a fixed part of the hidden units is left out, the same for every text.

    Attributes
    ----------
    number, seed : int
        Which units.
    share : float or None
        Share of the units that are left out of each layer; None for the encoder's own.
    """

    number: int
    seed: int
    share: float | None = None


class Encoder:
    """A transformer with its tokenizer.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Gives the last hidden states.
    tokenizer : tokenizers.Tokenizer
        From text to numbers of tokens.
    pooling : {"mean", "cls"}
        The vector of a text: the mean of its tokens' vectors, or the vector of the first one.
    max_length : int
        Tokens of a text that count, those that frame it included.

    Attributes
    ----------
    trained_on : uint64 array
        Hashes of the texts that it was fine-tuned on here, ascending.
    """

    def __init__(self, model: Any, tokenizer: Any, pooling: str = "mean", max_length: int = 128) -> None:
        if pooling not in POOLINGS:
            raise ValueError(f"pooling is {pooling!r}; use one of {', '.join(POOLINGS)}")
        self.model = model.eval()
        self.pooling = pooling
        self.max_length = min(int(max_length), _longest(model.config))
        self.tokenizer = tokenizers.Tokenizer.from_str(tokenizer.to_str())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(self.max_length)
        self.trained_on: Hashes = _NO_TEXTS
        self._recorded: tuple[Any, RecordedPasses] | None = None
        self._wide_masks: bool | None = None
        self._hashed: tuple[Any, str] | None = None
        self._embedding = threading.Lock()

    @classmethod
    def open(cls, name: str | os.PathLike[str], pooling: str = "mean", max_length: int = 128) -> Encoder:
        """Open an encoder of Hugging Face.

        Parameters
        ----------
        name : str or path-like
            A folder with ``config.json``, weights and ``tokenizer.json``, which is read without a network, or
            the name of a model on the hub.
        pooling : {"mean", "cls"}
            As of the class.
        max_length : int
            As of the class.

        Returns
        -------
        Encoder

        Raises
        ------
        EncoderNotFound
            If there is none.
        """
        where = os.fspath(name)
        local = check_name(where)
        try:
            with _no_progress_bar():
                tokenizer = transformers.AutoTokenizer.from_pretrained(where, local_files_only=local)
                model = transformers.AutoModel.from_pretrained(
                    where, local_files_only=local, dtype=torch.float32
                )
            trained_on = _read_trained_on(Path(where)) if local else _NO_TEXTS
        except (OSError, ValueError, KeyError, EOFError) as error:
            first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            way_out = (
                "the folder must hold what save_pretrained writes"
                if local
                else "give the folder of an encoder, or its name on the hub and a network"
            )
            raise EncoderNotFound(f"the encoder {where!r} cannot be opened: {first}; {way_out}") from error
        fast = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(fast, tokenizers.Tokenizer):
            raise EncoderNotFound(
                f"the encoder {where!r} has no tokenizer.json; save it with a fast tokenizer"
            )
        encoder = cls(model, fast, pooling, max_length)
        encoder.trained_on = trained_on
        return encoder

    @property
    def width(self) -> int:
        """Length of an embedding."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.model.parameters())).device

    @property
    def pad(self) -> int:
        """The token that fills up short texts."""
        return int(getattr(self.model.config, "pad_token_id", None) or 0)

    def to(self, device: str) -> Encoder:
        """Bring the weights to a device, by name."""
        self.model.to(choose_device(device))
        return self

    def copied(self) -> Encoder:
        """The same encoder with weights of its own."""
        other = Encoder(copy.deepcopy(self.model), self.tokenizer, self.pooling, self.max_length)
        other.trained_on = self.trained_on
        return other

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts to tokens."""
        encoded = self.tokenizer.encode_batch_fast(list(texts))
        lengths = np.array([len(one) for one in encoded], dtype=np.int64)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = np.fromiter((i for one in encoded for i in one.ids), dtype=np.int32, count=int(indptr[-1]))
        return Tokens(indptr, ids)

    def embed(
        self,
        texts: Sequence[str] | Tokens,
        *,
        dropout: DropoutPass | None = None,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> Floats:
        """Embed texts, with all units in place unless `dropout` says otherwise.

        The embedding of a text does not depend on the other texts, nor on the number of threads.

        Parameters
        ----------
        texts : sequence of str, or Tokens
            The texts.
        dropout : DropoutPass, optional
            Leave out a part of the units.
        threads : int
            0 uses as many as torch would.
        progress : callable, optional
            Told the share of the work that is done.

        Returns
        -------
        float32 array, shape (n, width)
            Rows of length 1.
        """
        tokens = texts if isinstance(texts, Tokens) else self.tokenize(texts)
        found = np.empty((len(tokens), self.width), dtype=np.float32)
        # Units are left out of the one model that all threads share.
        with self._embedding, ExitStack() as stack:
            self.model.eval()
            if dropout is not None:
                stack.enter_context(_units_left_out(self.model, dropout))
            try:
                if self.device.type == "cpu":
                    self._embed_one_by_one(tokens, found, threads, progress)
                else:
                    self._embed_in_shapes(tokens, found, progress, recorded=dropout is None)
            except torch.cuda.OutOfMemoryError as error:
                raise GpuMemoryError(
                    "the GPU has too little memory to embed texts; free some of it, or use device='cpu'"
                    " (--device cpu)"
                ) from error
        return found

    def pool(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The embeddings of a batch, of length 1; gradients flow."""
        # Of a plain mask the library asks the GPU whether it masks anything at all, and waits for the answer.
        wide = ids.is_cuda and self._takes_wide_masks()
        given = _wide(mask) if wide else mask
        hidden = self.model(input_ids=ids, attention_mask=given).last_hidden_state.float()
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            weight = mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
        return nn.functional.normalize(pooled, dim=1)

    def _takes_wide_masks(self) -> bool:
        """Whether a mask for every pair of tokens means the same to the model as one for every token."""
        if self._wide_masks is None:
            training = self.model.training
            # Different tokens, or it would not matter which ones are seen.
            ids = torch.arange(8, device=self.device).reshape(2, 4)
            mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], device=self.device)
            self.model.eval()
            try:
                with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
                    plain, wide = (
                        self.model(input_ids=ids, attention_mask=of).last_hidden_state[mask.bool()]
                        for of in (mask, _wide(mask))
                    )
                self._wide_masks = bool(torch.allclose(plain, wide, atol=1e-3))
            except (RuntimeError, ValueError, TypeError, IndexError):  # it knows no such masks
                self._wide_masks = False
            finally:
                self.model.train(training)
        return self._wide_masks

    def fingerprint(self) -> str:
        """A hash of whatever decides the embedding of a text."""
        # Torch counts how often a tensor was changed.
        weights = [(of.data_ptr(), of._version) for of in self.model.state_dict().values()]
        state = (self.pooling, self.max_length, weights)
        if self._hashed is None or self._hashed[0] != state:
            self._hashed = (state, self._fingerprint())
        return self._hashed[1]

    def _fingerprint(self) -> str:
        digest = xxhash.xxh3_128(repr((self.pooling, self.max_length)).encode())
        digest.update(_config_text(self.model.config).encode())
        digest.update(self.tokenizer.to_str().encode())
        for name, weights in self.weights().items():
            digest.update(repr((name, weights.shape)).encode())
            digest.update(np.ascontiguousarray(weights).data)
        return str(digest.hexdigest())

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """The weights by name."""
        state: dict[str, torch.Tensor] = self.model.state_dict()
        return {name: weights.detach().cpu().numpy() for name, weights in state.items()}

    def load_weights(self, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take weights by name; all of them, and no other."""
        self.model.load_state_dict({name: torch.from_numpy(np.array(of)) for name, of in weights.items()})

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `open` reads to the same bits; it is there whole or not at all."""
        target = Path(folder)
        if target.exists():
            raise FileExistsError(f"{target} exists already; choose another name, or delete it")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as made:
            whole = Path(made) / "encoder"
            with _no_progress_bar():
                self.model.save_pretrained(whole)
            self.tokenizer.save(str(whole / "tokenizer.json"))
            # The class that takes tokenizer.json as it is.
            settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": self.max_length}
            (whole / "tokenizer_config.json").write_text(json.dumps(settings))
            if self.trained_on.size:
                np.save(whole / _TRAINED_ON, self.trained_on)
            whole.rename(target)

    def to_bytes(self) -> dict[str, npt.NDArray[np.uint8]]:
        """Tokenizer and configuration, which encoders of one kind share."""
        texts = {"tokenizer": self.tokenizer.to_str(), "config": _config_text(self.model.config)}
        return {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}

    @classmethod
    def from_bytes(
        cls,
        tokenizer: npt.NDArray[np.uint8],
        config: npt.NDArray[np.uint8],
        weights: Mapping[str, npt.NDArray[Any]],
        pooling: str,
        max_length: int,
    ) -> Encoder:
        """Take back what `to_bytes` and `weights` gave, after checking it; nothing in it is executed."""
        known = _read_config(config)
        layers = known.get("num_hidden_layers", 0)
        if not isinstance(layers, int) or layers > len(weights):
            raise ValueError(f"the encoder has {layers!r} layers, but only {len(weights)} arrays of weights")
        try:
            # How attention is computed is left to the library, as in `open`.
            settings = transformers.AutoConfig.for_model(**known)
            # Without memory first: a configuration may ask for more than there is.
            with torch.device("meta"):
                expected = transformers.AutoModel.from_config(settings).state_dict()
            words = int(settings.vocab_size)
        except Exception as error:  # whatever the library makes of odd values
            raise ValueError(f"the configuration of the encoder cannot be used: {error}") from error
        if set(expected) != set(weights):
            odd = sorted(set(expected) ^ set(weights))[0]
            raise ValueError(f"the weights of the encoder do not fit its configuration: {odd}")
        for name, of in weights.items():
            if tuple(expected[name].shape) != of.shape or expected[name].dtype != _torch_type(of):
                raise ValueError(f"the weights {name} of the encoder have shape {of.shape} and {of.dtype}")
        model = transformers.AutoModel.from_config(settings)
        try:
            parsed = tokenizers.Tokenizer.from_str(_text(tokenizer, "tokenizer"))
        except Exception as error:  # the library raises this very class
            raise ValueError(f"the tokenizer cannot be read: {error}") from error
        largest = max(parsed.get_vocab().values(), default=0)
        if largest >= words:
            raise ValueError(f"the tokenizer has token {largest}, but the encoder knows only {words}")
        encoder = cls(model, parsed, pooling, max_length)
        encoder.load_weights(weights)
        return encoder

    def _embed_one_by_one(
        self, tokens: Tokens, found: Floats, threads: int, progress: Progress | None
    ) -> None:
        """On a processor: no padding, one text after the other, each by one thread."""

        def embed(rows: range) -> int:
            torch.set_num_threads(1)
            with torch.inference_mode():
                for row in rows:
                    ids, mask = tokens.padded(np.array([row]), self.pad)
                    found[row] = self.pool(torch.from_numpy(ids), torch.from_numpy(mask))[0].numpy()
            return rows.stop

        workers = threads or torch.get_num_threads()
        tasks = [
            range(begin, min(begin + _TEXTS_A_TASK, len(tokens)))
            for begin in range(0, len(tokens), _TEXTS_A_TASK)
        ]
        with torch_threads(1), ThreadPoolExecutor(min(workers, max(1, len(tasks)))) as pool:
            for done in map(embed, tasks) if workers == 1 else pool.map(embed, tasks):
                if progress is not None:
                    progress(done / len(tokens))

    def _embed_in_shapes(
        self, tokens: Tokens, found: Floats, progress: Progress | None, recorded: bool
    ) -> None:
        """On a GPU: texts of like length together, in batches of one shape."""
        steps = -(-np.maximum(tokens.lengths, 1) // _LENGTH_STEP)
        lengths = np.minimum(steps * _LENGTH_STEP, self.max_length)
        recorder = self._recorder() if recorded else None
        done = 0
        on_the_way: list[tuple[npt.NDArray[np.int64], torch.Tensor]] = []

        def arrive() -> None:
            nonlocal done
            if not on_the_way:
                return
            # One wait for the GPU for many batches.
            whole = torch.cat([pooled for _, pooled in on_the_way]).cpu().numpy()
            rows = np.concatenate([own for own, _ in on_the_way])
            found[rows] = whole
            done += len(rows)
            on_the_way.clear()
            if progress is not None:
                progress(done / len(tokens))

        with torch.inference_mode():
            for length in np.unique(lengths).tolist():
                rows = np.flatnonzero(lengths == length)
                size = max(1, _TOKENS_AT_ONCE // length)
                replays = recorder is not None and recorder.record(
                    *self._batch(tokens, rows[:size], size, length)
                )
                for begin in range(0, len(rows), size):
                    own = rows[begin : begin + size]
                    batch = self._batch(tokens, own, size, length)
                    pooled = recorder.replay(*batch) if recorder and replays else self.pool(*batch)
                    on_the_way.append((own, pooled[: len(own)]))
                    if len(on_the_way) == _BATCHES_ON_THE_WAY:
                        arrive()
            arrive()

    def _batch(
        self, tokens: Tokens, rows: npt.NDArray[np.int64], size: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Some texts on the device, filled up to a batch of `size` with the first one."""
        filled = np.concatenate([rows, np.full(size - len(rows), rows[0])])
        ids, mask = tokens.padded(filled, self.pad, length)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)

    def _recorder(self) -> RecordedPasses:
        """Recordings for the weights where they are now."""
        weights = list(self.model.parameters())
        place = (self.device, weights[0].data_ptr(), weights[-1].data_ptr())
        if self._recorded is None or self._recorded[0] != place:
            self._recorded = (place, RecordedPasses(self.pool))
        return self._recorded[1]

    def __getstate__(self) -> dict[str, Any]:
        # Recordings, places in memory and the lock are of this process.
        kept = {name: value for name, value in self.__dict__.items() if name != "_embedding"}
        return {**kept, "_recorded": None, "_hashed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._embedding = threading.Lock()


def check_name(name: str | os.PathLike[str]) -> bool:
    """Whether an encoder is a folder of this machine; a folder or file without one is refused."""
    path = Path(name)
    if path.is_dir() and not (path / "config.json").is_file():
        raise EncoderNotFound(
            f"the folder {path} has no config.json; name the folder that holds an encoder of Hugging Face, as"
            " save_pretrained writes it"
        )
    # Names on the hub are NAME or OWNER/NAME.
    if not path.is_dir() and (path.exists() or path.is_absolute() or len(path.parts) > 2):
        raise EncoderNotFound(
            f"there is no folder {path}; name the folder that holds an encoder of Hugging Face, or the"
            " encoder's name on the hub"
        )
    return path.is_dir()


class _units_left_out:  # noqa: N801 - used like a function
    """While it is open, every dropout layer drops the units of one pass."""

    def __init__(self, model: nn.Module, dropout: DropoutPass) -> None:
        self._model = model
        self._dropout = dropout
        self._hooks: list[Any] = []

    def __enter__(self) -> None:
        layers = dropout_layers(self._model)
        if not layers:
            raise ValueError("the encoder has no dropout layers; choose another method than mc-dropout")
        for number, layer in enumerate(layers):
            share = layer.p if self._dropout.share is None else self._dropout.share
            self._hooks.append(layer.register_forward_hook(self._leave_out(number, share)))

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _leave_out(self, number: int, share: float) -> Callable[..., torch.Tensor]:
        masks: dict[int, torch.Tensor] = {}

        def leave_out(layer: nn.Module, given: tuple[torch.Tensor, ...], _: torch.Tensor) -> torch.Tensor:
            (hidden,) = given
            if hidden.ndim != 3:  # attention: as wide as the text is long, not as the layer
                return hidden
            units = hidden.shape[-1]
            if units not in masks:
                draw = np.random.default_rng([self._dropout.seed, self._dropout.number, number])
                kept = (draw.random(units) >= share).astype(np.float32) / np.float32(1 - share)
                masks[units] = torch.from_numpy(kept).to(hidden.device)
            return hidden * masks[units]

        return leave_out


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Only the command line prints."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()


def dropout_layers(model: nn.Module) -> list[nn.Dropout]:
    """The layers at which dropout happens, in order."""
    return [layer for layer in model.modules() if isinstance(layer, nn.Dropout)]


def _wide(mask: torch.Tensor) -> torch.Tensor:
    """Which tokens each token sees, shape (texts, 1, length, length)."""
    return mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1)


def _read_trained_on(folder: Path) -> Hashes:
    record = folder / _TRAINED_ON
    if not record.exists():
        return _NO_TEXTS
    hashes = np.load(record, allow_pickle=False)
    if hashes.dtype != np.uint64 or hashes.ndim != 1:
        raise ValueError(f"{record} does not hold hashes of texts")
    return np.asarray(hashes)


def _longest(config: Any) -> int:
    """Most tokens that the position embeddings allow."""
    positions = getattr(config, "max_position_embeddings", None) or 512
    # RoBERTa and its kin number positions from the padding token on.
    shifted = getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert", "mpnet")
    return int(positions) - 2 if shifted else int(positions)


def _config_text(config: Any) -> str:
    """The configuration without what says where it came from."""
    kept = {
        name: value
        for name, value in config.to_dict().items()
        if name not in ("transformers_version", "dtype", "torch_dtype")
    }
    return json.dumps(_without(kept, _CODE_SETTINGS | {"_name_or_path"}), sort_keys=True)


def _without(value: Any, names: Set[str]) -> Any:
    """A value without some names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(of, names) for name, of in value.items() if name not in names}
    return [_without(of, names) for of in value] if isinstance(value, list) else value


def _read_config(section: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """The settings that `_config_text` wrote."""
    try:
        known = json.loads(_text(section, "configuration"))
    except RecursionError:
        raise ValueError("the configuration of the encoder is nested too deeply") from None
    if not isinstance(known, dict) or not isinstance(known.get("model_type"), str):
        raise ValueError("the configuration of the encoder names no model_type")
    _refuse_code(known)
    return known


def _refuse_code(known: dict[str, Any]) -> None:
    """Raise ValueError for settings, at any depth, that would fetch code or choose it."""
    pending: list[Any] = [known]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        if not isinstance(value, dict):
            continue
        for name, of in value.items():
            # Some kinds of encoders keep a number or a switch under a name of their own.
            hidden = name.startswith("_") and of not in ("", None) and not isinstance(of, int | float)
            if hidden or name in _CODE_SETTINGS:
                raise ValueError(f"the configuration of the encoder sets {name!r}, which no model file may")
        pending.extend(value.values())


def _text(section: npt.NDArray[np.uint8], what: str) -> str:
    if section.dtype != np.uint8 or section.ndim != 1:
        raise ValueError(f"the {what} of the encoder is no text")
    return section.tobytes().decode()


def _torch_type(array: npt.NDArray[Any]) -> Any:
    return torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype


def _counted(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, 2, ... for each length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
