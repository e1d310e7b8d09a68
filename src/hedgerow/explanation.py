"""Why a label: what each feature of one input did to it, and where the members disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.fields import Record
from hedgerow.inputs.matrices import as_rows
from hedgerow.model import Fitted, Model, fitted_model
from hedgerow.trees.tree_model import TreeClassifier

__all__ = ["Explanation", "FeatureEffect", "MemberPath", "explain", "label_number"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MemberPath:
    """The path of one member from the root to the label. Arrays of shape (depth,)."""

    nodes: tuple[int, ...]  # as `LabelTree.path` gives them; the last is the place of the label
    scores: Floats  # z of each node: its bias and the sum of weight times value
    probability: Floats  # what these scores mean; the label's probability is their product


@dataclass(frozen=True)
class FeatureEffect:
    """What one feature, by name or column, did to the label.

    Its effect is the change that it made to the logarithm of the label's probability: the mean over the
    members, with its standard deviation, and for how many members it made the label more, and less, probable.
    """

    feature: str | int
    value: float  # as the model sees it
    effect: float
    disagreement: float
    members_for: int
    members_against: int
    field: str | None = None  # of a record with several texts


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the features of one input did to one label, the strongest first.

    The effect of a feature is ``log p - log p'``, where p is the probability that a member gives the label
    and p' the one it would give if the feature were 0 and all other values stayed as they are (an input is
    not scaled to length 1 again). That is exact, but it is not a sum: the effects of several features do not
    add up to the effect of removing them all. With the squared hinge a score of 1 is certainty, and a feature
    without which the score is still above 1 has no effect.

    Attributes
    ----------
    label : str or int
        The label, as in `classes_`.
    probability : float
        Mean of the votes. Both are what the members say, before a judge or a calibration.
    votes : float64 array, shape (members,)
        The probability that each member gives the label; 0 where its tree lacks the label.
    features : array, shape (f,)
        Names or columns of the features that the input has, by falling size of the effect. Words are as the
        text writes them, in lower case; where several of it have the same stem, all of them: "hedge/hedges".
    value : float64 array, shape (f,)
        Their values as the model sees them: scaled to length 1, if the model does so.
    effect : float64 array, shape (f,)
        Mean effect over the members that know the label: how the feature moved it.
    disagreement : float64 array, shape (f,)
        Standard deviation of the effect over these members.
    effects : float64 array, shape (f, members)
        The effect for each member; NaN where its tree lacks the label.
    bias : float64 array, shape (members,)
        Logarithm of the probability that the label would have without any feature; NaN likewise.
    paths : tuple of MemberPath or None
        The nodes of each member's path, their scores and probabilities; None where its tree lacks the label.
    without_dropout : bool
        Whether the model is one of "mc-dropout". Then the single model is explained, with all its weights,
        whose probability is near the mean of the passes but not equal to it.
    fields : array, shape (f,), or None
        The field of each feature, where inputs are records of several texts.
    """

    label: Any
    probability: float
    votes: Floats
    features: npt.NDArray[Any]
    value: Floats
    effect: Floats
    disagreement: Floats
    effects: Floats
    bias: Floats
    paths: tuple[MemberPath | None, ...]
    without_dropout: bool = False
    fields: npt.NDArray[Any] | None = None

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.votes)

    def __len__(self) -> int:
        return len(self.features)

    def for_(self, n: int | None = 10) -> list[FeatureEffect]:
        """At most n features that made the label more probable, the strongest first; None for all."""
        return self._some(np.flatnonzero(self.effect > 0)[:n])

    def against(self, n: int | None = 10) -> list[FeatureEffect]:
        """At most n features that made the label less probable, the strongest first; None for all."""
        return self._some(np.flatnonzero(self.effect < 0)[:n])

    def disputed(self, n: int | None = 10) -> list[FeatureEffect]:
        """At most n features on which the members disagree, the most disputed first; None for all."""
        order = np.argsort(-self.disagreement, kind="stable")
        return self._some(order[self.disagreement[order] > 0][:n])

    def _some(self, places: npt.NDArray[np.intp]) -> list[FeatureEffect]:
        return [
            FeatureEffect(
                self.features[place],
                float(self.value[place]),
                float(self.effect[place]),
                float(self.disagreement[place]),
                int((self.effects[place] > 0).sum()),
                int((self.effects[place] < 0).sum()),
                None if self.fields is None else self.fields[place],
            )
            for place in places.tolist()
        ]


