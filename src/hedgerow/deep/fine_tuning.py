"""Fine-tuning of an encoder over the label tree, level by level, as XR-Transformer does it."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from hedgerow.deep.batches import steps_of
from hedgerow.deep.candidate_scores import NodeWeights, candidate_loss, gather_candidates
from hedgerow.deep.device import torch_threads
from hedgerow.deep.encoder import Encoder, Tokens
from hedgerow.deep.extra import GpuMemoryError
from hedgerow.deep.levels import Level, Matching, chosen_layers, level_truth, match
from hedgerow.deep.recording import RecordedGradients
from hedgerow.deep.team import Team
from hedgerow.storage.atomic_file import refuse_link
from hedgerow.storage.container import Malformed, read_model, write_model
from hedgerow.trees.label_tree import LabelTree

__all__ = ["EncoderCheckpoint", "FineTuning", "FineTuningReport", "fine_tune"]

Progress = Callable[[float, str], None]

# Classifiers of nodes are young and see few texts each; the encoder has seen much and must not forget it.
_NODE_RATE = 10.0
_AHEAD = 4  # batches that are made in advance
# On a GPU, batches are as wide as a multiple of this: every width is recorded once.
_WIDTH_STEP = 32


@dataclass(frozen=True)
class FineTuning:
    """How an encoder is fine-tuned.

    Attributes
    ----------
    epochs : float
        Passes over the texts at each level; 0 leaves the encoder as it is.
    steps : int or None
        Batches at each level, instead of `epochs`.
    levels : int or None
        Levels of the tree, from the coarsest on; None for all.
    batch_size : int
        Texts that make a step.
    micro_batch : int or None
        Texts computed at once; their gradients add up to those of a batch. None for all.
    learning_rate : float
        The highest rate, after the warm-up; it falls to 0 at the end of a level.
    warmup : float
        Share of the steps of a level in which the rate rises.
    weight_decay, clip : float
        Of AdamW, and the largest norm of a gradient.
    loss : {"squared_hinge", "logistic"}
        Of the candidates.
    matching : Matching
        How candidates are found.
    checkpoint_steps : int
        How often the state is stored.
    """

    epochs: float = 1.0
    steps: int | None = None
    levels: int | None = None
    batch_size: int = 32
    micro_batch: int | None = None
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    loss: str = "squared_hinge"
    matching: Matching = field(default_factory=Matching)
    checkpoint_steps: int = 200

    def steps_for(self, texts: int) -> int:
        """Batches at each level."""
        if self.steps is not None:
            return self.steps
        return math.ceil(self.epochs * math.ceil(texts / self.batch_size))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, from 0: linear up, then linear down."""
        rising = max(1, round(self.warmup * steps))
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)


@dataclass
class FineTuningReport:
    """What fine-tuning took, in this process.

    Attributes
    ----------
    levels : list of dict
        For each level: layer, nodes, candidates (mean of a text), steps, and the mean loss of a candidate.
    tokens, seconds : int, float
        Tokens that were learned from, those of later passes included, and the time of the steps.
    waiting : float
        Seconds of these in which a step waited for its batch.
    matching_seconds : float
        Time for embedding the texts and finding candidates before each level.
    micro_batch : int
        Texts computed at once in the end.
    """

    levels: list[dict[str, float]] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    matching_seconds: float = 0.0
    micro_batch: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Speed of the steps."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {**asdict(self), "tokens_per_second": self.tokens_per_second}


class EncoderCheckpoint:
    """A file with the state of fine-tuning, so that a fit that was stopped goes on and ends the same.

    Parameters
    ----------
    path : path-like
        The file.
    fingerprint : str
        Of data and settings; the state of another fit is refused.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        self.fingerprint = fingerprint

    def read(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
        """Header and sections, or None if there is no file."""
        if not refuse_link(self.path).exists():
            return None
        file = read_model(self.path)
        if file.header.get("kind") != "fine-tuning" or file.header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{self.path} is the state of another fit, with other data or settings; delete it, or choose"
                " another folder"
            )
        return file.header, file.sections

    def write(self, header: dict[str, Any], sections: dict[str, npt.NDArray[Any]]) -> None:
        """Replace the state."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        known = {"kind": "fine-tuning", "fingerprint": self.fingerprint}
        write_model(refuse_link(self.path), sections, {**known, **header}, overwrite=True)


