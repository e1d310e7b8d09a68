"""Trained PECOS models as one Hedgerow model: the same scores, and uncertainty without training again.

PECOS's XLinearModel saves a folder: ``param.json``, ``ranker/param.json``, and for each layer of its tree
``ranker/<layer>.model`` with ``param.json``, the weights W (features and a bias, nodes) and the clusters C
(nodes, nodes of the layer above). The nodes of the last layer are the labels, by their columns in Y.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array

from hedgerow import _native
from hedgerow.data import DataError
from hedgerow.data.pecos import load_matrix
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.features.readers import MatrixReader
from hedgerow.judge.judging import LeftOut, NoJudge
from hedgerow.model import Model
from hedgerow.progress import Progress, Stage
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TRANSFORMS, TreeClassifier

__all__ = ["import_pecos"]

NodeWeights = tuple[
    npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]
]

DEEPEST = 64  # layers that a model file may have
PARTS = 3  # bfloat16 numbers that `_native.assemble` makes of a float32 weight
LARGEST = 255 / 128 * 2.0**127  # of a bfloat16 number


@dataclass(frozen=True, eq=False)
class _Layer:
    """One layer of a PECOS model.

    The weights, of shape (features, nodes), come without the row of the bias; `biases` are what the nodes'
    scores begin with. A node's parent is its cluster in the layer above, -1 for none. `bias` is the value of
    PECOS's constant feature and `beam` how many nodes it keeps, 0 if it has none or does not say.
    """

    folder: Path
    weights: csc_array
    biases: npt.NDArray[np.float32]
    parents: npt.NDArray[np.int64]
    clusters: int
    bias: float
    transform: str
    beam: int

    @property
    def nodes(self) -> int:
        return int(self.weights.shape[1])

    @property
    def features(self) -> int:
        return int(self.weights.shape[0])


@dataclass(frozen=True, eq=False)
class _Imported:
    """A PECOS model as a member, and what the ensemble needs to know of it."""

    tree: TreeClassifier
    labels: int
    bias: float
    beam: int


def import_pecos(
    folders: Iterable[str | os.PathLike[str]], *, progress: Progress | None = None
) -> HedgerowClassifier:
    """Make one model of trained PECOS XR-Linear models; each becomes a member of an ensemble.

    The members score as PECOS does, up to the rounding of 32-bit floats. Several models that were trained on
    different samples of the data, with different trees or seeds give an ensemble, whose members' disagreement
    measures knowledge uncertainty.

    PECOS takes inputs as they are, and so does the model, with ``normalize=False``: if PECOS was trained on
    rows of length 1, give such rows here, too.

    Parameters
    ----------
    folders : iterable of path-like
        What PECOS's ``XLinearModel.save`` wrote, for models of the same features and labels. Their
        post-processor must be l3-hinge, PECOS's default, or sigmoid.
    progress : callable(share, what), optional
        Called after every layer.

    Returns
    -------
    HedgerowClassifier
        Fitted: "bagging" of as many members as there are folders, or "single". Its labels are the columns of
        the Y that PECOS was trained on; those that a PECOS model has in no cluster get the probability 0 from
        it. The beam is PECOS's own, the widest that any layer or folder asks for. Parameters of training that
        PECOS does not write down, such as C, have their defaults.
    """
    if isinstance(folders, (str, bytes, os.PathLike)):
        raise TypeError(f"folders is {folders!r}; give a list of folders, such as [{folders!r}]")
    paths = [Path(folder) for folder in folders]
    if not 1 <= len(paths) <= 4096:
        raise ValueError(f"there are {len(paths)} folders; an ensemble has 1 to 4096 members")
    _refuse_repeated(paths)
    models: list[_Imported] = []
    for number, path in enumerate(paths):

        def report(share: float, done: int = number) -> None:
            if progress is not None:
                progress((done + share) / len(paths), "importing")

        layers = _read_layers(path, report)
        beam = max((layer.beam for layer in layers[:-1]), default=0)
        model = _Imported(_assemble(path, layers), layers[-1].nodes, layers[0].bias, beam)
        first = (models or [model])[0]
        for noun, own, others in (
            ("features", model.tree.features, first.tree.features),
            ("labels", model.labels, first.labels),
            ("post-processor", model.tree.transform, first.tree.transform),
        ):
            if own != others:
                raise DataError(
                    path, f"{noun}: {own}, but {paths[0]} has {others}; import them as models of their own"
                )
        models.append(model)
    return _classifier(models)


def _classifier(models: list[_Imported]) -> HedgerowClassifier:
    """The estimator with these members."""
    trees = [model.tree.tree for model in models]
    known: dict[str, Any] = {"floor": 0.0} if len(models) > 1 else {}  # as PECOS searches
    if beam := max(model.beam for model in models):
        known["beam"] = beam
    if inner := [int(np.diff(begins).max()) for tree in trees for begins in tree.begins[:-1]]:
        known["branching"] = min(max(2, *inner), 1024)
    transform = models[0].tree.transform
    classifier = HedgerowClassifier(
        method="bagging" if len(models) > 1 else "single",
        members=len(models),
        leaf_size=max(int(np.diff(tree.begins[-1]).max()) for tree in trees),
        loss=next(loss for loss, means in TRANSFORMS.items() if means == transform),
        bias=models[0].bias,
        normalize=False,
        **known,
    )
    classifier.check_parameters()
    forest = Ensemble([model.tree for model in models], models[0].labels)
    method = classifier.training_settings().ensemble.method
    no_judge = NoJudge(LeftOut.NOT_ASKED)
    reader = MatrixReader(forest.features)
    classifier.model_ = Model(method, reader, forest, np.arange(forest.labels), no_judge=no_judge)
    return classifier


def _refuse_repeated(paths: list[Path]) -> None:
    seen: dict[Path, Path] = {}
    for path in paths:
        if (other := seen.setdefault(path.resolve(), path)) is not path:
            raise DataError(path, f"is the same folder as {other}; its vote would count twice")


def _read_layers(folder: Path, progress: Stage) -> list[_Layer]:
    """Read a model from the root down and check that its layers fit together."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(folder, f"{what}; give a folder that PECOS's XLinearModel.save wrote")
    _read_parameters(folder / "param.json", "XLinearModel")
    path = folder / "ranker" / "param.json"
    stated = _read_parameters(path, "HierarchicalMLModel")
    depth = stated.get("depth")
    if type(depth) is not int or not 1 <= depth <= DEEPEST:
        raise DataError(path, f"depth is {depth!r:.40}; a model has 1 to {DEEPEST} layers")
    layers: list[_Layer] = []
    for number in range(depth):
        layer = _read_layer(folder / "ranker" / f"{number}.model")
        above = layers[-1] if layers else None
        if above is None and layer.clusters != 1:
            raise DataError(
                layer.folder / "C.npz",
                f"has {layer.clusters} columns, but above the first layer is the root alone; a ranker without"
                " its matcher cannot be imported: train PECOS with mode='full-model'",
            )
        if above is not None:
            _check(layer.folder / "C.npz", "columns", layer.clusters, above.nodes, f"nodes in {above.folder}")
            if (layer.features, layer.transform) != (above.features, above.transform):
                raise DataError(
                    layer.folder,
                    f"has {layer.features} features and the post-processor {layer.transform}, but"
                    f" {above.folder} has {above.features} and {above.transform}",
                )
        layers.append(layer)
        progress((number + 1) / (depth + 1))  # assembling them is about as much work as reading one
    _check_stated(path, stated, features=layers[0].features, labels=layers[-1].nodes)
    return layers