def explain(
    model: Fitted | Model, x: Any, label: Any = None, *, names: Sequence[str] | None = None
) -> Explanation:
    """Show which features of an input moved a label, and on which of them the members disagree.

    Parameters
    ----------
    model : HedgerowClassifier or HedgerowTextClassifier
        A fitted model. Of "mc-dropout" the single model is explained, with all its weights.
    x : str, mapping, or sparse matrix or array of shape (1, d) or (d,)
        One input: a text for a model of texts, a mapping of names to texts for one with fields, else a row of
        features.
    label : str or int, optional
        A label, as in `classes_`; the most probable one, if not given.
    names : sequence of str, shape (d,), optional
        Names of the features. A model of texts knows its words; the features of another are numbers.

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier
    >>> texts = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"]
    >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]]
    >>> model = HedgerowTextClassifier(ngrams=(1, 1), random_state=0).fit(texts, labels)
    >>> why = explain(model, "a thorny tree", "holly")
    >>> [(found.feature, round(found.effect, 2)) for found in why.for_()]
    [('tree', 1.75)]
    >>> [(found.feature, round(found.effect, 2)) for found in why.against()]
    [('thorny', -0.78)]
    """
    source = fitted_model(model)
    row = _one_row(source, x)
    if label is None:
        best, _ = source.top(row if source.reader.kind == "features" else _as_inputs(source, x), 1)
        label = source.classes[best[0, 0]]
    number = label_number(source, label)
    row.eliminate_zeros()
    columns, values = row.indices, row.data.astype(np.float64)
    forest = source.forest
    if forest.trees[0].normalize and values.size:
        values /= np.sqrt((values**2).sum())
    logs, effects, bias, paths = [], [], [], []
    for tree in forest.trees:
        found = _Walk(tree, number, columns, values)
        logs.append(found.log_probability)
        effects.append(found.effects)
        bias.append(found.bias)
        paths += found.paths
    each = np.concatenate(effects, axis=1)
    knows = ~np.isnan(np.concatenate(bias))
    effect = each[:, knows].mean(axis=1)
    order = np.argsort(-np.abs(effect), kind="stable")
    votes = np.exp(np.concatenate(logs))
    fields = None
    if source.reader.text_fields is not None:
        fields = np.array([source.reader.feature_field(column) for column in columns.tolist()], dtype=object)
    return Explanation(
        label=source.classes[number],
        probability=float(votes.mean()),
        votes=votes,
        features=_named(source, x, columns, names)[order],
        value=values[order],
        effect=effect[order],
        disagreement=each[:, knows].std(axis=1)[order],
        effects=each[order],
        bias=np.concatenate(bias),
        paths=tuple(paths),
        without_dropout=forest.dropout is not None or forest.rows_each > 1,
        fields=None if fields is None else fields[order],
    )


def label_number(source: Model, label: Any) -> int:
    """The column of a label; an error if the model does not know it, or never saw it on an input."""
    named = source.classes.dtype == object
    if isinstance(label, bool | np.bool_) or not isinstance(label, str if named else Integral):
        kind = "strings" if named else "integers"
        raise TypeError(f"label is {label!r} of type {type(label).__name__}; the model's labels are {kind}")
    found = np.flatnonzero(source.classes == label)
    if not found.size:
        raise ValueError(
            f"label {label!r} is not among the {len(source.classes)} labels of the model; classes_ lists them"
        )
    number = int(found[0])
    if not any((tree.tree.labels == number).any() for tree in source.forest.trees):
        raise ValueError(
            f"label {label!r} is on no input that the model learned from; it cannot be explained"
        )
    return number


