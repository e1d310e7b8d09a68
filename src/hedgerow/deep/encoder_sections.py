"""Encoders as sections of a model file, which may come from strangers: nothing in it is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
import transformers

Section = npt.NDArray[np.uint8]

# With these the library fetches code, or chooses it.
_CODE_SETTINGS = frozenset(
    {"attn_implementation", "experts_implementation", "auto_map", "quantization_config"}
)


def config_text(config: Any) -> str:
    """The configuration without what says where it came from."""
    kept = {
        name: value
        for name, value in config.to_dict().items()
        if name not in ("transformers_version", "dtype", "torch_dtype")
    }
    return json.dumps(_without(kept, _CODE_SETTINGS | {"_name_or_path"}), sort_keys=True)


def write_sections(config: Any, tokenizer: tokenizers.Tokenizer) -> dict[str, Section]:
    """Tokenizer and configuration, which encoders of one kind share."""
    texts = {"tokenizer": tokenizer.to_str(), "config": config_text(config)}
    return {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}


def read_sections(
    tokenizer: Section, config: Section, weights: Mapping[str, npt.NDArray[Any]]
) -> tuple[Any, tokenizers.Tokenizer]:
    """A model that `weights` fit, still without them, and its tokenizer; ValueError for whatever is odd."""
    known = _read_config(config)
    layers = known.get("num_hidden_layers", 0)
    if not isinstance(layers, int) or layers > len(weights):
        raise ValueError(f"the encoder has {layers!r} layers, but only {len(weights)} arrays of weights")
    try:
        # How attention is computed is left to the library, as when a folder is opened.
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
    try:
        parsed = tokenizers.Tokenizer.from_str(_text(tokenizer, "tokenizer"))
    except Exception as error:  # the library raises this very class
        raise ValueError(f"the tokenizer cannot be read: {error}") from error
    largest = max(parsed.get_vocab().values(), default=0)
    if largest >= words:
        raise ValueError(f"the tokenizer has token {largest}, but the encoder knows only {words}")
    return transformers.AutoModel.from_config(settings), parsed


def _without(value: Any, names: Set[str]) -> Any:
    """A value without some names, at any depth."""
    if isinstance(value, dict):
        return {name: _without(of, names) for name, of in value.items() if name not in names}
    return [_without(of, names) for of in value] if isinstance(value, list) else value


def _read_config(section: Section) -> dict[str, Any]:
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


def _text(section: Section, what: str) -> str:
    if section.dtype != np.uint8 or section.ndim != 1:
        raise ValueError(f"the {what} of the encoder is not text")
    return section.tobytes().decode()


def _torch_type(array: npt.NDArray[Any]) -> Any:
    return torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype
