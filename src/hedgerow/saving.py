"""Opening model files."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.policy import Policy
from hedgerow.deep.extra import load_torch
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.estimators.transformer import HedgerowTransformerClassifier
from hedgerow.familiarity.score import OODDetector
from hedgerow.features.tfidf import TfidfVectorizer
from hedgerow.inputs.labels import read_label_sections
from hedgerow.inputs.training_record import TrainingRecord
from hedgerow.judge.calibration import Calibration
from hedgerow.storage.container import ExtraMissing, Malformed, ModelFile, read_model
from hedgerow.trees.forest import Dropout, Ensemble

__all__ = ["load"]


def load(path: str | os.PathLike[str], verify: bool = True) -> HedgerowClassifier:
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
    kinds: dict[str, type[HedgerowClassifier]] = {
        "features": HedgerowClassifier,
        "text": HedgerowTextClassifier,
        "transformer": HedgerowTransformerClassifier,
    }
    if file.header.get("kind") == "transformer":
        _check_extra(file)
    try:
        header = file.header
        if header["kind"] not in kinds:
            raise ValueError(f"unknown kind of model {header['kind']!r}")
        # A file must not choose whom a later fit connects to, nor what it may use.
        if named := {"cluster", "memory"} & set(header["parameters"]):
            raise ValueError(f"it names a {min(named)}")
        model = kinds[header["kind"]](**header["parameters"])
        model._check_parameters()
        model.classes_ = read_label_sections(file)
        dropout = Dropout(**header["dropout"]) if "dropout" in header else None
        model._ensemble = Ensemble.from_sections(
            header["trees"], file.sections, len(model.classes_), dropout, verify
        )
        model.tree_ = model._ensemble.tree
        model.n_features_in_ = model._ensemble.features
        model.label_counts_, model.n_samples_ = _read_counts(file)
        model.training_ = None
        if "training" in header:
            record = TrainingRecord.from_file(header["training"], file.sections["seen"], model.n_samples_)
            model.training_ = record
        if isinstance(model, HedgerowTextClassifier):
            vectorizer = model._new_vectorizer()
            prefix = "text."
            arrays = {n[len(prefix) :]: a for n, a in file.sections.items() if n.startswith(prefix)}
            model.vectorizer_ = TfidfVectorizer.from_arrays(vectorizer.get_params(), arrays)
            if isinstance(model, HedgerowTransformerClassifier):
                model._open_encoders(header, file.sections)
            elif len(model.vectorizer_.idf_) != model.n_features_in_:
                raise ValueError("the vocabulary and the weights differ in their number of features")
        if "familiar" in header:
            model.ood_detector_ = OODDetector.from_sections(header["familiar"], file.sections)
            if not set(model.ood_detector_.names) <= _signals_of(model):
                raise ValueError("familiar inputs have signals that the model does not have")
        if "calibration" in header:
            model.calibration_ = Calibration.from_sections(
                header["calibration"], file.sections, len(model.classes_), model._ensemble.members
            )
        if "policy" in header:
            model.policy_ = Policy.from_sections(header["policy"], file.sections)
    except Malformed:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Malformed(f"{file.path} does not hold a whole model: {error}") from error
    return model


def _check_extra(file: ModelFile) -> None:
    try:
        load_torch()
    except ImportError as error:
        raise ExtraMissing(f"{file.path} reads texts with a transformer: {error}") from error


def _signals_of(model: HedgerowClassifier) -> set[str]:
    """The signals that the model can find in inputs."""
    names = {"first_layer", "second_layer", "third_layer"}
    if isinstance(model, HedgerowTextClassifier):
        names |= {"unknown_words", "rarity"}
        if model.vectorizer_.has_pairs:
            names.add("unknown_pairs")
    return names


def _read_counts(file: ModelFile) -> tuple[npt.NDArray[np.int64] | None, int | None]:
    """How often each label occurred in training, and among how many inputs; early files do not tell."""
    if "label_counts" not in file.sections:
        return None, None
    counts, rows = file.sections["label_counts"], file.header["rows"]
    if counts.dtype != np.int64 or counts.shape != (file.header["labels"],):
        raise ValueError("the frequencies of the labels have another type or number")
    if not isinstance(rows, int) or (counts.size and not 0 <= counts.min() <= counts.max() <= rows):
        raise ValueError(f"the frequencies of the labels do not fit {rows!r} inputs")
    return np.asarray(counts), rows
