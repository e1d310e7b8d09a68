"""The classifiers that people use: scikit-learn's conventions over the engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from hedgerow import _native
from hedgerow.label_tree import LabelTree, aggregate_features
from hedgerow.labels import encode_labels
from hedgerow.matrices import as_rows
from hedgerow.model_file import Malformed, ModelFile, read_model, write_model
from hedgerow.text import TfidfVectorizer
from hedgerow.threads import threads_for
from hedgerow.tree_classifier import TreeClassifier

__all__ = ["HedgerowClassifier", "HedgerowTextClassifier", "TopLabels", "load"]

Progress = Callable[[float, str], None]


_SEARCH_CONSTRAINTS: dict[str, list[Any]] = {"beam": [Interval(Integral, 1, None, closed="left")]}


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
    method : {"single"}, default="single"
        How members are made. "single" is one tree.
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
    candidates : int, default=100
        Labels for each input in `predict_proba`.
    n_jobs : int or None, default=None
        Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.
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
        "method": [StrOptions({"single"})],
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
        "candidates": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        method: str = "single",
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
        candidates: int = 100,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
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
        self.n_jobs = n_jobs
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
        progress: Progress | None = None,
    ) -> HedgerowClassifier:
        """Grow the tree and train its classifiers.

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
            A tree of your own, over columns of Y.
        label_features : sparse matrix, shape (L, f), optional
            Cluster the labels by these vectors instead of by the inputs that carry them.
        sample_weight : array, shape (n,), optional
            Factor on C for each input; 0 leaves it out.
        progress : callable(share, what), optional
            Called some ten times a second.

        Returns
        -------
        self
        """
        self._check_parameters()
        threads = self._threads()
        rows = as_rows(X, threads=threads)
        count, width = X.shape if hasattr(X, "shape") else np.shape(X)
        matrix, labels, names = encode_labels(Y, count, classes, threads)
        costs = _as_costs(sample_weight, count)
        seed = self._seed()
        if tree is None:
            tree = self._grow(rows, matrix, width, label_features, costs, seed, threads, progress)
        elif label_features is not None:
            raise ValueError("give either tree or label_features, not both")
        elif not isinstance(tree, LabelTree):
            raise TypeError(
                f"tree is a {type(tree).__name__}; build a LabelTree, such as with LabelTree.from_clusters"
            )
        elif int(tree.labels.max()) >= matrix.shape[1]:
            raise ValueError(
                f"the tree has label {tree.labels.max()}, but Y has only {matrix.shape[1]} columns"
            )
        self._trained = TreeClassifier.train(
            rows,
            labels,
            width,
            tree,
            loss=self.loss,
            costs=costs,
            threads=threads,
            progress=_stage(progress, "training"),
            C=self.C,
            positive_cost=self.positive_cost,
            negative_cost=self.negative_cost,
            bias=self.bias,
            tolerance=self.tolerance,
            max_passes=_within_int32(self.max_passes),
            weight_threshold=self.weight_threshold,
            matcher_beam=_within_int32(self.matcher_beam) if self.negatives == "tfn+man" else 0,
            normalize=self.normalize,
            seed=seed,
        )
        self.classes_ = names
        self.n_features_in_ = width
        self.tree_ = tree
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
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        labels, probability = self._search(rows, k, exact, progress)
        return TopLabels(self.classes_[labels], probability)

    def predict_proba(self, X: Any) -> sp.csr_array:
        """Probabilities of the best labels of each input.

        Parameters
        ----------
        X : sparse matrix or array, shape (n, d)
            Inputs.

        Returns
        -------
        csr_array of float32, shape (n, n_labels)
            The best `candidates` labels of each row; every other label counts as 0.
        """
        check_is_fitted(self, "tree_")
        rows = as_rows(X, columns=self.n_features_in_, threads=self._threads())
        k = min(int(self.candidates), len(self.tree_.labels))
        labels, probability = self._search(rows, k, False, None)
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
        """Precision at 1: how often the most probable label is right.

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
        best = self.top(X, k=1).labels[:, 0]
        if sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.dtype != object):
            column = {name: i for i, name in enumerate(self.classes_.tolist())}
            truth = sp.csr_array(cast(Any, Y))
            right = [bool(truth[i, column[label]]) for i, label in enumerate(best.tolist())]
        else:
            right = [label in set(labels) for label, labels in zip(best.tolist(), Y, strict=True)]
        return float(np.mean(right))

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
        sections: dict[str, Any] = dict(self._trained.to_sections("tree.0"))
        header = {
            "kind": "features",
            "parameters": self._plain_parameters(),
            "labels": len(self.classes_),
            "trees": [self._trained.to_header()],
        }
        self._add_classes(sections, header)
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
            Check every byte. False opens a file of any size in milliseconds and checks its header and bounds
            only: use it for files that you verified once.

        Returns
        -------
        HedgerowClassifier or HedgerowTextClassifier
        """
        model = load(path, verify)
        if not isinstance(model, cls):
            raise Malformed(f"{os.fspath(path)} holds a {type(model).__name__}; open it with hedgerow.load")
        return model

    def describe(self) -> dict[str, Any]:
        """What the model is, for people and programs."""
        check_is_fitted(self, "tree_")
        trained = self._trained
        return {
            "type": type(self).__name__,
            "labels": len(self.classes_),
            "labels_in_tree": len(self.tree_.labels),
            "features": self.n_features_in_,
            "trees": 1,
            "layers": list(self.tree_.layer_sizes),
            "transform": trained.transform,
            "weights": trained.weights,
            "bytes_of_weights": int(trained.native.table()[:, 1].sum()),
            "parameters": self._plain_parameters(),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    # What HedgerowTextClassifier adds to a file.
    def _extend(self, sections: dict[str, Any], header: dict[str, Any]) -> None:
        pass

    def _check_parameters(self) -> None:
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name=type(self).__name__
        )

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
        known = len(self.tree_.labels)
        if k > known:
            raise ValueError(f"k is {k}, but the model knows only {known} labels; ask for {known} or fewer")
        return int(k)

    def _grow(
        self,
        rows: _native.Rows,
        Y: sp.csr_array,
        width: int,
        label_features: Any,
        costs: npt.NDArray[np.float32] | None,
        seed: int,
        threads: int,
        progress: Progress | None,
    ) -> LabelTree:
        taught = Y if costs is None else Y[costs > 0]
        used = np.flatnonzero(np.bincount(taught.indices, minlength=Y.shape[1])).astype(np.int32)
        if not used.size:
            raise ValueError("no input with a weight above 0 has any label; there is nothing to learn")
        if label_features is None:
            vectors = aggregate_features(
                rows, Y, used, width, costs, self.normalize, threads, _stage(progress, "aggregating")
            )
        else:
            as_rows(label_features, "label_features", threads=threads)
            vectors = sp.csr_array(label_features)
            if vectors.shape[0] != Y.shape[1]:
                raise ValueError(
                    f"label_features has {vectors.shape[0]} rows, but Y has {Y.shape[1]} columns"
                )
            vectors = vectors[used]
        return LabelTree.grow(
            vectors,
            used,
            branching=self.branching,
            leaf_size=_within_int32(self.leaf_size),
            seed=seed,
            threads=threads,
            progress=_stage(progress, "clustering"),
        )

    def _search(
        self, rows: _native.Rows, k: int, exact: bool, progress: Progress | None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        # Not all parameters: that would take as long as the search for one input.
        validate_parameter_constraints(_SEARCH_CONSTRAINTS, {"beam": self.beam}, type(self).__name__)
        beam = _within_int32(self.beam)
        return self._trained.top(rows, k, beam, exact, self._threads(), _stage(progress, "predicting"))

    def _plain_parameters(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name, value in sorted(self.get_params(deep=False).items()):
            if isinstance(value, np.generic):
                value = value.item()
            # A model file must not depend on how many threads made it, nor can it hold a random generator.
            if name == "n_jobs" or (name == "random_state" and not isinstance(value, int)):
                value = None
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain

    def _add_classes(self, sections: dict[str, Any], header: dict[str, Any]) -> None:
        header["names"] = self.classes_.dtype == object
        if header["names"]:
            encoded = [name.encode() for name in self.classes_]
            sections["classes.begins"] = np.concatenate([[0], np.cumsum([len(e) for e in encoded])]).astype(
                np.uint64
            )
            sections["classes.text"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        else:
            sections["classes.numbers"] = np.asarray(self.classes_, dtype=np.int64)


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
        candidates: int = 100,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            method=method,
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
            n_jobs=n_jobs,
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
        features = vectorizer.fit_transform(X)
        super().fit(features, Y, **options)
        self.vectorizer_ = vectorizer
        return self

    def top(self, X: Iterable[str], k: int = 5, **options: Any) -> TopLabels:
        """The k most probable labels of each text; see `HedgerowClassifier.top`."""
        return super().top(self._transform(X), k, **options)

    def predict_proba(self, X: Iterable[str]) -> sp.csr_array:
        """Probabilities of the best labels of each text; see `HedgerowClassifier.predict_proba`."""
        return super().predict_proba(self._transform(X))

    def _transform(self, texts: Iterable[str]) -> sp.csr_array:
        check_is_fitted(self, "vectorizer_")
        self.vectorizer_.n_jobs = self.n_jobs
        return self.vectorizer_.transform(texts)

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
        for name, array in self.vectorizer_.to_arrays().items():
            sections[f"text.{name}"] = array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def load(path: str | os.PathLike[str], verify: bool = True) -> HedgerowClassifier:
    """Open a model file, whichever classifier it holds.

    Parameters
    ----------
    path : path-like
        The file.
    verify : bool
        Check every byte; see `HedgerowClassifier.load`.

    Returns
    -------
    HedgerowClassifier or HedgerowTextClassifier
    """
    file = read_model(path, verify=verify)
    kinds = {"features": HedgerowClassifier, "text": HedgerowTextClassifier}
    try:
        header = file.header
        if header["kind"] not in kinds:
            raise ValueError(f"unknown kind of model {header['kind']!r}")
        model = kinds[header["kind"]](**header["parameters"])
        model._check_parameters()
        model.classes_ = _read_classes(file)
        (tree,) = header["trees"]
        model._trained = TreeClassifier.from_sections(
            "tree.0", tree, file.sections, len(model.classes_), verify
        )
        model.tree_ = model._trained.tree
        model.n_features_in_ = model._trained.features
        if isinstance(model, HedgerowTextClassifier):
            vectorizer = model._new_vectorizer()
            prefix = "text."
            arrays = {n[len(prefix) :]: a for n, a in file.sections.items() if n.startswith(prefix)}
            model.vectorizer_ = TfidfVectorizer.from_arrays(vectorizer.get_params(), arrays)
            if len(model.vectorizer_.idf_) != model.n_features_in_:
                raise ValueError("the vocabulary and the weights differ in their number of features")
    except Malformed:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Malformed(f"{file.path} does not hold a whole model: {error}") from error
    return model


def _read_classes(file: ModelFile) -> npt.NDArray[Any]:
    if not file.header["names"]:
        numbers = file.sections["classes.numbers"]
        if numbers.dtype != np.int64 or numbers.shape != (file.header["labels"],):
            raise ValueError("the labels have another type or number")
        return np.asarray(numbers)
    begins, text = file.sections["classes.begins"], file.sections["classes.text"]
    if begins.dtype != np.uint64 or text.dtype != np.uint8 or begins.shape != (file.header["labels"] + 1,):
        raise ValueError("the label names have another type or number")
    bounds = begins.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != text.size or (np.diff(bounds) < 0).any():
        raise ValueError("the label names are cut wrongly")
    whole = text.tobytes()
    names = np.empty(len(bounds) - 1, dtype=object)
    for i, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        names[i] = whole[begin:end].decode()
    return names


def _within_int32(size: int) -> int:
    """The engine counts in 32 bits; whatever is larger means "no limit"."""
    return min(int(size), np.iinfo(np.int32).max)


def _as_costs(sample_weight: npt.ArrayLike | None, rows: int) -> npt.NDArray[np.float32] | None:
    if sample_weight is None:
        return None
    try:
        with np.errstate(over="ignore"):
            costs = np.ascontiguousarray(sample_weight, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight is no vector of numbers: {error}") from error
    if costs.shape != (rows,):
        raise ValueError(f"sample_weight has shape {costs.shape}, but there are {rows} inputs")
    bad = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] is {costs[bad[0]]}; weights are finite and not negative")
    if not costs.any():
        raise ValueError("sample_weight is 0 for every input; there is nothing to learn from")
    return costs


def _stage(progress: Progress | None, what: str) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress(share, what)
