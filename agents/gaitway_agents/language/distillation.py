"""Generalised knowledge distillation: a student learns its teacher's distributions, on answers of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt, Share
from torch import nn

from ..core.distillation import DivergenceLoss
from ..core.optimizer import OptimizerConfig, PolicyOptimizer
from ..interfaces import TokenWorld
from ..models.distilled_lm import DistilledLMPolicy
from .fixed_data import check_no_advantages, one_step
from .pairs import Example
from .samples import statistics_of
from .sampling_trainer import SamplingTrainer
from .schedule import LearningRateSchedule
from .sequences import EpochOrder, Order, taken
from .sft import batch_of_examples


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(Checked):
    """One iteration learns ``prompts_per_step * group_size`` sequences (GKD, Agarwal et al. 2024)."""

    prompts_per_step: PositiveInt = 64
    group_size: PositiveInt = 1
    """Answers to each prompt."""
    beta: Share = 0.5
    """0 is the divergence KL(teacher || student) of ordinary distillation, 1 is KL(student || teacher), and what lies
    between is a Jensen-Shannon divergence; typically 0.5 or 1."""
    on_policy: Share = 1.0
    """Share of the prompts that the student answers itself, the paper's lambda; of the others it reads the
    demonstrations."""
    schedule: LearningRateSchedule = field(default_factory=LearningRateSchedule)
    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=2e-5))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer.minibatches > self.prompts_per_step * self.group_size:
            raise UserError(
                f"optimizer.minibatches {self.optimizer.minibatches}: there are only prompts_per_step "
                f"{self.prompts_per_step} times group_size {self.group_size} sequences; take fewer"
            )
        check_no_advantages(self.optimizer)

    @property
    def answered(self) -> int:
        """Prompts of an iteration that the student answers."""
        return round(self.on_policy * self.prompts_per_step)


class DistillationTrainer(SamplingTrainer):
    """``iterate()`` samples answers, learns what the teacher would have said in their place, and tells the engine.

    ``model`` and ``teacher`` are causal LMs of transformers with the same tokens. With ``on_policy`` 1 and ``beta`` 1
    this is on-policy distillation (Lu and Thinking Machines Lab 2025) with the whole divergence of each token in place
    of an estimate from the one that was sampled. ``steps`` counts sequences.
    """

    def __init__(
        self,
        model: nn.Module,
        world: TokenWorld,
        config: DistillationConfig,
        *,
        teacher: nn.Module,
        demonstrations: Sequence[Example] = (),
        seed: int,
        total_steps: int | None = None,
    ):
        policy = DistilledLMPolicy(model, teacher, beta=config.beta, temperature=world.temperature)
        generator = torch.Generator().manual_seed(seed)
        optimizer = PolicyOptimizer(policy, config.optimizer, generator, loss=DivergenceLoss())
        super().__init__(policy, optimizer, world, config.schedule, total_steps)
        self.config, self.demonstrations = config, demonstrations
        reads = config.answered < config.prompts_per_step
        self.order: Order | None = EpochOrder(len(demonstrations), seed) if reads else None

    def iterate(self) -> dict[str, float]:
        """Returns metrics, with the seconds spent under ``time/``."""
        start, before, cfg = time.perf_counter(), self.steps, self.config
        metrics: dict[str, float] = {}
        examples: list[Example] = []
        if cfg.answered:
            samples = self.draw(cfg.answered, cfg.group_size)
            metrics |= self.of_all_processes(statistics_of(samples))
            ends = zip(samples.tokens, samples.mask, samples.lengths.tolist(), strict=True)
            examples += [(tokens[:end], mask[:end]) for tokens, mask, end in ends]
        sampled = time.perf_counter()
        if self.order is not None:
            read = taken(self.order, (cfg.prompts_per_step - cfg.answered) * cfg.group_size)
            chosen = (self.demonstrations[i] for i in read)
            examples += [(tokens.to(self.device), mask.to(self.device)) for tokens, mask in chosen]
            self.steps += len(read)
        self.in_all_processes(before, len(examples))
        batch = batch_of_examples(examples, self.device)
        self.anneal(self.steps - before)
        metrics |= {f"learn/{name}": value for name, value in self.optimizer.update(batch).items()}
        metrics |= self.update_engine()
        end = time.perf_counter()
        metrics["learn/tokens_per_s"] = float(batch.observations["lengths"].sum()) / (end - sampled)
        return metrics | {"time/sampling": sampled - start, "time/learning": end - sampled, "time/total": end - start}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"position": None if self.order is None else self.order.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.order is not None:
            self.order.position = state["position"]
