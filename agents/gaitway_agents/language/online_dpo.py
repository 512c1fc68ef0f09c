"""Online DPO: preferences between a policy's own answers, by their rewards."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import NonNegativeFloat, PositiveInt, Range
from torch import nn

from ..core.batch import Batch
from ..core.group_advantage import has_signal
from ..core.optimizer import OptimizerConfig, PolicyOptimizer
from ..core.preference import PairLoss, PreferenceLossConfig
from ..interfaces import TokenWorld
from .fixed_data import check_no_advantages, one_step
from .pairs import SequencePolicy, pairs_of
from .reference import Reference
from .samples import Samples, statistics_of
from .sampling_trainer import SamplingTrainer
from .schedule import LearningRateSchedule


@dataclass(frozen=True, kw_only=True)
class OnlineDPOConfig(PreferenceLossConfig):
    """One iteration samples ``group_size`` answers to each of ``prompts_per_step`` prompts; the answer with the highest
    reward is preferred to the one with the lowest (Guo et al. 2024 compare two)."""

    prompts_per_step: PositiveInt = 32
    """Prompts of each iteration; typically 16 to 512."""
    group_size: Annotated[int, Range(lambda size: size >= 2, "a pair takes at least 2 answers")] = 2
    """Answers to each prompt, at least 2; typically 2 to 8."""
    missing_eos_penalty: NonNegativeFloat = 0.0
    """Penalty on the reward of an answer that did not end by itself; typically 0 to 1."""
    schedule: LearningRateSchedule = field(default_factory=LearningRateSchedule)
    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=1e-6))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "kto":
            raise UserError("loss 'kto': online preferences are pairs, use 'dpo', 'hinge', 'ipo' or 'simpo'")
        if self.optimizer.minibatches > self.prompts_per_step:
            raise UserError(
                f"optimizer.minibatches {self.optimizer.minibatches}: there is at most one pair for each of "
                f"prompts_per_step {self.prompts_per_step}; take fewer"
            )
        check_no_advantages(self.optimizer)


class OnlineDPOTrainer(SamplingTrainer):
    """``iterate()`` samples answers, learns from the pairs among them and lets the world's engine follow.

    ``model`` is a causal LM of transformers; the reference is the model as it is now. ``steps`` counts sampled
    answers.
    """

    def __init__(
        self, model: nn.Module, world: TokenWorld, config: OnlineDPOConfig, *, seed: int, total_steps: int | None = None
    ):
        policy = SequencePolicy(model, temperature=world.temperature, entropy="none")
        generator = torch.Generator().manual_seed(seed)
        optimizer = PolicyOptimizer(policy, config.optimizer, generator, loss=PairLoss(config))
        super().__init__(policy, optimizer, world, config.schedule, total_steps)
        self.config = config
        self.reference = Reference(policy, config.optimizer.precision) if config.needs_reference else None

    def iterate(self) -> dict[str, float]:
        """Returns metrics, with the seconds spent under ``time/``. Where no rewards differ nothing is learnt."""
        start, before = time.perf_counter(), self.steps
        samples = self.draw(self.config.prompts_per_step, self.config.group_size)
        sampled = time.perf_counter()
        metrics = self.of_all_processes(statistics_of(samples))
        batch = self._pairs(samples)
        if self.in_all_processes(before, len(batch)):
            self.anneal(self.steps - before)
            metrics |= {f"learn/{name}": value for name, value in self.optimizer.update(batch).items()}
            metrics |= self.update_engine()
        end = time.perf_counter()
        metrics["learn/tokens_per_s"] = float(batch.observations["lengths"].sum()) / (end - sampled)
        return metrics | {"time/sampling": sampled - start, "time/learning": end - sampled, "time/total": end - start}

    @torch.no_grad()
    def _pairs(self, samples: Samples) -> Batch:
        """The best and the worst answer to each prompt whose answers earned different rewards."""
        penalty = self.config.missing_eos_penalty * (~samples.finished).to(samples.rewards.dtype)
        rewards = (samples.rewards - penalty).view(-1, self.config.group_size)
        differ = has_signal(rewards.flatten(), samples.groups).view(rewards.shape)[:, 0].nonzero().flatten()
        first = differ * self.config.group_size
        rows = torch.stack((first + rewards[differ].argmax(1), first + rewards[differ].argmin(1)), 1)
        batch = pairs_of(samples.tokens[rows], samples.lengths[rows], samples.mask[rows])
        if self.reference is None or not len(batch):
            return batch
        return batch.replace(reference=self.reference.evaluate(batch, self.optimizer.config))
