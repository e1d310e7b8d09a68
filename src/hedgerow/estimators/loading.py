"""Opens model files as the classifiers that wrote them."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from hedgerow import saving
from hedgerow.estimators.parameters import floor_without_entry
from hedgerow.storage.container import Malformed, read_model

__all__ = ["load", "load_as"]

# By name, and imported when needed: a tf-idf model must not wait for the imports of a transformer.
_CLASSES = {
    "features": ("hedgerow.estimators.features", "HedgerowClassifier"),
    "text": ("hedgerow.estimators.text", "HedgerowTextClassifier"),
    "transformer": ("hedgerow.estimators.transformer", "HedgerowTransformerClassifier"),
}

Kind = TypeVar("Kind")


def load(path: str | os.PathLike[str], verify: bool = True) -> Any:
    """Open a model file, whichever classifier it holds.

    Parameters
    ----------
    path : path-like
        The file.
    verify : bool
        Check every byte; see `HedgerowClassifier.load`.

    Returns
    -------
    HedgerowClassifier, HedgerowTextClassifier or HedgerowTransformerClassifier
    """
    file = read_model(path, verify=verify)
    with saving.sound(file):
        kind = file.header["kind"]
        if kind not in _CLASSES:
            raise ValueError(f"unknown kind of model {kind!r}")
        parameters = file.header["parameters"]
        # A file must not choose what a later fit connects to, nor how much memory it uses.
        if named := {"cluster", "memory"} & set(parameters):
            raise ValueError(f"the file sets {min(named)!r}, which is not allowed")
        module, name = _CLASSES[kind]
        estimator_class = getattr(import_module(module), name)
        parameters = {"floor": floor_without_entry(parameters["method"])} | parameters
        estimator = estimator_class(**parameters)
        estimator.check_parameters()
        estimator.model_ = saving.read(file, verify)
        estimator.records_, estimator.records_file_ = None, Path(path)
    return estimator


def load_as(wanted: type[Kind], path: str | os.PathLike[str], verify: bool) -> Kind:
    """The same; refused where the file holds another classifier."""
    found = load(path, verify)
    if not isinstance(found, wanted):
        raise Malformed(f"{os.fspath(path)} holds a {type(found).__name__}; open it with hedgerow.load")
    return found
