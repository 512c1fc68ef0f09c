"""The loop of every agent that learns from a fixed set of examples: epochs in seeded order, a step for each batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveInt

from ..core import distributed
from ..core.batch import Batch
from ..core.losses import Loss
from ..core.optimizer import OptimizerConfig, PolicyOptimizer
from ..core.policy import Evaluation, Policy
from ..trainer import Episode
from .evaluation import evaluate
from .schedule import LearningRateSchedule
from .sequences import EpochOrder, Order, taken
from .weights import load_trainable_state, trainable_state


def one_step(**settings: Any) -> OptimizerConfig:
    """Settings of an optimiser that takes one step for each batch, with the mean of a loss of its own."""
    usual: dict[str, Any] = {
        "epochs": 1,
        "minibatches": 1,
        "schedule": "constant",
        "normalize_advantages": "none",
        "entropy_coefficient": 0.0,
        "betas": (0.9, 0.999),
    }
    return OptimizerConfig(**(usual | settings))


def check_no_advantages(config: OptimizerConfig) -> None:
    """Raise ``ValueError`` for settings that only a policy gradient has."""
    if config.schedule != "constant":
        raise UserError(f"optimizer.schedule {config.schedule!r}: must be 'constant'; use schedule.shape")
    if config.normalize_advantages != "none":
        raise UserError("optimizer.normalize_advantages: must be 'none', there are no advantages")


@dataclass(frozen=True, kw_only=True)
class FixedDataConfig(Checked):
    """Settings of learning from a fixed set of examples."""

    batch_size: PositiveInt = 32
    """Examples, or pairs, of each optimiser step, in each of several processes; typically 16 to 256."""
    updates: PositiveInt = 10
    """Optimiser steps of one ``iterate()``, after which metrics are reported."""
    schedule: LearningRateSchedule = field(default_factory=lambda: LearningRateSchedule(shape="cosine", warmup=0.03))
    optimizer: OptimizerConfig = field(default_factory=one_step)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epochs", "minibatches"):
            if getattr(self.optimizer, name) != 1:
                raise UserError(
                    f"optimizer.{name} {getattr(self.optimizer, name)}: must be 1, one step for each batch of "
                    "batch_size; train for more steps to read the data again"
                )
        check_no_advantages(self.optimizer)


class FixedDataTrainer:
    """``batch_of`` makes the batch of the examples with some numbers; ``steps`` counts the examples that were read."""

    def __init__(
        self,
        policy: Policy,
        length: int,
        batch_of: Callable[[list[int]], Batch],
        loss: Loss,
        config: FixedDataConfig,
        *,
        seed: int,
        total_steps: int | None,
    ):
        if config.schedule.changes and not total_steps:
            raise UserError(f"schedule {config.schedule.shape!r} needs total_steps: how long the training is")
        self.policy, self.batch_of, self.total_steps = policy, batch_of, total_steps
        self.config = config
        self.generator = torch.Generator().manual_seed(seed)
        self.order: Order = EpochOrder(length, seed)
        self.optimizer = PolicyOptimizer(policy, config.optimizer, self.generator, loss=loss)
        self.steps = 0

    def iterate(self) -> dict[str, float]:
        """Some optimiser steps. Returns the means of their metrics, with the seconds spent under ``time/``."""
        start = time.perf_counter()
        sums: dict[str, float] = {}
        tokens, done = 0.0, 0
        while done < self.config.updates and (not done or self.total_steps is None or self.steps < self.total_steps):
            batch = self.batch_of(taken(self.order, self.config.batch_size))
            self._schedule()
            # Dropout, where a policy has it, is the same however often the training was interrupted.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.generator.initial_seed() + self.steps + distributed.rank())
                statistics = self.optimizer.update(batch)
            for name, value in statistics.items():
                sums[name] = sums.get(name, 0.0) + value
            self.steps += self.config.batch_size * distributed.size()
            tokens += float(batch.observations["lengths"].sum())
            done += 1
        seconds = time.perf_counter() - start
        del sums["minibatches"]
        metrics = {f"learn/{name}": value / done for name, value in sums.items()}
        metrics["learn/learning_rate"] = self.optimizer.learning_rate
        metrics |= {"learn/epoch": self.order.position / self.order.length, "learn/tokens_per_s": tokens / seconds}
        return metrics | {"time/learning": seconds, "time/total": seconds}

    def evaluate(self, batch: Batch) -> Evaluation:
        """Evaluation of a batch, in the precision of the training."""
        return evaluate(self.policy, batch, self.config.optimizer)

    def _schedule(self) -> None:
        step = self.config.batch_size * distributed.size()
        progress = (self.steps + 0.5 * step) / self.total_steps if self.total_steps else 0.0
        self.optimizer.learning_rate = self.config.optimizer.learning_rate * self.config.schedule.factor(progress)

    def pop_episodes(self) -> list[Episode]:
        return []

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": trainable_state(self.policy),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "position": self.order.position,
            "steps": self.steps,
        }

    def parts(self) -> dict[str, Any]:
        """State that lies in parts in the processes; see :class:`..core.store.ParameterStore`."""
        return self.optimizer.store.parts()

    def take_parts(self, parts: Mapping[str, Any]) -> None:
        self.optimizer.store.take_parts(parts)

    def load_policy(self, state: dict[str, Any]) -> None:
        load_trainable_state(self.policy, state["policy"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.order.position = state["position"]
        self.steps = state["steps"]
