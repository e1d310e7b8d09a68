"""Model files: one format, written and read here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.coarser import CoarserPolicy
from hedgerow.decisions.policy import Policy
from hedgerow.deep.extra import load_torch
from hedgerow.familiarity.detector import OODDetector
from hedgerow.features.field_reader import open_words
from hedgerow.features.readers import MatrixReader, Reader
from hedgerow.inputs.labels import add_label_sections, read_label_sections
from hedgerow.inputs.training_record import TrainingRecord
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.judge.calibration import Calibration
from hedgerow.judge.judging import Judge, LeftOut, NoJudge
from hedgerow.judge.names import NameJudge
from hedgerow.judge.scorers import Scorers
from hedgerow.model import Model
from hedgerow.quality.expectation import QualityModel
from hedgerow.records.lineage import Lineage
from hedgerow.shift.reference import Reference
from hedgerow.storage.container import ExtraMissing, Malformed, ModelFile, write_model
from hedgerow.training.settings import Method
from hedgerow.trees.forest import Dropout, Ensemble
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["read", "sound", "write"]

_LEFT = "left."  # sections of what left the vocabulary


def write(
    model: Model, parameters: dict[str, Any], path: str | os.PathLike[str], overwrite: bool = False
) -> None:
    """Write a model and the parameters of its estimator to a file, whole or not at all."""
    forest, reader = model.forest, model.reader
    fitted, about_reader, arrays_of_reader = reader.to_file()
    sections: dict[str, Any] = dict(forest.to_sections())
    header: dict[str, Any] = {
        "kind": reader.kind,
        "parameters": parameters | fitted,
        "labels": len(model.classes),
        "trees": forest.to_header(),
    }
    if forest.dropout is not None:
        header["dropout"] = asdict(forest.dropout)
    if model.judge is not None and model.scorers is not None:
        header["judge"] = model.judge.to_header() | model.scorers.to_header()
        sections |= model.judge.to_sections() | model.scorers.to_sections()
    # Without this entry, a judge was not asked for, as the parameters say, or the file is older than it.
    if model.no_judge is not None and model.no_judge.reason is not LeftOut.NOT_ASKED:
        header["no_judge"] = model.no_judge.to_header()
    if model.names is not None:
        header["naming"] = model.names.to_header()
        sections |= model.names.to_sections()
    if model.ood is not None:
        header["familiar"] = list(model.ood.names)
        sections |= model.ood.to_sections()
    if model.centroids is not None:
        header["centroids"] = model.centroids.to_header()
        sections |= model.centroids.to_sections("centroids")
    if model.calibration is not None:
        header["calibration"] = model.calibration.to_header()
        sections |= model.calibration.to_sections()
    if model.policy is not None:
        header["policy"], arrays = model.policy.to_sections()
        sections |= arrays
    if model.reference is not None:
        header["reference"], arrays = model.reference.to_sections()
        sections |= arrays
    if model.quality is not None:
        header["quality"], arrays = model.quality.to_sections()
        sections |= arrays
    if model.broader is not None:
        header["broader"], arrays = model.broader.to_file()
        sections |= arrays
    if model.coarser is not None:
        header["coarser"], arrays = model.coarser.to_sections()
        sections |= arrays
    if model.vocabulary is not None:
        header["vocabulary"], arrays = model.vocabulary.to_sections()
        sections |= arrays
    if model.left is not None:
        header["left"], arrays = model.left.to_sections()
        sections |= {f"{_LEFT}{name}": array for name, array in arrays.items()}
    add_label_sections(model.classes, sections, header)
    if model.label_counts is not None:
        sections["label_counts"] = model.label_counts
        header["rows"] = model.n_samples
    if model.training is not None:
        sections["seen"] = model.training.seen
        header["training"] = {"fingerprint": model.training.fingerprint, "seed": model.training.seed}
    if model.lineage.events:
        header["lineage"] = model.lineage.to_header()
    write_model(path, sections | arrays_of_reader, header | about_reader, overwrite=overwrite)


def read(file: ModelFile, verify: bool) -> Model:
    """The model in a file; its arrays stay there. The caller checks the estimator's parameters."""
    header, sections = file.header, file.sections
    classes = read_label_sections(file)
    dropout = Dropout(**header["dropout"]) if "dropout" in header else None
    forest = Ensemble.from_sections(header["trees"], sections, len(classes), dropout, verify)
    reader, forest = _read_reader(file, forest)
    counts, rows = _read_counts(file)
    training = None
    if "training" in header:
        training = TrainingRecord.from_file(header["training"], sections["seen"], rows)
    ood = None
    if "familiar" in header:
        ood = OODDetector.from_sections(header["familiar"], sections)
    centroids = _read_centroids(file, forest, verify)
    judge, scorers = _read_judge(file, forest, counts, verify)
    if scorers is not None and reader.kind == "transformer":
        from hedgerow.deep.reader import expect_embeddings

        expect_embeddings(scorers.trees, reader, 0)  # type: ignore[arg-type]
    near = centroids is not None or scorers is not None
    if ood is not None and not set(ood.names) <= _signals_of(reader, near):
        raise ValueError("the OOD detector uses signals that the model does not have")
    names = None
    if "naming" in header:
        texts = len(reader.texts_apart(()))
        names = NameJudge.from_sections(header["naming"], sections, counts, texts, reader.embedding_width)
    calibration = None
    if "calibration" in header:
        calibration = Calibration.from_sections(header["calibration"], sections, len(classes), forest.members)
    reference = None
    if "reference" in header:
        if "policy" not in header:
            raise ValueError("there is a reference of held-out inputs, but no policy")
        reference = Reference.from_sections(header["reference"], sections, len(classes))
        if ood is None and not {"ood", "words", "unknown_words"}.isdisjoint(reference.names):
            raise ValueError("the reference has OOD scores, but the model has no OOD detector")
    vocabulary, broader, coarser = None, None, None
    if "vocabulary" in header:
        vocabulary = Vocabulary.from_sections(header["vocabulary"], sections)
    left = None
    if "left" in header:
        arrays = {name[len(_LEFT) :]: array for name, array in sections.items() if name.startswith(_LEFT)}
        left = Vocabulary.from_sections(header["left"], arrays)
    if "broader" in header:
        broader = BroaderCalibration.from_file(header["broader"], sections, vocabulary, classes)
    if "coarser" in header:
        if broader is None:
            raise ValueError("there is a policy for broader terms, but no calibration of them")
        coarser = CoarserPolicy.from_sections(header["coarser"], sections)
    return Model(
        method=Method(header["parameters"]["method"]),
        reader=reader,
        forest=forest,
        classes=classes,
        label_counts=counts,
        n_samples=rows,
        training=training,
        judge=judge,
        no_judge=_read_no_judge(header),
        scorers=scorers,
        names=names,
        calibration=calibration,
        ood=ood,
        centroids=centroids,
        policy=Policy.from_sections(header["policy"], sections) if "policy" in header else None,
        reference=reference,
        quality=QualityModel.from_sections(header["quality"], sections) if "quality" in header else None,
        broader=broader,
        coarser=coarser,
        vocabulary=vocabulary,
        left=left,
        lineage=Lineage.from_header(header["lineage"]) if "lineage" in header else Lineage(),
    )


