"""What a fitted classifier learns from held-out data: calibration, OOD detection, guarantees."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy.typing as npt

from hedgerow.decisions.learning import learn_policy
from hedgerow.estimators.fitted import Fitted
from hedgerow.familiarity.detector import OODDetector
from hedgerow.inputs.rows import count
from hedgerow.judge.fitting import CalibrationSettings, calibrate, calibrate_out_of_bag
from hedgerow.progress import Progress
from hedgerow.training.data import as_costs

__all__ = ["Learning"]


class Learning(Fitted):
    """A classifier that learns from held-out data how far it can be trusted."""

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

    def learn_ood(self, X: Any) -> Self:
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
        source = self.source
        detector = OODDetector.learn(source.signals(source.inputs(X)))
        self.model_ = self.model_.with_ood(detector)
        return self

    def learn_policy(
        self, X: Any, Y: Any, *, tolerance: float | None = None, progress: Progress | None = None
    ) -> Self:
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
        policy = learn_policy(self.source, X, Y, tolerance=tolerance, progress=progress)
        self.model_ = replace(self.model_, policy=policy)
        return self