class _Walk:
    """The members of one tree on their way to a label; arrays have a column for each member."""

    def __init__(
        self, trained: TreeClassifier, label: int, columns: npt.NDArray[np.int32], values: Floats
    ) -> None:
        members = trained.members
        if not (trained.tree.labels == label).any():
            self.log_probability = np.full(members, -np.inf)
            self.effects = np.full((len(columns), members), np.nan)
            self.bias = np.full(members, np.nan)
            self.paths: list[MemberPath | None] = [None] * members
            return
        nodes = trained.tree.path(label)
        self.effects = np.zeros((len(columns), members))
        self.bias = np.zeros(members)
        scores = np.empty((len(nodes), members))
        for layer, (parent, node) in enumerate(zip((0, *nodes), nodes, strict=False)):
            products, bias = _products(trained, layer, parent, node, columns, values)
            score = bias + products.sum(axis=0)
            scores[layer] = score
            self.effects += _log_probability(score, trained.transform) - _log_probability(
                score - products, trained.transform
            )
            self.bias += _log_probability(bias, trained.transform)
        logs = _log_probability(scores, trained.transform)
        self.log_probability = logs.sum(axis=0)
        self.paths = [MemberPath(nodes, scores[:, m], np.exp(logs[:, m])) for m in range(members)]


def _products(
    trained: TreeClassifier,
    layer: int,
    parent: int,
    node: int,
    columns: npt.NDArray[np.int32],
    values: Floats,
) -> tuple[Floats, Floats]:
    """Weight times value of a node, of shape (columns, members), and the members' biases."""
    begin, end = trained.tree.begins[layer][parent : parent + 2].tolist()
    features, lanes, weights, bias = trained.node_weights(layer, parent)
    # Lanes are parts of members of children.
    children, members = end - begin, trained.members
    ours = lanes % children == node - begin
    features, lanes, weights = features[ours], lanes[ours], weights[ours]
    place = np.searchsorted(columns, features)
    place[place == len(columns)] = 0
    there = columns[place] == features if len(columns) else np.zeros(len(features), dtype=bool)
    place, lanes, weights = place[there], lanes[there], weights[there].astype(np.float64)
    products = np.zeros((len(columns), members))
    np.add.at(products, (place, lanes // children % members), weights * values[place])
    each = bias.astype(np.float64).reshape(trained.parts, members, children)
    return products, each[:, :, node - begin].sum(axis=0)


def _log_probability(scores: Floats, transform: str) -> Floats:
    if transform == "l3-hinge":
        return 0.0 - np.maximum(0.0, 1.0 - scores) ** 3
    return np.asarray(-np.logaddexp(0.0, -scores))


def _as_inputs(source: Model, x: Any) -> Any:
    records = source.reader.text_fields is not None
    if records and isinstance(x, Mapping | Record):
        return source.inputs([x])
    if sp.issparse(x) or isinstance(x, bytes) or not isinstance(x, str | Sequence | np.ndarray):
        wanted = "a mapping of names to texts" if records else "a string"
        raise TypeError(f"x is a {type(x).__name__}, but the model reads texts; give {wanted}")
    return source.inputs([x] if isinstance(x, str) else x)


def _one_row(source: Model, x: Any) -> sp.csr_array:
    """The features of the one input, with sorted indices; never the caller's own arrays."""
    if source.reader.kind != "features":
        rows = source.reader.plain_features(_as_inputs(source, x), source.threads)
    else:
        if not sp.issparse(x) and np.ndim(x) == 1:
            x = np.reshape(x, (1, -1))
        as_rows(x, "x", columns=source.reader.width)  # refuses whatever is wrong
        rows = sp.csr_array(cast(Any, x if sp.issparse(x) else np.asarray(x, dtype=np.float32)), copy=True)
    if rows.shape[0] != 1:
        raise ValueError(f"x holds {rows.shape[0]} inputs; explain takes one: call it for each")
    rows = rows.astype(np.float32)
    rows.sort_indices()
    return rows


def _named(
    source: Model, x: Any, columns: npt.NDArray[np.int32], names: Sequence[str] | None
) -> npt.NDArray[Any]:
    if isinstance(names, str | bytes):
        raise TypeError(f"names is {names!r:.60}; give a list with the name of each feature")
    if names is not None:
        if len(names) != source.reader.width:
            raise ValueError(f"there are {len(names)} names for {source.reader.width} features")
        return np.array([names[column] for column in columns.tolist()], dtype=object)
    if source.reader.kind == "features":
        return columns.astype(np.int64)
    return np.array(source.reader.feature_names(_as_inputs(source, x), columns), dtype=object)
