"""The classifier for matrices of features."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.estimators.judged import Judged, Judging, train_judged
from hedgerow.estimators.keeping import check_kept, first_records
from hedgerow.estimators.name_learning import Lesson, with_names
from hedgerow.estimators.parameters import FitOptions
from hedgerow.estimators.updating import Updating
from hedgerow.features.damping import Damping
from hedgerow.features.readers import MatrixReader, Reader
from hedgerow.inputs.labels import LabelledRows, encode_labels, without_frame
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.parameters import check_integer
from hedgerow.inputs.rows import count as count_inputs
from hedgerow.inputs.search import FLOOR
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import Hashes, TrainingRecord
from hedgerow.judge.judging import LeftOut, NoJudge
from hedgerow.model import Model
from hedgerow.progress import Progress
from hedgerow.training.data import TrainingData, as_costs
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import MOST_MEMBERS, Method
from hedgerow.training.trainer import train
from hedgerow.trees.forest import Dropout, Ensemble
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.vocabulary.coverage import check_vocabulary
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["HedgerowClassifier", "TrainingInputs"]


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Training inputs: rows, hashes, the reader for further ones, and what each member sees."""

    reader: Reader
    rows: Any
    hashes: Hashes
    views: Callable[[int], TrainingData] | None = None
    embeddings: npt.NDArray[Any] | None = None  # for names of labels to be compared with


