"""Searches settings for a classifier on a validation part of its training data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import clone

from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.parameters import plain_parameters
from hedgerow.estimators.presets import reading_parameters
from hedgerow.estimators.settings_search import START, Budget, Search, Start, Trainer
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.estimators.transformer import HedgerowTransformerClassifier
from hedgerow.estimators.trials import Comparison, Journal, Trial, compare
from hedgerow.estimators.validation_part import SplitData
from hedgerow.estimators.variations import Change
from hedgerow.evaluation import RankingMeasure
from hedgerow.inputs.parameters import check_real
from hedgerow.progress import Progress
from hedgerow.training.presets import choose_settings
from hedgerow.training.settings import Method

__all__ = ["Tuning", "tune"]

_FEW_MEMBERS = 3


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a search for settings found.

    Attributes
    ----------
    parameters : dict
        The chosen parameters: those of the preset "balanced", or of another start, and what was changed.
    changes : list of Change
        What differs from the preset, one entry per name.
    trials : list of Trial
        All that was tried, in order; the first is the start.
    by : str
        The measure that decided.
    gain : Comparison
        The chosen settings against the preset, on the validation inputs.
    data : SplitData
        The data, and which rows were held out.
    out_of_time : bool
        Whether a trial was left out for lack of time; otherwise nothing that was tried is better.
    trial_members : int or None
        Members that trials had, of an ensemble.
    template : HedgerowClassifier
        What was given to tune.
    """

    parameters: dict[str, Any]
    changes: list[Change]
    trials: list[Trial]
    by: str
    gain: Comparison
    data: SplitData
    out_of_time: bool
    trial_members: int | None
    template: HedgerowClassifier

    def estimator(self) -> HedgerowClassifier:
        """A classifier with the chosen parameters, not fitted yet."""
        chosen: HedgerowClassifier = clone(self.template).set_params(**self.parameters)
        return chosen

    @property
    def best(self) -> Trial:
        """The trial of the chosen settings; of an ensemble, with few members."""
        return [trial for trial in self.trials if trial.kept][-1]


def tune(
    estimator: HedgerowClassifier,
    X: Any,
    Y: Any,
    *,
    seconds: float = 600.0,
    by: str = "ndcg@5",
    journal: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    finished: Callable[[Trial], None] | None = None,
    start: Start | None = None,
) -> Tuning:
    """Search settings for a classifier on a validation part that is cut from X and Y.

    15 % of the inputs, at most 5,000, are held out; equal inputs are never on both sides. The search starts
    from the preset "balanced" and changes one thing at a time: from how many others each label is told apart
    (rivals), `C`, `positive_cost`, `tolerance`, the leaves of the trees of ensembles and, for texts,
    `language`, `min_count`, `ngrams` and `sublinear`. A change is kept if the mean difference over the
    validation inputs is larger than its standard error. The search goes on from there until nothing is
    better or the time is over.

    Parameters
    ----------
    estimator : HedgerowClassifier or HedgerowTextClassifier
        Gives the method, the members, the seed and all that is not tuned. It is not changed. Ensembles are
        tuned with three members.
    X, Y
        Training data, as of `HedgerowClassifier.fit`. Keep test data out of it.
    seconds : float, default=600
        Wall-clock time, including that of the trials in the journal. A trial that would not end in time, as
        far as the earlier ones can tell, is not begun. The first one always is.
    by : str, default="ndcg@5"
        The measure that decides: "ndcg", "precision" or "recall", with a number of labels.
    journal : path-like, optional
        Keep finished trials in this file. The same search goes on from there; with more `seconds`, it goes
        further.
    progress : callable(share, what), optional
        Called while trials run, with the share of the time that is over.
    finished : callable(Trial), optional
        Called after each trial.
    start : Start, optional
        Begin with the settings that the estimator has, in place of the preset "balanced".

    Returns
    -------
    Tuning

    Notes
    -----
    The gain is measured on the inputs that the settings were chosen on, so it is too high. Measure
    the chosen model on test data.

    Examples
    --------
    >>> from hedgerow import HedgerowTextClassifier
    >>> from hedgerow.data.sample import load_sample
    >>> sample = load_sample()
    >>> texts, labels = sample.train_texts[:300], sample.train_labels[:300]
    >>> found = tune(HedgerowTextClassifier(random_state=0), texts, labels, seconds=1e-9)
    >>> len(found.trials), found.out_of_time, found.estimator().judge
    (1, True, True)
    """
    measure = RankingMeasure.parse(by)
    check_real("seconds", seconds, above=0)
    if isinstance(estimator, HedgerowTransformerClassifier):
        raise TypeError("a transformer cannot be tuned; give a HedgerowTextClassifier or HedgerowClassifier")
    estimator.check_parameters()
    if journal is not None and not isinstance(estimator.random_state, int | np.integer):
        raise ValueError("a journal needs an integer random_state, or no later search could resume from it")
    budget = Budget(float(seconds), monotonic, progress)
    budget.report("reading")
    seed = estimator.draw_seed()
    data = SplitData.of(estimator, X, Y, seed)
    method = Method(estimator.method)
    preset = {} if start is not None else _preset(estimator, data, method)
    begin = start or Start(START)
    small: HedgerowClassifier = clone(estimator).set_params(**preset, random_state=seed)
    if method.trains_members:
        few = min(_FEW_MEMBERS, estimator.members)
        small.set_params(members=few, trees=None if estimator.trees is None else min(few, estimator.trees))
    plain = plain_parameters(small)
    del plain["random_state"]  # the seed has a name of its own
    asked = {
        "hedgerow": version("hedgerow"),
        "data": data.fingerprint,
        "seed": seed,
        "by": str(measure),
        "start": plain,
    }
    search = Search(small, Trainer(data, measure), Journal(journal, asked), budget, begin, finished)
    if begin.then_fit:
        search.reserve({"members": estimator.members})
    search.run()
    return Tuning(
        parameters=preset | search.found,
        changes=search.changes(),
        trials=search.trials,
        by=str(measure),
        gain=compare(search.best.scores, search.trials[0].outcome.scores),
        data=data,
        out_of_time=search.out_of_time,
        trial_members=small.members if method.trains_members else None,
        template=estimator,
    )


def _preset(estimator: HedgerowClassifier, data: SplitData, method: Method) -> dict[str, Any]:
    """The parameters that the preset chooses."""
    chosen = choose_settings(START, data.size, method, estimator.members).parameters
    return chosen | _reading(estimator, data)


def _reading(estimator: HedgerowClassifier, data: SplitData) -> dict[str, Any]:
    """How the preset reads inputs, but for what the estimator has of its own."""
    fields = None
    if isinstance(estimator, HedgerowTextClassifier):
        if estimator.analyzer != "word":
            return {}
        fields = estimator.fields
    suited = reading_parameters(START, data.inputs, data.labels, data.size, fields)
    usual = type(estimator)().get_params()
    own = {name for name, value in estimator.get_params().items() if value != usual[name]} - {"fields"}
    return {name: value for name, value in suited.items() if name not in own}
