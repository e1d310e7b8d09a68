"""Presets for a data set at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.rows import count as count_inputs
from hedgerow.training.presets import DataSize, choose_settings
from hedgerow.training.settings import Method

__all__ = ["measure_data", "preset_parameters", "text_parameters"]

# Texts that are looked at to know how many words all of them have, and features per word: itself and a pair.
_LOOKED_AT, _FEATURES_PER_WORD = 500, 1.5


def preset_parameters(
    preset: str,
    X: Any,
    Y: Any,
    *,
    method: str = "single",
    members: int = 10,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Parameters of a classifier for this data, chosen by a preset.

    Parameters
    ----------
    preset : {"fast", "balanced", "best", "paper"}
        How much effort to spend. "fast" is for a first look, "balanced" is accurate and calibrated by a
        learned judge, "best" is more accurate and several times slower, "paper" has the settings of the
        paper, which are the defaults of all classifiers.
    X : sparse matrix, array, or texts
        Training inputs; they are only counted.
    Y : sparse indicator matrix, or lists of labels
        Their labels.
    method : str
        As of `HedgerowClassifier`: the members of an ensemble are small trees with one wide tree beside them,
        a single model is a wide tree itself.
    members : int
        Members of an ensemble.
    seconds : float, optional
        Processor seconds that training may take, about: "balanced" and "best" are as wide as that allows.

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
    size = measure_data(X, encode_labels(Y, count_inputs(X), None, 1).indicator)
    parameters = choose_settings(preset, size, Method(method), members, seconds).parameters
    return parameters if are_features(X) else parameters | text_parameters(preset)


def text_parameters(preset: str) -> dict[str, Any]:
    """What a preset chooses for texts besides: nDCG rose with stems wherever they were tried."""
    return {"language": "auto"} if preset in ("balanced", "best") else {}


def measure_data(X: Any, Y: Any) -> DataSize:
    """The size of a data set; that of texts is guessed from some of them."""
    truth = sp.csr_array(Y)
    rows = truth.shape[0]
    labels = len(np.unique(truth.indices))
    if not are_features(X):
        return DataSize(rows, labels, int(_words(X, rows)), truth.nnz)
    entries = int(cast(Any, X).nnz if sp.issparse(X) else np.count_nonzero(X))
    return DataSize(rows, labels, entries, truth.nnz, X.shape[1])


def are_features(X: Any) -> bool:
    """Whether inputs are features; else they are texts."""
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object)


def _words(texts: Sequence[Any], rows: int) -> float:
    some = [texts[place] for place in range(0, rows, max(1, rows // _LOOKED_AT))]
    words = sum(len(set(part.split())) for text in some for part in _parts(text))
    return _FEATURES_PER_WORD * words * rows / max(1, len(some))


def _parts(text: Any) -> list[str]:
    if isinstance(text, str):
        return [text]
    return [str(part) for part in (text.values() if isinstance(text, Mapping) else text)]
