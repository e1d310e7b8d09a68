"""What a fitted classifier learns from held-out data: calibration, OOD detection, guarantees."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.decisions.learning import frequencies, learn_policy
from hedgerow.estimators.centroid_learning import learn_centroids, worth_keeping
from hedgerow.estimators.fitted import Fitted
from hedgerow.estimators.name_learning import renamed
from hedgerow.familiarity.detector import OODDetector
from hedgerow.inputs.rows import count
from hedgerow.inputs.threads import threads_for
from hedgerow.judge.fitting import CalibrationSettings, calibrate, calibrate_broader, calibrate_out_of_bag
from hedgerow.progress import Progress
from hedgerow.quality.expectation import ExpectedQuality, QualityModel
from hedgerow.quality.learning import expected_quality, learn_quality
from hedgerow.shift.reference import ReferenceLearner
from hedgerow.training.data import as_costs
from hedgerow.vocabulary.coverage import check_vocabulary
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["Learning"]


class Learning(Fitted):
    """A classifier that learns calibration, OOD detection and guarantees from held-out data."""

    def calibrate(
        self,
        X: Any,
        Y: Any,
        *,
        method: str = "isotonic",
        by: str = "all",
        of: str = "mean",
        progress: Progress | None = None,
    ) -> Self:
        """Calibrate probabilities on held-out data: of the labels with probability p, the share p is right.

        From then on all probabilities and measures of uncertainty are calibrated; `uncalibrated` gives the
        model without. The model file keeps the calibration; fitting again, or adding members, discards it. It
        holds for the search it was learned with: set `beam`, `candidates` and `missing` before.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            At least 50 inputs, better some hundred, that the model was *not* trained on. Those that it was
            trained on are left out, and if they are more than 5 %, the data are refused. Imported models and
            old files do not know their training data.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels. Labels that the model does not know, or that the search does not find, do not
            count.
        method : {"isotonic", "platt", "temperature", "beta"}, default="isotonic"
            The family of maps from probabilities to probabilities.
        by : {"all", "depth", "frequency"}, default="all"
            One map for all labels, which keeps their order; or one for each of up to five groups of labels,
            by their depth in the trees (0 for a tree that lacks the label) or by how often they occur in
            training.
        of : {"mean", "members"}, default="mean"
            Calibrate the mean of the members, or each of them.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self

        See Also
        --------
        calibrate_out_of_bag : With the training data, where each member was trained on a part of them.
        """
        settings = CalibrationSettings(method, by, of)
        found = calibrate(self.source, X, Y, settings, progress)
        self.model_ = self.model_.with_calibration(found)
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
    ) -> Self:
        """Calibrate with the training data: of each input, ask only the members that were not trained on it.

        A member of "bagging" or "boosted-bagging" was not trained on 37 % of the inputs, so no data need be
        held out.

        Parameters
        ----------
        X, Y, sample_weight
            What the model was fitted to, in the same order.
        method, by, of : str
            As of `calibrate`.
        most : int, default=10000
            The most inputs to use, evenly spread.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self
        """
        source, settings = self.source, CalibrationSettings(method, by, of)
        inputs = source.inputs(X)
        costs = as_costs(sample_weight, count(inputs))
        found = calibrate_out_of_bag(source, inputs, Y, settings, costs=costs, most=most, progress=progress)
        self.model_ = self.model_.with_calibration(found)
        return self

    def uncalibrated(self) -> Self:
        """The same model without its calibration; members and all else are shared, not copied."""
        plain = copy.copy(self)
        plain.model_ = self._fitted().uncalibrated()
        return plain

    def learn_ood(
        self, X: Any, *, training: tuple[Any, Any] | None = None, at_most: float = math.inf
    ) -> Self:
        """Learn to detect out-of-distribution (OOD) inputs, for `ood_scores` and `decide`.

        The model file keeps the detector; fitting again, or adding members, discards it.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            At least 40 in-distribution inputs, better some hundred, that the model was *not* trained on:
            scores of training data are lower than those of any other. Every other input says how each signal
            is distributed and the rest give the p-values, so shuffle inputs whose kinds alternate.
        training : pair of inputs and labels, optional
            The training data. The model then also keeps the centroids of its labels, of each the 300 largest
            features: an input that is close to none is out-of-distribution, even if it uses familiar words. A
            model with a judge has centroids of 100 features without this. They add a few percent to a model
            of ten members.
        at_most : float
            Centroids that would add this share to the bytes of the trees, or more, are left out.

        Returns
        -------
        self
        """
        source = self.source
        if training is not None:
            bounded = math.isfinite(at_most)
            found = (
                worth_keeping(source, *training, at_most) if bounded else learn_centroids(source, *training)
            )
            source = replace(source, centroids=found)
        detector = OODDetector.learn(replace(source, ood=None).signals(source.inputs(X)))
        self.model_ = replace(self.model_, centroids=source.centroids).with_ood(detector)
        return self

    def calibrate_broader(self, X: Any, Y: Any, *, progress: Progress | None = None) -> Self:
        """Calibrate the probabilities of broader terms on held-out data, for ``decide(..., broader=True)``.

        The probability of a broader term is that of at least one right label at or below it. Learn the policy
        afterwards, with other data: it then learns what can be guaranteed with broader terms, too. The model
        file keeps it; calibrating, another vocabulary, adding members and fitting again discard it.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            As of `calibrate`; may be the same inputs.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self
        """
        vocabulary = self._fitted().vocabulary
        if vocabulary is None:
            raise ValueError(
                "the model has no vocabulary, so it does not know which terms are broader; call"
                " set_vocabulary"
            )
        broader = calibrate_broader(self.source, X, Y, vocabulary, progress)
        self.model_ = self.model_.with_broader(broader)
        return self

    def learn_policy(
        self,
        X: Any,
        Y: Any,
        *,
        tolerance: float | None = None,
        least_depth: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from held-out data which thresholds `decide` needs to keep its guarantees.

        The model file keeps the policy; fitting again, adding members and calibrating discard it. It holds
        for the search it was learned with: set `beam`, `candidates` and `missing` before. The file also keeps
        a few sorted numbers of these inputs, so that `decide` and `evaluate` notice inputs that are unlike
        them.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            In-distribution inputs that were not used for training, calibration or OOD detection. Those that
            the model was trained on are left out, and if they are more than 5 %, the data are refused. A
            share s of missed labels needs at least 1/s - 1 inputs, and useful guarantees some hundred.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels. How many of them the model does not know is counted apart.
        tolerance : float, optional
            As of `predict_votes`; `decide` then searches as far.
        least_depth : int, default=1
            After `calibrate_broader`: which broader terms ``decide(..., broader=True)`` may accept. 1 leaves
            out those that nothing is broader than, which say little; 2 those right below them as well; 0
            allows all.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self

        See Also
        --------
        learn_from_held_out : Splits data for calibration, OOD detection and policy.
        """
        source = self.source
        X, Y = source.inputs_and_truth(X, Y)
        counts = source.label_counts
        known = (
            np.arange(Y.shape[1]) < len(source.classes)
            if counts is None
            else frequencies(counts, Y.shape[1]) > 0
        )
        watched = ReferenceLearner(known)
        learned = learn_policy(
            source,
            X,
            Y,
            tolerance=tolerance,
            least_depth=least_depth,
            watch=watched.add,
            progress=progress,
        )
        self.model_ = replace(
            self.model_, policy=learned.policy, reference=watched.finish(), coarser=learned.coarser
        )
        return self

    def learn_quality(self, X: Any, Y: Any, *, progress: Progress | None = None) -> Self:
        """Learn from held-out data how good the best labels of an input are, for `expected_quality`.

        The model file keeps it; fitting again, adding members and calibrating discard it. It holds for the
        search it was learned with: set `beam`, `candidates` and `missing` before.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            At least 40 inputs, better some hundred, that were not used for training or calibration; they may
            be those of `learn_policy`. A random half of them fits the expected precision and recall, the
            other half gives the intervals. Those that the model was trained on are left out, and if they are
            more than 5 %, the data are refused.
        Y : indicator matrix of shape (n, n_labels or more), or list of lists of labels
            Their labels. Recall counts only those that the model knows.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        self
        """
        learned = learn_quality(self.source, X, Y, progress)
        self.model_ = replace(self.model_, quality=learned)
        return self

    @property
    def quality_(self) -> QualityModel:
        """What `learn_quality` learned; absent before."""
        learned = self._fitted().quality
        if learned is None:
            raise NotFittedError(
                "the model has not learned how good its answers are; call learn_quality, or run hedgerow"
                " calibrate with held-out data"
            )
        return learned

    def expected_quality(
        self, X: Any, *, confidence: float = 0.9, progress: Progress | None = None
    ) -> ExpectedQuality:
        """How many of the best five labels of each input are expected to be right, and how many are missed.

        Precision and recall of the best five labels (all, where the model knows fewer), each with an
        interval. It needs `learn_quality`.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.
        confidence : float, default=0.9
            On average over inputs like the held-out ones, the precision is within its interval for at least
            this share, and so is the recall (split conformal prediction). That does not hold for one kind of
            inputs alone, nor for out-of-distribution inputs.
        progress : callable(share, what), optional
            Called after each batch.

        Returns
        -------
        ExpectedQuality
        """
        learned, source = self.quality_, self.source
        return expected_quality(source, learned, source.inputs(X), confidence, progress)

    def set_vocabulary(self, vocabulary: Vocabulary | None) -> Self:
        """Give the labels of the fitted model names, or others; the model file keeps them.

        What was learned of broader terms is discarded. A label that the vocabulary lacks is predicted as
        before, and shown without a name. A model that judges by names looks for the new ones from now on, and
        for those of entries that left, until it is fitted again; `describe` lists what left. If other names
        are looked for than before, that changes probabilities, so calibration and policy are discarded, too.

        Parameters
        ----------
        vocabulary : Vocabulary or None
            Its ids are the labels. Labels that it lacks are reported by a `VocabularyWarning`. None removes
            the vocabulary.

        Returns
        -------
        self
        """
        model = self._fitted()
        check_vocabulary(vocabulary, model.classes)
        self.model_ = renamed(model, vocabulary, self.source.reader, threads_for(self.n_jobs))
        return self