@contextlib.contextmanager
def sound(file: ModelFile) -> Iterator[None]:
    """Turn errors within into Malformed, which names the file."""
    try:
        yield
    except (Malformed, ExtraMissing):
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Malformed(f"{file.path} does not hold a whole model: {error}") from error


def _read_reader(file: ModelFile, forest: Ensemble) -> tuple[Reader, Ensemble]:
    """The reader, and the forest, which a transformer with several passes replaces."""
    header, sections = file.header, file.sections
    if header["kind"] == "features":
        return MatrixReader.from_file(forest.features, sections), forest
    words = open_words(header, sections)
    if header["kind"] == "text":
        if words.width != forest.features:
            raise ValueError("the vocabulary and the weights differ in their number of features")
        return words, forest
    try:
        load_torch()
    except ImportError as error:
        raise ExtraMissing(f"{file.path} needs a transformer to read texts: {error}") from error
    from hedgerow.deep.reader import open_reader

    return open_reader(words, forest, header, sections)


def _read_judge(
    file: ModelFile, forest: Ensemble, counts: npt.NDArray[np.int64] | None, verify: bool
) -> tuple[Judge | None, Scorers | None]:
    """The judge and the scorers it needs; both None where the model has none."""
    if "judge" not in file.header:
        return None, None
    header = file.header["judge"]
    judge = Judge.from_sections(header, file.sections, counts)
    scorers = Scorers.from_sections(judge.scorers, header, file.sections, forest, verify)
    return judge, scorers


def _read_centroids(file: ModelFile, forest: Ensemble, verify: bool) -> TreeClassifier | None:
    """The centroids that OOD detection asks; None where the model has none, or only those of its judge."""
    if "centroids" not in file.header:
        return None
    header, sections = file.header["centroids"], file.sections
    found = TreeClassifier.from_sections("centroids", header, sections, forest.labels, verify)
    if found.features != forest.features or found.transform != "l3-hinge" or found.members != 1:
        raise ValueError("the centroids do not fit the trees")
    return found


def _read_no_judge(header: Mapping[str, Any]) -> NoJudge | None:
    """Why there is no judge; None where there is one, or the file does not say."""
    if "judge" in header:
        return None
    if "no_judge" in header:
        return NoJudge.from_header(header["no_judge"])
    return None if header["parameters"].get("judge", False) else NoJudge(LeftOut.NOT_ASKED)


def _signals_of(reader: Reader, near: bool) -> set[str]:
    """The signals that a model can find in inputs; `near` where it has centroids of labels."""
    names = {"first_layer", "second_layer", "third_layer"}
    if near:
        names |= {"nearest_label", "nearest_labels"}
    if reader.kind != "features":
        names |= {"unknown_words", "rarity"}
        if reader.has_pairs:
            names.add("unknown_pairs")
    return names


def _read_counts(file: ModelFile) -> tuple[npt.NDArray[np.int64] | None, int | None]:
    """How often each label occurs in training, and the number of inputs; None for imported models."""
    if "label_counts" not in file.sections:
        return None, None
    counts, rows = file.sections["label_counts"], file.header["rows"]
    if counts.dtype != np.int64 or counts.shape != (file.header["labels"],):
        raise ValueError("the frequencies of the labels have the wrong type or number")
    if not isinstance(rows, int) or (counts.size and not 0 <= counts.min() <= counts.max() <= rows):
        raise ValueError(f"the frequencies of the labels do not fit {rows!r} inputs")
    return np.asarray(counts), rows
