"""The classifier for texts that reads them with a transformer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hedgerow.deep.extra import is_first, load_torch
from hedgerow.estimators.features import TrainingInputs
from hedgerow.estimators.judged import held_out_rows
from hedgerow.estimators.parameters import FitOptions, plain_parameters
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.features.field_reader import fit_words
from hedgerow.features.readers import Reader
from hedgerow.inputs.labels import LabelledRows, encode_labels
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.parameters import ParameterError, check_choice, check_integer, check_real
from hedgerow.inputs.search import FLOOR
from hedgerow.inputs.threads import threads_for
from hedgerow.inputs.training_record import MOST_SEEN, Hashes
from hedgerow.model import Model
from hedgerow.training.data import TrainingData, as_costs
from hedgerow.training.plan import TrainingPlan
from hedgerow.training.settings import LOSSES, Method
from hedgerow.trees.forest import Ensemble
from hedgerow.trees.tree_model import TreeClassifier

if TYPE_CHECKING:
    from hedgerow.deep.encoder import Encoder
    from hedgerow.deep.fine_tuning import FineTuning, FineTuningReport
    from hedgerow.deep.reader import Passes, TransformerReader
    from hedgerow.deep.team import Team

__all__ = ["HedgerowTransformerClassifier"]


@dataclass(frozen=True, eq=False)
class _Tuned:
    """What fine-tuning gave: the reader, the tf-idf of the texts, and reports of what it took."""

    reader: TransformerReader
    tfidf: sp.csr_array
    team: Team
    reports: list[FineTuningReport]


class HedgerowTransformerClassifier(HedgerowTextClassifier):
    """Extreme multi-label classifier for texts: a fine-tuned transformer and tf-idf (XR-Transformer).

    The encoder is fine-tuned over the label tree, level by level, coarse to fine. Its embeddings follow
    the tf-idf features, and the engine of `HedgerowClassifier` learns from both. Needs torch and
    transformers: ``pip install 'hedgerow[deep]'``.

    Parameters
    ----------
    encoder : str or path-like, default="bert-base-uncased"
        A folder with a Hugging Face encoder, or its name on the hub.
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
        Texts computed at once; gradients add up to those of a batch. Halved when a GPU runs out of memory.
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
        At each level, the children of this many best nodes are candidates.
    level_negatives : int, default=10
        And the wrong ones among this many best nodes of the level itself.
    embedding_weight : float, default=1.0
        Length of the embedding relative to that of the tf-idf features.
    checkpoint_steps : int, default=200
        With ``fit(..., checkpoint=...)``, how often the state of fine-tuning is stored.
    device : str, default="auto"
        "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1". Not part of a model file.
    cache : path-like or None, default=None
        A folder for embeddings, so that the same texts are not embedded twice. Not part of a model file.
    dropout : float or None, default=None
        With "mc-dropout", the share of hidden units that each pass leaves out; None for the encoder's own.
    label_text : bool, default=False
        With a judge and a vocabulary: embed the names of all its entries, too. How near a name is to a text
        is then evidence, and the nearest labels are candidates even if nothing was learned of them. It is
        kept only if it ranks held-out texts better.
    judge : bool, default=False
        As of `HedgerowClassifier`. The texts that teach the judge, 15 % and at most 5,000, are left out of
        fine-tuning, or the encoder would know them better than further ones; trees, wide classifier and
        centroids learn from all texts. All members must share one encoder (``encoders=1``), and "mc-dropout"
        is refused. An encoder that was fine-tuned on those texts before is refused, too.
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

    left_out_of_files: ClassVar[frozenset[str]] = frozenset({"verbose"})
    fixed_in_files: ClassVar[Mapping[str, Any]] = {"n_jobs": None, "device": "auto", "cache": None}

    # A transformer is fitted on this machine, in its memory.
    cluster = None
    memory = None

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
        analyzer: str = "word",
        language: str | None = None,
        char_ngrams: tuple[int, int] = (3, 5),
        fields: Sequence[str] | Mapping[str, float] | None = None,
        method: str = "single",
        members: int = 10,
        trees: int | None = None,
        alpha: float = 0.5,
        hard_negatives: int = 10,
        dropout: float | None = None,
        label_text: bool = False,
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
        judge: bool = False,
        wide: int | None = None,
        beam: int = 50,
        candidates: str | int = "scored",
        missing: str = "exact",
        floor: float = FLOOR,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.keep_parameters(locals())

    @property
    def source(self) -> Model:
        """What was learned, with the search, the threads and the device that are set now."""
        source = super().source
        return replace(source, reader=replace(source.reader, device=self.device, cache=self.cache))  # type: ignore[type-var]

    @property
    def encoders_(self) -> list[Encoder]:
        """The fine-tuned encoders."""
        return list(self._fitted().reader.encoders)  # type: ignore[attr-defined]

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
            fit that was stopped resumes from there and, on the same machine, gives the same model. With
            ``sample_weight``, fine-tuning draws texts in proportion to their weights; the number of texts in
            a pass stays the same.

        Returns
        -------
        self
        """
        if self.label_text and options.get("vocabulary") is None:
            raise ValueError(
                "label_text compares texts with the names of a vocabulary, but none is given; give one with"
                " fit(..., vocabulary=...) or --vocabulary, or leave label_text out"
            )
        super().fit(X, Y, **options)
        if self.model_.scorers is not None:
            self._expect_embeddings(self.model_.scorers.trees, self.model_.reader)
        return self

    def fine_tune(
        self, X: Iterable[str], Y: Any, folder: str | os.PathLike[str], **options: Any
    ) -> FineTuningReport:
        """Fine-tune the encoder alone and write it as a folder, for several models to share.

        A fit with ``encoder=folder``, ``epochs=0`` and ``steps=None`` then gives the model that fine-tuning
        in `fit` with the same `random_state` would give, for any `method`. This model stays unfitted. For
        models with a judge, fine-tune with ``judge=True``: that leaves out the texts that teach it.

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
        self.check_parameters()
        asked = FitOptions(**options)
        self.check_resumable(asked.checkpoint)
        inputs, count = self._training_inputs(X)
        labels = encode_labels(Y, count, asked.classes, threads_for(self.n_jobs))
        asked.check_tree(labels.indicator.shape[1])
        tuned = self._tune(inputs, labels, asked, self.draw_seed())
        if tuned.team.rank == 0:
            tuned.reader.encoders[0].save(folder)
        tuned.team.wait()
        return tuned.reports[0]

    def add_members(
        self, X: Iterable[str], Y: Any, count: int, **options: Any
    ) -> HedgerowTransformerClassifier:
        """Train more members on the same texts; see `HedgerowClassifier.add_members`."""
        self._fitted()
        if self.encoders > 1:
            raise ValueError("no members can be added where each has its own encoder; fit again")
        super().add_members(X, Y, count, **options)
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
        """Raise what `fit` would raise about parameters and encoder, before any long work."""
        load_torch()
        from hedgerow.deep.encoder import check_name

        self.check_parameters()
        check_name(self.encoder)

    def check_parameters(self) -> None:
        """Raise ParameterError, or ValueError, for whatever `fit` or a prediction would refuse."""
        super().check_parameters()
        if not isinstance(self.encoder, str | os.PathLike):
            raise ParameterError(f"encoder is {self.encoder!r}; it must be a folder, or a name on the hub")
        check_integer("encoders", self.encoders, 1, 4096)
        check_choice("pooling", self.pooling, ("mean", "cls"))
        check_choice("label_text", self.label_text, (True, False))
        check_integer("max_length", self.max_length, 3)
        check_real("embedding_weight", self.embedding_weight, above=0)
        if not isinstance(self.device, str):
            raise ParameterError(f"device is {self.device!r}; it must be a name such as 'auto' or 'cuda:1'")
        if self.cache is not None and not isinstance(self.cache, str | os.PathLike):
            raise ParameterError(f"cache is {self.cache!r}; it must be a folder, or None")
        check_real("epochs", self.epochs, at_least=0)
        for name, least in (("steps", 0), ("levels", 1), ("micro_batch", 1)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least)
        for name in ("batch_size", "level_beam", "level_negatives", "checkpoint_steps"):
            check_integer(name, getattr(self, name), 1)
        check_real("learning_rate", self.learning_rate, above=0)
        check_real("warmup", self.warmup, at_least=0, at_most=1)
        check_real("weight_decay", self.weight_decay, at_least=0)
        check_real("clip", self.clip, above=0)
        check_choice("level_loss", self.level_loss, LOSSES)
        if self.label_text and not self.judge:
            raise ValueError("label_text is evidence for a judge; set judge=True, or label_text=False")
        if self.encoders > 1:
            self._check_encoders()
        if self.judge and self.encoders > 1:
            raise ValueError(
                f"judge and encoders={self.encoders} cannot be combined: the judge asks classifiers that read"
                " the embedding of one encoder; use encoders=1, or judge=False"
            )
        if self.judge and self.method == Method.MC_DROPOUT:
            raise ValueError(
                "judge and method 'mc-dropout' cannot be combined for a transformer: each pass reads another"
                " embedding of the text, and the judge needs one; use another method, or judge=False"
            )

    @property
    def engine_scales(self) -> bool:
        """With several encoders, the reader scales rows: by the length that each member sees."""
        return bool(self.encoders == 1)

    @property
    def dropout_is_needed(self) -> bool:
        """None stands for the encoder's own."""
        return False

    def _check_encoders(self) -> None:
        ensemble = self.training_settings().ensemble
        if not ensemble.method.trains_members:
            raise ValueError(
                f"encoders is {self.encoders}, but method {self.method!r} has one encoder; use 'bagging',"
                " 'boosting' or 'boosted-bagging'"
            )
        if self.encoders != self.members or not ensemble.own_trees:
            raise ValueError(
                f"encoders is {self.encoders}, with {self.members} members and {ensemble.tree_count} trees;"
                " use 1 encoder for all members, or one encoder and one tree for each"
            )

    def _read_training(
        self, inputs: Any, labels: LabelledRows, options: FitOptions, seed: int
    ) -> TrainingInputs:
        threads = threads_for(self.n_jobs)
        tuned = self._tune(inputs, labels, options, seed)
        reader, tfidf = tuned.reader, tuned.tfidf
        embeddings = reader.embeddings(inputs, threads, options.progress)
        rows = as_rows(reader.joined(tfidf, embeddings), columns=reader.width, threads=threads)
        costs = as_costs(options.sample_weight, len(inputs))

        def view(number: int) -> TrainingData:
            own = as_rows(
                reader.joined(tfidf, [embeddings[number]], [number]), columns=reader.width, threads=threads
            )
            return TrainingData(own, labels.rows, labels.indicator, reader.width, costs)

        self.fine_tuning_ = tuned.reports
        views: Callable[[int], TrainingData] | None = view if self.encoders > 1 else None
        compared = embeddings[0] if self.label_text and reader.embedding_width is not None else None
        return TrainingInputs(reader, rows, reader.hashes(inputs, threads), views, compared)

    # Of several processes, one writes.
    def _own_checkpoint(self, options: FitOptions) -> str | os.PathLike[str] | None:
        return options.checkpoint if is_first() else None

    def _assemble(
        self, trained: Sequence[TreeClassifier], reader: Reader, seed: int, labels: int
    ) -> Ensemble:
        from hedgerow.deep.passes import PassEnsemble

        forest = Ensemble(trained, labels)
        if self.method == Method.MC_DROPOUT:  # members are passes of the encoder, not of the ranker
            forest = PassEnsemble(trained, labels, self.members)
        self._expect_embeddings(forest, reader)
        return forest

    def _expect_embeddings(self, trees: Ensemble, reader: Reader) -> None:
        from hedgerow.deep.reader import expect_embeddings

        expect_embeddings(trees, reader, threads_for(self.n_jobs))  # type: ignore[arg-type]

    def _tune(self, inputs: Any, labels: LabelledRows, options: FitOptions, seed: int) -> _Tuned:
        """Fine-tune the encoders, all from the same start."""
        load_torch()
        from hedgerow.deep.encoder import Encoder
        from hedgerow.deep.reader import TransformerReader
        from hedgerow.deep.team import join_team
        from hedgerow.deep.tuning import EncoderTuning, tune_encoders

        threads = threads_for(self.n_jobs)
        team = join_team(self.device, threads)
        start = Encoder.open(self.encoder, self.pooling, self.max_length)
        start.model.to(team.device)
        if options.progress is not None:
            options.progress(0.0, "reading words")
        words, tfidf = fit_words(inputs, self.fields_read(), self._vectorizer_settings())
        texts = words.texts(inputs)
        costs = as_costs(options.sample_weight, len(texts))
        rows = as_rows(tfidf, threads=threads)
        data = TrainingData(rows, labels.rows, labels.indicator, tfidf.shape[1], costs)
        hashes = words.hashes(inputs, threads)
        learns = self._fine_tuning().steps_for(len(texts)) > 0
        known_before = np.isin(hashes, start.trained_on).mean() > MOST_SEEN
        reader = TransformerReader(
            words,
            (start,),
            float(self.embedding_weight),
            self.normalize and not self.engine_scales,
            bool((self.encoders == 1 and learns) or known_before),
            self._passes(seed),
            self.device,
            self.cache,
        )
        plan = TrainingPlan(data, self.training_settings(), seed, options.tree, options.label_features)
        if self.judge:
            plan = _without_held_out(plan, hashes, start)
        parameters = repr(sorted(plain_parameters(self).items()))
        tuning = EncoderTuning(
            self.encoders, self._fine_tuning(), parameters, options.checkpoint, options.progress
        )
        encoders, reports = tune_encoders(reader, texts, plan, tuning, team)
        if learns:
            used = plan.data.costs
            learned = hashes if used is None else hashes[used > 0]
            for encoder in encoders:
                encoder.trained_on = np.union1d(encoder.trained_on, learned)
        return _Tuned(replace(reader, encoders=tuple(encoders)), tfidf, team, reports)

    def _passes(self, seed: int) -> Passes | None:
        from hedgerow.deep.reader import Passes

        return Passes(self.members, seed, self.dropout) if self.method == Method.MC_DROPOUT else None

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


def _without_held_out(plan: TrainingPlan, hashes: Hashes, start: Encoder) -> TrainingPlan:
    """The plan of fine-tuning without the texts that teach the judge, which the encoder must not know yet."""
    held_out, costs = held_out_rows(plan, hashes)
    if costs is None:
        return plan
    known = np.isin(hashes[held_out], start.trained_on)
    if known.mean() > MOST_SEEN:
        raise ValueError(
            f"the encoder was fine-tuned on {int(known.sum())} of the {len(held_out)} texts that are to teach"
            " the judge, so the judge would trust it more than it deserves on new texts; fine-tune the"
            " encoder with judge=True, on the same texts in the same order and with the same random_state,"
            " or fit with judge=False"
        )
    return replace(plan, data=replace(plan.data, costs=costs))
