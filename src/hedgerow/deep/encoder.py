"""A transformer with its tokenizer: from texts to vectors of length 1."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
import xxhash
from torch import nn

from hedgerow.deep.device import choose_device
from hedgerow.deep.dropout_pass import DropoutPass, units_left_out
from hedgerow.deep.embedding import Floats, Reader, embed_by_length, embed_in_shapes, embed_one_by_one
from hedgerow.deep.encoder_folder import NO_TEXTS, EncoderNotFound, check_name, open_folder, write_folder
from hedgerow.deep.encoder_sections import config_text, read_sections, write_sections
from hedgerow.deep.extra import GpuMemoryError
from hedgerow.deep.recording import RecordedPasses
from hedgerow.deep.tokens import Tokens
from hedgerow.inputs.training_record import Hashes
from hedgerow.progress import Stage

__all__ = ["DropoutPass", "Encoder", "EncoderNotFound", "Tokens", "check_name"]

POOLINGS = ("mean", "cls")


class Encoder:
    """A Hugging Face model that gives the last hidden states, with its tokenizer.

    The vector of a text is the mean of its tokens' vectors (`pooling` "mean") or that of the first ("cls").
    `max_length` tokens count, those that frame a text included. `trained_on` are the hashes of the texts that
    it was fine-tuned on here, ascending.
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
        self.trained_on: Hashes = NO_TEXTS
        self._recorded: tuple[Any, RecordedPasses] | None = None
        self._wide_masks: bool | None = None
        self._embedding = threading.Lock()

    @classmethod
    def open(cls, name: str | os.PathLike[str], pooling: str = "mean", max_length: int = 128) -> Self:
        """Open a folder that Hugging Face's `save_pretrained` wrote, without a network, or a name on the hub.

        Raises `EncoderNotFound` if there is none.
        """
        model, tokenizer, trained_on = open_folder(os.fspath(name))
        encoder = cls(model, tokenizer, pooling, max_length)
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

    def to(self, device: str) -> Self:
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
        progress: Stage | None = None,
    ) -> Floats:
        """Embed texts as rows of length 1, with all units in place unless `dropout` says otherwise.

        On a processor the embedding of a text has the same bits whatever the other texts and the number of
        threads; 0 uses as many as torch would. On a GPU the same texts in one call have the same bits again;
        a text among other texts may differ by `device.GPU_TOLERANCE`.
        """
        tokens = texts if isinstance(texts, Tokens) else self.tokenize(texts)
        # Units are left out of the one model that all threads share.
        with self._embedding, ExitStack() as stack:
            self.model.eval()
            if dropout is not None:
                stack.enter_context(units_left_out(self.model, dropout))
            try:
                if self.device.type == "cpu":
                    return embed_one_by_one(self.reader(), tokens, threads, progress)
                recorder = self._recorder() if dropout is None else None
                return embed_in_shapes(self.reader(), tokens, recorder, progress)
            except torch.cuda.OutOfMemoryError as error:
                raise GpuMemoryError(
                    "the GPU has too little memory to embed texts; free some of it, or use device='cpu'"
                    " (--device cpu)"
                ) from error

    def embed_together(
        self, texts: Sequence[str], *, threads: int = 0, progress: Stage | None = None
    ) -> Floats:
        """The same of many short texts, several times as fast on a processor: those of one length at once.

        The same texts have the same bits again, at any number of threads; a text among others may differ in
        the last ones.
        """
        if self.device.type != "cpu":
            return self.embed(texts, threads=threads, progress=progress)
        with self._embedding:
            self.model.eval()
            return embed_by_length(self.reader(), self.tokenize(texts), threads, progress)

    def reader(self) -> Reader:
        """What embeds batches, with the weights where they are now."""
        return Reader(self.pool, self.width, self.pad, self.max_length, self.device)

    def pool(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The embeddings of a batch, of length 1; gradients flow."""
        # Of a plain mask the library asks the GPU whether it masks anything at all, and waits for the answer.
        wide = ids.is_cuda and self.takes_wide_masks()
        hidden = self.model(input_ids=ids, attention_mask=wide_mask(mask) if wide else mask)
        hidden = hidden.last_hidden_state.float()
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            weight = mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
        return nn.functional.normalize(pooled, dim=1)

    def takes_wide_masks(self) -> bool:
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
                        for of in (mask, wide_mask(mask))
                    )
                self._wide_masks = bool(torch.allclose(plain, wide, atol=1e-3))
            except (RuntimeError, ValueError, TypeError, IndexError):  # it knows no such masks
                self._wide_masks = False
            finally:
                self.model.train(training)
        return self._wide_masks

    def fingerprint(self) -> str:
        """A hash of whatever decides the embedding of a text."""
        digest = xxhash.xxh3_128(repr((self.pooling, self.max_length)).encode())
        digest.update(config_text(self.model.config).encode())
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
        write_folder(Path(folder), self.model, self.tokenizer, self.max_length, self.trained_on)

    def to_bytes(self) -> dict[str, npt.NDArray[np.uint8]]:
        """Tokenizer and configuration, which encoders of one kind share."""
        return write_sections(self.model.config, self.tokenizer)

    @classmethod
    def from_bytes(
        cls,
        tokenizer: npt.NDArray[np.uint8],
        config: npt.NDArray[np.uint8],
        weights: Mapping[str, npt.NDArray[Any]],
        pooling: str,
        max_length: int,
    ) -> Self:
        """Take back what `to_bytes` and `weights` gave, after checking it; nothing in it is executed."""
        model, parsed = read_sections(tokenizer, config, weights)
        encoder = cls(model, parsed, pooling, max_length)
        encoder.load_weights(weights)
        return encoder

    def _recorder(self) -> RecordedPasses:
        """Recordings for the weights where they are now."""
        weights = list(self.model.parameters())
        place = (self.device, weights[0].data_ptr(), weights[-1].data_ptr())
        if self._recorded is None or self._recorded[0] != place:
            self._recorded = (place, RecordedPasses(self.pool))
        return self._recorded[1]

    def __getstate__(self) -> dict[str, Any]:
        # Recordings and the lock belong to this process.
        kept = {name: value for name, value in self.__dict__.items() if name != "_embedding"}
        return {**kept, "_recorded": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._embedding = threading.Lock()


def wide_mask(mask: torch.Tensor) -> torch.Tensor:
    """Which tokens each token sees, shape (texts, 1, length, length)."""
    return mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1)


def _longest(config: Any) -> int:
    """Most tokens that the position embeddings allow."""
    positions = getattr(config, "max_position_embeddings", None) or 512
    # RoBERTa and its relatives number positions from the padding token on.
    shifted = config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
    return int(positions) - 2 if shifted else int(positions)
