"""The steps of one level: an encoder and the classifiers of the nodes learn together."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from hedgerow.deep.candidate_scores import NodeWeights, candidate_loss
from hedgerow.deep.encoder import Encoder
from hedgerow.deep.extra import GpuMemoryError
from hedgerow.deep.level_batches import Batch, LevelBatches
from hedgerow.deep.recording import RecordedGradients
from hedgerow.deep.team import Team
from hedgerow.deep.tuning_settings import FineTuning, FineTuningReport, LevelReport
from hedgerow.deep.tuning_state import Sections, encoder_sections, level_sections
from hedgerow.progress import Stage
from hedgerow.storage.container import Malformed

# Classifiers of nodes are young and see few texts each; the encoder has seen much and must not forget it.
_NODE_RATE = 10.0
_MOMENTS = ("exp_avg", "exp_avg_sq")


class LevelTraining:
    """An encoder, the classifiers of the nodes of a level, and the optimiser of both."""

    def __init__(
        self,
        encoder: Encoder,
        recorded: RecordedGradients,
        batches: LevelBatches,
        settings: FineTuning,
        team: Team,
    ) -> None:
        self.encoder, self.recorded, self.batches = encoder, recorded, batches
        self.level, self.settings, self.team = batches.level, settings, team
        self.steps = settings.steps_for(len(batches.texts))
        self.nodes = NodeWeights(self.level.weights, team.device)
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
        self, begin: int, keep: Callable[[int], None], progress: Stage | None, report: FineTuningReport
    ) -> None:
        """Take the steps from `begin` on; `keep` stores the state before a step."""
        losses, count = torch.zeros((), device=self.team.device), 0
        start = time.perf_counter()
        storing = 0.0
        self.encoder.model.train()
        try:
            for step, batch in self.batches.prepared(begin, self.steps):
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
        total = losses.item()  # waits for the GPU
        report.seconds += time.perf_counter() - start - storing
        report.waiting += self.batches.waited
        report.micro_batch = self.micro_batch
        report.levels.append(
            LevelReport(
                layer=self.level.layer,
                nodes=self.level.candidates.shape[1],
                candidates=self.level.candidates.nnz / len(self.batches.texts),
                steps=self.steps - begin,
                loss=total / max(1, count),
            )
        )

    def state(self) -> Sections:
        """Whatever the next step depends on."""
        sections = encoder_sections(self.encoder)
        for name, parameter in self.parameters.items():
            for moment in _MOMENTS:
                kept = self.optimizer.state[parameter].get(moment)
                if kept is not None:  # none where no gradient ever came
                    sections[f"{moment}/{name}"] = kept.cpu().numpy()
        sections |= {f"nodes/{name}": of for name, of in self.nodes.state().items()}
        return sections | level_sections(self.level)

    def restore(self, sections: Sections, step: int) -> None:
        """Take back what `state` gave before `step`, the encoder's weights aside."""
        try:
            self.nodes.restore({name: sections[f"nodes/{name}"] for name in ("weights", "first", "second")})
        except KeyError as error:
            raise Malformed(f"the state of fine-tuning is incomplete: {error}") from error
        for name, parameter in self.parameters.items():
            if f"exp_avg/{name}" not in sections:
                continue
            moments = {
                moment: torch.from_numpy(np.array(sections[f"{moment}/{name}"])).to(parameter.device)
                for moment in _MOMENTS
            }
            # A fused optimiser counts where the weights are.
            where = parameter.device if parameter.device.type == "cuda" else "cpu"
            self.optimizer.state[parameter] = {"step": torch.tensor(float(step), device=where), **moments}

    def _step(self, step: int, batch: Batch) -> torch.Tensor:
        """Learn from one batch; returns the sum of the losses of its candidates, of this process."""
        batch = batch.to(self.team.device)
        weights, loss = self._gradients_that_fit(step, batch)
        learned = [p for p in self.parameters.values() if p.grad is not None]
        if self.team.size > 1:
            learned = list(self.parameters.values())
            for tensor in (*learned, weights):
                tensor.grad = self.team.total(
                    torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                )
        torch.nn.utils.clip_grad_norm_([*learned, weights], self.settings.clip)
        rate = self.settings.rate(step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        with torch.no_grad():
            self.nodes.step(batch.nodes, weights.grad, _NODE_RATE * rate, step + 1)
        return loss

    def _gradients_that_fit(self, step: int, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """As `gradients`, in parts that are halved until the GPU has memory for them."""
        while True:
            try:
                return self.gradients(step, batch)
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

    def gradients(self, step: int, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of all weights; returns the nodes' weights with theirs, and the sum of the losses."""
        # Only whole batches are worth a recording.
        whole = len(batch.ids) == self.settings.batch_size // self.team.size <= self.micro_batch
        replays = whole and self.recorded.record(batch.ids, batch.mask)
        torch.manual_seed(_step_seed(*self.batches.seed, step, self.team.rank))
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
        self, embeddings: torch.Tensor, weights: torch.Tensor, batch: Batch, part: slice
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


def _step_seed(*numbers: int) -> int:
    """One number from several; steps have random streams of their own, so that none has to be stored."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
