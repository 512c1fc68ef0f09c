"""Adversarial motion priors: a reward for moving like the motions of a reference (Peng et al. 2021, arXiv 2104.02180).

A discriminator tells transitions of the policy from those of reference motions. A transition is one observation with
two frames, so an observation group with a history of two is all that is needed. Replay, normaliser and the mixture of
the rewards are those of AMP_for_hardware (Escontrela et al. 2022, arXiv 2203.15103).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import LayerSizes, NonNegativeFloat, PositiveFloat, PositiveInt, Share, one_of
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from .additions import Addition
from .core.batch import Batch
from .imitation import Demonstrations, ImitationConfig
from .models.actor_critic import ActorCritic
from .models.mlp import ACTIVATIONS
from .models.normalizer import RunningNormalizer
from .rollout import EnvRollout

CLIP = 5.0
"""Largest normalised number that the discriminator sees, as in IsaacGymEnvs."""


@dataclass(frozen=True, kw_only=True)
class AMPConfig(ImitationConfig):
    """Settings of the addition, by the names of AMP_for_hardware and IsaacGymEnvs."""

    motions: tuple[str, ...] = ()
    """Reference motions: names or files."""
    observation: str = "amp"
    """Observed vector that the discriminator sees: two frames of the robot's state."""
    state_init: Share = 0.5
    """Share of the episodes that begin in a frame of a motion (reference state initialisation); AMP_for_hardware's is
    0.85. 0 begins all as the task does."""
    task_reward_lerp: Share = 0.8
    """Share of the task's reward in the sum; the rest is the style's. AMP_for_hardware's is 0.3; with
    0.5, robots stood still for the first half million steps."""
    reward_coef: NonNegativeFloat = 0.3
    """Style reward of a transition that looks like the reference; typically what a good step of the task earns."""
    loss: Annotated[str, one_of("least_squares", "logistic")] = "least_squares"
    """"least_squares": targets 1 and -1, style max(0, 1 - 0.25 (D - 1)^2). "logistic": cross-entropy, style
    -log(1 - sigmoid(D))."""
    grad_penalty: NonNegativeFloat = 10.0
    """Factor of the squared gradient of D at the reference; typically 0.2 to 10."""
    logit_reg: NonNegativeFloat = 0.05
    """Factor of the squared weights of the last layer; typically 0.01 to 0.05."""
    hidden_dims: LayerSizes = (256, 128)
    """Sizes of the discriminator's hidden layers."""
    activation: Annotated[str, one_of(*ACTIVATIONS)] = "elu"
    """Activation of hidden layers."""
    normalization: bool = True
    """Running normalisation of what the discriminator sees, over reference and policy alike."""
    learning_rate: PositiveFloat = 3e-4
    """Learning rate of the discriminator's Adam; typically 1e-5 to 1e-3."""
    updates: PositiveInt = 8
    """Gradient steps after each rollout."""
    batch_size: PositiveInt = 512
    """Transitions of the reference in a step, and as many of the policy."""
    replay_size: PositiveInt = 20_000
    """Earlier transitions of the policy that are kept; half of the policy's part of a batch is drawn from them."""
    replay_keep_prob: Share = 0.1
    """Share of each rollout that is kept."""

    def make(
        self,
        policy: ActorCritic,
        source: Any,
        generator: torch.Generator,
        demonstrations: Demonstrations | None = None,
    ) -> AMP:
        if demonstrations is None:
            raise UserError(
                "adversarial motion priors need reference transitions: name motions (motions: [trot]) of a robot's "
                "task, or give OnPolicyTrainer 'demonstrations'"
            )
        return AMP(self, source.single_observation_space, source.device, generator, demonstrations)


