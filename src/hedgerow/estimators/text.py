"""The classifier for texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.features import HedgerowClassifier, Progress, TopLabels
from hedgerow.familiarity.score import OODScores, Signals
from hedgerow.features.tfidf import TfidfVectorizer, as_texts
from hedgerow.inputs.training_record import Hashes, hash_texts
from hedgerow.votes.predictions import UncertainLabels
from hedgerow.votes.votes import Votes

__all__ = ["HedgerowTextClassifier"]


class HedgerowTextClassifier(HedgerowClassifier):
    """Extreme multi-label classifier for texts: tf-idf on words and word pairs, then `HedgerowClassifier`.

    Parameters
    ----------
    ngrams : (1, 1) or (1, 2), default=(1, 2)
        Words only, or words and pairs of words.
    min_count : int, default=2
        Drop terms that fewer texts have.
    max_features : int or None, default=None
        Keep so many terms, the most frequent ones.
    sublinear : bool, default=True
        Weigh a term that occurs tf times by 1 + ln(tf).
    **parameters
        As of `HedgerowClassifier`.

    Attributes
    ----------
    vectorizer_ : TfidfVectorizer
        From texts to features.

    Examples
    --------
    >>> texts = ["a thorny shrub", "a shrub with thorny twigs", "an evergreen tree", "the evergreen tree"]
    >>> labels = [["hawthorn"], ["hawthorn"], ["holly"], ["holly"]]
    >>> model = HedgerowTextClassifier(random_state=0).fit(texts, labels)
    >>> model.top(["evergreen"], k=1).labels
    array([['holly']], dtype=object)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HedgerowClassifier._parameter_constraints,
        "ngrams": [tuple, list],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "max_features": [Interval(Integral, 1, None, closed="left"), None],
        "sublinear": ["boolean"],
    }

    def __init__(
        self,
        *,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int = 2,
        max_features: int | None = None,
        sublinear: bool = True,
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
        super().__init__(
            method=method,
            members=members,
            trees=trees,
            alpha=alpha,
            hard_negatives=hard_negatives,
            dropout=dropout,
            branching=branching,
            leaf_size=leaf_size,
            loss=loss,
            C=C,
            positive_cost=positive_cost,
            negative_cost=negative_cost,
            tolerance=tolerance,
            max_passes=max_passes,
            weight_threshold=weight_threshold,
            negatives=negatives,
            matcher_beam=matcher_beam,
            bias=bias,
            normalize=normalize,
            beam=beam,
            candidates=candidates,
            missing=missing,
            n_jobs=n_jobs,
            cluster=cluster,
            memory=memory,
            random_state=random_state,
        )
        self.ngrams = ngrams
        self.min_count = min_count
        self.max_features = max_features
        self.sublinear = sublinear

    def fit(self, X: Iterable[str], Y: Any, **options: Any) -> HedgerowTextClassifier:
        """Learn the vocabulary and the classifier.

        Parameters
        ----------
        X : iterable of str
            Texts.
        Y : indicator matrix of shape (n, L), or list of lists of labels
            The labels of each text.
        **options
            As of `HedgerowClassifier.fit`.

        Returns
        -------
        self
        """
        self._check_parameters()
        vectorizer = self._new_vectorizer()
        if (progress := options.get("progress")) is not None:
            progress(0.0, "reading words")
        texts = cast("tuple[str, ...]", as_texts(X))
        features = vectorizer.fit_transform(texts)
        self._fit(features, Y, hash_texts(texts), **options)
        self.vectorizer_ = vectorizer
        return self

    def top(self, X: Iterable[str], k: int = 5, **options: Any) -> TopLabels:
        """The k most probable labels of each text; see `HedgerowClassifier.top`."""
        return super().top(self._transform(X, options.get("progress")), k, **options)

    def add_members(self, X: Iterable[str], Y: Any, count: int, **options: Any) -> HedgerowTextClassifier:
        """Train more members on the same texts; see `HedgerowClassifier.add_members`."""
        texts = cast("tuple[str, ...]", as_texts(X))
        features = self._transform(texts, options.get("progress"))
        self._add_members(features, Y, hash_texts(texts), count, **options)
        return self

    def predict_uncertain(self, X: Iterable[str], k: int = 5, **options: Any) -> UncertainLabels:
        """Labels and doubts of each text; see `HedgerowClassifier.predict_uncertain`."""
        return super().predict_uncertain(self._transform(X, options.get("progress")), k, **options)

    def predict_votes(self, X: Iterable[str], **options: Any) -> Votes:
        """What every member says of each text; see `HedgerowClassifier.predict_votes`."""
        return super().predict_votes(self._transform(X, options.get("progress")), **options)

    def learn_ood(self, X: Iterable[str]) -> HedgerowTextClassifier:
        """Learn what familiar texts look like; see `HedgerowClassifier.learn_ood`."""
        super().learn_ood(X)
        return self

    def ood_scores(self, X: Iterable[str]) -> OODScores:
        """How unlike the training data each text is; see `HedgerowClassifier.ood`."""
        return super().ood_scores(X)

    def calibrate(self, X: Iterable[str], Y: Any, **options: Any) -> HedgerowTextClassifier:
        """Calibrate with held-out texts; see `HedgerowClassifier.calibrate`."""
        super().calibrate(X, Y, **options)
        return self

    def calibrate_out_of_bag(self, X: Iterable[str], Y: Any, **options: Any) -> HedgerowTextClassifier:
        """Calibrate with the texts of the training data; see `HedgerowClassifier.calibrate_out_of_bag`."""
        super().calibrate_out_of_bag(X, Y, **options)
        return self

    def seen_in_training(self, X: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which texts the model was trained on; see `HedgerowClassifier.seen_in_training`."""
        return super().seen_in_training(X)

    def predict_proba(self, X: Iterable[str], k: int = 100) -> sp.csr_array:
        """Probabilities of the best labels of each text; see `HedgerowClassifier.predict_proba`."""
        return super().predict_proba(self._transform(X), k)

    def _signals(self, X: Iterable[str]) -> Signals:
        texts = cast("tuple[str, ...]", as_texts(X))  # read twice; the engine checks what is in it
        of_trees = super()._signals(self._transform(texts))
        wording = self.vectorizer_.wording(texts)
        words = wording.words.astype(np.float64)
        pairs = wording.unknown_pairs / np.maximum(words - 1, 1) if self.vectorizer_.has_pairs else None
        return replace(
            of_trees,
            words=words,
            unknown_words=wording.unknown_words / np.maximum(words, 1),
            unknown_pairs=pairs,
            rarity=wording.rarity,
        )

    def _transform(self, texts: Iterable[str], progress: Progress | None = None) -> sp.csr_array:
        check_is_fitted(self, "vectorizer_")
        self.vectorizer_.n_jobs = self.n_jobs
        return self.vectorizer_.transform(texts)

    def _inputs(self, X: Any) -> Any:
        return as_texts(X)

    def _hashes(self, X: Any) -> Hashes:
        for row, text in enumerate(X):
            if not isinstance(text, str):
                raise TypeError(f"text {row} is {text!r} of type {type(text).__name__}; texts are strings")
        return hash_texts(X)

    # The one row of features of each text, which can be explained.
    def _plain_features(self, texts: Iterable[str]) -> sp.csr_array:
        return self._transform(texts)

    def _feature_name(self, column: int) -> str:
        return self.vectorizer_.feature_name(column)

    def _new_vectorizer(self) -> TfidfVectorizer:
        return TfidfVectorizer(
            ngrams=tuple(self.ngrams),  # type: ignore[arg-type]  # JSON has no tuples
            min_count=self.min_count,
            max_features=self.max_features,
            sublinear=self.sublinear,
            n_jobs=self.n_jobs,
        )

    def _extend(self, sections: dict[str, Any], header: dict[str, Any]) -> None:
        header["kind"] = "text"
        # What texts become is decided by what was fitted, whatever was set since.
        header["parameters"] |= {"sublinear": self.vectorizer_.sublinear}
        for name, array in self.vectorizer_.to_arrays().items():
            sections[f"text.{name}"] = array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
