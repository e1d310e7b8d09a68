"""Presets for a data set at hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from hedgerow.estimators.damping_trial import damping_helps
from hedgerow.features.analyzer import BOTH
from hedgerow.features.fields import Fields
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.rows import count as count_inputs
from hedgerow.training.presets import Choice, DataSize, choose_settings
from hedgerow.training.settings import Method

__all__ = ["choose_for_data", "measure_data", "preset_parameters", "reading_parameters"]

# Texts that are looked at to know how many words all of them have, and features per word: itself and a pair,
# or its n-grams of characters.
_LOOKED_AT, _FEATURES_PER_WORD, _NGRAMS_PER_WORD = 500, 1.5, 4.0
# Examples that a label must have, the mean over labels, for pairs of words to be worth their cost; words of a
# short text, such as a title; most words of a plain text whose n-grams are worth theirs; and their length.
_EXAMPLES_FOR_PAIRS, _SHORT, _NOT_LONG, _CHARACTERS = 30, 20, 100, (5, 5)


def preset_parameters(
    preset: str,
    X: Any,
    Y: Any,
    *,
    method: str = "single",
    members: int = 10,
    seconds: float | None = None,
    fields: Any = None,
) -> dict[str, Any]:
    """Parameters of a classifier for this data, chosen by a preset.

    Parameters
    ----------
    preset : {"fast", "balanced", "best", "paper"}
        How much effort to spend. "fast" is for a first look, "balanced" is accurate and calibrated by a
        learned judge, "best" is more accurate and several times slower, "paper" has the settings of the
        paper, which are the defaults of all classifiers.
    X : sparse matrix, array, or texts
        Training inputs. Texts are only counted; features are also tried: some thousand inputs decide whether
        to dampen them.
    Y : sparse indicator matrix, or lists of labels
        Their labels.
    method : str
        As of `HedgerowClassifier`: the members of an ensemble are small trees with one wide tree beside them,
        a single model is a wide tree itself.
    members : int
        Members of an ensemble.
    seconds : float, optional
        Processor seconds that training may take, about: in place of "balanced" and "best", all of "best"
        where that is enough, else as wide a classifier as it allows.
    fields : optional
        As of `HedgerowTextClassifier`, where inputs are records of several texts. Each of them is then read
        as suits its length.

    Returns
    -------
    dict
        Parameters for the constructor.

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier, preset_parameters
    >>> from hedgerow.data.sample import load_sample
    >>> sample = load_sample()
    >>> chosen = preset_parameters("balanced", sample.train_texts, sample.train_labels)
    >>> chosen["judge"]
    True
    >>> model = HedgerowTextClassifier(**chosen, random_state=0)
    """
    truth = encode_labels(Y, count_inputs(X), None, 1).indicator
    choice, size = choose_for_data(preset, X, truth, Method(method), members, seconds)
    return choice.parameters | reading_parameters(choice.preset, X, truth, size, fields)


def choose_for_data(
    preset: str, X: Any, truth: sp.csr_array, method: Method, members: int, seconds: float | None = None
) -> tuple[Choice, DataSize]:
    """What a preset chooses for this data but for how it is read, and the size of the data when read so.

    With `seconds` of processors: all of "best" where that is enough, else as wide as they allow.
    """
    if seconds is not None and preset in ("balanced", "best"):
        size = measure_data(X, truth, "best")
        best = choose_settings("best", size, method, members)
        if best.seconds <= seconds:
            return best, size
        preset = "balanced"
    size = measure_data(X, truth, preset)
    return choose_settings(preset, size, method, members, seconds), size


def reading_parameters(
    preset: str, X: Any, truth: sp.csr_array, size: DataSize, fields: Any = None
) -> dict[str, Any]:
    """What a preset chooses for reading inputs: of features, whether they are damped; of texts, what is read.

    nDCG rose with stems wherever they were tried, and with n-grams of characters, which cost several times as
    much as words. Pairs of words helped where labels have many examples each (debian tags), in titles, and
    beside n-grams of characters; else they only cost (debian depends, tibkat, tibkat-en).
    """
    if preset not in ("balanced", "best"):
        return {}
    if are_features(X):
        return {"dampen": True} if damping_helps(X, truth) else {}
    texts = X
    pairs = size.pairs >= _EXAMPLES_FOR_PAIRS * size.labels
    if fields is None:
        chars = _are_short(_some(texts, size.rows)) or preset == "best"
        read: dict[str, Any] = {"analyzer": BOTH, "char_ngrams": _CHARACTERS} if chars else {}
        return {"language": "auto"} | read | ({} if pairs or preset == "best" else {"ngrams": (1, 1)})
    own = Fields.of(fields)
    if any(field.read_as for field in own.fields):
        return {"language": "auto"}
    records = own.records(_some(texts, size.rows))
    weights: dict[str, float] = {}
    for field in own.fields:
        words = sum(len(text.split()) for text in own.texts(records, field))
        if words <= _SHORT * len(records):
            half = field.weight / math.sqrt(2)  # both together have the length of the weight
            weights |= {field.name: half, f"{field.name}~chars": half}
        else:
            weights[field.name if pairs else f"{field.name}~words"] = field.weight
    return {"language": "auto", "fields": weights, "char_ngrams": _CHARACTERS}


def measure_data(X: Any, Y: Any, preset: str = "balanced") -> DataSize:
    """The size of a data set; that of texts, as a preset reads them, is guessed from some of them."""
    truth = sp.csr_array(Y)
    rows = truth.shape[0]
    labels = len(np.unique(truth.indices))
    if not are_features(X):
        return DataSize(rows, labels, int(_words(X, rows, preset)), truth.nnz)
    entries = int(cast(Any, X).nnz if sp.issparse(X) else np.count_nonzero(X))
    return DataSize(rows, labels, entries, truth.nnz, X.shape[1])


def are_features(X: Any) -> bool:
    """Whether inputs are features; else they are texts."""
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object)


def _words(texts: Sequence[Any], rows: int, preset: str) -> float:
    some = _some(texts, rows)
    words = sum(len(set(part.split())) for text in some for part in _parts(text))
    plain = isinstance(some[0], str) if some else False
    chars = preset in ("balanced", "best") and (_are_short(some) or (plain and preset == "best"))
    each = _NGRAMS_PER_WORD if chars else _FEATURES_PER_WORD
    return each * words * rows / max(1, len(some))


def _are_short(some: Sequence[Any]) -> bool:
    """Whether inputs are plain texts whose n-grams of characters are worth their cost."""
    plain = [text for text in some if isinstance(text, str)]
    return bool(plain) and sum(len(text.split()) for text in plain) <= _NOT_LONG * len(plain)


def _some(texts: Sequence[Any], rows: int) -> list[Any]:
    return [texts[place] for place in range(0, rows, max(1, rows // _LOOKED_AT))]


def _parts(text: Any) -> list[str]:
    if isinstance(text, str):
        return [text]
    return [str(part) for part in (text.values() if isinstance(text, Mapping) else text)]