def _read_layer(folder: Path) -> _Layer:
    path = folder / "param.json"
    stated = _read_parameters(path, "MLModel")
    bias = stated.get("bias")
    if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not math.isfinite(bias):
        raise DataError(path, f"bias is {bias!r:.40}; it must be a finite number")
    constant = max(0.0, float(bias))  # PECOS's -1 stands for none
    search = stated.get("pred_kwargs")
    if not isinstance(search, dict):
        raise DataError(path, "has no pred_kwargs; save the model again with PECOS")
    transform: Any = search.get("post_processor")
    if transform not in TRANSFORMS.values():
        raise DataError(
            path,
            f"the post-processor is {transform!r:.40}; only those that give probabilities can be imported:"
            " l3-hinge, and sigmoid for models trained with logistic loss",
        )
    beam = search.get("only_topk")
    W, C = _read_matrix(folder / "W.npz"), _read_matrix(folder / "C.npz")
    _check(folder / "C.npz", "rows", C.shape[0], W.shape[1], f"columns in {folder / 'W.npz'}")
    features = W.shape[0] - (constant > 0)
    if not (1 <= features < 2**31 and 1 <= W.shape[1] < 2**31):
        raise DataError(folder / "W.npz", f"has the shape {W.shape}: too few features or nodes, or too many")
    if np.abs(W.data).max(initial=0) > LARGEST:
        raise DataError(folder / "W.npz", f"has a weight beyond {LARGEST:.4g}, which Hedgerow cannot hold")
    _check_stated(path, stated, features=features, labels=W.shape[1], codes=C.shape[1])
    biases = np.zeros(W.shape[1], dtype=np.float32)
    if constant:
        with np.errstate(over="ignore"):
            biases[:] = W[[features]].toarray()[0] * np.float32(constant)
    if not np.isfinite(biases).all():
        raise DataError(
            folder / "W.npz", f"a weight of the bias times {constant} is not a finite 32-bit float"
        )
    return _Layer(
        folder,
        csc_array(W[:features]),
        biases,
        _parents(folder / "C.npz", C),
        C.shape[1],
        constant,
        transform,
        beam if type(beam) is int and beam > 0 else 0,
    )


