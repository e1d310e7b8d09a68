"""A fitted model: everything that was learned, in one frozen object that votes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from hedgerow import _native
from hedgerow.decisions.coarser import CoarserPolicy
from hedgerow.decisions.policy import Policy
from hedgerow.familiarity.detector import OODDetector
from hedgerow.features.readers import Reader
from hedgerow.features.tfidf import Wording
from hedgerow.inputs.labels import truth_for
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.rows import count
from hedgerow.inputs.search import SURE_LABELS, JudgedSearch, SearchSettings
from hedgerow.inputs.subset import LabelSubset, label_subset
from hedgerow.inputs.training_record import Hashes, TrainingRecord
from hedgerow.judge.broader import BroaderCalibration
from hedgerow.judge.calibration import Calibration
from hedgerow.judge.crossed_out import crossed_out, filled, together
from hedgerow.judge.judging import HEADROOM, Judge, NoJudge, judged_each
from hedgerow.judge.names import NamedInputs, NameJudge
from hedgerow.judge.scorers import Scorers
from hedgerow.progress import Progress, stage
from hedgerow.quality.expectation import ExpectedQuality, QualityModel
from hedgerow.quality.learning import expected_of, is_search_of
from hedgerow.records.lineage import Lineage
from hedgerow.shift.reference import Reference
from hedgerow.shift.watch import NO_REFERENCE, ShiftWatch, UntestedShift
from hedgerow.training.data import Costs, drawn_for
from hedgerow.training.settings import Method
from hedgerow.trees.forest import Ensemble, Floats, Found
from hedgerow.trees.nearness import nearest_cosines
from hedgerow.trees.tree_model import TreeClassifier
from hedgerow.vocabulary.naming import Naming
from hedgerow.vocabulary.vocabulary import Vocabulary
from hedgerow.votes.batches import answer_batches
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.signals import Signals
from hedgerow.votes.source import Answer
from hedgerow.votes.votes import Votes

__all__ = ["Fitted", "Model", "fitted_model"]

# Two nodes of the first layer of the tree, four of the second, eight of the third: an input belongs to few.
REACHES = ((1, 2), (2, 4), (3, 8))


@dataclass(frozen=True, eq=False)
class Model:
    """All fitted state; learning more gives a new object.

    Imported models have no label counts, number of samples and training record. Calibration, OOD detector,
    policy and expected quality are None until learned, and so is the vocabulary until one is set. A judge,
    where there is one, scores what the forest finds, with the help of scorers; `no_judge` says why there is
    none, where that is known. What left the vocabulary keeps its names for those who look for them, and is
    reported; fitting again forgets it. Centroids are there for the OOD detector, if it was given training
    data; a judge has some of its own. No result depends on the threads (0: all processors).
    """

    method: Method
    reader: Reader
    forest: Ensemble
    classes: npt.NDArray[Any]
    label_counts: npt.NDArray[np.int64] | None = None
    n_samples: int | None = None
    training: TrainingRecord | None = None
    judge: Judge | None = None
    no_judge: NoJudge | None = None
    scorers: Scorers | None = None
    calibration: Calibration | None = None
    ood: OODDetector | None = None
    centroids: TreeClassifier | None = None
    policy: Policy | None = None
    reference: Reference | None = None
    quality: QualityModel | None = None
    broader: BroaderCalibration | None = None
    coarser: CoarserPolicy | None = None
    vocabulary: Vocabulary | None = None
    left: Vocabulary | None = None
    names: NameJudge | None = None
    lineage: Lineage = field(default_factory=Lineage)
    search: SearchSettings = field(default_factory=SearchSettings)
    threads: int = 0

    @property
    def finding(self) -> SearchSettings:
        """The search for candidates: a judge hears the best of each member, unless it is to hear more.

        In a single tree whose own classifiers the judge hears, the search scores them by the way.
        """
        search = self.search
        if self.judge is None:
            return search
        if search.candidates == "scored":
            search = replace(search, candidates=judged_each(self.members))
        if self.scorers is not None and self.scorers.shared and self.members == 1 and not self.forest.dropout:
            return JudgedSearch(**vars(search), headroom=HEADROOM)
        return search

    # --- what was learned ---

    @property
    def members(self) -> int:
        """Number of members."""
        return self.forest.members

    @property
    def known(self) -> int:
        """Number of labels that can be predicted."""
        return self.known_of(None)

    @property
    def transform(self) -> str:
        """How scores become probabilities."""
        return self.forest.transform

    @property
    def judges(self) -> bool:
        """Whether what the trees find is judged again, by a judge or by names."""
        return self.judge is not None or self.names is not None

    @property
    def calibrated(self) -> bool:
        """Whether probabilities are calibrated."""
        return self.calibration is not None

    @property
    def identity(self) -> str:
        """What tells this training from any other; empty for imported models."""
        if self.lineage.hash:
            return self.lineage.hash
        return "" if self.training is None else f"{self.training.fingerprint}-{self.training.seed}"

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of what was learned from held-out data; it is about the votes of these trees."""
        parts = (
            ("calibration", self.calibration),
            ("OOD detector", self.ood),
            ("policy", self.policy),
            ("expected quality", self.quality),
            ("calibration of broader terms", self.broader),
            ("policy for broader terms", self.coarser),
        )
        return tuple(name for name, part in parts if part is not None)

    @cached_property
    def _unlearned(self) -> npt.NDArray[np.bool_] | None:
        """Which labels no training input has, where that is known."""
        return None if self.label_counts is None else np.asarray(self.label_counts == 0)

    @cached_property
    def column(self) -> dict[Any, int]:
        """The column of each label."""
        return {label: number for number, label in enumerate(self.classes.tolist())}

    def subset(
        self, only: Iterable[Any] | None = None, exclude: Iterable[Any] | None = None
    ) -> LabelSubset | None:
        """The labels that may be answered: of `only`, if given, without `exclude`. None means all labels."""
        if only is None and exclude is None:
            return None
        subset = label_subset(self.column, only, exclude)
        if not self.known_of(subset):
            raise ValueError(
                f"none of the {len(subset):,} allowed labels is on an input that the model learned from"
                f"{'' if self.names is None else ', or has a name to look for'}, so it can answer none of"
                " them; allow others"
            )
        return subset

    def known_of(self, subset: LabelSubset | None) -> int:
        """Number of labels of a subset, or of all, that can be predicted: a tree or a name finds them."""
        if self.names is None:
            return self.forest.known if subset is None else self.forest.known_of(subset)
        found = self.forest.knows | self.names.named
        return int((found if subset is None else found[subset.columns]).sum())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("column", "_unlearned")}

    def finds(self, k: int, subset: LabelSubset | None = None) -> bool:
        """Whether the search as set finds k labels of any input, without widening the beam."""
        if not isinstance(self.search.candidates, str) and self.search.candidates < k:
            return False
        if self.search.floor > 0 and k > SURE_LABELS:
            return False
        if self.names is not None:
            k = min(k, self.forest.known if subset is None else self.forest.known_of(subset))
        return self.search.candidates == "all" or self.forest.leaves_for(k, subset) <= self.search.beam

    def with_calibration(self, calibration: Calibration) -> Model:
        """The same model, calibrated; without what it learned of other probabilities, such as its policy."""
        return replace(self.uncalibrated(), calibration=calibration)

    def with_broader(self, broader: BroaderCalibration) -> Model:
        """The same model, voting on broader terms; without its policy for other votes on them."""
        return replace(self, broader=broader, coarser=None)

    def with_vocabulary(self, vocabulary: Vocabulary | None, left: Vocabulary | None = None) -> Model:
        """The same model with another vocabulary, and what left; without what it learned of broader terms."""
        return replace(self, vocabulary=vocabulary, left=left, broader=None, coarser=None)

    def with_ood(self, ood: OODDetector) -> Model:
        """The same model with another detector; policy and reference lose the scores of the old one."""
        return replace(
            self,
            ood=ood,
            policy=None if self.policy is None else self.policy.without_ood(),
            reference=None if self.reference is None else self.reference.without_ood(),
        )

    def uncalibrated(self) -> Model:
        """The same model without its calibration, and so without its policy and expected quality."""
        return replace(
            self,
            calibration=None,
            policy=None,
            reference=None,
            quality=None,
            broader=None,
            coarser=None,
        )

    def watch(
        self, *, some_labels: bool = False, in_order: bool = False
    ) -> ShiftWatch | UntestedShift | None:
        """What compares new inputs with the held-out ones of the policy; None without a policy.

        Where only `some_labels` may be answered, only what is about the inputs is compared.
        """
        if self.policy is None:
            return None
        reference = self.reference
        if reference is None:
            return UntestedShift(NO_REFERENCE)
        if some_labels:
            reference = reference.about_inputs()
            if not reference.names:
                return UntestedShift("only some labels are allowed, and the model has no OOD detector")
        return ShiftWatch(reference, self.ood, in_order)

    def label_depths(self) -> npt.NDArray[np.float64]:
        """The depth of each label in the trees, the mean over the members; 0 where a tree lacks it."""
        depth = np.zeros(len(self.classes))
        for tree in self.forest.trees:
            depth[tree.tree.labels] += len(tree.tree.begins) * tree.members
        return depth / sum(tree.members for tree in self.forest.trees)

    # --- what the vocabulary says of labels ---

    def naming(self, lang: str | None = None) -> Naming | None:
        """How labels are called; None without a vocabulary, where no language can be asked for."""
        if self.vocabulary is None:
            if lang is not None:
                raise ValueError(
                    f"the model has no vocabulary, so labels have no names in the language {lang!r}; give it"
                    " one with hedgerow vocabulary set"
                )
            return None
        self.vocabulary.check_language(lang)
        return Naming(self.vocabulary, lang)

    def labels_in(self, schemes: Iterable[str] = (), subtrees: Iterable[str] = ()) -> list[Any]:
        """The labels that belong to any of some schemes, or are any of some entries or below one.

        Of a scheme or a subtree, entries that are no labels of the model are left out.
        """
        vocabulary = self.vocabulary
        if vocabulary is None:
            raise ValueError(
                "the model has no vocabulary, so it knows no schemes and no broader entries; give it one with"
                " hedgerow vocabulary set"
            )
        wanted: set[str] = set()
        try:
            for scheme in schemes:
                wanted.update(vocabulary.in_scheme(scheme))
            for entry in subtrees:
                wanted.update(vocabulary.subtree(entry))
        except KeyError as error:
            raise ValueError(error.args[0]) from error
        return [label for label in self.classes.tolist() if str(label) in wanted]

    # --- inputs ---

    def inputs(self, X: Any) -> Any:
        """The inputs in a form that can be counted and cut."""
        return self.reader.inputs(X)

    def check(self, inputs: Any) -> None:
        """Refuse inputs whose values cannot be read."""
        self.reader.check(inputs, self.threads)

    def inputs_and_truth(self, X: Any, Y: Any) -> tuple[Any, sp.csr_array]:
        """The same with their labels, in the columns of the model; labels it does not know come last."""
        inputs = self.inputs(X)
        truth = truth_for(Y, self.classes)
        if count(inputs) != truth.shape[0]:
            raise ValueError(f"there are {count(inputs)} inputs, but labels for {truth.shape[0]}")
        return inputs, as_truth(truth, truth.shape[0], len(self.classes))

    def hashes(self, inputs: Any) -> Hashes:
        """A 64-bit hash of each input."""
        return self.reader.hashes(inputs, self.threads)

    def seen(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which inputs the model was trained on; none where it does not remember."""
        return np.zeros(len(hashes), dtype=bool) if self.training is None else self.training.has(hashes)

    def unseen_by_members(
        self, hashes: Hashes, truth: sp.csr_array, costs: Costs, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which members were not trained on each of these rows of the training data: (rows, members)."""
        if not self.method.bootstraps:
            raise ValueError(
                f"method {self.method.value!r} trains every member on all training data, so none is left to"
                " calibrate with; use held-out data, or fit with method='bagging'"
            )
        if self.scorers is not None:
            raise ValueError(
                "what the judge asks was trained on all training data, so none is left to calibrate with; use"
                " held-out data"
            )
        if self.training is None:
            raise ValueError(
                "the model was imported or its file is old, so it does not know its training data; calibrate"
                " with held-out data"
            )
        if self.reader.knows_training:
            raise ValueError(
                "all members share an encoder that was fine-tuned on all training data; calibrate with"
                " held-out data, or fit with encoders=members from an encoder not fine-tuned on these data"
            )
        if not self.training.is_of(hashes, truth):
            raise ValueError(
                "these are not the data that the model was fitted to, in the same order; give those, or"
                " calibrate with held-out data"
            )
        unseen = np.empty((len(rows), self.members), dtype=bool)
        _, same = np.unique(hashes, return_inverse=True)  # equal inputs count as one
        for member in range(self.members):
            drawn = drawn_for(member, self.training.seed, truth, costs, True)[1]
            unseen[:, member] = np.bincount(same, weights=drawn)[same[rows]] == 0
        return unseen

    # --- predictions ---

    def answer(
        self,
        inputs: Any,
        *,
        tolerance: float | None = None,
        k: int = 1,
        signals: bool = False,
        subset: LabelSubset | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Read once, search once: the calibrated votes on at least k labels of each input, or of a subset."""
        search = self.finding if tolerance is None else replace(self.finding, tolerance=tolerance)
        reading = self.reader.read(inputs, self.threads, wording=signals, progress=progress)
        reach = REACHES if signals else ()
        report = stage(progress, "predicting")
        if self.names is None:
            found = self.forest.votes(reading.rows, k, search, self.threads, reach, report, subset)
            votes = self._judged(reading.rows, found)
        else:
            # What names say of a label depends on all candidates, so they are found without the subset, too.
            least = min(k, self.forest.known)
            found = self.forest.votes(reading.rows, least, search, self.threads, reach, report)
            votes = self._judged(reading.rows, found)
            if subset is not None and search.candidates != "all" and self.forest.known_of(subset):
                least = min(k, self.forest.known_of(subset))
                some = self.forest.votes(reading.rows, least, search, self.threads, subset=subset)
                votes = together(votes, self._judged(reading.rows, some))
            read = NamedInputs(self.reader.texts_apart(inputs), reading.embeddings)
            votes = self._named(self.names, read, votes, k, subset)
        ranking = None
        if self.calibration is not None:
            if self.calibration.keeps_order:
                ranking = _float_means(votes.probs)
            votes = self.calibration.apply(votes, n_jobs=self.threads or None)
        shown = None
        if found.reach is not None:
            shown = self._signals(reading.rows, found.reach, reading.wording)
        return Answer(votes, ranking, shown)

    def _judged(self, rows: _native.Rows, found: Found) -> Votes:
        """The votes on what was found; a judge knows no bound on how far they may be off."""
        probs = found.probs
        bound: npt.NDArray[np.float32] | None = found.bound
        missed: npt.NDArray[np.float32] | None = found.missed
        if self.judge is not None and self.scorers is not None:
            scores = self.scorers.score(rows, found.indptr, found.labels, self.threads, found.classifiers)
            probs = self.judge.apply(found.labels, probs, scores, self.threads)
            bound = missed = None
        return Votes(found.indptr, found.labels, probs, len(self.classes), bound, missed, self.classes)

    def _named(
        self, names: NameJudge, inputs: NamedInputs, votes: Votes, k: int, subset: LabelSubset | None
    ) -> Votes:
        """The votes, and what names say of labels and add to them; of a subset, if one is given."""
        indptr, labels, probs = names.apply(inputs, votes.indptr, votes.labels, votes.probs, self.threads)
        unlearned = self._unlearned if self.members == 1 else None
        votes = Votes(indptr, labels, probs, len(self.classes), classes=self.classes, unlearned=unlearned)
        if subset is not None:
            votes = crossed_out(votes, subset)
        if not len(votes) or np.diff(votes.indptr).min() >= k:
            return votes
        can = np.flatnonzero(self.forest.knows | names.named).astype(np.int32)
        return filled(votes, k, can if subset is None else np.intersect1d(can, subset.columns))

    @property
    def forecasts(self) -> bool:
        """Whether it has learned how good answers are, for this search."""
        return self.quality is not None and is_search_of(self.quality, self.search)

    def expected(self, inputs: Any, answer: Answer, k: int) -> ExpectedQuality | None:
        """How good its best labels are expected to be, from an answer on at least k; None where not learned.

        Where the answer is of a wider or narrower search than that for the best labels, there is another.
        """
        learned = self.quality
        if learned is None or not self.forecasts:
            return None
        if answer.signals is None or not self.finds(max(k, learned.k)):
            answer = self.answer(inputs, k=learned.k, signals=True)
        return expected_of(answer, learned, threads=self.threads)

    def signals(self, inputs: Any) -> Signals:
        """What the OOD score is computed from; labels are not searched for."""
        reading = self.reader.read(inputs, self.threads, wording=True)
        reach = self.forest.reach(reading.rows, REACHES, self.threads)
        return self._signals(reading.rows, reach, reading.wording)

    @property
    def nearness(self) -> TreeClassifier | None:
        """The centroids of labels, its own or the judge's; None where there are none."""
        if self.centroids is not None or self.forest.rows_each > 1:
            return self.centroids
        return None if self.scorers is None else self.scorers.centroids

    def _signals(self, rows: _native.Rows, reach: Floats, wording: Wording | None) -> Signals:
        found = _signals(reach, wording, self.reader.has_pairs)
        centroids = self.nearness
        if centroids is None or (self.ood is not None and "nearest_label" not in self.ood.names):
            return found
        cosines = nearest_cosines(centroids, len(self.classes), rows, self.threads)
        mean = np.zeros(len(cosines))
        for column in cosines.T:  # one after the other: a sum along rows may round otherwise in another batch
            mean += column
        return replace(found, nearest_label=cosines[:, 0].copy(), nearest_labels=mean / cosines.shape[1])

    def top(
        self,
        inputs: Any,
        k: int,
        exact: bool = False,
        progress: Progress | None = None,
        subset: LabelSubset | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Columns of the best k labels of each input, and their probabilities."""
        calibration, search = self.calibration, self.search
        moved_apart = calibration is not None and not calibration.keeps_order
        if moved_apart or self.judges or self.forest.rows_each > 1:
            if exact:
                search = replace(search, candidates="all")
            source = replace(self, search=search)
            found = source.uncertain_from_votes(inputs, k, None, progress, named=False, subset=subset)
            return found.labels, found.probability
        reading = self.reader.read(inputs, self.threads, progress=progress)
        report = stage(progress, "predicting")
        labels, probability = self.forest.top(reading.rows, k, search, self.threads, exact, report, subset)
        if calibration is not None:
            calibration.check_fits(len(self.classes), self.members)
            moved = calibration.moved(labels.ravel(), probability.reshape(-1, 1), self.threads)
            probability = moved.reshape(probability.shape)
        return labels, probability

    def uncertain(
        self,
        inputs: Any,
        k: int,
        tolerance: float | None = None,
        progress: Progress | None = None,
        subset: LabelSubset | None = None,
    ) -> UncertainLabels:
        """The best k labels of each input with all measures."""
        if self.calibration is not None or self.judges or self.forest.rows_each > 1:
            return self.uncertain_from_votes(inputs, k, tolerance, progress, subset=subset)
        search = self.search if tolerance is None else replace(self.search, tolerance=tolerance)
        reading = self.reader.read(inputs, self.threads, progress=progress)
        report = stage(progress, "predicting")
        found = self.forest.uncertain(reading.rows, k, search, self.threads, report, subset)
        return UncertainLabels.from_search(found, self.classes)

    def uncertain_from_votes(
        self,
        inputs: Any,
        k: int,
        tolerance: float | None = None,
        progress: Progress | None = None,
        named: bool = True,
        subset: LabelSubset | None = None,
    ) -> UncertainLabels:
        """The same from calibrated votes; unnamed labels stay numbers."""
        parts = []
        report = stage(progress, "predicting")
        for _, answer in answer_batches(
            self, inputs, tolerance=tolerance, k=k, subset=subset, progress=report
        ):
            votes = answer.votes if named else answer.votes.but(classes=None)
            parts.append(
                UncertainLabels.from_votes(votes, k, ranked_by=answer.ranking, n_jobs=self.threads or None)
            )
        return UncertainLabels.concatenate(parts)


class Fitted(Protocol):
    """A fitted classifier."""

    @property
    def source(self) -> Model:
        """What it learned."""


def fitted_model(model: Fitted | Model) -> Model:
    """The model of a classifier; TypeError for anything else."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"model is a {type(model).__name__}; give a fitted Hedgerow classifier")
    source: Model = model.source
    return source


def _signals(reach: Floats, wording: Wording | None, has_pairs: bool) -> Signals:
    first, second, third = (np.ascontiguousarray(column) for column in reach.T)
    if wording is None:
        return Signals(first, second, third)
    words = wording.words.astype(np.float64)
    return Signals(
        first,
        second,
        third,
        words=words,
        unknown_words=wording.unknown_words / np.maximum(words, 1),
        unknown_pairs=wording.unknown_pairs / np.maximum(words - 1, 1) if has_pairs else None,
        rarity=wording.rarity,
    )


def _float_means(probs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Means rounded as the engine rounds them, so that both give the same order."""
    sums = probs[:, 0].copy()
    for member in range(1, probs.shape[1]):
        sums += probs[:, member]
    sums *= np.float32(1) / np.float32(probs.shape[1])
    return sums
