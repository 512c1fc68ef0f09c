"""Base of the agents that learn from their own answers: a world that samples, an engine that follows, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..core import distributed
from ..core.finite import NonFiniteError
from ..core.optimizer import PolicyOptimizer
from ..interfaces import TokenRollout, TokenWorld
from ..models.causal_lm import CausalLMPolicy
from ..trainer import Episode
from .samples import Samples
from .schedule import LearningRateSchedule
from .weights import load_trainable_state, trainable_state, whole_state


class SamplingTrainer:
    """Keeps ``world`` and ``policy`` together; ``iterate()`` is the agent's. ``steps`` counts sampled sequences."""

    def __init__(
        self,
        policy: CausalLMPolicy,
        optimizer: PolicyOptimizer,
        world: TokenWorld,
        schedule: LearningRateSchedule,
        total_steps: int | None,
    ):
        if schedule.changes and not total_steps:
            raise UserError(f"schedule {schedule.shape!r} needs total_steps: how long the training is")
        self.policy, self.optimizer, self.world = policy, optimizer, world
        self.schedule, self.total_steps = schedule, total_steps
        self.steps = 0
        self.version = 0
        """How often the world was told of new weights, itself counting."""
        self.last_rollout: TokenRollout | None = None
        """The last rollout, for people to read."""
        self._up_to_date = False
        self._whole: dict[str, Tensor] | None = None
        """The weights of a policy that lies in parts, when they were last put together."""

    @property
    def device(self) -> torch.device:
        return next(self.policy.parameters()).device

    def pop_episodes(self) -> list[Episode]:
        return []

    # ---- sampling, and the engine's weights --------------------------------------------------------------------------

    def draw(self, num_prompts: int, group_size: int) -> Samples:
        """Answers of the engine, which has the policy's weights, or those of as many updates ago as it works ahead."""
        if not self._up_to_date:
            self.update_engine()
        self.last_rollout = rollout = self.world.sample(num_prompts, group_size)
        samples = Samples.of(rollout, self.device, self.version)
        self.steps += len(samples)
        _check(samples)
        return samples

    def in_all_processes(self, before: int, samples: int) -> bool:
        """Count what all processes have drawn since ``steps`` was ``before``, and tell whether all can learn: whether
        each has as many ``samples`` as the optimiser has minibatches."""
        self.steps = before + distributed.total(self.steps - before, self.device)
        return not distributed.any_of(samples < self.optimizer.config.minibatches, self.device)

    @staticmethod
    def of_all_processes(metrics: dict[str, float]) -> dict[str, float]:
        """Metrics of a rollout, in the first process their means over all that have them."""
        found: dict[str, list[float]] = {}
        for part in distributed.gathered(metrics):
            for name, value in part.items():
                found.setdefault(name, []).append(value)
        return {name: sum(values) / len(values) for name, values in found.items()} or metrics

    def update_engine(self) -> dict[str, float]:
        """Let the engine have the policy's weights; numbers for the log."""
        found = self.world.update_weights(self.policy.named_weights())
        self._up_to_date = True
        self.version += 1
        return {f"learn/{name}": value for name, value in found.items()}

    def anneal(self, sampled: int) -> None:
        """Set the rate for an update after ``sampled`` further sequences, to that of the middle between."""
        progress = (self.steps - 0.5 * sampled) / self.total_steps if self.total_steps else 0.0
        if self.optimizer.config.schedule == "constant":
            self.optimizer.learning_rate = self.optimizer.config.learning_rate * self.schedule.factor(progress)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Part of the state that each of several processes has for itself."""
        assert self.optimizer.generator is not None
        self._whole = whole_state(self.policy) if self.policy.in_parts else None
        return {"generator": self.optimizer.generator.get_state(), "world": self.world.state_dict()}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        assert self.optimizer.generator is not None
        return {
            "generator": self.optimizer.generator.get_state(),
            "world": self.world.state_dict(),
            "policy": trainable_state(self.policy) if self._whole is None else self._whole,
            "optimizer": self.optimizer.state_dict(),
            "version": self.version,
            "steps": self.steps,
        }

    def parts(self) -> dict[str, Any]:
        """State that lies in parts in the processes; see :class:`..core.store.ParameterStore`."""
        return self.optimizer.store.parts()

    def take_parts(self, parts: Mapping[str, Any]) -> None:
        self.optimizer.store.take_parts(parts)

    def load_policy(self, state: dict[str, Any]) -> None:
        load_trainable_state(self.policy, state["policy"])
        self._up_to_date = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert self.optimizer.generator is not None
        self.load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        if state["generator"] is not None:
            self.optimizer.generator.set_state(state["generator"])
        self.update_engine()
        self.world.load_state_dict(state["world"])
        self.version, self.steps = state["version"], state["steps"]


def _check(samples: Samples) -> None:
    """Refuse numbers that would harm the model, or pass for answers without a signal.

    A part of the reward that is not a number has no opinion on an answer; the reward is the sum of the others.
    """
    named = {
        f"part {name!r} of the reward": part.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        for name, part in samples.parts.items()
    }
    named |= {"the reward": samples.rewards, "the engine's log-probability": samples.log_probs}
    for name, value in named.items():
        bad = ~torch.isfinite(value.flatten(1) if value.dim() > 1 else value[:, None]).all(1)
        if bad.any():
            row = int(bad.nonzero()[0])
            raise NonFiniteError(f"{name} of sampled sequence {row} is not a finite number")
