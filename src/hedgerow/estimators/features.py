"""The classifiers that people use: scikit-learn's conventions over the engine."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from hedgerow.decisions.deciding import Costs, Decisions, Wish, decide
from hedgerow.decisions.learning import learn_policy
from hedgerow.decisions.policy import Policy
from hedgerow.evaluation import precision_at
from hedgerow.familiarity.score import OODDetector, OODScores, Signals
from hedgerow.inputs import rows as inputs
from hedgerow.inputs.labels import add_label_sections, encode_labels, truth_for, without_frame
from hedgerow.inputs.matrices import as_rows, as_truth
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import Hashes, TrainingRecord
from hedgerow.judge.calibration import Calibration
from hedgerow.judge.fitting import calibrate, calibrate_out_of_bag
from hedgerow.storage.container import Malformed, write_model
from hedgerow.training.fitting import Wanted, train_model
from hedgerow.training.members import (
    METHODS,
    TrainingData,
    as_costs,
    grow_tree,
)
from hedgerow.training.memory import Scratch, parse_bytes
from hedgerow.training.ray.crew import check_address
from hedgerow.trees.forest import Dropout, Ensemble, Search
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.votes import Votes

__all__ = ["HedgerowClassifier", "TopLabels"]

# Two nodes of the first layer of the tree, four of the second, eight of the third: an input belongs to few.
REACHES = ((1, 2), (2, 4), (3, 8))

MOST_MEMBERS = 4096
# Votes of a batch take about so many bytes.
_VOTE_BYTES = 1 << 27

Progress = Callable[[float, str], None]
Stage = Callable[[float], None] | None


_SEARCH_CONSTRAINTS: dict[str, list[Any]] = {
    "beam": [Interval(Integral, 1, None, closed="left")],
    "candidates": [StrOptions({"scored", "all"}), Interval(Integral, 1, None, closed="left")],
    "missing": [StrOptions({"exact", "delta", "bound"})],
}


@dataclass(frozen=True, eq=False)
class TopLabels:
    """The best labels of each input, best first.

    Attributes
    ----------
    labels : array, shape (n, k)
        Labels as in `classes_`: names, or columns of Y.
    probability : float32 array, shape (n, k)
        Their probabilities, falling along a row.
    """

    labels: npt.NDArray[Any]
    probability: npt.NDArray[np.float32]


class HedgerowClassifier(BaseEstimator):  # type: ignore[misc]
    """Extreme multi-label classifier: a tree of linear classifiers over sparse features (XR-Linear).

    Labels are clustered into a tree; every node has a linear classifier, trained on the inputs of its parent;
    prediction is a beam search from the root that multiplies probabilities along the way.

    Parameters
    ----------
    method : {"single", "mc-dropout", "bagging", "boosting", "boosted-bagging"}, default="single"
        How members are made. "single" is one tree. "mc-dropout" asks it several times, each time with other
        weights left out. "bagging" trains every member on a sample of the inputs, "boosting" on what the
        earlier members get wrong, "boosted-bagging" on both.
    members : int, default=10
        Number of members; "single" has one.
    trees : int or None, default=None
        Label trees that the members are spread over. None gives each its own, as in the paper; 1 is the
        fastest and smallest.
    alpha : float, default=0.5
        With boosting, the cost of an input where only an earlier mistake brings it, relative to the others.
    hard_negatives : int, default=10
        With boosting, a mistake is a wrong label among so many best ones.
    dropout : float, default=0.05
        With "mc-dropout", the share of weights that each pass leaves out.
    branching : int, default=8
        Children of a node of the tree.
    leaf_size : int, default=100
        Most labels below the last node.
    loss : {"squared_hinge", "logistic"}, default="squared_hinge"
        With the squared hinge, a score z means the probability exp(-max(0, 1 - z)**3); with logistic loss it
        is the sigmoid of z, and C should be about 10.
    C : float, default=1.0
        Cost of errors against the size of the weights.
    positive_cost, negative_cost : float, default=1.0
        Factors on C for inputs with and without the label.
    tolerance : float, default=0.1
        When the solver stops: largest violation of optimality.
    max_passes : int, default=100
        Most passes over the inputs of a node.
    weight_threshold : float, default=0.05
        Weights smaller than this are dropped. The paper's value is 1e-3; 0.05 predicts as well and
        makes the model several times smaller.
    negatives : {"tfn", "tfn+man"}, default="tfn"
        Which inputs a node learns from. "tfn" (teacher forcing): those that have a label below its parent.
        "tfn+man" (and matcher-aware): also those that the beam brings there; more accurate, several times
        slower.
    matcher_beam : int, default=20
        Width of that beam.
    bias : float, default=1.0
        Value of a constant feature; 0 leaves it out.
    normalize : bool, default=True
        Scale every input to length 1, in training and prediction.
    beam : int, default=50
        Nodes kept in each layer of the search. It grows by itself where k labels need more.
    candidates : {"scored", "all"} or int, default="scored"
        The labels that members vote on: all that the beam scored, all there are, or the best so many of each
        member, as in the paper.
    missing : {"exact", "delta", "bound"}, default="exact"
        Members search different ways. Where one did not meet a candidate of another: go there ("exact"), take
        0 ("delta", as in the paper), or the probability of the node where it turned away ("bound").
    n_jobs : int or None, default=None
        Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.
    cluster : {"auto", "local"}, str or None, default=None
        Fit on a Ray cluster: the one of this machine ("auto"), one that is started for the fit ("local"), or
        ``"ray://HOST:PORT"``. Needs ``pip install 'hedgerow[ray]'``. The model is the same, byte for byte.
    memory : str, int or None, default=None
        Fit within this much memory, such as "8GB": X and Y may be memory-mapped and larger (see
        `hedgerow.data.map_data`), and what does not fit lies in files, in the checkpoint folder or in that
        for temporary files. Mapped files do not count. The model is the same, byte for byte.
    random_state : int, RandomState or None, default=None
        Seed of the tree and the solver. The same integer gives the same model, byte for byte.

    Attributes
    ----------
    classes_ : array, shape (n_labels,)
        Names of the labels, or column numbers.
    tree_ : LabelTree
        The tree over the labels that occur in training.
    n_features_in_ : int
        Width of X.
    label_counts_ : int64 array, shape (n_labels,), or None
        How many training inputs have each label; None for imported models and old files.
    n_samples_ : int or None
        Number of training inputs.
    ood_detector_ : OODDetector
        What `learn_ood` learned; absent before.
    training_ : TrainingRecord or None
        Hashes of the training data; None for imported models and old files.
    calibration_ : Calibration
        What `calibrate` learned; absent before.
    policy_ : Policy
        What `learn_policy` learned; absent before.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> X = csr_array(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]))
    >>> Y = [["hawthorn"], ["blackthorn"], ["holly"], ["hawthorn", "blackthorn"]]
    >>> model = HedgerowClassifier(random_state=0).fit(X, Y)
    >>> model.top(X[:2], k=1).labels
    array([['hawthorn'],
           ['blackthorn']], dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "method": [StrOptions(set(METHODS))],
        "members": [Interval(Integral, 1, MOST_MEMBERS, closed="both")],
        "trees": [Interval(Integral, 1, MOST_MEMBERS, closed="both"), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "hard_negatives": [Interval(Integral, 1, 100, closed="both")],
        "dropout": [Interval(Real, 0, 1, closed="neither")],
        "branching": [Interval(Integral, 2, 1024, closed="both")],
        "leaf_size": [Interval(Integral, 1, None, closed="left")],
        "loss": [StrOptions({"squared_hinge", "logistic"})],
        "C": [Interval(Real, 0, None, closed="neither")],
        "positive_cost": [Interval(Real, 0, None, closed="neither")],
        "negative_cost": [Interval(Real, 0, None, closed="neither")],
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_passes": [Interval(Integral, 1, None, closed="left")],
        "weight_threshold": [Interval(Real, 0, None, closed="left")],
        "negatives": [StrOptions({"tfn", "tfn+man"})],
        "matcher_beam": [Interval(Integral, 1, None, closed="left")],
        "bias": [Interval(Real, 0, None, closed="left")],
        "normalize": ["boolean"],
        **_SEARCH_CONSTRAINTS,
        "n_jobs": [Integral, None],
        "cluster": [str, None],
        "memory": [str, Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        method: str = "single",
        members: int = 10,
        trees: int | None = None,
        alpha: float = 0.5,
        hard_negatives: int = 10,
        dropout: float = 0.05,
        branching: int = 8,
        leaf_size: int = 100,
        loss: str = "squared_hinge",
        C: float = 1.0,
        positive_cost: float = 1.0,
        negative_cost: float = 1.0,
        tolerance: float = 0.1,
        max_passes: int = 100,
        weight_threshold: float = 0.05,
        negatives: str = "tfn",
        matcher_beam: int = 20,
        bias: float = 1.0,
        normalize: bool = True,
        beam: int = 50,
        candidates: str | int = "scored",
        missing: str = "exact",
        n_jobs: int | None = None,
        cluster: str | None = None,
        memory: str | int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.members = members
        self.trees = trees
        self.alpha = alpha
        self.hard_negatives = hard_negatives
        self.dropout = dropout
        self.branching = branching
        self.leaf_size = leaf_size
        self.loss = loss
        self.C = C
        self.positive_cost = positive_cost
        self.negative_cost = negative_cost
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.weight_threshold = weight_threshold
        self.negatives = negatives
        self.matcher_beam = matcher_beam
        self.bias = bias
        self.normalize = normalize
        self.beam = beam
        self.candidates = candidates
        self.missing = missing
        self.n_jobs = n_jobs
        self.cluster = cluster
        self.memory = memory
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        classes: Sequence[str] | None = None,
        tree: LabelTree | None = None,
        label_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        """Grow the trees and train the members.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Features; dense arrays work, too.
        Y : indicator matrix of shape (n, L), or list of lists of labels
            The labels of each input. Columns without a label are never predicted; inputs without a label
            teach what has none.
        classes : sequence of str, optional
            Names of the columns of an indicator matrix.
        tree : LabelTree, optional
            A tree of your own, over columns of Y, for all members.
        label_features : sparse matrix, shape (L, f), optional
            Cluster the labels by these vectors instead of by the inputs that carry them.
        sample_weight : array, shape (n,), optional
            Factor on C for each input; 0 leaves it out.
        checkpoint : path-like, optional
            A folder for the members of an ensemble that are done and, on a cluster, for blocks of nodes that
            are done. A fit that was stopped goes on from there, if data and parameters are the same, and ends
            with the same model.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        self
        """
        return self._fit(
            X,
            Y,
            None,
            classes=classes,
            tree=tree,
            label_features=label_features,
            sample_weight=sample_weight,
            checkpoint=checkpoint,
            progress=progress,
        )

    # Texts are known again by their own hashes, rows of features by those of the rows.
    def _fit(
        self,
        X: Any,
        Y: Any,
        hashes: Hashes | None,
        *,
        classes: Sequence[str] | None = None,
        tree: LabelTree | None = None,
        label_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        self._check_parameters()
        threads = self._threads()
        rows = as_rows(X, threads=threads)
        count, width = X.shape if hasattr(X, "shape") else np.shape(X)
        matrix, labels, names = encode_labels(Y, count, classes, threads)
        data = TrainingData(rows, labels, matrix, width, as_costs(sample_weight, count))
        self._check_tree(tree, label_features, matrix.shape[1])
        seed = self._seed()
        wanted = Wanted(data, seed, tree, label_features)
        trained = train_model(self, wanted, checkpoint, [], progress)
        self._adopt(trained, seed, names)
        self.label_counts_: npt.NDArray[np.int64] | None = np.bincount(
            matrix.indices, minlength=matrix.shape[1]
        ).astype(np.int64)
        self.n_samples_: int | None = count
        known = rows.hashes(threads) if hashes is None else hashes
        self.training_: TrainingRecord | None = TrainingRecord.of(known, matrix, seed)
        return self

    def add_members(
        self,
        X: Any,
        Y: Any,
        count: int,
        *,
        tree: LabelTree | None = None,
        label_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        """Train more members on the same data.

        With a tree for each member, the result is the same as if all had been asked for at once.

        Parameters
        ----------
        X, Y, tree, label_features, sample_weight
            What the ensemble was fitted to, in the same order. Other inputs or labels are refused: the model
            could no longer tell which inputs it was trained on.
        count : int
            How many members to add.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        self
        """
        return self._add_members(
            X,
            Y,
            None,
            count,
            tree=tree,
            label_features=label_features,
            sample_weight=sample_weight,
            progress=progress,
        )

    def _add_members(
        self,
        X: Any,
        Y: Any,
        hashes: Hashes | None,
        count: int,
        *,
        tree: LabelTree | None = None,
        label_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        check_is_fitted(self, "tree_")
        if self.method in ("single", "mc-dropout"):
            raise ValueError(f"method {self.method!r} has no members to add to; fit with method='bagging'")
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError("members can be added only to a model with an integer random_state")
        self._check_parameters()
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"count is {count!r}; it must be a positive integer")
        if self.members + count > MOST_MEMBERS:
            raise ValueError(
                f"count is {count}, but a model has at most {MOST_MEMBERS} members and this one has"
                f" {self.members}"
            )
        if self._trees() != self.members:
            raise ValueError(f"{self.members} members share {self._trees()} trees; fit them anew")
        threads = self._threads()
        rows = as_rows(X, columns=self.n_features_in_, threads=threads)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        known = {name: number for number, name in enumerate(self.classes_.tolist())}
        Y = without_frame(Y)
        if not (sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.dtype != object)):
            Y = _indicator([list(labels) for labels in Y], known)
        matrix, labels, _ = encode_labels(Y, n, None, threads)
        if matrix.shape[1] != len(self.classes_):
            raise ValueError(
                f"Y has {matrix.shape[1]} columns, but the model knows {len(self.classes_)} labels"
            )
        if self.training_ is not None:
            self.training_.check_same(rows.hashes(threads) if hashes is None else hashes, matrix)
        data = TrainingData(rows, labels, matrix, self.n_features_in_, as_costs(sample_weight, n))
        self._check_tree(tree, label_features, matrix.shape[1])
        before = {"members": self.members, "trees": self.trees}
        self.members += int(count)
        if self.trees is not None:
            self.trees += int(count)
        try:
            seed = self._seed()
            done = list(self._ensemble.trees)
            wanted = Wanted(data, seed, tree, label_features)
            trained = train_model(self, wanted, None, done, progress)
        except BaseException:
            self.set_params(**before)
            raise
        self._adopt(trained, seed, self.classes_)
        return self

    def top(self, X: Any, k: int = 5, *, exact: bool = False, progress: Progress | None = None) -> TopLabels:
        """The k most probable labels of each input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        k : int
            Labels for each input; at most as many as the model knows.
        exact : bool
            Search on, best node first, until no other label can be among the best k, whatever the beam.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        TopLabels
        """
        check_is_fitted(self, "tree_")
        k = self._check_k(k)
        labels, probability = self._top(X, k, exact, progress)
        return TopLabels(self.classes_[labels], probability)

    def predict_uncertain(
        self, X: Any, k: int = 5, *, tolerance: float | None = None, progress: Progress | None = None
    ) -> UncertainLabels:
        """The k most probable labels of each input, and how sure the model is of each and of the input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        k : int
            Labels for each input; at most as many as the model knows.
        tolerance : float, optional
            Search on, whatever the beam, until no label that was missed can have a higher probability, before
            calibration. It does not hold with a number of `candidates`, which leaves out labels that the
            search met.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        UncertainLabels
        """
        check_is_fitted(self, "tree_")
        k = self._check_k(k)
        if hasattr(self, "calibration_"):
            return self._calibrated(X, k, self._search(tolerance), progress)
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        found = self._ensemble.uncertain(rows, k, self._search(tolerance), _stage(progress, "predicting"))
        return UncertainLabels.from_search(found, self.classes_)

    def predict_votes(
        self, X: Any, *, tolerance: float | None = None, progress: Progress | None = None
    ) -> Votes:
        """What every member says of every candidate label.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        tolerance : float, optional
            As of `predict_uncertain`.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        Votes
        """
        check_is_fitted(self, "tree_")
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        found = self._ensemble.votes(rows, self._search(tolerance), _stage(progress, "predicting"))
        probs, bound, missed = found.probs, found.bound, found.missed
        calibration: Calibration | None = getattr(self, "calibration_", None)
        if calibration is not None:
            calibration.check_fits(len(self.classes_), probs.shape[1])
            probs = calibration.moved(found.labels, probs, self._threads())
            bound, missed = cast(Any, calibration.certificate(bound))
        return Votes(found.indptr, found.labels, probs, len(self.classes_), bound, missed, self.classes_)

    def calibrate(
        self,
        X: Any,
        Y: Any,
        *,
        method: str = "isotonic",
        by: str = "all",
        of: str = "mean",
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        """Learn from held-out data how often probabilities come true, and mend them from now on.

        Whatever gives probabilities or measures of doubt then gives calibrated ones; `uncalibrated` is the
        way back. The model file keeps the calibration. Fitting the model anew, or adding members, forgets it.
        It holds for the search it was learned with: set `beam`, `candidates` and `missing` before.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            At least 50 inputs, better some hundred, that the model was *not* trained on. Those that it was
            trained on are left out, and if they are more than 5 %, the data are refused. Imported models and
            old files cannot tell.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels. Labels that the model does not know count nowhere, as do those that the search does
            not find.
        method : {"isotonic", "platt", "temperature", "beta"}, default="isotonic"
            The family of maps from probabilities to probabilities.
        by : {"all", "depth", "frequency"}, default="all"
            One map for all labels, which keeps their order; or one for each of up to five groups of labels,
            by how deep they lie in the trees (a tree that lacks a label counts 0) or by how frequent they are
            in training.
        of : {"mean", "members"}, default="mean"
            Calibrate the mean of the members, or each of them.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self

        See Also
        --------
        calibrate_out_of_bag : With the training data, where members have not seen all of them.
        """
        check_is_fitted(self, "tree_")
        found = calibrate(self, X, Y, method=method, by=by, of=of, progress=progress)
        self._adopt_calibration(found)
        return self

    def calibrate_out_of_bag(
        self,
        X: Any,
        Y: Any,
        *,
        method: str = "isotonic",
        by: str = "all",
        of: str = "mean",
        sample_weight: npt.ArrayLike | None = None,
        most: int = 10_000,
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        """Calibrate with the training data: of each input, ask only the members that were not trained on it.

        A member of "bagging" or "boosted-bagging" has not seen 37 % of the inputs. So no data need be held
        out.

        Parameters
        ----------
        X, Y, sample_weight
            What the model was fitted to, in the same order.
        method, by, of : str
            As of `calibrate`.
        most : int, default=10000
            Of how many inputs, evenly spread, to ask at most.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self
        """
        check_is_fitted(self, "tree_")
        found = calibrate_out_of_bag(
            self, X, Y, method=method, by=by, of=of, sample_weight=sample_weight, most=most, progress=progress
        )
        self._adopt_calibration(found)
        return self

    def uncalibrated(self) -> HedgerowClassifier:
        """The same model without its calibration; members and all else are shared, not copied."""
        check_is_fitted(self, "tree_")
        plain = copy.copy(self)
        plain.__dict__.pop("calibration_", None)
        plain.__dict__.pop("policy_", None)  # its thresholds are for calibrated probabilities
        return plain

    def seen_in_training(self, X: Any) -> npt.NDArray[np.bool_]:
        """Which inputs the model was trained on.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.

        Returns
        -------
        bool array, shape (n,)
            By a 64-bit hash of the input, exactly as it was. Imported models and old files do not remember
            their training data: there, none counts as seen.
        """
        check_is_fitted(self, "tree_")
        return self._is_seen(self._hashes(self._inputs(X)))

    def learn_ood(self, X: Any) -> HedgerowClassifier:
        """Learn what familiar inputs look like, so that `ood` can tell the others.

        The model file keeps it. Fitting the model anew, or adding members, forgets it.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            At least 40 inputs, better some hundred, that are like those to come and that the model was *not*
            trained on: to a model, its training data look more familiar than anything else will. Every other
            one teaches what is usual and the rest gives the p-values, so shuffle inputs whose kinds take
            turns.

        Returns
        -------
        self
        """
        self.ood_detector_ = OODDetector.learn(self._signals(X))
        if hasattr(self, "policy_"):
            self.policy_: Policy = self.policy_.without_ood()
        return self

    def learn_policy(
        self, X: Any, Y: Any, *, tolerance: float | None = None, progress: Progress | None = None
    ) -> HedgerowClassifier:
        """Learn from held-out data what can be guaranteed, so that `decide` can keep it.

        The model file keeps the policy. Fitting the model anew, adding members and calibrating forget it. It
        holds for the search it was learned with: set `beam`, `candidates` and `missing` before.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs that are like those to come, and that took no part in training, in calibration and in what
            is familiar. Those that the model was trained on are left out, and if they are more than 5 %, the
            data are refused. For a guarantee of risk r about rejected labels at least 1/r - 1 are needed, and
            some hundred to guarantee something useful.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels. Labels that the model does not know are always missed.
        tolerance : float, optional
            As of `predict_votes`; `decide` then searches as far.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self

        See Also
        --------
        learn_from_held_out : Cuts data and learns calibration, familiarity and policy, each from its own
        rows.
        """
        check_is_fitted(self, "tree_")
        self.policy_ = learn_policy(self, X, Y, tolerance=tolerance, progress=progress)
        return self

    def decide(
        self,
        X: Any,
        *,
        risk: float | None = None,
        costs: Costs | None = None,
        size: float | None = None,
        by: str = "probability",
        coverage: float | None = None,
        groups: bool = False,
        confidence: float = 0.9,
        inputs_by: str | None = None,
        inputs_risk: float | None = None,
        inputs_coverage: float | None = None,
        false_alarm: float | None = 0.05,
        k: int = 5,
        progress: Progress | None = None,
    ) -> Decisions:
        """Whether to accept each label, to let a person look, or to reject it.

        Guarantees hold on average over inputs like those that the policy was learned from. They do not hold
        for
        each label, nor after a change of the inputs.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        risk : float, optional
            Labels are rejected so that on average at most this share of an input's true labels is, and
            accepted so that on average at most this share of what an input is given is wrong, where an input
            that is given nothing counts as 0; a person looks at those between. Where the second guarantee
            allows more than the first, nothing is left to look at.
            0.1 if neither costs nor size are given.
        costs : Costs, optional
            Do with each label what costs least on average. It needs calibrated probabilities.
        size : float, optional
            Accept the most probable labels, on average at most so many of an input, and reject the rest.
        by : {"probability", "total", "data", "knowledge", "variance"}, default="probability"
            Accept by lack of this doubt; then only labels with a probability of one half or more.
        coverage : float, optional
            In place of the guarantee about wrong labels: accept on average at least this share of an input's
            labels with a probability of one half or more.
        groups : bool, default=False
            Keep the guarantee about rejected labels for rare and for frequent labels alike.
        confidence : float, default=0.9
            The chance, over the data that the policy was learned from, that the guarantee about wrong labels
            is
            kept.
        inputs_by : {"top", "expected", "total", "data", "knowledge", "variance", "ood"}, optional
            Withhold the answer on inputs that are most doubtful by this: what would have been accepted is to
            be reviewed. "top" is 1 less the highest probability; few expected labels are doubtful; the others
            are sums over the labels.
        inputs_risk : float, optional
            With `inputs_by`: of the inputs that are answered, the best label of at most this share is wrong.
        inputs_coverage : float, optional
            With `inputs_by`: at least this share of the inputs is answered.
        false_alarm : float or None, default=0.05
            The share of familiar inputs that may be flagged as out-of-distribution inputs; None flags none.
            Flags need
            `learn_ood`, and change no decision.
        k : int, default=5
            List at least so many labels of each input, also if they are rejected.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        Decisions

        Examples
        --------
        >>> from hedgerow import HedgerowTextClassifier
        >>> texts = ["a thorny shrub", "a thorny twig", "an evergreen tree", "the evergreen holly"] * 30
        >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]] * 30
        >>> model = HedgerowTextClassifier(method="bagging", random_state=0).fit(texts, labels)
        >>> held_out = [f"{text} {number}" for number, text in enumerate(texts)]
        >>> model = model.learn_policy(held_out, labels)
        >>> model.decide(["a thorny shrub too"], risk=0.1)[0].accept
        ['hawthorn']
        """
        check_is_fitted(self, "tree_")
        wish = Wish(
            risk, costs, size, by, coverage, groups, confidence, inputs_by, inputs_risk, inputs_coverage
        )
        return decide(self, self._inputs(X), wish, false_alarm=false_alarm, k=k, progress=progress)

    def ood_scores(self, X: Any) -> OODScores:
        """How unlike the training data each input is.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.

        Returns
        -------
        OOD score
            High scores and low p-values are those of out-of-distribution inputs.
        """
        check_is_fitted(self, "tree_")
        if not hasattr(self, "ood_detector_"):
            raise NotFittedError(
                "the model has not learned what is familiar; call learn_ood with inputs that it was not"
                " trained on"
            )
        return self.ood_detector_.judge(self._signals(X))

    def predict_proba(self, X: Any, k: int = 100) -> sp.csr_array:
        """Probabilities of the best labels of each input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        k : int
            Labels for each input, if the model knows so many.

        Returns
        -------
        csr_array of float32, shape (n, n_labels)
            The best k labels of each row; every other label counts as 0.
        """
        check_is_fitted(self, "tree_")
        k = self._check_k(min(k, self._ensemble.known))
        labels, probability = self._top(X, k, False, None)
        n = len(labels)
        indptr = np.arange(0, n * k + 1, k, dtype=np.int64)
        matrix = sp.csr_array((probability.ravel(), labels.ravel(), indptr), shape=(n, len(self.classes_)))
        matrix.sort_indices()
        return matrix

    def predict(self, X: Any) -> sp.csr_array:
        """Labels whose probability is at least one half.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.

        Returns
        -------
        csr_array of int8, shape (n, n_labels)
            1 where a label is predicted.
        """
        matrix = self.predict_proba(X)
        chosen = matrix.data >= 0.5
        indptr = np.concatenate([[0], np.cumsum(chosen)])[matrix.indptr]
        ones = np.ones(int(chosen.sum()), dtype=np.int8)
        return sp.csr_array((ones, matrix.indices[chosen], indptr), shape=matrix.shape)

    def score(self, X: Any, Y: Any) -> float:
        """Precision at 1: how often the most probable label is right, over inputs that have labels.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        Y : indicator matrix of shape (n, L), or list of lists of labels
            Their labels.

        Returns
        -------
        float
        """
        check_is_fitted(self, "tree_")
        X, truth = self._inputs_and_truth(X, Y)
        column = {name: number for number, name in enumerate(self.classes_.tolist())}
        best = [[column[label]] for label in self.top(X, k=1).labels[:, 0].tolist()]
        return precision_at(np.array(best), truth, 1)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool
            Replace an existing file. It stays as it was until the new one is complete.
        """
        check_is_fitted(self, "tree_")
        sections: dict[str, Any] = dict(self._ensemble.to_sections())
        header = {
            "kind": "features",
            "parameters": self._plain_parameters(),
            "labels": len(self.classes_),
            "trees": self._ensemble.to_header(),
        }
        if self._ensemble.dropout is not None:
            header["dropout"] = asdict(self._ensemble.dropout)
        if hasattr(self, "ood_detector_"):
            header["familiar"] = list(self.ood_detector_.names)
            sections |= self.ood_detector_.to_sections()
        if hasattr(self, "calibration_"):
            header["calibration"] = self.calibration_.to_header()
            sections |= self.calibration_.to_sections()
        if hasattr(self, "policy_"):
            header["policy"], arrays = self.policy_.to_sections()
            sections |= arrays
        add_label_sections(self.classes_, sections, header)
        if self.label_counts_ is not None:
            sections["label_counts"] = self.label_counts_
            header["rows"] = self.n_samples_
        if self.training_ is not None:
            sections["seen"] = self.training_.seen
            header["training"] = {"fingerprint": self.training_.fingerprint, "seed": self.training_.seed}
        self._extend(sections, header)
        write_model(path, sections, header, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> HedgerowClassifier:
        """Open a model file. Its arrays stay in the file and are shared by all processes that open it.

        Parameters
        ----------
        path : path-like
            The file.
        verify : bool
            Check every byte. False opens a file of any size in milliseconds: it checks the header, the label
            trees, the vocabulary and the bounds of sections and chunks, but neither checksums nor the rows of
            the chunks. Use it for files that you verified once, and never for those of someone else.

        Returns
        -------
        HedgerowClassifier, HedgerowTextClassifier or HedgerowTransformerClassifier
        """
        from hedgerow.saving import load

        model = load(path, verify)
        if not isinstance(model, cls):
            raise Malformed(f"{os.fspath(path)} holds a {type(model).__name__}; open it with hedgerow.load")
        return model

    def describe(self) -> dict[str, Any]:
        """What the model is, for people and programs."""
        check_is_fitted(self, "tree_")
        ensemble = self._ensemble
        tables = [tree.native.table() for tree in ensemble.trees]
        return {
            "type": type(self).__name__,
            "method": self.method,
            "members": ensemble.members,
            "labels": len(self.classes_),
            "labels_in_tree": len(self.tree_.labels),
            "features": self.n_features_in_,
            "trees": len(ensemble.trees),
            "layers": list(self.tree_.layer_sizes),
            "transform": ensemble.transform,
            "weights": sum(tree.weights for tree in ensemble.trees),
            "bytes_of_weights": sum(int(table[:, 1].sum()) for table in tables),
            "calibration": self.calibration_.describe() if hasattr(self, "calibration_") else None,
            "policy": self.policy_.describe() if hasattr(self, "policy_") else None,
            "parameters": self._plain_parameters(),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def _signals(self, X: Any) -> Signals:
        check_is_fitted(self, "tree_")
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        reach = self._ensemble.reach(rows, REACHES, self._threads())
        return Signals(*(np.ascontiguousarray(column) for column in reach.T))

    def _top(
        self, X: Any, k: int, exact: bool, progress: Progress | None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """The best labels and their probabilities, calibrated if the model is."""
        calibration: Calibration | None = getattr(self, "calibration_", None)
        search = self._search(None)
        if calibration is not None and not calibration.keeps_order:
            if exact:
                search = replace(search, candidates="all")
            found = self._calibrated(X, k, search, progress, numbered=True)
            return found.labels, found.probability
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        labels, probability = self._ensemble.top(rows, k, exact, search, _stage(progress, "predicting"))
        if calibration is not None:
            calibration.check_fits(len(self.classes_), self._ensemble.members)
            moved = calibration.moved(labels.ravel(), probability.reshape(-1, 1), self._threads())
            probability = moved.reshape(probability.shape)
        return labels, probability

    def _calibrated(
        self, X: Any, k: int, search: Search, progress: Progress | None, numbered: bool = False
    ) -> UncertainLabels:
        """As `predict_uncertain`, by way of the votes, which calibration moves; labels may stay numbers."""
        calibration = self.calibration_
        calibration.check_fits(len(self.classes_), self._ensemble.members)
        parts = []
        for votes in self._vote_batches(X, search, progress, k, named=not numbered):
            parts.append(
                UncertainLabels.from_votes(
                    calibration.apply(votes, n_jobs=self.n_jobs),
                    k,
                    ranked_by=_float_means(votes.probs) if calibration.keeps_order else None,
                    n_jobs=self.n_jobs,
                )
            )
        return UncertainLabels.concatenate(parts)

    def _vote_batches(
        self,
        X: Any,
        search: Search,
        progress: Progress | None,
        k: int = 1,
        named: bool = False,
    ) -> Iterator[Votes]:
        """What the members say, not calibrated, in batches about as large as they may be."""
        threads = self._threads()
        as_rows(X, columns=self.n_features_in_, threads=threads)
        features = sp.csr_array(
            cast(Any, X if sp.issparse(X) else np.asarray(X, dtype=np.float32)), dtype=np.float32
        )
        each = self._ensemble.rows_each
        count = features.shape[0] // each
        begin, size = 0, 16
        names = self.classes_ if named else None
        while begin < count:
            end = min(begin + size, count)
            some = as_rows(features[begin * each : end * each], columns=self.n_features_in_, threads=threads)
            found = self._ensemble.votes(some, search, k=k)
            yield Votes(
                found.indptr, found.labels, found.probs, len(self.classes_), found.bound, found.missed, names
            )
            size = max(1, min(4096, int((end - begin) * _VOTE_BYTES / max(1, found.probs.nbytes))))
            begin = end
            del found
            if progress is not None:
                progress(begin / count, "predicting")

    def _adopt_calibration(self, found: Calibration) -> None:
        self.__dict__.pop("policy_", None)  # its thresholds were for other probabilities
        self.calibration_ = found

    # What must hold for inputs to be unknown to members that did not draw them.
    def _check_out_of_bag(self) -> None:
        if "bagging" not in self.method:
            raise ValueError(
                f"every member of method {self.method!r} has seen all training data; calibrate with held-out"
                " data, or fit with method='bagging'"
            )
        if self.training_ is None:
            raise ValueError(
                "the model does not remember its training data, as it was imported or its file is old;"
                " calibrate with held-out data"
            )

    def _inputs_and_truth(self, X: Any, Y: Any) -> tuple[Any, sp.csr_array]:
        X = self._inputs(X)
        truth = truth_for(Y, self.classes_)
        if inputs.count(X) != truth.shape[0]:
            raise ValueError(f"there are {inputs.count(X)} inputs, but labels for {truth.shape[0]}")
        return X, as_truth(truth, truth.shape[0], len(self.classes_))

    def _is_seen(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        return np.zeros(len(hashes), dtype=bool) if self.training_ is None else self.training_.has(hashes)

    # Inputs that can be counted, hashed and taken apart; HedgerowTextClassifier has another kind.
    def _inputs(self, X: Any) -> Any:
        return X if hasattr(X, "shape") else np.asarray(X)

    def _hashes(self, X: Any) -> Hashes:
        threads = self._threads()
        return as_rows(X, columns=self.n_features_in_, threads=threads).hashes(threads)

    # What HedgerowTextClassifier adds to a file.
    def _extend(self, sections: dict[str, Any], header: dict[str, Any]) -> None:
        pass

    # From inputs as users have them to features; HedgerowTextClassifier has more to do.
    def _transform(self, X: Any) -> Any:
        return X

    # What a member learns from; members of HedgerowTransformerClassifier may have features of their own.
    def _seen_by(self, number: int, data: TrainingData) -> TrainingData:
        return data

    # Whether the engine scales inputs to length 1.
    def _scales_rows(self) -> bool:
        return self.normalize

    def _check_parameters(self) -> None:
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name=type(self).__name__
        )
        if self.cluster is not None:
            check_address(self.cluster)
        if self.memory is not None:
            parse_bytes(self.memory)
            if self.cluster is not None:
                raise ValueError("memory is that of a fit on one machine; leave it out, or cluster")
            if self.method not in ("single", "mc-dropout") and self._trees() != self.members:
                raise ValueError("members that share a tree are merged in memory; leave out trees, or memory")

    def _threads(self) -> int:
        return threads_for(self.n_jobs)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_k(self, k: Any) -> int:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise TypeError(f"k is {k!r}; it must be an integer")
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one label")
        known = self._ensemble.known
        if k > known:
            raise ValueError(f"k is {k}, but the model knows only {known} labels; ask for {known} or fewer")
        return int(k)

    def _trees(self) -> int:
        return self.members if self.trees is None else int(self.trees)

    def _check_tree(self, tree: LabelTree | None, label_features: Any, columns: int) -> None:
        if self.trees is not None and self.trees > self.members:
            raise ValueError(
                f"trees is {self.trees}, but there are only {self.members} members to spread over them"
            )
        if tree is None:
            return
        if label_features is not None:
            raise ValueError("give either tree or label_features, not both")
        if not isinstance(tree, LabelTree):
            raise TypeError(
                f"tree is a {type(tree).__name__}; build a LabelTree, such as with LabelTree.from_clusters"
            )
        if int(tree.labels.max()) >= columns:
            raise ValueError(f"the tree has label {tree.labels.max()}, but Y has only {columns} columns")

    def _adopt(self, trained: list[TreeClassifier], seed: int, names: npt.NDArray[Any]) -> None:
        self._ensemble = self._assemble(trained, seed, len(names))
        self.__dict__.pop("ood_detector_", None)
        self.__dict__.pop("calibration_", None)
        self.__dict__.pop("policy_", None)
        self.classes_ = names
        self.n_features_in_ = self._ensemble.features
        self.tree_ = self._ensemble.tree

    def _assemble(self, trained: list[TreeClassifier], seed: int, labels: int) -> Ensemble:
        dropout = Dropout(self.dropout, self.members, seed) if self.method == "mc-dropout" else None
        return Ensemble(trained, labels, dropout)

    def _grow(
        self,
        data: TrainingData,
        label_features: Any,
        costs: npt.NDArray[np.float32] | None,
        seed: int,
        threads: int,
        progress: Stage,
        scratch: Scratch | None = None,
    ) -> LabelTree:
        settings = self._tree_settings(seed)
        return grow_tree(
            data, label_features, costs, **settings, threads=threads, progress=progress, scratch=scratch
        )

    def _tree_settings(self, seed: int) -> dict[str, Any]:
        """How labels are clustered."""
        return {
            "branching": self.branching,
            "leaf_size": _within_int32(self.leaf_size),
            "normalize": self._scales_rows(),
            "seed": seed,
        }

    def _solver_settings(self, alpha: float, seed: int) -> dict[str, Any]:
        """What the engine's `train` is told beside the data."""
        return {
            "loss": self.loss,
            "negative_share": alpha,
            "C": self.C,
            "positive_cost": self.positive_cost,
            "negative_cost": self.negative_cost,
            "bias": self.bias,
            "tolerance": self.tolerance,
            "max_passes": _within_int32(self.max_passes),
            "weight_threshold": self.weight_threshold,
            "matcher_beam": _within_int32(self.matcher_beam) if self.negatives == "tfn+man" else 0,
            "normalise": self._scales_rows(),
            "seed": seed,
        }

    def _search(self, tolerance: float | None) -> Search:
        # Not all parameters: that would take as long as the search for one input.
        own = {"beam": self.beam, "candidates": self.candidates, "missing": self.missing}
        validate_parameter_constraints(_SEARCH_CONSTRAINTS, own, type(self).__name__)
        if tolerance is not None and not (_is_probability(tolerance)):
            raise ValueError(f"tolerance is {tolerance!r}; it is a probability, between 0 and 1")
        candidates = self.candidates if isinstance(self.candidates, str) else _within_int32(self.candidates)
        return Search(
            _within_int32(self.beam),
            candidates,
            self.missing,
            math.inf if tolerance is None else float(tolerance),
            self._threads(),
        )

    def _plain_parameters(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name, value in sorted(self.get_params(deep=False).items()):
            if isinstance(value, np.generic):
                value = value.item()
            if name in ("cluster", "memory"):
                continue
            # A model file must not depend on how many threads made it, nor can it hold a random generator.
            if name == "n_jobs" or (name == "random_state" and not isinstance(value, int)):
                value = None
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain


def _within_int32(size: int) -> int:
    """The engine counts in 32 bits; whatever is larger means "no limit"."""
    return min(int(size), np.iinfo(np.int32).max)


def _indicator(Y: list[list[Any]], known: dict[Any, int]) -> sp.csr_array:
    """Lists of labels as a matrix over the labels of a model."""
    columns = []
    for row, labels in enumerate(Y):
        for label in labels:
            if label not in known:
                raise ValueError(f"input {row} has the label {label!r}, which the model does not know")
            columns.append(known[label])
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in Y])])
    return sp.csr_array(
        (np.ones(len(columns), dtype=np.float32), columns, indptr), shape=(len(Y), len(known))
    )


def _float_means(probs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Means rounded as the engine rounds them, so that both rank alike."""
    sums = probs[:, 0].copy()
    for member in range(1, probs.shape[1]):
        sums += probs[:, member]
    sums *= np.float32(1) / np.float32(probs.shape[1])
    return sums


def _is_probability(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) <= 1


def _stage(progress: Progress | None, what: str) -> Stage:
    return None if progress is None else lambda share: progress(share, what)
