"""The parameters that all classifiers share: checked here, and handed down as settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer, check_real
from hedgerow.inputs.search import FLOOR, SearchSettings
from hedgerow.inputs.threads import threads_for
from hedgerow.progress import Progress, logged
from hedgerow.training.memory import parse_bytes
from hedgerow.training.places import Limits
from hedgerow.training.ray.crew import check_address
from hedgerow.training.settings import (
    EnsembleSettings,
    Method,
    SolverSettings,
    TrainingSettings,
    TreeSettings,
)
from hedgerow.trees.label_tree import LabelTree
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["FitOptions", "Parameters", "floor_without_entry", "plain_parameters"]


@dataclass(frozen=True, eq=False)
class FitOptions:
    """What `fit` takes besides the data; see `HedgerowClassifier.fit`."""

    classes: Sequence[str] | None = None
    tree: LabelTree | None = None
    label_features: Any = None
    sample_weight: npt.ArrayLike | None = None
    checkpoint: str | os.PathLike[str] | None = None
    progress: Progress | None = None
    vocabulary: Vocabulary | None = None

    def check_tree(self, columns: int) -> None:
        """Refuse a tree that does not fit the labels, or a tree together with vectors to grow one from."""
        if self.tree is None:
            return
        if self.label_features is not None:
            raise ValueError("give either tree or label_features, not both")
        if not isinstance(self.tree, LabelTree):
            raise TypeError(
                f"tree is a {type(self.tree).__name__}; build a LabelTree, such as with"
                " LabelTree.from_clusters"
            )
        if int(self.tree.labels.max()) >= columns:
            raise ValueError(f"the tree has label {self.tree.labels.max()}, but Y has only {columns} columns")


class Parameters(BaseEstimator):  # type: ignore[misc]
    """The parameters of a constructor; `HedgerowClassifier` says what each means."""

    method: str
    members: int
    trees: int | None
    alpha: float
    hard_negatives: int
    dropout: float | None
    branching: int
    leaf_size: int
    loss: str
    C: float
    positive_cost: float
    negative_cost: float
    tolerance: float
    max_passes: int
    weight_threshold: float
    negatives: str
    matcher_beam: int
    bias: float
    normalize: bool
    dampen: bool = False
    judge: bool = False
    wide: int | None = None
    beam: int
    candidates: str | int
    missing: str
    floor: float = 0.0
    n_jobs: int | None
    cluster: str | None
    memory: str | int | None
    verbose: bool
    random_state: Any

    # What belongs to this machine or this fit: not in model files, or always with this value.
    left_out_of_files: ClassVar[frozenset[str]] = frozenset({"cluster", "memory", "verbose"})
    fixed_in_files: ClassVar[Mapping[str, Any]] = {"n_jobs": None}
    # Newer than the first files: written where it says something, so that other files stay as they were.
    left_out_at_default: ClassVar[frozenset[str]] = frozenset({"dampen", "judge", "wide"})

    def keep_parameters(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor, given its ``locals()``."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def training_settings(self) -> TrainingSettings:
        """How members are trained, checked."""
        check_choice("normalize", self.normalize, (True, False))
        scales = bool(self.normalize) and self.engine_scales
        return TrainingSettings(
            EnsembleSettings(self.method, self.members, self.trees, self.alpha, self.hard_negatives),  # type: ignore[arg-type]
            TreeSettings(self.branching, self.leaf_size, scales),
            SolverSettings(
                self.loss,
                self.C,
                self.positive_cost,
                self.negative_cost,
                self.tolerance,
                self.max_passes,
                self.weight_threshold,
                self.negatives,
                self.matcher_beam,
                self.bias,
                scales,
            ),
        )

    def search_settings(self) -> SearchSettings:
        """How labels are searched for, checked."""
        return SearchSettings(self.beam, self.candidates, self.missing, floor=self.floor)

    def check_parameters(self) -> None:
        """Raise ParameterError, or ValueError, for whatever `fit` or a prediction would refuse."""
        settings = self.training_settings()
        self.search_settings()
        check_choice("dampen", self.dampen, (True, False))
        check_choice("judge", self.judge, (True, False))
        if self.wide is not None:
            check_integer("wide", self.wide, 1)
            if not self.judge:
                raise ParameterError("wide is for a judge, which asks the wide classifier; set judge=True")
        if self.dropout is not None or self.dropout_is_needed:
            check_real("dropout", self.dropout, above=0, below=1)
        check_choice("verbose", self.verbose, (True, False))
        threads_for(self.n_jobs)
        _check_random_state(self.random_state)
        if self.cluster is not None:
            if not isinstance(self.cluster, str):
                raise ParameterError(f"cluster is {self.cluster!r}; it must be an address, or None")
            check_address(self.cluster)
        if (self.judge or self.dampen) and (self.cluster is not None or self.memory is not None):
            name = "memory" if self.cluster is None else "cluster"
            own, why = (
                ("judge", "a judge is learned in the memory of one machine")
                if self.judge
                else ("dampen", "damped features are a copy in the memory of one machine")
            )
            raise ValueError(f"{own} and {name} cannot be combined: {why}; leave one out")
        if self.memory is not None:
            parse_bytes(self.memory)
            if self.cluster is not None:
                raise ValueError(
                    "memory and cluster cannot be combined: a memory budget is for one machine; leave one out"
                )
            if settings.ensemble.method.trains_members and not settings.ensemble.own_trees:
                raise ValueError(
                    "memory and trees cannot be combined: members of one tree are merged in memory; leave"
                    " one out"
                )

    @property
    def engine_scales(self) -> bool:
        """Whether the engine scales inputs to length 1, where `normalize` asks for it."""
        return True

    @property
    def dropout_is_needed(self) -> bool:
        """Whether dropout must be a number."""
        return True

    def limits(self) -> Limits:
        """What a fit may use."""
        return Limits(threads_for(self.n_jobs), self.memory, self.cluster)

    def draw_seed(self) -> int:
        """The seed of a fit."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def reporting(self, progress: Progress | None) -> Progress | None:
        """What reports progress: the callback and, with `verbose`, the log."""
        return logged(progress) if self.verbose else progress

    def check_resumable(self, checkpoint: Any) -> None:
        """Refuse a checkpoint without a fixed seed: a later fit could not resume from it."""
        if checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                "a checkpoint needs an integer random_state, or no later fit could resume from it; choose one"
            )