class HedgerowClassifier(Updating):
    """Extreme multi-label classifier: a tree of linear classifiers over sparse features (XR-Linear).

    Labels are clustered into a tree; every node has a linear classifier, trained on the inputs of its parent;
    prediction is a beam search from the root that multiplies probabilities along the way.

    Parameters
    ----------
    method : {"single", "mc-dropout", "bagging", "boosting", "boosted-bagging"}, default="single"
        How members are made. "single" is one tree. "mc-dropout" asks it several times, each time without
        some other weights. "bagging" trains every member on a sample of the inputs, "boosting" on what the
        earlier members get wrong, "boosted-bagging" on both.
    members : int, default=10
        Number of members; "single" has one.
    trees : int or None, default=None
        Label trees that the members are spread over. None gives each its own, as in the paper; 1 is the
        fastest and smallest.
    alpha : float, default=0.5
        With boosting, the cost of an input where only an earlier mistake brings it, relative to the others.
    hard_negatives : int, default=10
        With boosting, a mistake is a wrong label among this many best ones.
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
    dampen : bool, default=False
        Take the square roots of features, and give more weight to those that few inputs have: for counts of
        words and tf-idf without a logarithm, where a word that is repeated often drowns the others. Not
        with `memory` or `cluster`.
    judge : bool, default=False
        Let the trees find candidates and a learned judge score them: it weighs what the members say, how
        frequent a label is, how close the input is to the label's other inputs, what a wide classifier says
        and, of that or of a single tree, what the label's own classifier says without the groups of labels
        that lead to it. Probabilities are calibrated, and members keep their disagreement. It learns from
        some inputs before the model learns from them; the model learns from all. A judge that does not rank
        better than the members alone is left out; ``describe()["no_judge"]`` says why. Not with `memory` or
        `cluster`.
    wide : int or None, default=None
        With a judge: also train a wide classifier. This is about the number of labels that each label is told
        apart from, or all where there are fewer: of up to 20,000 labels those that are easiest to confuse,
        else those most similar to it. More is slower to train.
    beam : int, default=50
        Nodes kept in each layer of the search. It grows by itself where k labels need more.
    candidates : {"scored", "all"} or int, default="scored"
        The labels that members vote on: all that the beam scored, all there are, or the best N of each
        member, as in the paper.
    missing : {"exact", "delta", "bound"}, default="exact"
        The probability of a label that another member found and this one did not: compute it ("exact"), 0
        ("delta", as in the paper), or that of the node where its search left the path to it ("bound").
    floor : float, default=1e-4
        Where several trees vote, a member does not search below a node that it gives a lower probability. A
        label there that another member found counts as 0, whatever `missing` says. Labels are not voted on
        if no member gives them a thousandth of this. What is left out is part of the `bound` and `missed` of
        a prediction. 0: the beam alone decides.
    n_jobs : int or None, default=None
        Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.
    cluster : {"auto", "local"}, str or None, default=None
        Fit on a Ray cluster: the one of this machine ("auto"), one that is started for the fit ("local"), or
        ``"ray://HOST:PORT"``. Needs ``pip install 'hedgerow[ray]'``. The model is the same, byte for byte.
    memory : str, int or None, default=None
        Fit within this much memory, such as "8GB": X and Y may be memory-mapped and larger (see
        `hedgerow.data.map_data`), and what does not fit is kept in files, in the checkpoint folder or the
        temporary folder. Mapped files do not count. The model is the same, byte for byte.
    verbose : bool, default=False
        Log the progress of `fit` to the logger ``hedgerow``, on standard error where none is set up.
    random_state : int, RandomState or None, default=None
        Seed of the tree and the solver. The same integer gives the same model, byte for byte.

    Attributes
    ----------
    model_ : Model
        All that was learned. The attributes below read it.
    classes_ : array, shape (n_labels,)
        Names of the labels, or column numbers.
    tree_ : LabelTree
        The tree over the labels that occur in training.
    n_features_in_ : int
        Width of X.
    label_counts_ : int64 array, shape (n_labels,), or None
        How many training inputs have each label; None for imported models.
    n_samples_ : int or None
        Number of training inputs.
    training_ : TrainingRecord or None
        Hashes of the training data; None for imported models.
    calibration_, ood_detector_, policy_ : Calibration, OODDetector, Policy
        What `calibrate`, `learn_ood` and `learn_policy` learned; absent before.
    vocabulary_ : Vocabulary or None
        Names of the labels, where `fit` or `set_vocabulary` was given them.

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
        dampen: bool = False,
        judge: bool = False,
        wide: int | None = None,
        beam: int = 50,
        candidates: str | int = "scored",
        missing: str = "exact",
        floor: float = FLOOR,
        n_jobs: int | None = None,
        cluster: str | None = None,
        memory: str | int | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.keep_parameters(locals())

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
        vocabulary: Vocabulary | None = None,
        ids: Sequence[str | None] | None = None,
        keep_records: bool = False,
    ) -> Self:
        """Grow the trees and train the members.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Features; dense arrays work, too.
        Y : indicator matrix of shape (n, L), or list of lists of labels
            The labels of each input. Columns without any entry are never predicted; inputs without a label
            are negative examples.
        classes : sequence of str, optional
            Names of the columns of an indicator matrix.
        tree : LabelTree, optional
            A given tree over columns of Y, for all members.
        label_features : sparse matrix, shape (L, f), optional
            Cluster the labels by these vectors instead of by the inputs that have them.
        sample_weight : array, shape (n,), optional
            Factor on C for each input; 0 leaves it out.
        checkpoint : path-like, optional
            A folder for finished members of an ensemble and, on a cluster, for finished blocks of nodes. A
            fit that was stopped resumes from there, if data and parameters are the same, and gives the same
            model.
        progress : callable(share, what), optional
            Called some ten times a second.
        vocabulary : Vocabulary, optional
            Names of the labels, whose ids are the labels; the model keeps it. Labels that it lacks are
            reported by a `VocabularyWarning`.
        ids : sequence of str or None, optional
            With `keep_records`, the id of each input, by which `update` corrects and removes it.
        keep_records : bool, default=False
            Keep inputs and labels for `update`; `save` writes them beside the model, to MODEL.data.

        Returns
        -------
        self
        """
        self.check_parameters()
        self.check_resumable(checkpoint)
        check_kept(keep_records, tree, label_features, sample_weight)
        report = self.reporting(progress)
        options = FitOptions(classes, tree, label_features, sample_weight, checkpoint, report)
        seed, threads = self.draw_seed(), threads_for(self.n_jobs)
        inputs, count = self._training_inputs(X)
        labels = encode_labels(Y, count, classes, threads)
        options.check_tree(labels.indicator.shape[1])
        check_vocabulary(vocabulary, labels.names)
        settings = self.training_settings()
        settings.ensemble.check_trees()
        read = self._read_training(inputs, labels, options, seed)
        costs = as_costs(sample_weight, count)
        data = TrainingData(read.rows, labels.rows, labels.indicator, read.reader.width, costs)
        plan = TrainingPlan(data, settings, seed, tree, label_features, read.views)
        checkpointed = self._own_checkpoint(options)

        def assemble(trained: list[TreeClassifier]) -> Ensemble:
            return self._assemble(trained, read.reader, seed, len(labels.names))

        if self.judge:
            judging = Judging(self.wide, self.search_settings(), self.limits(), checkpointed)
            judged = train_judged(plan, read.hashes, judging, assemble, report)
        else:
            trained = train(plan, self.limits(), checkpoint=checkpointed, progress=report)
            judged = Judged(assemble(trained), no_judge=NoJudge(LeftOut.NOT_ASKED))
        model = Model(
            method=settings.ensemble.method,
            reader=read.reader,
            forest=judged.forest,
            classes=labels.names,
            label_counts=np.bincount(labels.indicator.indices, minlength=labels.indicator.shape[1]).astype(
                np.int64
            ),
            n_samples=count,
            training=TrainingRecord.of(read.hashes, labels.indicator, seed),
            judge=judged.judge,
            no_judge=judged.no_judge,
            scorers=judged.scorers,
            vocabulary=vocabulary,
        )
        lesson = Lesson(inputs, labels.indicator, seed, threads, read.embeddings)
        self.model_ = with_names(model, judged, lesson, report)
        self.records_file_ = self.records_ = None
        if keep_records:
            given = X if self.model_.reader.kind == "features" else inputs
            rows = self._kept_rows(self.model_, given, read.rows)
            self.records_ = first_records(self.model_, inputs, rows, read.hashes, labels, ids)
        if report is not None:
            report(1.0, "fitted")
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
    ) -> Self:
        """Train more members on the same data.

        With a tree for each member, the result is the same as if all had been asked for at once. Calibration,
        OOD detector and policy are discarded: they are about the votes of the members that the model had.

        Parameters
        ----------
        X, Y, tree, label_features, sample_weight
            What the ensemble was fitted to, in the same order. Other inputs or labels are refused, since the
            model must know which inputs it was trained on.
        count : int
            Number of members to add.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        self
        """
        model, report = self._fitted(), self.reporting(progress)
        self._check_more(count)
        options = FitOptions(None, tree, label_features, sample_weight, None, report)
        seed, threads = self.draw_seed(), threads_for(self.n_jobs)
        inputs = model.inputs(X)
        labels = encode_labels(_columns_of(Y, model.classes), count_inputs(inputs), None, threads)
        if labels.indicator.shape[1] != len(model.classes):
            raise ValueError(
                f"Y has {labels.indicator.shape[1]} columns, but the model knows {len(model.classes)} labels"
            )
        if model.training is not None:
            model.training.check_same(model.hashes(inputs), labels.indicator)
        options.check_tree(labels.indicator.shape[1])
        rows = self.source.reader.read(inputs, threads, progress=report).rows
        costs = as_costs(sample_weight, count_inputs(inputs))
        data = TrainingData(rows, labels.rows, labels.indicator, model.reader.width, costs)
        before = {"members": self.members, "trees": self.trees}
        self.members += int(count)
        if self.trees is not None:
            self.trees += int(count)
        try:
            plan = TrainingPlan(data, self.training_settings(), seed, tree, label_features)
            trained = train(plan, self.limits(), done=model.forest.trees, progress=report)
        except BaseException:
            self.set_params(**before)
            raise
        forest = self._assemble(trained, model.reader, seed, len(model.classes))
        self.model_ = replace(model.uncalibrated(), forest=forest, ood=None)
        self.records_file_ = self.records_ = None  # of other members
        if report is not None:
            report(1.0, "fitted")
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    # What subclasses override.

    def _training_inputs(self, X: Any) -> tuple[Any, int]:
        """The inputs, checked, and how many there are."""
        rows = as_rows(X, threads=threads_for(self.n_jobs))
        count, width = np.shape(X)
        return (rows, width), count

    def _read_training(
        self, inputs: Any, labels: LabelledRows, options: FitOptions, seed: int
    ) -> TrainingInputs:
        rows, width = inputs
        reader = MatrixReader(width, Damping.of(rows) if self.dampen else None)
        return TrainingInputs(reader, reader.damped(rows), rows.hashes(threads_for(self.n_jobs)))

    def _own_checkpoint(self, options: FitOptions) -> str | os.PathLike[str] | None:
        return options.checkpoint

    def _assemble(
        self, trained: Sequence[TreeClassifier], reader: Reader, seed: int, labels: int
    ) -> Ensemble:
        dropout = None
        if self.method == Method.MC_DROPOUT and self.dropout is not None:
            dropout = Dropout(self.dropout, self.members, seed)
        return Ensemble(trained, labels, dropout)

    def _check_more(self, count: Any) -> None:
        """Refuse to add members where the result would not be what a single fit gives."""
        ensemble = self.training_settings().ensemble
        if not ensemble.method.trains_members:
            raise ValueError(f"no members can be added to method {self.method!r}; fit with method='bagging'")
        if self.judge:
            raise ValueError(
                "no members can be added to a model with a judge, which knows those it has; fit again"
            )
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError("members can be added only to a model with an integer random_state")
        self.check_parameters()
        check_integer("count", count, 1)
        if self.members + count > MOST_MEMBERS:
            raise ValueError(
                f"count is {count}, but a model has at most {MOST_MEMBERS} members and this one has"
                f" {self.members}"
            )
        if not ensemble.own_trees:
            raise ValueError(
                f"no members can be added where {self.members} share {ensemble.tree_count} trees; fit again"
            )


def _columns_of(Y: Any, classes: npt.NDArray[Any]) -> Any:
    """Lists of labels as a matrix over the labels of a model; matrices as they are."""
    Y = without_frame(Y)
    if sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.dtype != object):
        return Y
    known = {name: number for number, name in enumerate(classes.tolist())}
    lists = [list(labels) for labels in Y]
    columns = []
    for row, labels in enumerate(lists):
        for label in labels:
            if label not in known:
                raise ValueError(f"input {row} has the label {label!r}, which the model does not know")
            columns.append(known[label])
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in lists])])
    return sp.csr_array(
        (np.ones(len(columns), dtype=np.float32), columns, indptr), shape=(len(lists), len(known))
    )
