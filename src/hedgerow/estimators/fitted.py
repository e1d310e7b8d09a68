"""The predictions of a fitted classifier."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from hedgerow import saving
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.deciding import decide
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.macro import Objective
from hedgerow.decisions.policy import Policy
from hedgerow.decisions.results import Decisions
from hedgerow.decisions.together import decide_together
from hedgerow.estimators.loading import load_as
from hedgerow.estimators.named import Named
from hedgerow.estimators.parameters import plain_parameters
from hedgerow.evaluation import precision_at
from hedgerow.familiarity.detector import OODDetector
from hedgerow.inputs.subset import LabelSubset
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import TrainingRecord
from hedgerow.judge.calibration import Calibration
from hedgerow.model import Model
from hedgerow.progress import Progress
from hedgerow.trees.label_tree import LabelTree
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.signals import OODScores
from hedgerow.votes.votes import Votes

__all__ = ["Fitted", "TopLabels"]

Part = TypeVar("Part")


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


class Fitted(Named):
    """A classifier that may be fitted; then `model_` holds all that was learned."""

    @property
    def source(self) -> Model:
        """The fitted model with the current search and threads, for functions that read votes."""
        model, search = self._fitted(), self.search_settings()
        if len(model.forest.trees) == 1:  # has no floor, and nor has what is learned with it
            search = replace(search, floor=0.0)
        return replace(model, search=search, threads=threads_for(self.n_jobs))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels, or column numbers."""
        return self._fitted().classes

    @property
    def tree_(self) -> LabelTree:
        """The tree over the labels that occur in training; of the first member."""
        return self._fitted().forest.tree

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return self._fitted().forest.features

    @property
    def label_counts_(self) -> npt.NDArray[np.int64] | None:
        """How many training inputs have each label; None for imported models."""
        return self._fitted().label_counts

    @property
    def n_samples_(self) -> int | None:
        """Number of training inputs; None for imported models."""
        return self._fitted().n_samples

    @property
    def training_(self) -> TrainingRecord | None:
        """Hashes of the training data; None for imported models."""
        return self._fitted().training

    @property
    def calibration_(self) -> Calibration:
        """What `calibrate` learned; absent before."""
        return _learned(self._fitted().calibration, "is not calibrated; call calibrate")

    @property
    def ood_detector_(self) -> OODDetector:
        """What `learn_ood` learned; absent before."""
        return _learned(
            self._fitted().ood,
            "cannot detect OOD inputs yet; call learn_ood with inputs that it was not trained on",
        )

    @property
    def policy_(self) -> Policy:
        """What `learn_policy` learned; absent before."""
        return _learned(self._fitted().policy, "has no policy; call learn_policy")

    def top(
        self,
        X: Any,
        k: int = 5,
        *,
        exact: bool = False,
        only: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        progress: Progress | None = None,
    ) -> TopLabels:
        """The k most probable labels of each input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        k : int
            Labels for each input; at most as many as the model knows.
        exact : bool
            Search on, best node first, until no other label can be among the best k, whatever the beam.
        only : iterable of labels, optional
            Answer these labels only, as in `classes_`. The search looks for no others, so k labels come back.
            `labels_in` gives the labels of a scheme or a subtree of the vocabulary; see the example.
        exclude : iterable of labels, optional
            Do not answer these labels. With `only`: those of `only` that are not excluded.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        TopLabels
            Labels by their ids; `name_of` gives their names.

        Examples
        --------
        Only what is below an entry of the vocabulary. For the labels of a scheme it is ``scheme=``, and those
        of a file are ``Path("ids.txt").read_text().splitlines()``.

        >>> from hedgerow import HedgerowTextClassifier, Vocabulary
        >>> texts = ["prickly evergreen", "acorns", "beechnuts"] * 20
        >>> model = HedgerowTextClassifier(random_state=0).fit(texts, [["holly"], ["oak"], ["beech"]] * 20)
        >>> model = model.set_vocabulary(Vocabulary.from_names({"holly": "", "oak": "Oak", "beech": "Beech"}))
        >>> model.top(["evergreen acorns"], k=1, only=model.labels_in(subtree="oak")).labels.tolist()
        [['oak']]
        """
        source, subset = self.source, self._subset(only, exclude)
        k = _check_k(k, source, subset)
        labels, probability = source.top(source.inputs(X), k, exact, progress, subset)
        return TopLabels(source.classes[labels], probability)

    def predict_uncertain(
        self,
        X: Any,
        k: int = 5,
        *,
        tolerance: float | None = None,
        only: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        progress: Progress | None = None,
    ) -> UncertainLabels:
        """The k most probable labels of each input, with the uncertainty of each and of the input.

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
        only : iterable of labels, optional
            Answer these labels only, as in `classes_`. The search looks for no others, so k labels come back.
            `labels_in` gives those of a scheme or a subtree of the vocabulary, as in the example of `top`.
        exclude : iterable of labels, optional
            Do not answer these labels. With `only`: those of `only` that are not excluded. The uncertainty
            of an input is then the sum over the allowed labels.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        UncertainLabels
        """
        source, subset = self.source, self._subset(only, exclude)
        k = _check_k(k, source, subset)
        return source.uncertain(source.inputs(X), k, tolerance, progress, subset)

    def predict_votes(
        self,
        X: Any,
        *,
        tolerance: float | None = None,
        only: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        progress: Progress | None = None,
    ) -> Votes:
        """What every member says of every candidate label.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        tolerance : float, optional
            As of `predict_uncertain`.
        only, exclude : iterable of labels, optional
            As of `predict_uncertain`: other labels are no candidates.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        Votes
        """
        source, subset = self.source, self._subset(only, exclude)
        return source.answer(source.inputs(X), tolerance=tolerance, subset=subset, progress=progress).votes

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
        source = self.source
        return source.seen(source.hashes(source.inputs(X)))

    def decide(
        self,
        X: Any,
        *,
        wrong_at_most: float | None = None,
        wrong_of: str | None = None,
        missed_at_most: float | None = None,
        review_at_most: int | None = None,
        costs: Costs | None = None,
        size: float | None = None,
        by: str = "probability",
        coverage: float | None = None,
        groups: bool = False,
        confidence: float = 0.9,
        inputs_by: str | None = None,
        inputs_wrong_at_most: float | None = None,
        inputs_coverage: float | None = None,
        broader: bool = False,
        optimise: str | None = None,
        false_alarm: float | None = 0.05,
        k: int = 5,
        only: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        progress: Progress | None = None,
    ) -> Decisions:
        """Accept each label, defer it to a human (review), or reject it.

        Guarantees hold on average over inputs like those that the policy was learned from. They do not hold
        for each single label, nor for out-of-distribution inputs.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        wrong_at_most : float, optional
            Accept labels, of which at most this share is wrong, with the given confidence (Learn then Test).
            Without any goal, 0.1.
        wrong_of : {"labels", "answered", "inputs"}, optional
            What that is a share of. "labels", the default: all labels that are accepted, whatever input they
            are on; an input is given no more than training inputs have on average. "answered": an input's
            accepted labels, mean over the inputs that are given any. "inputs": the same, mean over all
            inputs, with 0 for those that are given none.
        missed_at_most : float, optional
            On average over inputs, at most this share of an input's true labels is missed, neither accepted
            nor listed for review, of those that the model knows (conformal risk control). True labels that
            never occurred in training are always missed.
        review_at_most : int, optional
            List at most this many labels for review, the best of an input, accepted ones included. It is
            guaranteed which share of the true labels they contain. Without any goal, 10. With
            `missed_at_most`, fewer are listed where fewer are enough. Without both, no label is to be
            reviewed.
        costs : Costs, optional
            Take the decision of least expected cost for each label. It needs calibrated probabilities.
        size : float, optional
            Accept the most probable labels, on average at most `size` per input, and reject the rest. Not
            together with `costs` or the goals above.
        by : {"probability", "total", "data", "knowledge", "variance"}, default="probability"
            Accept labels of low uncertainty by this measure; then only those with a probability of one half
            or more.
        coverage : float, optional
            Instead of `wrong_at_most`: accept on average at least this share of an input's
            labels with a probability of one half or more.
        groups : bool, default=False
            Keep `missed_at_most` for each group of rare to frequent labels.
        confidence : float, default=0.9
            The probability, over draws of the held-out data, that a guarantee is kept: each of those about
            wrong labels and about the best ones.
        inputs_by : {"top", "expected", "total", "data", "knowledge", "variance", "ood"}, optional
            Withhold the answer for inputs of high uncertainty by this measure: what would have been accepted
            is to be reviewed. "top" is 1 minus the highest probability; "expected" is high for few expected
            labels; "ood" is the OOD score; the others are sums over the labels.
        inputs_wrong_at_most : float, optional
            With `inputs_by`: the best label is wrong for at most this share of the answered inputs.
        inputs_coverage : float, optional
            With `inputs_by`: at least this share of the inputs is answered.
        broader : bool, default=False
            Where no narrow label can be accepted, accept the narrowest broader term of the vocabulary that
            can be: one label at or below it is right. The guarantee about wrong labels is then of "inputs",
            and covers labels and broader terms together, so fewer labels may be accepted. It needs
            `calibrate_broader`.
        optimise : {"macro-f1@5", "macro-precision@5", "macro-recall@5"}, optional
            Instead of a guarantee: accept five labels of each input (or another number), chosen for all
            inputs together, so that the expected mean of the measure over labels is high. Rare labels count
            like frequent ones. The labels of an input then depend on the other inputs. It needs calibrated
            probabilities; see `hedgerow.decisions.macro.choose`.
        false_alarm : float or None, default=0.05
            The share of in-distribution inputs that may be flagged as out-of-distribution; None flags none.
            Flags need `learn_ood`, and change no decision.
        k : int, default=5
            List at least this many labels of each input, even if they are rejected.
        only, exclude : iterable of labels, optional
            Decide on these labels only, or not on those, as of `top`; all others are rejected. `labels_in`
            gives the labels of a scheme or a subtree of the vocabulary. The thresholds
            stay those for all labels. With ``candidates="all"``, an allowed label gets the decision that it
            gets among all labels; so the allowed true labels that are rejected are, on average, at most
            `missed_at_most` of all true labels of an input. But of its allowed true labels a larger share can
            be rejected, and of its accepted allowed labels a larger share can be wrong: for the allowed
            labels alone, nothing is guaranteed. `inputs_by` is refused, but for "ood".
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
        >>> model.decide(["a thorny shrub too"], wrong_at_most=0.1)[0].accept
        ['hawthorn']
        """
        source = self.source
        goal = Goal(
            wrong_at_most,
            wrong_of,
            missed_at_most,
            review_at_most,
            costs,
            size,
            by,
            coverage,
            groups,
            confidence,
            inputs_by,
            inputs_wrong_at_most,
            inputs_coverage,
            broader,
        )
        subset = self._subset(only, exclude)
        options: dict[str, Any] = {"false_alarm": false_alarm, "k": k, "subset": subset, "progress": progress}
        if optimise is None:
            return decide(source, source.inputs(X), goal, **options)
        if goal != Goal():
            raise ValueError("optimise gives each input a number of labels; leave out all other goals")
        return decide_together(source, source.inputs(X), Objective.parse(optimise), **options)

    def ood_scores(self, X: Any) -> OODScores:
        """How far each input is from the training data: an OOD score with a p-value.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.

        Returns
        -------
        OODScores
            Out-of-distribution inputs have high scores and low p-values.
        """
        source = self.source
        return self.ood_detector_.judge(source.signals(source.inputs(X)))

    def predict_proba(
        self,
        X: Any,
        k: int = 100,
        *,
        only: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
    ) -> sp.csr_array:
        """Probabilities of the best labels of each input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        k : int
            Labels for each input, if the model knows that many.
        only, exclude : iterable of labels, optional
            As of `top`.

        Returns
        -------
        csr_array of float32, shape (n, n_labels)
            The best k labels of each row; every other label counts as 0.
        """
        source, subset = self.source, self._subset(only, exclude)
        k = _check_k(min(k, source.known_of(subset)), source, subset)
        labels, probability = source.top(source.inputs(X), k, subset=subset)
        n = len(labels)
        indptr = np.arange(0, n * k + 1, k, dtype=np.int64)
        matrix = sp.csr_array((probability.ravel(), labels.ravel(), indptr), shape=(n, len(source.classes)))
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
        source = self.source
        inputs, truth = source.inputs_and_truth(X, Y)
        return precision_at(source.top(inputs, 1)[0], truth, 1)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool
            Replace an existing file. It stays as it was until the new one is complete.
        """
        saving.write(self._fitted(), plain_parameters(self), path, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> Self:
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
        return load_as(cls, path, verify)

    def describe(self) -> dict[str, Any]:
        """What the model is, for people and programs."""
        model = self._fitted()
        forest = model.forest
        tables = [tree.native.table() for tree in forest.trees]
        return {
            "type": type(self).__name__,
            "method": self.method,
            "members": forest.members,
            "labels": len(model.classes),
            "labels_in_tree": len(forest.tree.labels),
            "features": forest.features,
            "trees": len(forest.trees),
            "layers": list(forest.tree.layer_sizes),
            "transform": forest.transform,
            "weights": sum(tree.weights for tree in forest.trees),
            "bytes_of_weights": sum(int(table[:, 1].sum()) for table in tables),
            "judge": None if model.judge is None else model.judge.describe(),
            "no_judge": None if model.no_judge is None else model.no_judge.describe(),
            "names": None if model.names is None else model.names.describe(),
            "calibration": None if model.calibration is None else model.calibration.describe(),
            "policy": None if model.policy is None else model.policy.describe(),
            "shift": None if model.reference is None else model.reference.describe(),
            "quality": None if model.quality is None else model.quality.describe(),
            **({"lineage": model.lineage.describe()} if model.lineage.events else {}),
            **self.about_vocabulary(),
            **({} if model.coarser is None else {"broader": model.coarser.describe()}),
            "parameters": plain_parameters(self),
        }

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _subset(self, only: Iterable[Any] | None, exclude: Iterable[Any] | None) -> LabelSubset | None:
        return self._fitted().subset(only, exclude)


def _learned(part: Part | None, otherwise: str) -> Part:
    if part is None:
        raise NotFittedError(f"the model {otherwise}")
    return part


def _check_k(k: Any, source: Model, subset: LabelSubset | None) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise TypeError(f"k is {k!r}; it must be an integer")
    if k < 1:
        raise ValueError(f"k is {k}; ask for at least one label")
    known = source.known_of(subset)
    if k > known and subset is not None:
        raise ValueError(
            f"k is {k}, but only and exclude leave {known} labels that the model can predict; ask for {known}"
            " or fewer, or allow more labels"
        )
    if k > known:
        raise ValueError(f"k is {k}, but the model knows only {known} labels; ask for {known} or fewer")
    return int(k)
