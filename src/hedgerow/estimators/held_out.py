"""What a model learns from held-out data, split where guarantees need it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.risk import as_share
from hedgerow.estimators.centroid_learning import PAYS, added_by
from hedgerow.estimators.learning import Learning
from hedgerow.evaluation import reliability
from hedgerow.familiarity.detector import NEEDED
from hedgerow.inputs.rows import take
from hedgerow.progress import Progress, stage
from hedgerow.quality.expectation import TooFewInputs
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.source import VoteSource
from hedgerow.votes.truth import assess

__all__ = ["Learned", "learn_from_held_out", "split_rows"]

CUTS = (1, 3, 5)
_SHARE = 0.5
_SHARE_OUT_OF_BAG = 0.2


@dataclass(frozen=True)
class Learned:
    """How many rows each part was learned from, and what calibration changed.

    Attributes
    ----------
    first : int
        Rows for calibration, unless it is learned out of bag, and for OOD detection.
    second : int
        Rows for the policy and the expected quality.
    quality : bool
        Whether these were enough to learn the expected quality.
    out_of_bag : int
        Training inputs for calibration; 0 if it was learned from held-out rows.
    centroids : float or None
        What centroids of labels add to the bytes of the trees, as a share of these; None without centroids.
    before, after : dict of int to float
        The calibration error of the best 1, 3 and 5 labels without and with calibration, on the rows for the
        policy.
    """

    first: int
    second: int
    quality: bool
    out_of_bag: int
    centroids: float | None
    before: dict[int, float]
    after: dict[int, float]


def split_rows(rows: int, share: float, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split rows at random into two parts, each in order; the first has the share.

    Examples
    --------
    >>> [part.tolist() for part in split_rows(5, 0.4, 0)]
    [[2, 4], [0, 1, 3]]
    """
    order = np.random.default_rng(seed).permutation(rows)
    first = round(share * rows)
    return np.sort(order[:first]), np.sort(order[first:])


def learn_from_held_out(
    model: Learning,
    X: Any,
    Y: Any,
    *,
    method: str = "isotonic",
    by: str = "all",
    of: str = "mean",
    training: tuple[Any, Any] | None = None,
    share: float | None = None,
    seed: int = 0,
    least_depth: int | None = None,
    centroids: tuple[Any, Any] | bool = True,
    centroids_at_most: float = math.inf,
    progress: Progress | None = None,
) -> Learned:
    """Calibrate a model, and learn OOD detection, a policy and expected quality, on held-out data.

    A guarantee of the policy needs held-out inputs that are exchangeable with further ones, so the rows for
    the policy must not be those that the model was calibrated on. Rows are split at random: the first part
    is for calibration and OOD detection, which do not depend on each other, the second for the policy and
    for the expected quality, which do not depend on each other either.

    Parameters
    ----------
    model : HedgerowClassifier
        A fitted model. It is changed.
    X, Y
        Held-out inputs and their labels, as of `HedgerowClassifier.calibrate`.
    method, by, of : str
        As of `HedgerowClassifier.calibrate`.
    training : pair of inputs and labels, optional
        The training data, to calibrate out of bag; see `HedgerowClassifier.calibrate_out_of_bag`.
    share : float, optional
        Share of the rows for calibration and OOD detection; by default one half, and a fifth when calibrating
        out of bag.
    seed : int
        Of the random split.
    least_depth : int, optional
        Also learn to answer with broader terms of the model's vocabulary, at this depth or deeper; see
        `HedgerowClassifier.learn_policy`.
    centroids : pair of inputs and labels, or bool
        The training data, for OOD detection that also asks how close an input is to any label; see
        `HedgerowClassifier.learn_ood`. By default `training`, where that is given and centroids add less than
        a fifth to the bytes of the trees; False does without.
    centroids_at_most : float
        Centroids that would add this share to the bytes of the trees, or more, are left out.
    progress : callable(share, what), optional
        Called after each batch.

    Returns
    -------
    Learned
    """
    X, truth = model.source.inputs_and_truth(X, Y)
    if share is None:
        share = _SHARE if training is None else _SHARE_OUT_OF_BAG
    first, second = split_rows(truth.shape[0], as_share("share", share), seed)
    if len(first) < NEEDED:
        raise ValueError(
            f"{truth.shape[0]} held-out inputs are too few: {len(first)} of them are for OOD detection, which"
            f" needs at least {NEEDED}; give more inputs, or a larger share="
        )
    options: dict[str, Any] = {"method": method, "by": by, "of": of, "progress": progress}
    if training is None:
        model.calibrate(take(X, first), truth[first], **options)
    else:
        model.calibrate_out_of_bag(*training, **options)
    seen = model.seen_in_training(take(X, first))
    near, at_most = centroids, centroids_at_most
    if near is True:
        near, at_most = training or False, PAYS
        if model.source.centroids is not None:
            near = True  # those that it has
    if near is False:
        model.model_ = replace(model.model_, centroids=None)
    model.learn_ood(take(X, first[~seen]), training=None if isinstance(near, bool) else near, at_most=at_most)
    own, labels = take(X, second), truth[second]
    if least_depth is not None:
        model.calibrate_broader(take(X, first), truth[first], progress=progress)
    model.learn_policy(own, labels, least_depth=1 if least_depth is None else least_depth, progress=progress)
    learned_quality = False
    with contextlib.suppress(TooFewInputs):
        model.learn_quality(own, labels, progress=progress)
        learned_quality = True
    return Learned(
        len(first),
        len(second),
        learned_quality,
        0 if training is None else model.calibration_.rows,
        added_by(model.source),
        calibration_errors(model.uncalibrated().source, own, labels, progress),
        calibration_errors(model.source, own, labels, progress),
    )


def calibration_errors(
    source: VoteSource, inputs: Any, truth: sp.csr_array, progress: Progress | None = None
) -> dict[int, float]:
    """The expected calibration error of the best 1, 3 and 5 labels of inputs."""
    probabilities, rights, shown = [], [], []
    for rows, answer in answer_batches(source, inputs, progress=stage(progress, "comparing")):
        found = assess(answer.votes, truth[rows], k=max(CUTS), n_jobs=source.threads or None)
        probabilities.append(found.best.probability)
        rights.append(found.right())
        shown.append(found.labels >= 0)  # an input may have fewer candidates than k
    best, right, there = (np.concatenate(parts) for parts in (probabilities, rights, shown))
    return {k: reliability(best[:, :k][there[:, :k]], right[:, :k][there[:, :k]]).ece for k in CUTS}
