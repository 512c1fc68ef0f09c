"""Policy gradients on sampled sequences: GRPO and its kin, RLOO, REINFORCE++ and PPO from human feedback."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..core import distributed
from ..core.batch import Batch
from ..core.finite import NonFiniteError
from ..core.group_advantage import (
    group_relative,
    has_signal,
    leave_one_out,
    most_varied,
    place_relative,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from ..core.losses import PolicyLoss
from ..core.objective import kl_estimate, masked_mean
from ..core.optimizer import PolicyOptimizer
from ..core.token_advantage import token_gae
from ..interfaces import TokenWorld
from ..models.causal_lm import CausalLMPolicy
from ..models.token_critic import TokenCritic
from .config import OF_TOKENS, PolicyGradientConfig
from .corrections import high_entropy, importance_weights, mismatch, off_policy_mask
from .entropy_control import EntropyController
from .evaluation import evaluate
from .kl_control import KLController
from .reference import Reference
from .samples import Samples, join, statistics_of
from .sampling_trainer import SamplingTrainer
from .shaping import shaped_rewards, token_rewards, whitened


class PolicyGradientTrainer(SamplingTrainer):
    """``iterate()`` samples answers, learns from them and lets the world's engine follow.

    ``model`` is what :class:`gaitway_agents.models.causal_lm.CausalLMPolicy` takes. The ``critic`` is that of the
    policy, for advantage "gae". The reference, which a KL penalty is measured from, is the model as it is now.
    ``steps`` counts sampled sequences, those included that dynamic sampling leaves out.
    """

    def __init__(
        self,
        model: nn.Module,
        world: TokenWorld,
        config: PolicyGradientConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        critic: TokenCritic | None = None,
    ):
        if (config.advantage == "gae") != (critic is not None):
            raise UserError(f"advantage {config.advantage!r} with critic {critic}: 'gae' needs one, others none")
        entropy = "gradient" if config.optimizer.entropy_coefficient or config.entropy is not None else "statistic"
        policy = CausalLMPolicy(model, temperature=world.temperature, critic=critic, entropy=entropy)
        still = config.reference_interval is None
        precision = config.optimizer.precision if still and config.optimizer.store != "fsdp" else "float32"
        # A copy of the weights, before they come to lie wherever the optimiser has them.
        reference = Reference(policy, precision) if config.needs_reference else None
        optimizer = PolicyOptimizer(policy, config.optimizer, torch.Generator().manual_seed(seed))
        super().__init__(policy, optimizer, world, config.schedule, total_steps)
        self.config, self.reference = config, reference
        if reference is not None and config.optimizer.store == "fsdp":
            reference.into_parts(config.optimizer)
        if config.reference_interval is not None and self.reference is not None and self.reference.adapted:
            raise UserError(
                "reference_interval moves a copy of the model, and a model with adapters has none: train without "
                "adapters, or leave it out"
            )
        self.controller = None if config.kl is None else KLController(config.kl)
        self.entropy = None if config.entropy is None else EntropyController(config.entropy)

    def iterate(self) -> dict[str, float]:
        """One batch of sampled sequences and one update. Returns metrics, with seconds under ``time/``.

        Where dynamic sampling finds fewer sequences than the optimiser has minibatches, in one of several processes,
        nothing is learnt.
        """
        start, before = time.perf_counter(), self.steps
        samples, metrics = self._sample()
        metrics = self.of_all_processes(metrics)
        sampled = time.perf_counter()
        if self.in_all_processes(before, len(samples)):
            batch = self._prepare(samples, metrics)
            self.anneal(self.steps - before)
            metrics |= {f"learn/{name}": value for name, value in self._update(batch).items()}
            metrics |= self.update_engine()
            self._move_reference()
        end = time.perf_counter()
        metrics["learn/tokens_per_s"] = float(samples.lengths.sum()) / (end - sampled)
        return metrics | {"time/sampling": sampled - start, "time/learning": end - sampled, "time/total": end - start}

    def _move_reference(self) -> None:
        interval = self.config.reference_interval
        if interval is not None and (self.version - 1) % interval == 0:
            assert self.reference is not None
            self.reference.move_towards(self.policy, self.config.reference_rate)

    def _update(self, batch: Batch) -> dict[str, float]:
        if self.entropy is None:
            return self.optimizer.update(batch)
        self.optimizer.loss = PolicyLoss(replace(self.config.optimizer, entropy_coefficient=self.entropy.coefficient))
        statistics = self.optimizer.update(batch)
        statistics["entropy_coefficient"] = self.entropy.coefficient
        self.entropy.update(statistics["entropy"])
        return statistics

    def _sample(self) -> tuple[Samples, dict[str, float]]:
        """Sequences to learn from, with shaped rewards, and metrics of all that were sampled for them."""
        cfg = self.config
        seen: list[Samples] = []
        kept: list[Samples] = []
        missing = cfg.prompts_per_step
        while missing > 0 and len(seen) <= (cfg.max_resamples if cfg.zero_variance == "resample" else 0):
            samples = self.draw(cfg.prompts_per_step, cfg.group_size)
            seen.append(samples)
            samples = replace(samples, rewards=shaped_rewards(samples, cfg))
            if cfg.learnt_answers is not None:
                samples = samples.rows(most_varied(samples.rewards, samples.groups, cfg.learnt_answers))
            if cfg.zero_variance != "keep":
                signal = has_signal(samples.rewards, samples.groups)
                samples = samples.rows(signal.nonzero().flatten()[: missing * cfg.group_learnt])
            kept.append(samples)
            missing -= len(samples) // cfg.group_learnt
        everything = join(seen)
        metrics = statistics_of(everything)
        signal = has_signal(shaped_rewards(everything, cfg), everything.groups)
        return join(kept), metrics | {"learn/used_groups": float(signal.float().mean())}

    @torch.no_grad()
    def _prepare(self, samples: Samples, metrics: dict[str, float]) -> Batch:
        """Batch of an update; adds statistics of the samples to ``metrics``."""
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
        own = samples.log_probs
        if cfg.behaviour == "trainer" or cfg.advantage == "gae" or cfg.kl is not None:
            now = evaluate(self.policy, batch, cfg.optimizer)
            own = now.log_probs
            batch = batch.replace(values=now.values)
            if cfg.behaviour == "trainer":
                batch = batch.replace(log_probs=own)
        if self.reference is not None:
            batch = batch.replace(reference=self.reference.evaluate(batch, cfg.optimizer))
        batch = self._with_advantages(batch, samples, self._penalties(batch, own, metrics))
        if cfg.behaviour == "trainer":
            weights, statistics = _weights(cfg, batch, samples, now.entropy)
            metrics |= {f"learn/{name}": value for name, value in statistics.items()}
            batch = batch.replace(weights=weights)
        if cfg.truncated == "mask":
            batch = batch.replace(mask=samples.mask * samples.finished[:, None])
        for name, value in batch.named_tensors().items():
            if not torch.isfinite(value).all():
                raise NonFiniteError(f"the sampled sequences hold a non-finite value: {name}")
        return batch

    def _penalties(self, batch: Batch, own: Tensor, metrics: dict[str, float]) -> Tensor | None:
        """Penalty of each token for leaving the reference, by the trainer's ``own`` log-probabilities.

        The engine's would add its difference from the trainer. The controller gets the divergence.
        """
        if batch.reference is None:
            return None
        assert batch.mask is not None
        apart = ((own - batch.reference) * batch.mask).sum(1).mean()
        metrics["rollout/reference_kl"] = float(apart)
        if self.controller is None:
            return None
        kl = kl_estimate(own, batch.reference, self.controller.config.estimator) * batch.mask
        metrics["learn/reference_kl"] = float(masked_mean(kl, None, batch.mask.sum()))
        metrics["learn/kl_coefficient"] = self.controller.coefficient
        penalties = self.controller.coefficient * kl
        rows, mean, _ = distributed.moments(kl.sum(1))
        self.controller.update(float(mean), int(rows))
        return penalties

    def _with_advantages(self, batch: Batch, samples: Samples, penalties: Tensor | None) -> Batch:
        cfg, mask = self.config, samples.mask
        if cfg.advantage in OF_TOKENS:
            rewards = token_rewards(samples.rewards, mask, penalties, samples.turn_rewards)
            if cfg.whiten_rewards:
                rewards = whitened(rewards, mask)
            if cfg.advantage == "reinforce++":
                return batch.replace(advantages=reinforce_plus_plus(rewards, mask, cfg.gamma))
            if cfg.advantage == "place":
                advantages = place_relative(rewards, samples.tokens, mask, cfg.gamma, cfg.lam)
                return batch.replace(advantages=advantages)
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

    def state_dict(self) -> dict[str, Any]:
        named = {"controller": self.controller, "entropy": self.entropy}
        found = {name: None if part is None else part.state_dict() for name, part in named.items()}
        reference = {} if self.reference is None else self.reference.state_dict()
        return super().state_dict() | found | {"reference": reference}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.controller is not None:
            self.controller.load_state_dict(state["controller"])
        if self.entropy is not None:
            self.entropy.load_state_dict(state["entropy"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])


def _weights(
    config: PolicyGradientConfig, batch: Batch, samples: Samples, entropy: Tensor
) -> tuple[Tensor | None, dict[str, float]]:
    """Weights of the tokens of ``batch``, whose log-probabilities are the trainer's; numbers for the log."""
    mask = samples.mask
    statistics = mismatch(batch.log_probs, samples.log_probs, mask)
    found: list[Tensor] = []
    if config.correction is not None:
        weights, said = importance_weights(batch.log_probs, samples.log_probs, mask, config.correction)
        found.append(weights)
        statistics |= said
    if config.off_policy_threshold is not None:
        weights, said = off_policy_mask(
            batch.advantages, batch.log_probs, samples.log_probs, mask, config.off_policy_threshold
        )
        found.append(weights)
        statistics |= said
    if config.entropy_share < 1.0:
        found.append(high_entropy(entropy, mask, config.entropy_share))
    return (torch.stack(found).prod(0) if found else None), statistics