def plain_parameters(estimator: Parameters) -> dict[str, Any]:
    """The parameters as a model file holds them: plain values, the same on every machine."""
    plain: dict[str, Any] = {}
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if name in estimator.left_out_of_files:
            continue
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if name == "random_state" and not isinstance(value, int):  # a file cannot hold a random generator
            value = None
        if name in estimator.fixed_in_files:
            value = estimator.fixed_in_files[name]
        if isinstance(value, Mapping):  # as pairs, since files sort what they have by name
            value = [list(pair) for pair in value.items()]
        plain[name] = list(value) if isinstance(value, tuple) else value
    defaults = signature(type(estimator).__init__).parameters
    for name in estimator.left_out_at_default & plain.keys():
        default = defaults[name].default
        if plain[name] == (list(default) if isinstance(default, tuple) else default):
            del plain[name]
    if plain.get("floor") == floor_without_entry(estimator.method):
        del plain["floor"]
    return plain


def floor_without_entry(method: str) -> float:
    """The floor that a model file means which does not name it: files of ensembles had none at first."""
    return 0.0 if Method(method).trains_members else FLOOR


def _check_random_state(random_state: Any) -> None:
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ParameterError(
            f"random_state is {random_state!r}; it must be an integer from 0 to 2**32 - 1, a RandomState or"
            " None"
        ) from error