class AMP(Addition):
    """The style reward of a step is earned by the transition that ends it; a fall has none.

    Nothing that spans two episodes is a transition. Where an episode ran out of time its last one is, if the
    environment tells final observations. With canonical symmetry the discriminator learns from random mirror images of
    policy and reference: half of the policy's images would never be seen otherwise.
    """

    def __init__(
        self,
        config: AMPConfig,
        observations: spaces.Dict,
        device: torch.device,
        generator: torch.Generator,
        demonstrations: Demonstrations,
    ):
        self.config, self.generator, self.symmetry = config, generator, demonstrations.symmetry
        self.expert = demonstrations.rows.to(device)
        space = observations.spaces.get(config.observation)
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise UserError(
                f"adversarial motion priors see the observation {config.observation!r}, which is "
                f"{'not there' if space is None else space}; there is {', '.join(observations.spaces)}"
            )
        (size,) = space.shape
        if self.expert.ndim != 2 or self.expert.shape[1] != size or not len(self.expert):
            raise UserError(
                f"reference transitions have the shape {tuple(self.expert.shape)}: the observation "
                f"{config.observation!r} needs (P, {size})"
            )
        if not torch.isfinite(self.expert).all():
            row = int((~self.expert.isfinite()).nonzero()[0, 0])
            raise UserError(f"reference transition {row} is not finite: look at the motion with 'gaitway motion check'")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            sizes = [size, *config.hidden_dims]
            trunk = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), self._activation())]
            # Plain layers, since the gradient of a gradient is needed.
            self.discriminator = nn.Sequential(*trunk, nn.Linear(sizes[-1], 1)).to(device)
        self.normalizer = RunningNormalizer(size, clip=CLIP).to(device) if config.normalization else None
        if self.normalizer is not None:
            self.normalizer.update(self.expert)
        self.optimizer = torch.optim.Adam(self.discriminator.parameters(), config.learning_rate)
        self.replay = torch.zeros(0, size, device=device)
        self.statistics = dict[str, float]()

    def _activation(self) -> nn.Module:
        return ACTIVATIONS[self.config.activation]()

    # ---- the reward ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def rewards(self, rollout: EnvRollout) -> EnvRollout:
        """The rollout with lerp * task + (1 - lerp) * coef * style of the transitions as what is learnt from."""
        reached, there = self.transitions(rollout)
        self.learnt_from = reached[there]
        style = torch.zeros_like(rollout.learnt_rewards)
        style[there] = self.config.reward_coef * self.style(self.logits(self.learnt_from))
        lerp = self.config.task_reward_lerp
        self.statistics = {"amp_reward": float(style[there].mean()) if len(self.learnt_from) else 0.0}
        return replace(rollout, learnt_rewards=lerp * rollout.learnt_rewards + (1.0 - lerp) * style)

    def transitions(self, rollout: EnvRollout) -> tuple[Tensor, Tensor]:
        """What each step reached (T, N, D), and where that is a transition (T, N)."""
        name = self.config.observation
        reached = torch.cat((rollout.observations[name][1:], rollout.following[name][None]))
        there = rollout.valid & ~(rollout.terminated | rollout.truncated)
        ended = [(t, rows, final[name]) for t, rows, final in rollout.finals if name in final]
        if ended:
            reached = reached.clone()
        for t, rows, final in ended:
            reached[t, rows] = final
            there[t, rows] = rollout.valid[t, rows] & ~rollout.terminated[t, rows]
        return reached, there

    def style(self, logits: Tensor) -> Tensor:
        """Style reward, 0 or more, of the discriminator's outputs."""
        if self.config.loss == "least_squares":
            return (1.0 - 0.25 * (logits - 1.0).square()).clamp(min=0.0)  # Peng et al. 2021, eq. 7
        return functional.softplus(logits)  # -log(1 - sigmoid(D))

    def logits(self, transitions: Tensor) -> Tensor:
        """Outputs D of the discriminator (B,), of transitions (B, D)."""
        out: Tensor = self.discriminator(self._seen(transitions)).squeeze(-1)
        return out

    def _seen(self, transitions: Tensor) -> Tensor:
        return transitions if self.normalizer is None else self.normalizer(transitions)

    # ---- what the discriminator learns -----------------------------------------------------------------------------

    def losses(self, policy: Tensor, expert: Tensor) -> dict[str, Tensor]:
        """Parts of the loss of transitions (B, D), before their factors."""
        with torch.no_grad():
            policy, expert = self._seen(policy), self._seen(expert)
        expert.requires_grad_(True)
        fake, real = self.discriminator(policy).squeeze(-1), self.discriminator(expert).squeeze(-1)
        if self.config.loss == "least_squares":
            told = 0.5 * ((real - 1.0).square().mean() + (fake + 1.0).square().mean())  # eq. 6
        else:
            told = 0.5 * (functional.softplus(-real).mean() + functional.softplus(fake).mean())
        (slope,) = torch.autograd.grad(real.sum(), expert, create_graph=True)
        last = self.discriminator[-1]
        assert isinstance(last, nn.Linear)
        return {
            "amp_loss": told,
            "amp_grad_penalty": slope.square().sum(-1).mean(),  # eq. 8: the mean of |dD / d(s, s')|^2
            "amp_logit_reg": last.weight.square().sum(),
            "amp_policy_logit": fake.mean().detach(),
            "amp_expert_logit": real.mean().detach(),
        }

    def update(self, batch: Batch) -> dict[str, float]:
        """Let the discriminator learn from the rollout, from replay and from the reference."""
        config, totals = self.config, dict[str, float]()
        if not len(self.learnt_from):
            return self.statistics
        for _ in range(config.updates):
            old = config.batch_size // 2 if len(self.replay) else 0
            policy = torch.cat((self._drawn(self.learnt_from, config.batch_size - old), self._drawn(self.replay, old)))
            expert = self._drawn(self.expert, config.batch_size)
            policy, expert = self._mirrored(policy), self._mirrored(expert)
            parts = self.losses(policy, expert)
            loss = (
                parts["amp_loss"]
                + config.grad_penalty * parts["amp_grad_penalty"]
                + config.logit_reg * parts["amp_logit_reg"]
            )
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.normalizer is not None:
                self.normalizer.update(torch.cat((policy, expert)))
            for name, value in parts.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach()) / config.updates
        kept = self._drawn(self.learnt_from, round(config.replay_keep_prob * len(self.learnt_from)))
        self.replay = torch.cat((self.replay, kept))[-config.replay_size :]
        return self.statistics | totals

    def _drawn(self, rows: Tensor, count: int) -> Tensor:
        if not count:
            return rows[:0]
        return rows[torch.randint(len(rows), (count,), generator=self.generator, device=rows.device)]

    def _mirrored(self, rows: Tensor) -> Tensor:
        if self.symmetry is None:
            return rows
        order, device = self.symmetry.order, rows.device
        element = torch.randint(order, (len(rows),), generator=self.generator, device=device)
        return self.symmetry.apply_to(self.config.observation, rows, element)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "discriminator": self.discriminator.state_dict(),
            "normalizer": None if self.normalizer is None else self.normalizer.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "replay": self.replay,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.discriminator.load_state_dict(state["discriminator"])
        if self.normalizer is not None:
            self.normalizer.load_state_dict(state["normalizer"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.replay = state["replay"].to(self.expert.device)
