"""Why a label: what each feature of one input did to it, and where the members disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.features.fields import Record
from hedgerow.inputs.matrices import as_rows
from hedgerow.judge.judging import HEADROOM, Judge
from hedgerow.judge.name_verdict import NameVerdict
from hedgerow.judge.scorers import Scorers
from hedgerow.judge.verdict import Verdict, percent
from hedgerow.model import Fitted, Model, fitted_model
from hedgerow.trees.forest import UNASKED_SCORE, UNASKED_SHARE, Ensemble
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.verdicts import AskedLabel

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
    # With a judge: what the feature did to the logarithm of the probability of the members alone, and of the
    # wide classifier alone, if there is one.
    members_effect: float | None = None
    wide_effect: float | None = None


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the features of one input did to one label, the strongest first.

    The effect of a feature is ``log p - log p'``, where p is the probability that a member gives the label
    and p' the one it would give if the feature were 0 and all other values stayed as they are (an input is
    not scaled to length 1 again). That is exact, but it is not a sum: the effects of several features do not
    add up to the effect of removing them all. With the squared hinge a score of 1 is certainty, and a feature
    without which the score is still above 1 has no effect.

    With a judge, p and p' are what it makes of the members, the wide classifier and the centroids, all with
    and without the feature. Effects are before calibration, and names of labels are left out of them: a word
    that is a name may do more than its effect says. Where no member knows the label, effects are 0.

    Attributes
    ----------
    label : str or int
        The label, as in `classes_`.
    probability : float
        What the model predicts: after judge, names and calibration, where there are any.
    votes : float64 array, shape (members,)
        The probability that each member gives the label, before judge and calibration; 0 where its tree lacks
        the label.
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
    verdict : Verdict or None
        With a judge: what it saw of the label, and how each part of that moved its answer. None where the
        search does not find the label and only its name proposes it.
    found : bool
        Whether the search finds the label, or its name proposes it; if not, `probability` is what the model
        would say if the search did, and 0 where no member knows the label. Only looked up where there is a
        judge, names or a calibration.
    calibrated : bool
        Whether probabilities are calibrated.
    members_effect, wide_effect : float64 array, shape (f,), or None
        With a judge: the effects on the members alone, and on the wide classifier alone, if there is one.
    names : NameVerdict or None
        Where the model asks for names: which texts have names of the label, and its probability without
        names and with them.
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
    verdict: Verdict | None = None
    found: bool = True
    calibrated: bool = False
    members_effect: Floats | None = None
    wide_effect: Floats | None = None
    names: NameVerdict | None = None

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.votes)

    @property
    def members_probability(self) -> float:
        """Mean of the votes, before judge and calibration."""
        return float(self.votes.mean())

    def sentences(self) -> list[str]:
        """How the probability came about, in words; none where it is the mean of the votes."""
        said = []
        if self.verdict is not None:
            said = self.verdict.sentences()
        elif self.calibrated if self.names is None else self.names.before is not None:
            said = [f"The trees gave {percent(self.members_probability)}."]
        if self.names is not None:
            said += self.names.sentences()
            if self.names.after is None:
                return said
        if self.calibrated:
            said.append(f"After calibration: {percent(self.probability)}.")
        if not self.found:
            said.append(
                "The search does not find this label for the input, so it is not predicted; a wider beam may"
                " find it."
            )
        return said

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
                None if self.members_effect is None else float(self.members_effect[place]),
                None if self.wide_effect is None else float(self.wide_effect[place]),
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
        A label, as in `classes_`; the most probable one, if not given. Labels that no training input has can
        be explained where the model asks for names.
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
    inputs = _as_inputs(source, x)
    if label is None:
        best, _ = source.top(inputs, 1)
        label = source.classes[best[0, 0]]
    number = label_number(source, label)
    row.eliminate_zeros()
    columns, values = row.indices, row.data.astype(np.float64)
    forest = source.forest
    if forest.trees[0].normalize and values.size:
        values /= np.sqrt((values**2).sum())
    walk = _Walks(forest, number, columns, values)
    effects = walk.effects
    members_effect = wide_effect = None
    if source.judge is not None and source.scorers is not None:
        if walk.knows.any():
            scores = _scorer_removals(source.scorers, number, columns, values)
            effects = _judged_effects(source.judge, number, walk, scores, source.threads)
        members_effect = _mean(walk.effects, walk.knows)
        classifier = source.scorers.classifier
        if classifier is not None and not source.scorers.shared:
            wide_effect = np.nan_to_num(_Walk(classifier, number, columns, values).effects[:, 0])
    effect = _mean(effects, walk.knows)
    order = np.argsort(-np.abs(effect), kind="stable")
    votes = np.exp(walk.log_probability)
    asked = None
    if source.judges or source.calibrated:
        asked = AskedLabel(source, inputs, number, votes if walk.knows.any() else None)
    fields = None
    if source.reader.text_fields is not None:
        fields = np.array([source.reader.feature_field(column) for column in columns.tolist()], dtype=object)
    return Explanation(
        label=source.classes[number],
        probability=float(votes.mean()) if asked is None else asked.probability,
        votes=votes,
        features=_named(source, x, columns, names)[order],
        value=values[order],
        effect=effect[order],
        disagreement=_spread(effects, walk.knows)[order],
        effects=effects[order],
        bias=walk.bias,
        paths=walk.paths,
        without_dropout=forest.dropout is not None or forest.rows_each > 1,
        fields=None if fields is None else fields[order],
        verdict=None if asked is None else asked.verdict,
        found=asked is None or asked.found,
        calibrated=source.calibrated,
        members_effect=None if members_effect is None else members_effect[order],
        wide_effect=None if wide_effect is None else wide_effect[order],
        names=None if asked is None else asked.names,
    )


def label_number(source: Model, label: Any) -> int:
    """The column of a label; an error if the model does not know it, or could never predict it."""
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
    if source.names is None and not any((tree.tree.labels == number).any() for tree in source.forest.trees):
        raise ValueError(
            f"label {label!r} is on no input that the model learned from; it cannot be explained"
        )
    return number


class _Walks:
    """All members on their way to a label; arrays have a column for each, NaN where it lacks the label."""

    def __init__(self, forest: Ensemble, label: int, columns: npt.NDArray[np.int32], values: Floats) -> None:
        walks = [_Walk(tree, label, columns, values) for tree in forest.trees]
        self.log_probability = np.concatenate([walk.log_probability for walk in walks])
        self.effects = np.concatenate([walk.effects for walk in walks], axis=1)
        self.bias = np.concatenate([walk.bias for walk in walks])
        self.paths = tuple(path for walk in walks for path in walk.paths)
        self.knows = ~np.isnan(self.bias)

    def removals(self) -> npt.NDArray[np.float32]:
        """Probabilities of the whole input, then without each feature: shape (1 + features, members)."""
        with np.errstate(invalid="ignore"):
            logs = np.vstack([self.log_probability, self.log_probability - self.effects])
        return np.where(self.knows, np.exp(logs), 0.0).astype(np.float32)


def _mean(effects: Floats, knows: npt.NDArray[np.bool_]) -> Floats:
    """Over the members that know the label; 0 where none does."""
    return effects[:, knows].mean(axis=1) if knows.any() else np.zeros(len(effects))


def _spread(effects: Floats, knows: npt.NDArray[np.bool_]) -> Floats:
    """Standard deviation over the members that know the label; 0 where none does."""
    return effects[:, knows].std(axis=1) if knows.any() else np.zeros(len(effects))


def _judged_effects(
    judge: Judge, label: int, members: _Walks, scores: npt.NDArray[np.float32], threads: int
) -> Floats:
    """The judge is asked about the input as it is, and without each feature."""
    probs = members.removals()
    labels = np.full(len(probs), label, dtype=np.int32)
    judged = judge.apply(labels, probs, scores, threads).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(judged)
        return np.where(members.knows, logs[:1] - logs[1:], np.nan)


def _scorer_removals(
    scorers: Scorers, label: int, columns: npt.NDArray[np.int32], values: Floats
) -> npt.NDArray[np.float32]:
    """What the scorers say of the whole input, then without each feature: shape (1 + features, scorers)."""
    classifier = scorers.classifier or scorers.centroids
    asked = _Walk(classifier, label, columns, values, HEADROOM)
    centroid = _Walk(scorers.centroids, label, columns, values, HEADROOM)
    logs = {
        "wide": (asked.log_probability, asked.effects),
        "label": (asked.own_log, asked.own_effects),
        "centroid": (centroid.log_probability, centroid.effects),
    }
    said = {}
    with np.errstate(invalid="ignore"):
        for name, (whole, effects) in logs.items():
            said[name] = np.concatenate([whole, whole[0] - effects[:, 0]])
        if scorers.floor:
            unasked = said["wide"] - said["label"] < np.log(scorers.floor)
            said["label"][unasked] = _log_probability(
                np.array(UNASKED_SCORE - HEADROOM), classifier.transform
            )
            said["wide"][unasked] = np.log(UNASKED_SHARE * scorers.floor) + said["label"][unasked]
    found = np.exp(np.column_stack([said[name] for name in scorers.names]))
    return np.asarray(np.nan_to_num(found), dtype=np.float32)


class _Walk:
    """The members of one tree on their way to a label; arrays have a column for each member.

    `own_log` and `own_effects` are of the last step alone. Scores of labels are lowered by the headroom.
    """

    def __init__(
        self,
        trained: TreeClassifier,
        label: int,
        columns: npt.NDArray[np.int32],
        values: Floats,
        headroom: float = 0.0,
    ) -> None:
        members = trained.members
        if not (trained.tree.labels == label).any():
            self.log_probability = self.own_log = np.full(members, -np.inf)
            self.effects = self.own_effects = np.full((len(columns), members), np.nan)
            self.bias = np.full(members, np.nan)
            self.paths: list[MemberPath | None] = [None] * members
            return
        nodes = trained.tree.path(label)
        self.effects = np.zeros((len(columns), members))
        self.bias = np.zeros(members)
        scores = np.empty((len(nodes), members))
        for layer, (parent, node) in enumerate(zip((0, *nodes), nodes, strict=False)):
            products, bias = _products(trained, layer, parent, node, columns, values)
            if layer + 1 == len(nodes):
                bias = bias - headroom
            score = bias + products.sum(axis=0)
            scores[layer] = score
            self.own_effects = _log_probability(score, trained.transform) - _log_probability(
                score - products, trained.transform
            )
            self.effects += self.own_effects
            self.bias += _log_probability(bias, trained.transform)
        logs = _log_probability(scores, trained.transform)
        self.log_probability, self.own_log = logs.sum(axis=0), logs[-1]
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
    """The one input in the form that the model reads."""
    if source.reader.kind == "features":
        if not sp.issparse(x) and np.ndim(x) == 1:
            x = np.reshape(x, (1, -1))
        as_rows(x, "x", columns=source.reader.width)  # refuses whatever is wrong
        return x if sp.issparse(x) else np.asarray(x, dtype=np.float32)
    records = source.reader.text_fields is not None
    if records and isinstance(x, Mapping | Record):
        return source.inputs([x])
    if sp.issparse(x) or isinstance(x, bytes) or not isinstance(x, str | Sequence | np.ndarray):
        wanted = "a mapping of names to texts" if records else "a string"
        raise TypeError(f"x is a {type(x).__name__}, but the model reads texts; give {wanted}")
    return source.inputs([x] if isinstance(x, str) else x)


def _one_row(source: Model, x: Any) -> sp.csr_array:
    """The features of the one input, with sorted indices; never the caller's own arrays."""
    rows = source.reader.plain_features(_as_inputs(source, x), source.threads).copy()
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
