"""Policy gradients on sampled sequences: GRPO and its kin, RLOO, REINFORCE++ and PPO from human feedback."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.finite import NonFiniteError
from ..core.group_advantage import (
    group_relative,
    has_signal,
    leave_one_out,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from ..core.objective import kl_estimate, kl_k3, masked_mean
from ..core.optimizer import PolicyOptimizer
from ..core.token_advantage import token_gae
from ..models.causal_lm import CausalLMPolicy
from ..trainer import Episode
from .config import OF_TOKENS, PolicyGradientConfig
from .evaluation import evaluate
from .kl_control import KLController
from .samples import Samples, join
from .schedule import LearningRateSchedule
from .shaping import shaped_rewards, token_rewards, whitened
from .weights import load_trainable_state, trainable_state
from .world import Rollout, TokenWorld


class PolicyGradientTrainer:
    """``iterate()`` samples answers, learns from them and lets the world's engine follow.

    ``model`` is what :class:`gaitway_agents.models.causal_lm.CausalLMPolicy` takes; what it says is what is learnt
    from, so it stays without dropout. ``steps`` counts sampled sequences. The ``critic`` is that of the policy, for
    advantage "gae"; the ``reference``, which a KL penalty needs, has ``log_probs(tokens, lengths, mask)``.
    """

    def __init__(
        self,
        model: nn.Module,
        world: TokenWorld,
        config: PolicyGradientConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        reference: Any = None,
        critic: nn.Module | None = None,
    ):
        if config.schedule != LearningRateSchedule() and not total_steps:
            raise ValueError(f"schedule {config.schedule.shape!r} needs total_steps: how long the training is")
        if (config.advantage == "gae") != (critic is not None):
            raise ValueError(f"advantage {config.advantage!r} with critic {critic}: 'gae' needs one, others none")
        self.config, self.world, self.total_steps = config, world, total_steps
        self.policy = CausalLMPolicy(model, temperature=world.temperature)
        self.policy.eval()
        self.reference = reference
        if reference is None and (config.kl is not None or config.optimizer.kl_coefficient):
            raise ValueError("a KL penalty needs the reference that it is measured from")
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = PolicyOptimizer(self.policy, config.optimizer, self.generator)
        self.controller = None if config.kl is None else KLController(config.kl)
        self.steps = 0
        self.version = 0
        """How often the world was told of new weights, itself counting."""
        self.last_rollout: Rollout | None = None
        """What was sampled last, for people to read."""
        self._follows = False

    @property
    def device(self) -> torch.device:
        return next(self.policy.parameters()).device

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """One batch of sampled sequences and one update. Returns metrics, with seconds under ``time/``."""
        start = time.perf_counter()
        if not self._follows:
            self._follow()
        before = self.steps
        samples, metrics = self._sample()
        sampled = time.perf_counter()
        batch = self._prepare(samples, metrics)
        if len(batch) >= self.config.optimizer.minibatches:
            self._anneal(self.steps - before)
            metrics |= {f"learn/{name}": value for name, value in self.optimizer.update(batch).items()}
            metrics |= {f"learn/{name}": value for name, value in self._follow().items()}
        end = time.perf_counter()
        metrics["learn/tokens_per_s"] = float(samples.lengths.sum()) / (end - sampled)
        return metrics | {"time/learning": end - sampled, "time/total": end - start}

    def _sample(self) -> tuple[Samples, dict[str, float]]:
        """Sequences to learn from, and metrics of all that were sampled for them."""
        cfg = self.config
        seen: list[Samples] = []
        kept: list[Samples] = []
        missing, tokens, seconds = cfg.prompts_per_step, 0.0, {"generation": 0.0, "reward": 0.0}
        stale = 0
        for _ in range(1 + cfg.max_resamples if cfg.zero_variance == "resample" else 1):
            rollout = self.world.sample(cfg.prompts_per_step, cfg.group_size)
            samples = Samples.of(rollout, self.device)
            samples = samples.replace(rewards=shaped_rewards(samples, cfg))
            self.last_rollout = rollout
            self.steps += len(samples)
            stale = max(stale, self.version - rollout.version)
            for name, value in rollout.timing.items():
                seconds[name] = seconds.get(name, 0.0) + value
            tokens += float(samples.mask.sum())
            seen.append(samples)
            if cfg.zero_variance != "keep":
                signal = has_signal(samples.rewards, samples.groups)
                samples = samples.rows(signal.nonzero().flatten()[: missing * cfg.group_size])
            if len(samples):
                kept.append(samples)
            missing -= len(samples) // cfg.group_size
            if missing <= 0:
                break
        everything = join(seen)
        metrics = _statistics(everything)
        metrics["rollout/staleness"] = float(stale)
        if seconds["generation"]:
            metrics["rollout/tokens_per_s"] = tokens / seconds["generation"]
        metrics |= {f"time/{name}": value for name, value in seconds.items()}
        none = torch.zeros(0, dtype=torch.long, device=self.device)
        return join(kept) if kept else everything.rows(none), metrics

    @torch.no_grad()
    def _prepare(self, samples: Samples, metrics: dict[str, float]) -> Batch:
        """The batch of an update; adds what it finds out about the samples to ``metrics``."""
        cfg = self.config
        batch = Batch(
            observations={"lengths": samples.lengths},
            actions=samples.tokens,
            log_probs=samples.log_probs,
            advantages=torch.zeros_like(samples.log_probs),
            mask=samples.mask,
        )
        if not len(batch):
            return batch
        if cfg.behaviour == "trainer" or cfg.advantage == "gae":
            now = evaluate(self.policy, batch, cfg.optimizer)
            if cfg.behaviour == "trainer":
                gap = kl_k3(now.log_probs - samples.log_probs)
                metrics["learn/mismatch_kl"] = float(masked_mean(gap, samples.mask, samples.mask.sum()))
                batch = batch.replace(log_probs=now.log_probs)
            batch = batch.replace(values=now.values)
        if self.reference is not None:
            batch = batch.replace(reference=self.reference.log_probs(samples.tokens, samples.lengths, samples.mask))
        batch = self._with_advantages(batch, samples, self._penalties(batch, metrics))
        if cfg.truncated == "mask":
            batch = batch.replace(mask=samples.mask * samples.finished[:, None])
        for name, value in batch.named_tensors().items():
            if not torch.isfinite(value).all():
                raise NonFiniteError(f"the sampled sequences hold a non-finite value: {name}")
        return batch

    def _penalties(self, batch: Batch, metrics: dict[str, float]) -> Tensor | None:
        """What each token loses for leaving the reference; the controller learns of it."""
        if batch.reference is None:
            return None
        assert batch.mask is not None
        apart = ((batch.log_probs - batch.reference) * batch.mask).sum(1).mean()
        metrics["rollout/reference_kl"] = float(apart)
        if self.controller is None:
            return None
        kl = kl_estimate(batch.log_probs, batch.reference, self.controller.config.estimator) * batch.mask
        metrics["learn/reference_kl"] = float(masked_mean(kl, None, batch.mask.sum()))
        metrics["learn/kl_coefficient"] = self.controller.coefficient
        penalties = self.controller.coefficient * kl
        self.controller.update(float(kl.sum(1).mean()), len(batch))
        return penalties

    def _with_advantages(self, batch: Batch, samples: Samples, penalties: Tensor | None) -> Batch:
        cfg, mask = self.config, samples.mask
        if cfg.advantage in OF_TOKENS:
            rewards = token_rewards(samples.rewards, mask, penalties)
            if cfg.whiten_rewards:
                rewards = whitened(rewards, mask)
            if cfg.advantage == "reinforce++":
                return batch.replace(advantages=reinforce_plus_plus(rewards, mask, cfg.gamma))
            assert batch.values is not None
            advantages = token_gae(rewards, batch.values, mask, cfg.gamma, cfg.lam)
            return batch.replace(advantages=advantages, returns=(advantages + batch.values) * mask)
        earned = samples.rewards if penalties is None else samples.rewards - penalties.sum(1)
        if cfg.advantage == "reinforce++_baseline":
            return batch.replace(advantages=reinforce_plus_plus_baseline(earned, samples.groups, mask))
        if cfg.advantage == "leave_one_out":
            advantages = leave_one_out(earned, samples.groups)
        else:
            advantages = group_relative(earned, samples.groups, cfg.scale)
        return batch.replace(advantages=advantages[:, None] * mask)

    def _follow(self) -> dict[str, float]:
        """Let the engine have the policy's weights."""
        found = dict(self.world.follow(self.policy.model.state_dict().items()))
        self._follows = True
        self.version += 1
        return found

    def _anneal(self, sampled: int) -> None:
        if self.config.optimizer.schedule == "constant":
            progress = (self.steps - 0.5 * sampled) / self.total_steps if self.total_steps else 0.0
            self.optimizer.learning_rate = self.config.optimizer.learning_rate * self.config.schedule.factor(progress)

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    def pop_episodes(self) -> list[Episode]:
        return []

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": trainable_state(self.policy),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "controller": None if self.controller is None else self.controller.state_dict(),
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
        if self.controller is not None:
            self.controller.load_state_dict(state["controller"])
        self._follow()
        self.world.load_state_dict(state["world"])
        self.version, self.steps = state["version"], state["steps"]


def _statistics(samples: Samples) -> dict[str, float]:
    """What was sampled, in numbers."""
    found = {
        "rollout/reward": float(samples.rewards.mean()),
        "rollout/length": float(samples.sizes.mean()),
        "rollout/finished": float(samples.finished.float().mean()),
        "learn/used_groups": float(has_signal(samples.rewards, samples.groups).float().mean()),
    }
    return found | {f"rollout/reward/{name}": float(part.float().mean()) for name, part in samples.parts.items()}
