"""Fine-tuning of an encoder over the label tree, level by level, as XR-Transformer does it."""

from __future__ import annotations

import time

import torch

from hedgerow.deep.device import torch_threads
from hedgerow.deep.encoder import Encoder
from hedgerow.deep.level_batches import LevelBatches, TuningData
from hedgerow.deep.level_training import LevelTraining
from hedgerow.deep.levels import Targets, chosen_layers, match
from hedgerow.deep.recording import Compute, RecordedGradients
from hedgerow.deep.team import Team
from hedgerow.deep.tuning_settings import FineTuning, FineTuningReport, Matching
from hedgerow.deep.tuning_state import EncoderCheckpoint, TuningState, encoder_sections
from hedgerow.progress import Progress, stage

__all__ = [
    "EncoderCheckpoint",
    "FineTuning",
    "FineTuningReport",
    "Matching",
    "Targets",
    "TuningData",
    "fine_tune",
]


def fine_tune(
    encoder: Encoder,
    data: TuningData,
    settings: FineTuning,
    *,
    team: Team,
    seed: int = 0,
    checkpoint: EncoderCheckpoint | None = None,
    progress: Progress | None = None,
) -> FineTuningReport:
    """Fine-tune an encoder in place.

    At each level of the tree, linear classifiers of the nodes are trained on the embeddings by the engine;
    from there, encoder and classifiers learn together to tell the nodes of a text from its other candidates.
    A pass over the texts has as many as there are; with costs, each comes as often as its share of them says.

    The same seed gives the same weights, on the same machine with as many threads. `checkpoint` is where to
    go on from, and where to store the state.
    """
    report = FineTuningReport(micro_batch=settings.micro_batch or settings.batch_size)
    if settings.steps_for(len(data.texts)) == 0:
        return report
    kept = None if checkpoint is None else checkpoint.read()
    if kept is not None:
        kept.load_encoder(encoder)
        if kept.done:
            return report
    stores = checkpoint if team.rank == 0 else None
    recorded = RecordedGradients(_computed(encoder, team), list(encoder.model.parameters()))
    layers = chosen_layers(data.targets.tree, settings.levels)
    generators = [team.device] if team.device.type == "cuda" else []
    with torch.random.fork_rng(devices=generators), torch_threads(team.threads):
        for number in range(0 if kept is None else kept.level, len(layers)):
            name = f"level {number + 1} of {len(layers)}"
            start = time.perf_counter()
            if kept is not None:
                level = kept.level_at(layers[number])
            else:
                embeddings = data.first if number == 0 else None
                if embeddings is None:
                    seen = stage(progress, f"embedding for {name}")
                    embeddings = encoder.embed(data.texts, threads=team.threads, progress=seen)
                level = match(data.targets, embeddings, layers[number], settings, seed, team.threads)
            report.matching_seconds += time.perf_counter() - start
            batches = LevelBatches(
                data, level, encoder.reader(), team, settings.batch_size, seed=(seed, number)
            )
            training = LevelTraining(encoder, recorded, batches, settings, team)

            def keep(step: int, number: int = number, training: LevelTraining = training) -> None:
                if stores is not None:
                    stores.write(TuningState(number, step, False, training.state()))

            begin = 0
            if kept is None:
                keep(0)
            else:
                begin = kept.step
                training.restore(kept.sections, begin)
            training.run(begin, keep, stage(progress, f"fine-tuning {name}"), report)
            kept = None
    if stores is not None:
        stores.write(TuningState(len(layers), 0, True, encoder_sections(encoder)))
    team.wait()
    return report


def _computed(encoder: Encoder, team: Team) -> Compute:
    """What embeds batches for learning: in half precision where the GPU knows bfloat16."""
    device = team.device.type
    half = device == "cuda" and torch.cuda.is_bf16_supported()

    def compute(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=half, cache_enabled=False):
            return encoder.pool(ids, mask).float()

    return compute