def _parents(path: Path, C: csr_array) -> npt.NDArray[np.int64]:
    """The column of the one entry in each row; as in PECOS, a stored zero is an entry."""
    entries = np.diff(C.indptr)
    if (entries > 1).any():
        node = int(np.argmax(entries > 1))
        raise DataError(path, f"node {node} is in {entries[node]} clusters; Hedgerow's trees allow only one")
    parents = np.full(C.shape[0], -1, dtype=np.int64)
    parents[entries == 1] = C.indices
    return parents


def _assemble(folder: Path, layers: list[_Layer]) -> TreeClassifier:
    """Sort the nodes so that siblings are neighbours, and hand their weights to the engine.

    Nodes that lead to no label, or that nothing leads to, are left out: PECOS never gives their labels.
    """
    reached = []
    above = np.ones(1, dtype=bool)
    for layer in layers:
        above = (layer.parents >= 0) & above[layer.parents]
        reached.append(above)
    if not reached[-1].any():
        raise DataError(layers[-1].folder / "C.npz", "no label is in any cluster that can be reached")
    kept = [reached[-1]]
    for layer, here in zip(layers[:0:-1], reached[-2::-1], strict=True):
        fertile = np.zeros(len(here), dtype=bool)
        fertile[layer.parents[kept[0]]] = True
        kept.insert(0, fertile)  # within `here`, as its children are reached
    begins: list[npt.NDArray[np.int32]] = []
    nodes: list[NodeWeights] = []
    weights = 0
    place = np.zeros(1, dtype=np.int64)  # of the nodes of the layer above
    order = np.zeros(1, dtype=np.int64)
    for layer, keep in zip(layers, kept, strict=True):
        count = len(order)
        order = np.flatnonzero(keep)
        parents = place[layer.parents[order]]
        order = order[np.argsort(parents, kind="stable")]
        sizes = np.bincount(parents, minlength=count)
        begins.append(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        place = np.full(layer.nodes, -1, dtype=np.int64)
        place[order] = np.arange(len(order))
        own, number = _node_weights(layer, order, begins[-1])
        nodes += own
        weights += number
    try:
        tree = LabelTree(tuple(begins), order.astype(np.int32))
        features = layers[0].features
        native = _native.assemble(begins, tree.labels, features, layers[0].transform, nodes)
    except ValueError as error:
        raise DataError(folder, f"cannot be imported: {error}") from error
    return TreeClassifier(tree, features, layers[0].transform, False, native, weights, 1, PARTS)


def _node_weights(
    layer: _Layer, order: npt.NDArray[np.int64], begins: npt.NDArray[np.int32]
) -> tuple[list[NodeWeights], int]:
    """Weights of the nodes above, whose children are W's columns in this order; and how many there are."""
    W = layer.weights[:, order]
    W.eliminate_zeros()
    features = W.indices.astype(np.int32, copy=False)
    first = np.repeat(begins[:-1], np.diff(begins))
    lanes = np.repeat((np.arange(len(order)) - first).astype(np.int32), np.diff(W.indptr))
    biases = layer.biases[order]
    nodes = []
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        entries = slice(int(W.indptr[begin]), int(W.indptr[end]))
        nodes.append((features[entries], lanes[entries], W.data[entries], biases[begin:end]))
    return nodes, len(features)


def _read_parameters(path: Path, kind: str) -> dict[str, Any]:
    """What PECOS wrote of an object, which must be of this class."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(path, "is missing; give a folder that PECOS's XLinearModel.save wrote") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(path, f"cannot be read as JSON: {error}") from error
    meta = stated.get("__meta__") if isinstance(stated, dict) else None
    name = meta.get("class_fullname") if isinstance(meta, dict) else None
    found = stated.get("model") if isinstance(stated, dict) else None
    if found is None and isinstance(name, str):
        found = name.rpartition("###")[2]
    if not isinstance(found, str):
        raise DataError(path, "was not written by PECOS; give a folder that its XLinearModel.save wrote")
    if found != kind:
        inside = kind == "XLinearModel" and found in ("HierarchicalMLModel", "MLModel")
        way_out = "give the folder of the whole model" if inside else "only XLinearModel can be imported"
        raise DataError(path, f"describes a {found!r:.40} where {kind} is expected; {way_out}")
    if stated.get("is_mmap"):
        raise DataError(
            path, "is of a model compiled for memory mapping; give the folder that it was compiled from"
        )
    return dict(stated)


def _read_matrix(path: Path) -> csr_array:
    if not path.exists():
        raise DataError(path, "is missing; save the model again with PECOS")
    return load_matrix(path)


def _check(path: Path, noun: str, found: int, expected: int, where: str) -> None:
    if found != expected:
        raise DataError(
            path, f"has {found} {noun}, but there are {expected} {where}; save the model again with PECOS"
        )


def _check_stated(path: Path, stated: dict[str, Any], **counted: int) -> None:
    """A save that was cut short leaves files of two models; their numbers reveal it."""
    for noun, count in counted.items():
        if stated.get(f"nr_{noun}", count) != count:
            raise DataError(
                path,
                f"states {stated[f'nr_{noun}']!r:.40} {noun}, but the matrices have {count}; save the model"
                " again with PECOS",
            )
