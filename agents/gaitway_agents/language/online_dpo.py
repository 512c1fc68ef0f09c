"""Online DPO: preferences between a policy's own answers, by their rewards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..core.batch import Batch
from ..core.group_advantage import has_signal
from ..core.optimizer import OptimizerConfig, PolicyOptimizer
from ..core.preference import PairLoss, PreferenceLossConfig
from ..trainer import Episode
from .fixed_data import one_step
from .pairs import SequencePolicy, pairs_of
from .preference import LogProbs
from .samples import Samples, statistics_of
from .schedule import LearningRateSchedule
from .weights import load_trainable_state, trainable_state
from .world import Rollout, TokenWorld


@dataclass(frozen=True, kw_only=True)
class OnlineDPOConfig(PreferenceLossConfig):
    """One iteration samples ``group_size`` answers to each of ``prompts_per_step`` prompts; the answer with the highest
    reward is preferred to the one with the lowest (Guo et al. 2024 compare two)."""

    prompts_per_step: int = 32
    group_size: int = 2
    missing_eos_penalty: float = 0.0
    """Taken from the reward of an answer that did not end by itself."""
    schedule: LearningRateSchedule = field(default_factory=LearningRateSchedule)
    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=1e-6))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "kto":
            raise ValueError("loss 'kto': online preferences are pairs, use 'dpo', 'hinge', 'ipo' or 'simpo'")
        if self.prompts_per_step < 1:
            raise ValueError(f"prompts_per_step {self.prompts_per_step}: must be at least 1")
        if self.group_size < 2:
            raise ValueError(f"group_size {self.group_size}: a pair takes at least 2 answers")
        if not self.missing_eos_penalty >= 0.0:
            raise ValueError(f"missing_eos_penalty {self.missing_eos_penalty}: must not be negative")
        if self.optimizer.minibatches > self.prompts_per_step:
            raise ValueError(
                f"optimizer.minibatches {self.optimizer.minibatches}: there is at most one pair for each of "
                f"prompts_per_step {self.prompts_per_step}; take fewer"
            )
        if self.optimizer.schedule != "constant":
            raise ValueError(f"optimizer.schedule {self.optimizer.schedule!r}: must be 'constant'; use schedule.shape")
        if self.optimizer.normalize_advantages != "none":
            raise ValueError("optimizer.normalize_advantages: must be 'none', there are no advantages")


class OnlineDPOTrainer:
    """``iterate()`` samples answers, learns from the pairs among them and lets the world's engine follow.

    ``model`` is a causal LM of transformers; it stays without dropout. ``steps`` counts sampled answers.
    """

    def __init__(
        self,
        model: nn.Module,
        world: TokenWorld,
        config: OnlineDPOConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        reference: LogProbs | None = None,
    ):
        if config.needs_reference != (reference is not None):
            raise ValueError(f"loss {config.loss!r} with reference {reference}: only 'simpo' has none")
        if config.schedule.changes and not total_steps:
            raise ValueError(f"schedule {config.schedule.shape!r} needs total_steps: how long the training is")
        self.config, self.world, self.total_steps, self.reference = config, world, total_steps, reference
        self.device = next(model.parameters()).device
        self.policy = SequencePolicy(model, temperature=world.temperature)
        self.policy.eval()
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = PolicyOptimizer(self.policy, config.optimizer, self.generator, loss=PairLoss(config))
        self.steps = 0
        self.version = 0
        """How often the world was told of new weights, itself counting."""
        self.last_rollout: Rollout | None = None
        """What was sampled last, for people to read."""
        self._follows = False

    def iterate(self) -> dict[str, float]:
        """Returns metrics, with the seconds spent under ``time/``. Without a pair that differs nothing is learnt."""
        cfg, start = self.config, time.perf_counter()
        if not self._follows:
            self._follow()
        self.last_rollout = rollout = self.world.sample(cfg.prompts_per_step, cfg.group_size)
        samples = Samples.of(rollout, self.device)
        sampled = time.perf_counter()
        metrics = statistics_of(samples)
        metrics["rollout/staleness"] = float(self.version - rollout.version)
        metrics |= _speed(rollout)
        batch = self._pairs(samples)
        if len(batch) >= cfg.optimizer.minibatches:
            self._schedule(len(samples))
            metrics |= {f"learn/{name}": value for name, value in self.optimizer.update(batch).items()}
            metrics |= {f"learn/{name}": value for name, value in self._follow().items()}
        self.steps += len(samples)
        end = time.perf_counter()
        metrics["learn/tokens_per_s"] = float(batch.observations["lengths"].sum()) / (end - sampled)
        return metrics | {"time/learning": end - sampled, "time/total": end - start}

    @torch.no_grad()
    def _pairs(self, samples: Samples) -> Batch:
        """The best and the worst answer to each prompt whose answers earned different rewards."""
        penalty = self.config.missing_eos_penalty * (~samples.finished).to(samples.rewards.dtype)
        rewards = (samples.rewards - penalty).view(-1, self.config.group_size)
        differ = has_signal(rewards.flatten(), samples.groups).view(rewards.shape)[:, 0].nonzero().flatten()
        first = differ * self.config.group_size
        best, worst = rewards[differ].argmax(1), rewards[differ].argmin(1)
        rows = torch.stack((first + best, first + worst), 1)
        batch = pairs_of(samples.tokens[rows], samples.lengths[rows], samples.mask[rows])
        if self.reference is None or not len(batch):
            return batch
        flat = rows.flatten()
        said = self.reference.log_probs(samples.tokens[flat], samples.lengths[flat], samples.mask[flat])
        return batch.replace(reference=said.sum(-1).view(rows.shape))

    def _schedule(self, sampled: int) -> None:
        progress = (self.steps + 0.5 * sampled) / self.total_steps if self.total_steps else 0.0
        self.optimizer.learning_rate = self.config.optimizer.learning_rate * self.config.schedule.factor(progress)

    def _follow(self) -> Mapping[str, float]:
        """Let the engine have the policy's weights."""
        found = self.world.follow(self.policy.model.state_dict().items())
        self._follows = True
        self.version += 1
        return found

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    def pop_episodes(self) -> list[Episode]:
        return []

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": trainable_state(self.policy),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "world": self.world.state_dict(),
            "version": self.version,
            "steps": self.steps,
        }

    def load_policy(self, state: dict[str, Any]) -> None:
        load_trainable_state(self.policy, state["policy"])
        self._follows = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self._follow()
        self.world.load_state_dict(state["world"])
        self.version, self.steps = state["version"], state["steps"]


def _speed(rollout: Rollout) -> dict[str, float]:
    """What sampling took."""
    found = {f"time/{name}": value for name, value in rollout.timing.items()}
    if rollout.timing.get("generation"):
        found["rollout/tokens_per_s"] = float(rollout.mask.sum()) / rollout.timing["generation"]
    return found