def fine_tune(
    encoder: Encoder,
    texts: Tokens,
    Y: sp.csr_array,
    tree: LabelTree,
    settings: FineTuning,
    *,
    team: Team,
    costs: npt.NDArray[np.float32] | None = None,
    first: npt.NDArray[np.float32] | None = None,
    seed: int = 0,
    threads: int = 0,
    checkpoint: EncoderCheckpoint | None = None,
    progress: Progress | None = None,
) -> FineTuningReport:
    """Fine-tune an encoder in place.

    At each level of the tree, linear classifiers of the nodes are trained on the embeddings by the engine;
    from there, encoder and classifiers learn together to tell the nodes of a text from its other candidates.

    Parameters
    ----------
    encoder : Encoder
        Changed in place.
    texts : Tokens
        What to learn from.
    Y : csr_array, shape (n, L)
        Labels.
    tree : LabelTree
        The tree over the labels.
    settings : FineTuning
        How.
    team : Team
        The processes that share the work.
    costs : float32 array, shape (n,), optional
        What each text counts, such as how often a bootstrap drew it; all the same, if not given. A pass over
        the texts has as many as there are, each as often as its share of the costs says.
    first : float32 array, shape (n, width), optional
        What the encoder makes of the texts before it is changed, if that is known.
    seed : int
        The same seed gives the same weights, on the same kind of machine with as many threads.
    threads : int
        0 uses as many as torch and the engine would.
    checkpoint : EncoderCheckpoint, optional
        Where to go on from, and where to store the state.
    progress : callable(share, what), optional
        Told of each step.

    Returns
    -------
    FineTuningReport
    """
    report = FineTuningReport(micro_batch=settings.micro_batch or settings.batch_size)
    steps = settings.steps_for(len(texts))
    if steps == 0:
        return report
    layers = chosen_layers(tree, settings.levels)
    kept = checkpoint.read() if checkpoint is not None else None
    if kept is not None:
        header, sections = kept
        _restore(encoder, sections, "encoder/")
        if header["done"]:
            return report
    devices = [team.device] if team.device.type == "cuda" else []
    bf16 = team.device.type == "cuda" and torch.cuda.is_bf16_supported()

    def pool(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.autocast(team.device.type, dtype=torch.bfloat16, enabled=bf16, cache_enabled=False):
            return encoder.pool(ids, mask).float()

    recorded = RecordedGradients(pool, list(encoder.model.parameters()))
    with torch.random.fork_rng(devices=devices), torch_threads(threads):
        for number, layer in enumerate(layers):
            if kept is not None and number < kept[0]["level"]:
                continue
            start = time.perf_counter()
            begin = 0 if kept is None else int(kept[0]["step"])
            if kept is not None:
                level = _restored_level(tree, Y, layer, kept[1])
            else:
                embeddings = first if number == 0 else None
                if embeddings is None:
                    told = _told(progress, number, len(layers), "embedding for")
                    embeddings = encoder.embed(texts, threads=threads, progress=told)
                level = match(
                    tree, Y, embeddings, layer, settings.matching, settings.loss, costs, seed, threads
                )
            report.matching_seconds += time.perf_counter() - start
            training = _LevelTraining(
                encoder, recorded, texts, level, settings, steps, team, costs, (seed, number)
            )
            if kept is not None:
                training.restore(kept[1], begin)

            def keep(step: int, number: int = number, training: _LevelTraining = training) -> None:
                if checkpoint is not None and team.rank == 0:
                    checkpoint.write({"level": number, "step": step, "done": False}, training.state())

            if kept is None:
                keep(0)
            training.run(begin, keep, _told(progress, number, len(layers), "fine-tuning"), report)
            kept = None
    if checkpoint is not None and team.rank == 0:
        weights = {f"encoder/{name}": of for name, of in encoder.weights().items()}
        checkpoint.write({"level": len(layers), "step": 0, "done": True}, weights)
    team.wait()
    return report


def _told(progress: Progress | None, number: int, levels: int, what: str) -> Callable[[float], None] | None:
    if progress is None:
        return None
    name = f"{what} level {number + 1} of {levels}"
    return lambda share: progress(share, name)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Texts of a step as tokens, and their candidates as of `CandidateBatch`: the share of this process."""

    ids: torch.Tensor
    mask: torch.Tensor
    places: torch.Tensor
    valid: torch.Tensor
    right: torch.Tensor
    nodes: torch.Tensor
    candidates: int  # of all processes
    own_candidates: int
    tokens: int

    def to(self, device: torch.device) -> _Batch:
        """The same on a device; nothing waits for it."""
        names = ("ids", "mask", "places", "valid", "right", "nodes")
        return replace(self, **{n: getattr(self, n).to(device, non_blocking=True) for n in names})


class _LevelTraining:
    """The steps of one level."""

    def __init__(
        self,
        encoder: Encoder,
        recorded: RecordedGradients,
        texts: Tokens,
        level: Level,
        settings: FineTuning,
        steps: int,
        team: Team,
        costs: npt.NDArray[np.float32] | None,
        seed: tuple[int, int],
    ) -> None:
        self.encoder, self.texts, self.level, self.settings = encoder, texts, level, settings
        self.recorded = recorded
        self.steps, self.team, self.costs, self.seed = steps, team, costs, seed
        self.nodes = NodeWeights(level.weights, team.device)
        self.parameters = dict(encoder.model.named_parameters())
        decays = [p for name, p in self.parameters.items() if p.ndim > 1 and "norm" not in name.lower()]
        others = [p for name, p in self.parameters.items() if p.ndim <= 1 or "norm" in name.lower()]
        groups = [
            {"params": decays, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        # On a GPU one launch for all weights; there a step of a small encoder is bound by launches.
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=0.0, fused=team.device.type == "cuda"
        )
        self.micro_batch = min(settings.micro_batch or settings.batch_size, settings.batch_size)

    def run(
        self,
        begin: int,
        keep: Callable[[int], None],
        progress: Callable[[float], None] | None,
        report: FineTuningReport,
    ) -> None:
        losses, count = torch.zeros((), device=self.team.device), 0
        start = time.perf_counter()
        storing = 0.0
        self.encoder.model.train()
        try:
            for step, batch in self._prepared(begin, report):
                losses += self._step(step, batch)
                count += batch.own_candidates
                report.tokens += batch.tokens
                if (step + 1) % self.settings.checkpoint_steps == 0 and step + 1 < self.steps:
                    before = time.perf_counter()
                    keep(step + 1)
                    storing += time.perf_counter() - before
                if progress is not None:
                    progress((step + 1) / self.steps)
        finally:
            self.encoder.model.eval()
            # A fused optimiser changes weights without a trace; whoever looks for changes must see them.
            torch.autograd.graph.increment_version(list(self.parameters.values()))
        total = losses.item()  # waits for the GPU
        report.seconds += time.perf_counter() - start - storing
        report.micro_batch = self.micro_batch
        report.levels.append(
            {
                "layer": self.level.layer,
                "nodes": self.level.truth.shape[1],
                "candidates": self.level.candidates.nnz / len(self.texts),
                "steps": self.steps - begin,
                "loss": total / max(1, count),
            }
        )

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Whatever the next step depends on."""
        sections = {f"encoder/{name}": of for name, of in self.encoder.weights().items()}
        for name, parameter in self.parameters.items():
            for moment in ("exp_avg", "exp_avg_sq"):
                kept = self.optimizer.state[parameter].get(moment)
                if kept is not None:  # none where no gradient ever came
                    sections[f"{moment}/{name}"] = kept.cpu().numpy()
        sections |= {f"nodes/{name}": of for name, of in self.nodes.state().items()}
        candidates = self.level.candidates
        sections["candidates/indptr"] = candidates.indptr.astype(np.int64)
        sections["candidates/indices"] = candidates.indices.astype(np.int32)
        sections["candidates/data"] = candidates.data.astype(np.int8)
        return sections

    def restore(self, sections: dict[str, npt.NDArray[Any]], step: int) -> None:
        try:
            self.nodes.restore({name: sections[f"nodes/{name}"] for name in ("weights", "first", "second")})
        except KeyError as error:
            raise Malformed(f"the state of fine-tuning is not whole: {error}") from error
        for name, parameter in self.parameters.items():
            if f"exp_avg/{name}" not in sections:
                continue
            moments = {
                moment: torch.from_numpy(np.array(sections[f"{moment}/{name}"])).to(parameter.device)
                for moment in ("exp_avg", "exp_avg_sq")
            }
            # A fused optimiser counts where the weights are.
            where = parameter.device if parameter.device.type == "cuda" else "cpu"
            self.optimizer.state[parameter] = {"step": torch.tensor(float(step), device=where), **moments}

    def _prepared(self, begin: int, report: FineTuningReport) -> Iterator[tuple[int, _Batch]]:
        """Batches, each made while those before it are learned from."""
        batches = self._chosen(begin)
        with ThreadPoolExecutor(1) as pool:
            coming = deque(pool.submit(self._batch, chosen) for chosen in islice(batches, _AHEAD))
            for step in range(begin, self.steps):
                start = time.perf_counter()
                batch = coming.popleft().result()
                report.waiting += time.perf_counter() - start
                following = next(batches, None)
                if following is not None:
                    coming.append(pool.submit(self._batch, following))
                yield step, batch

    def _chosen(self, begin: int) -> Iterator[npt.NDArray[np.int64]]:
        """The texts of each step from `begin` on."""
        size, lengths = self.settings.batch_size, self.texts.lengths
        if self.costs is None:
            yield from steps_of(lengths, size, self.seed, self.steps, begin)
            return
        each = max(1, -(-len(lengths) // size))
        for number in range(begin // each, -(-self.steps // each)):
            rows = texts_of_pass(self.costs, (*self.seed, number))
            first, last = max(begin, number * each), min(self.steps, (number + 1) * each)
            yield from (rows[batch] for batch in steps_of(lengths[rows], size, self.seed, last, first))

    def _batch(self, rows: npt.NDArray[np.int64]) -> _Batch:
        """Everything that a step needs, in memory that a GPU can read by itself."""
        own = slice(self.team.rank, None, self.team.size)
        candidates = gather_candidates(self.level.candidates, rows)
        width = 0
        if self.team.device.type == "cuda":
            longest = int(self.texts.lengths[rows[own]].max(initial=1))
            width = min(-(-longest // _WIDTH_STEP) * _WIDTH_STEP, self.encoder.max_length)
        ids, mask = self.texts.padded(rows[own], self.encoder.pad, width)
        return _Batch(
            ids=self._shared(ids),
            mask=self._shared(mask),
            places=self._shared(candidates.places[own]),
            valid=self._shared(candidates.valid[own]),
            right=self._shared(candidates.right[own]),
            nodes=self._shared(candidates.nodes),
            candidates=candidates.count,
            own_candidates=int(candidates.valid[own].sum()),
            tokens=int(self.texts.lengths[rows].sum()),
        )

    def _shared(self, array: npt.NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self.team.device.type == "cuda" else tensor

    def _step(self, step: int, batch: _Batch) -> torch.Tensor:
        """Learn from one batch; returns the sum of the losses of its candidates, of this process."""
        batch = batch.to(self.team.device)
        while True:
            try:
                weights, loss = self._gradients(step, batch)
                break
            except torch.cuda.OutOfMemoryError:
                if self.micro_batch == 1:
                    raise GpuMemoryError(
                        "the GPU has too little memory for a single text; choose a smaller max_length"
                        " (--max-length), a smaller encoder, or device='cpu' (--device cpu)"
                    ) from None
            # Outside of the handler, which would keep the tensors alive.
            self.micro_batch = max(1, self.micro_batch // 2)
            self.recorded.give_up()
            torch.cuda.empty_cache()
        gradient = weights.grad
        learned = [p for p in self.parameters.values() if p.grad is not None]
        if self.team.size > 1:
            gradient = self.team.total(torch.zeros_like(weights) if weights.grad is None else weights.grad)
            learned = list(self.parameters.values())
            for parameter in learned:
                known = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = self.team.total(known)
        weights.grad = gradient
        torch.nn.utils.clip_grad_norm_([*learned, weights], self.settings.clip)
        rate = self.settings.rate(step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        with torch.no_grad():
            self.nodes.step(batch.nodes, weights.grad, _NODE_RATE * rate, step + 1)
        return loss

    def _gradients(self, step: int, batch: _Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of all weights; returns those of the nodes with them, and the sum of the losses."""
        # Only whole batches are worth a recording.
        whole = len(batch.ids) == self.settings.batch_size // self.team.size <= self.micro_batch
        replays = whole and self.recorded.record(batch.ids, batch.mask)
        torch.manual_seed(_step_seed(*self.seed, step, self.team.rank))
        self.optimizer.zero_grad(set_to_none=True)
        weights = self.nodes.rows(batch.nodes)
        if replays:
            embeddings = self.recorded.embeddings(batch.ids, batch.mask)
            loss = self._losses(embeddings, weights, batch, slice(None))
            self.recorded.learn(batch.ids, embeddings.grad)
            return weights, loss
        loss = torch.zeros((), device=self.team.device)
        for begin in range(0, len(batch.ids), self.micro_batch):
            part = slice(begin, begin + self.micro_batch)
            embeddings = self.recorded.compute(batch.ids[part], batch.mask[part])
            loss = loss + self._losses(embeddings, weights, batch, part)
        return weights, loss

    def _losses(
        self, embeddings: torch.Tensor, weights: torch.Tensor, batch: _Batch, part: slice
    ) -> torch.Tensor:
        """The sum of the losses of a part of a batch; gradients flow to whatever wants them."""
        summed = candidate_loss(
            embeddings,
            weights,
            batch.places[part],
            batch.valid[part],
            batch.right[part],
            self.settings.loss,
        )
        (summed / max(1, batch.candidates)).backward()
        return summed.detach()


def texts_of_pass(costs: npt.NDArray[np.float32], seed: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """As many texts as there are costs, ascending; each as often as its share says, rounded up or down.

    Examples
    --------
    >>> texts_of_pass(np.array([1, 0, 2, 1], dtype=np.float32), (0,))
    array([0, 2, 2, 3])
    """
    ends = np.cumsum(costs, dtype=np.float64)
    ends *= len(costs) / ends[-1]
    # Evenly spaced from a random start, so that by chance alone no text comes more often than another.
    places = np.arange(len(costs)) + np.random.default_rng((*seed, len(costs))).random()
    found = np.searchsorted(ends, places, side="right")
    return np.asarray(np.minimum(found, np.flatnonzero(costs)[-1]), dtype=np.int64)


def _step_seed(*numbers: int) -> int:
    """One number from several; steps have random streams of their own, so that none has to be stored."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _restore(encoder: Encoder, sections: dict[str, npt.NDArray[Any]], prefix: str) -> None:
    own = {n[len(prefix) :]: a for n, a in sections.items() if n.startswith(prefix)}
    try:
        encoder.load_weights(own)
    except RuntimeError as error:
        raise Malformed(f"the state of fine-tuning does not fit the encoder: {error}") from error


def _restored_level(
    tree: LabelTree, Y: sp.csr_array, layer: int, sections: dict[str, npt.NDArray[Any]]
) -> Level:
    truth = level_truth(tree, Y, layer)
    try:
        parts = tuple(np.array(sections[f"candidates/{name}"]) for name in ("data", "indices", "indptr"))
        candidates = sp.csr_array(parts, shape=truth.shape)
        return Level(layer, truth, candidates, np.array(sections["nodes/weights"]))
    except (KeyError, ValueError) as error:
        raise Malformed(f"the state of fine-tuning is not whole: {error}") from error
