"""The classifier for texts that reads them with a transformer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xxhash
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hedgerow.deep.extra import load_torch
from hedgerow.deep.features import join_features
from hedgerow.estimators.features import Progress
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.features.tfidf import TfidfVectorizer, as_texts
from hedgerow.inputs.labels import encode_labels
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.training_record import MOST_SEEN, hash_texts
from hedgerow.training.members import TrainingData, as_costs, drawn_for
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.label_tree import LabelTree
from hedgerow.trees.tree_model import TreeClassifier

if TYPE_CHECKING:
    from hedgerow.deep.encoder import Encoder
    from hedgerow.deep.fine_tuning import FineTuning, FineTuningReport
    from hedgerow.deep.team import Team

__all__ = ["HedgerowTransformerClassifier"]

Texts = tuple[str, ...]
Told = Callable[[float], None] | None


@dataclass(frozen=True, eq=False)
class _Tuned:
    """Texts, what words make of them, and the encoders that learned from them.

    `knows_all` tells whether members know inputs through their encoders that their own samples lack.
    """

    texts: Texts
    vectorizer: TfidfVectorizer
    tfidf: sp.csr_array
    team: Team
    encoders: list[Encoder]
    reports: list[FineTuningReport]
    knows_all: bool


class HedgerowTransformerClassifier(HedgerowTextClassifier):
    """Extreme multi-label classifier for texts: a fine-tuned transformer beside tf-idf (XR-Transformer).

    The encoder is fine-tuned over the label tree, level by level, coarse to fine. Its embeddings are put
    behind the tf-idf features, and the engine of `HedgerowClassifier` learns from both. Needs torch and
    transformers: ``pip install 'hedgerow[deep]'``.

    Parameters
    ----------
    encoder : str or path-like, default="bert-base-uncased"
        A folder with an encoder of Hugging Face, or its name on the hub.
    encoders : int, default=1
        1: all members share one encoder, which is cheap. Or as many as there are members: each has its own,
        fine-tuned on its own sample with bagging, as in the paper.
    pooling : {"mean", "cls"}, default="mean"
        The embedding of a text: the mean of its tokens' vectors, or the vector of the first one.
    max_length : int, default=128
        Tokens of a text that count.
    epochs : float, default=1.0
        Passes over the texts at each level; 0 takes the encoder as it is.
    steps : int or None, default=None
        Batches at each level, instead of `epochs`.
    levels : int or None, default=None
        Levels of the tree to fine-tune on, from the coarsest with 16 nodes or more; None for all.
    batch_size : int, default=32
        Texts that make a step.
    micro_batch : int or None, default=None
        Texts computed at once; gradients add up to those of a batch. On a GPU it is halved where memory ends.
    learning_rate : float, default=5e-5
        Highest rate of AdamW. It rises for `warmup` of the steps and then falls to 0, at each level.
    warmup : float, default=0.1
        Share of the steps in which the rate rises.
    weight_decay : float, default=0.01
        Of AdamW.
    clip : float, default=1.0
        Largest norm of a gradient.
    level_loss : {"squared_hinge", "logistic"}, default="squared_hinge"
        What fine-tuning minimises over the candidates of a text.
    level_beam : int, default=10
        At each level, the children of so many best nodes are candidates.
    level_negatives : int, default=10
        And the wrong ones among so many best nodes of the level itself.
    embedding_weight : float, default=1.0
        Length of the embedding beside that of the tf-idf features.
    checkpoint_steps : int, default=200
        With ``fit(..., checkpoint=...)``, how often the state of fine-tuning is stored.
    device : str, default="auto"
        "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1". Not part of a model file.
    cache : path-like or None, default=None
        A folder for embeddings, so that the same texts are not embedded twice. Not part of a model file.
    dropout : float or None, default=None
        With "mc-dropout", the share of hidden units that each pass leaves out; None for the encoder's own.
    **parameters
        As of `HedgerowTextClassifier`. With "mc-dropout", a member is a pass of the encoder.

    Attributes
    ----------
    encoders_ : list of Encoder
        The fine-tuned encoders.
    fine_tuning_ : list of FineTuningReport
        What fine-tuning took; after `fit` only.

    Examples
    --------
    ::

        model = HedgerowTransformerClassifier(encoder="path/to/MiniLM", random_state=0)
        model.fit(texts, labels, progress=print)
        model.top(["an evergreen tree"], k=3).labels
    """

    # While fitting: the features that a member with an encoder of its own sees.
    _views: Callable[[int], sp.csr_array]
    # As they were when the model was fitted, whatever the parameters are now.
    _fitted_weight: float
    _fitted_dropout: float | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HedgerowTextClassifier._parameter_constraints,
        "encoder": [str, os.PathLike],
        "encoders": [Interval(Integral, 1, 4096, closed="both")],
        "pooling": [StrOptions({"mean", "cls"})],
        "max_length": [Interval(Integral, 3, None, closed="left")],
        "epochs": [Interval(Real, 0, None, closed="left")],
        "steps": [Interval(Integral, 0, None, closed="left"), None],
        "levels": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "micro_batch": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "warmup": [Interval(Real, 0, 1, closed="both")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "clip": [Interval(Real, 0, None, closed="neither")],
        "level_loss": [StrOptions({"squared_hinge", "logistic"})],
        "level_beam": [Interval(Integral, 1, None, closed="left")],
        "level_negatives": [Interval(Integral, 1, None, closed="left")],
        "embedding_weight": [Interval(Real, 0, None, closed="neither")],
        "checkpoint_steps": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "cache": [str, os.PathLike, None],
        "dropout": [Interval(Real, 0, 1, closed="neither"), None],
    }

    def __init__(
        self,
        *,
        encoder: str | os.PathLike[str] = "bert-base-uncased",
        encoders: int = 1,
        pooling: str = "mean",
        max_length: int = 128,
        epochs: float = 1.0,
        steps: int | None = None,
        levels: int | None = None,
        batch_size: int = 32,
        micro_batch: int | None = None,
        learning_rate: float = 5e-5,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        clip: float = 1.0,
        level_loss: str = "squared_hinge",
        level_beam: int = 10,
        level_negatives: int = 10,
        embedding_weight: float = 1.0,
        checkpoint_steps: int = 200,
        device: str = "auto",
        cache: str | os.PathLike[str] | None = None,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int = 2,
        max_features: int | None = None,
        sublinear: bool = True,
        method: str = "single",
        members: int = 10,
        trees: int | None = None,
        alpha: float = 0.5,
        hard_negatives: int = 10,
        dropout: float | None = None,
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
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            ngrams=ngrams,
            min_count=min_count,
            max_features=max_features,
            sublinear=sublinear,
            method=method,
            members=members,
            trees=trees,
            alpha=alpha,
            hard_negatives=hard_negatives,
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
            random_state=random_state,
        )
        self.dropout = cast("float", dropout)
        self.encoder = encoder
        self.encoders = encoders
        self.pooling = pooling
        self.max_length = max_length
        self.epochs = epochs
        self.steps = steps
        self.levels = levels
        self.batch_size = batch_size
        self.micro_batch = micro_batch
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.clip = clip
        self.level_loss = level_loss
        self.level_beam = level_beam
        self.level_negatives = level_negatives
        self.embedding_weight = embedding_weight
        self.checkpoint_steps = checkpoint_steps
        self.device = device
        self.cache = cache

    def fit(self, X: Iterable[str], Y: Any, **options: Any) -> HedgerowTransformerClassifier:
        """Fine-tune the encoder, and train the ranker on tf-idf and embeddings.

        Parameters
        ----------
        X : iterable of str
            Texts.
        Y : indicator matrix of shape (n, L), or list of lists of labels
            The labels of each text.
        **options
            As of `HedgerowClassifier.fit`. A folder as ``checkpoint`` also keeps the state of fine-tuning: a
            fit that was stopped goes on from there and, on the same machine, ends with the same model. With
            ``sample_weight``, fine-tuning sees texts as often as their share of the weights says: a pass has
            as many texts as there are, whatever the weights add up to.

        Returns
        -------
        self
        """
        tuned = self._tune(_checked_texts(X), Y, options)
        progress: Progress | None = options.get("progress")
        embeddings = [
            self._embed(
                encoder, tuned.texts, _named_stage(progress, "embedding", number, len(tuned.encoders))
            )
            for number, encoder in enumerate(tuned.encoders)
        ]
        every = list(range(len(tuned.encoders)))
        weight = float(self.embedding_weight)
        self._views = lambda number: self._joined(tuned.tfidf, [embeddings[number]], [number], weight)
        try:
            features = self._joined(tuned.tfidf, embeddings, every, weight)
            if tuned.team.rank:  # of several processes, one writes
                options["checkpoint"] = None
            self._fit(features, Y, hash_texts(tuned.texts), **options)
        finally:
            del self._views
        self.vectorizer_ = tuned.vectorizer
        self.encoders_ = tuned.encoders
        self.fine_tuning_ = tuned.reports
        self._encoder_knows_all = tuned.knows_all
        self._fitted_weight, self._fitted_dropout = weight, self.dropout
        self._expect_embeddings()
        return self

    def fine_tune(
        self, X: Iterable[str], Y: Any, folder: str | os.PathLike[str], **options: Any
    ) -> FineTuningReport:
        """Fine-tune the encoder alone and write it as a folder, for several models to share.

        A model with ``encoder=folder``, ``epochs=0`` and ``steps=None`` is then fitted as one that fine-tunes
        by itself with the same `random_state` would be, whatever its `method`. The model stays unfitted.

        Parameters
        ----------
        X, Y
            As of `fit`.
        folder : path-like
            The folder to write; it must not exist.
        **options
            As of `fit`; ``checkpoint`` keeps the state of fine-tuning.

        Returns
        -------
        FineTuningReport
        """
        if self.encoders > 1:
            raise ValueError(f"encoders is {self.encoders}, but one folder holds one encoder; use encoders=1")
        if Path(folder).exists():
            raise FileExistsError(f"{folder} exists already; choose another name, or delete it")
        tuned = self._tune(_checked_texts(X), Y, options)
        if tuned.team.rank == 0:
            tuned.encoders[0].save(folder)
        tuned.team.wait()
        return tuned.reports[0]

    def _tune(self, texts: Texts, Y: Any, options: Mapping[str, Any]) -> _Tuned:
        load_torch()
        from hedgerow.deep.encoder import Encoder
        from hedgerow.deep.team import join_team

        self._check_parameters()
        self._check_encoders()
        threads = self._threads()
        matrix, labels, _ = encode_labels(Y, len(texts), options.get("classes"), threads)
        self._check_tree(options.get("tree"), options.get("label_features"), matrix.shape[1])
        team = join_team(self.device, threads)
        start = Encoder.open(self.encoder, self.pooling, self.max_length)
        start.model.to(team.device)
        progress: Progress | None = options.get("progress")
        if progress is not None:
            progress(0.0, "reading words")
        vectorizer = self._new_vectorizer()
        tfidf = vectorizer.fit_transform(texts)
        costs = as_costs(options.get("sample_weight"), len(texts))
        data = TrainingData(as_rows(tfidf, threads=threads), labels, matrix, tfidf.shape[1], costs)
        hashes = hash_texts(texts)
        learns = self._fine_tuning().steps_for(len(texts)) > 0
        knows_all = (self.encoders == 1 and learns) or np.isin(hashes, start.trained_on).mean() > MOST_SEEN
        trained, reports = self._fine_tune(start, texts, data, self._seed(), team, options)
        if learns:
            for encoder in trained:
                encoder.trained_on = np.union1d(encoder.trained_on, hashes)
        return _Tuned(texts, vectorizer, tfidf, team, trained, reports, bool(knows_all))

    def add_members(
        self, X: Iterable[str], Y: Any, count: int, **options: Any
    ) -> HedgerowTransformerClassifier:
        """Train more members on the same texts; see `HedgerowClassifier.add_members`."""
        check_is_fitted(self, "tree_")
        if self.encoders > 1:
            raise ValueError(f"each of the {self.encoders} members has an encoder of its own; fit them anew")
        super().add_members(X, Y, count, **options)
        self._expect_embeddings()
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, for people and programs."""
        about = super().describe()
        first = self.encoders_[0]
        return {
            **about,
            "encoder": {
                "kind": first.model.config.model_type,
                "encoders": len(self.encoders_),
                "width": first.width,
                "layers": getattr(first.model.config, "num_hidden_layers", None),
                "weights": sum(of.size for of in first.weights().values()),
                "max_length": first.max_length,
                "pooling": first.pooling,
            },
        }

    def check_encoder(self) -> None:
        """Raise now what `fit` would raise of parameters and encoder, before anything long is done."""
        load_torch()
        from hedgerow.deep.encoder import check_name

        self._check_parameters()
        self._check_encoders()
        check_name(self.encoder)

    def _check_encoders(self) -> None:
        if self.encoders == 1:
            return
        if self.method in ("single", "mc-dropout"):
            raise ValueError(
                f"encoders is {self.encoders}, but method {self.method!r} has one encoder; use 'bagging',"
                " 'boosting' or 'boosted-bagging'"
            )
        if self.encoders != self.members or self._trees() != self.members:
            raise ValueError(
                f"encoders is {self.encoders}, with {self.members} members and {self._trees()} trees; use 1"
                " encoder for all members, or one encoder and one tree for each"
            )

    def _fine_tune(
        self,
        start: Encoder,
        texts: Texts,
        data: TrainingData,
        seed: int,
        team: Team,
        options: Mapping[str, Any],
    ) -> tuple[list[Encoder], list[FineTuningReport]]:
        """Encoders, each on its way from the same start."""
        from hedgerow.deep.fine_tuning import (
            EncoderCheckpoint,
            FineTuningReport,
            Targets,
            TuningData,
            fine_tune,
        )

        settings = self._fine_tuning()
        if settings.steps_for(len(texts)) == 0 and self.encoders == 1:
            return [start], [FineTuningReport()]
        progress: Progress | None = options.get("progress")
        folder = options.get("checkpoint")
        mark = ""
        if folder is not None:
            if not isinstance(self.random_state, int | np.integer):
                raise ValueError("a fit can only go on later with an integer random_state; choose one")
            mark = self._fingerprint(start, texts, data, options, seed)
        tokens = start.tokenize(texts)
        first = None
        if self.cache is not None or self.encoders > 1:  # all start from the same embeddings
            first = self._embed(start, texts, _named_stage(progress, "embedding", 0, 1)).astype(np.float32)
        trained, reports = [], []
        for number in range(self.encoders):
            own_seed, costs = seed, data.costs
            if self.encoders > 1:
                own_seed, costs = drawn_for(number, seed, data, "bagging" in self.method)
            tree = self._tree_of(data, costs, own_seed, options)
            encoder = start if self.encoders == 1 else start.copied()
            kept = None if folder is None else Path(folder) / f"encoder-{number:04d}.hedgerow"
            reports.append(
                fine_tune(
                    encoder,
                    TuningData(tokens, Targets(data.indicator, tree, costs), first),
                    settings,
                    team=team,
                    seed=own_seed,
                    checkpoint=None if kept is None else EncoderCheckpoint(kept, f"{mark}-{number}"),
                    progress=_of_encoder(progress, number, self.encoders),
                )
            )
            trained.append(encoder)
        return trained, reports

    def _tree_of(
        self,
        data: TrainingData,
        costs: npt.NDArray[np.float32] | None,
        seed: int,
        options: Mapping[str, Any],
    ) -> LabelTree:
        """The tree to fine-tune over: of words alone, since embeddings are yet to be learned."""
        if options.get("tree") is not None:
            return cast("LabelTree", options["tree"])
        return self._grow(data, options.get("label_features"), costs, seed, self._threads(), None)

    def _fine_tuning(self) -> FineTuning:
        from hedgerow.deep.fine_tuning import FineTuning
        from hedgerow.deep.levels import Matching

        return FineTuning(
            epochs=float(self.epochs),
            steps=self.steps,
            levels=self.levels,
            batch_size=self.batch_size,
            micro_batch=self.micro_batch,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            clip=self.clip,
            loss=self.level_loss,
            matching=Matching(self.level_beam, self.level_negatives),
            checkpoint_steps=self.checkpoint_steps,
        )

    def _fingerprint(
        self, start: Encoder, texts: Texts, data: TrainingData, options: Mapping[str, Any], seed: int
    ) -> str:
        """A hash of whatever decides the weights of the encoders."""
        settings = repr((sorted(self._plain_parameters().items()), seed, self.encoders))
        digest = xxhash.xxh3_128(settings.encode())
        digest.update(start.fingerprint().encode())
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        digest.update(data.fingerprint(options.get("tree"), options.get("label_features"), "").encode())
        return str(digest.hexdigest())

    def _embed(self, encoder: Encoder, texts: Texts, progress: Told, **options: Any) -> npt.NDArray[Any]:
        from hedgerow.deep.embedding_cache import EmbeddingCache

        threads = self._threads()
        if self.cache is None:
            return encoder.embed(texts, threads=threads, progress=progress, **options)
        cache = EmbeddingCache(self.cache)
        return cache.embed(encoder, texts, threads=threads, progress=progress, **options)

    def _joined(
        self,
        tfidf: sp.csr_array,
        embeddings: Sequence[npt.NDArray[Any]],
        places: Sequence[int],
        weight: float,
    ) -> sp.csr_array:
        scale = self.normalize and not self._scales_rows()
        return join_features(tfidf, embeddings, places, self.encoders, weight, scale)

    def _transform(self, texts: Iterable[str], progress: Progress | None = None) -> sp.csr_array:
        if self.method != "mc-dropout":
            return self._plain_features(texts, progress)
        from hedgerow.deep.encoder import DropoutPass

        kept = _checked_texts(texts)
        tfidf = super()._transform(kept)
        (encoder,) = self._placed_encoders()
        passes = self._ensemble.rows_each
        each = []
        for number in range(passes):
            dropout = DropoutPass(number, self._pass_seed, self._fitted_dropout)
            told = _named_stage(progress, "embedding", number, passes)
            embeddings = [self._embed(encoder, kept, told, dropout=dropout)]
            each.append(self._joined(tfidf, embeddings, [0], self._fitted_weight))
        # All passes of a text one after the other.
        order = np.arange(passes * len(kept)).reshape(passes, len(kept)).T.ravel()
        return sp.csr_array(sp.vstack(each, format="csr")[order])

    def _plain_features(self, texts: Iterable[str], progress: Progress | None = None) -> sp.csr_array:
        kept = _checked_texts(texts)
        tfidf = super()._transform(kept)
        encoders = self._placed_encoders()
        embeddings = [
            self._embed(encoder, kept, _named_stage(progress, "embedding", number, len(encoders)))
            for number, encoder in enumerate(encoders)
        ]
        return self._joined(tfidf, embeddings, list(range(len(encoders))), self._fitted_weight)

    def _placed_encoders(self) -> list[Encoder]:
        from hedgerow.deep.team import join_team

        check_is_fitted(self, "encoders_")
        device = join_team(self.device).device
        for encoder in self.encoders_:
            if encoder.device != device:
                encoder.model.to(device)
        return self.encoders_

    def _feature_name(self, column: int) -> str:
        words = len(self.vectorizer_.idf_)
        return super()._feature_name(column) if column < words else f"embedding[{column - words}]"

    # With an encoder for each member, a row holds the embeddings of all, and a member sees its own alone. So
    # rows are scaled where they are made: by the length that each member sees.
    def _scales_rows(self) -> bool:
        return self.normalize and self.encoders == 1

    def _seen_by(self, number: int, data: TrainingData) -> TrainingData:
        if self.encoders == 1:
            return data
        rows = as_rows(self._views(number), columns=data.width, threads=self._threads())
        return TrainingData(rows, data.Y, data.indicator, data.width, data.costs)

    def _check_out_of_bag(self) -> None:
        super()._check_out_of_bag()
        if self._encoder_knows_all:
            raise ValueError(
                "all members share an encoder that was fine-tuned on all training data; calibrate with"
                " held-out data, or fit with encoders=members from an encoder that does not know these data"
            )

    # Members of mc-dropout are passes of the encoder, not of the ranker.
    def _assemble(self, trained: list[TreeClassifier], seed: int, labels: int) -> Ensemble:
        if self.method != "mc-dropout":
            return super()._assemble(trained, seed, labels)
        from hedgerow.deep.passes import PassEnsemble

        self._pass_seed = seed
        return PassEnsemble(trained, labels, self.members)

    def _expect_embeddings(self) -> None:
        """Let the engine find the columns of the embedding without a lookup: every row has them all.

        Of several encoders, a member has its own: it need not look at the columns of the others.
        """
        words, width = len(self.vectorizer_.idf_), self.encoders_[0].width
        for number, tree in enumerate(self._ensemble.trees):
            first = words + (width * number if self.encoders > 1 else 0)
            tree.native.expect(words, first, first + width, self._threads())

    def _plain_parameters(self) -> dict[str, Any]:
        plain = super()._plain_parameters()
        # Of this machine, not of the model.
        plain |= {"device": "auto", "cache": None, "encoder": os.fspath(self.encoder)}
        return plain

    def _extend(self, sections: dict[str, Any], header: dict[str, Any]) -> None:
        super()._extend(sections, header)
        first = self.encoders_[0]
        header["kind"] = "transformer"
        header["encoder"] = {
            "max_length": first.max_length,
            "pooling": first.pooling,
            "knows_all": self._encoder_knows_all,
            "weight": self._fitted_weight,
            "dropout": self._fitted_dropout,
        }
        if self.method == "mc-dropout":
            header["passes"] = {"count": self._ensemble.rows_each, "seed": self._pass_seed}
        for name, text in first.to_bytes().items():
            sections[f"encoder.{name}"] = text
        for number, encoder in enumerate(self.encoders_):
            for name, weights in encoder.weights().items():
                sections[f"encoder.{number}/{name}"] = weights

    def _open_encoders(self, header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take back what `_extend` gave, after checking it."""
        from hedgerow.deep.encoder import Encoder

        about = header["encoder"]
        if type(about["max_length"]) is not int or about["max_length"] < 3:
            raise ValueError(f"the encoder has the impossible length {about['max_length']!r}")
        tuned = self.encoders == 1 and self._fine_tuning().steps_for(self.n_samples_ or 1) > 0
        self._encoder_knows_all = bool(about.get("knows_all", tuned))
        fitted = {"embedding_weight": about.get("weight", self.embedding_weight)}
        fitted["dropout"] = about.get("dropout", self.dropout)
        clone(self).set_params(**fitted)._check_parameters()
        self._fitted_weight, self._fitted_dropout = float(fitted["embedding_weight"]), fitted["dropout"]
        self.encoders_ = []
        for number in range(self.encoders):
            prefix = f"encoder.{number}/"
            weights = {n[len(prefix) :]: a for n, a in sections.items() if n.startswith(prefix)}
            self.encoders_.append(
                Encoder.from_bytes(
                    sections["encoder.tokenizer"],
                    sections["encoder.config"],
                    weights,
                    about["pooling"],
                    about["max_length"],
                )
            )
        width = sum(encoder.width for encoder in self.encoders_)
        if len(self.vectorizer_.idf_) + width != self.n_features_in_:
            raise ValueError("vocabulary, encoders and weights differ in their number of features")
        if self.method == "mc-dropout":
            passes = header["passes"]
            if type(passes["count"]) is not int or type(passes["seed"]) is not int or passes["count"] < 1:
                raise ValueError("the passes of the encoder are not numbers")
            self.members = passes["count"]
            self._ensemble = self._assemble(list(self._ensemble.trees), passes["seed"], len(self.classes_))
        self._expect_embeddings()


def _checked_texts(X: Iterable[str]) -> Texts:
    texts = as_texts(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is {text!r} of type {type(text).__name__}; texts are strings")
    return cast("Texts", texts)


def _named_stage(progress: Progress | None, what: str, number: int, count: int) -> Told:
    if progress is None:
        return None
    return lambda share: progress((number + share) / count, what)


def _of_encoder(progress: Progress | None, number: int, count: int) -> Progress | None:
    if progress is None or count == 1:
        return progress
    return lambda share, what: progress(share, f"encoder {number + 1} of {count}: {what}")
