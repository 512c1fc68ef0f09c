"""Random network distillation: a reward for observations that are new (Burda et al. 2018, arXiv 1810.12894).

A predictor learns what a frozen network with random weights makes of an observation. Its error is large where the
policy has seldom been, and is added to the reward. As in rsl_rl, one critic values the sum of both rewards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import LayerSizes, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, one_of
from gymnasium import spaces
from torch import Tensor, nn

from .additions import Addition, AdditionConfig
from .core.batch import Batch
from .models.actor_critic import ActorCritic
from .models.mlp import ACTIVATIONS, mlp
from .models.normalizer import RunningNormalizer
from .rollout import EnvRollout

STATE, POLICY = "rnd_state", "policy"
DISCOUNT = 0.99
"""Discount of the intrinsic returns whose deviation normalises the reward; rsl_rl's, whatever PPO's is."""


@dataclass(frozen=True, kw_only=True)
class RNDConfig(AdditionConfig):
    """Settings of the addition, by rsl_rl's names."""

    weight: NonNegativeFloat = 0.1
    """Factor of the intrinsic reward, at first; typically a tenth of what a good step earns. rsl_rl multiplies its
    own by the control period."""
    weight_schedule: Annotated[str, one_of("constant", "step", "linear")] = "constant"
    """"constant"; "step", to ``final_value`` at ``final_step``; or "linear", to it from ``initial_step`` on."""
    initial_step: NonNegativeInt = 0
    """Environment steps of all environments after which the weight begins to change, with "linear"."""
    final_step: PositiveInt | None = None
    """Environment steps of all environments after which it has its final value, with "step" and "linear"."""
    final_value: NonNegativeFloat = 0.0
    """Final weight, with "step" and "linear"."""
    observation: str | None = None
    """Observed vector that is to be new; None takes "rnd_state" where there is one, and "policy" elsewhere."""
    num_outputs: PositiveInt = 16
    """Numbers that the predictor predicts; typically 1 to 512."""
    predictor_hidden_dims: LayerSizes = (64, 64)
    """Sizes of the predictor's hidden layers."""
    target_hidden_dims: LayerSizes = (64, 64)
    """Sizes of the random network's hidden layers."""
    activation: Annotated[str, one_of(*ACTIVATIONS)] = "elu"
    """Activation of hidden layers."""
    state_normalization: bool = True
    """Running normalisation of the observation."""
    reward_normalization: bool = False
    """Divide the intrinsic reward by the running standard deviation of its discounted sum."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate of the predictor's Adam."""
    epochs: PositiveInt = 5
    """Passes over each rollout; rsl_rl takes PPO's."""
    minibatches: PositiveInt = 4
    """Minibatches of each epoch; rsl_rl takes PPO's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_schedule == "constant":
            return
        first = self.initial_step if self.weight_schedule == "linear" else 0
        if self.final_step is None or self.final_step <= first:
            raise UserError(
                f"weight_schedule {self.weight_schedule!r} with final_step {self.final_step}: give a number of steps "
                f"above {first:,}"
            )

    def weight_at(self, step: int) -> float:
        """Weight after ``step`` environment steps."""
        if self.weight_schedule == "constant" or self.final_step is None:
            return self.weight
        if self.weight_schedule == "step":
            return self.weight if step < self.final_step else self.final_value
        done = (step - self.initial_step) / (self.final_step - self.initial_step)
        return self.weight + (self.final_value - self.weight) * min(1.0, max(0.0, done))

    def make(self, policy: ActorCritic, source: Any, generator: torch.Generator) -> RND:
        return RND(self, source.single_observation_space, source.num_envs, source.device, generator)


class RND(Addition):
    """The reward of a step is earned by the observation after it: at the end of an episode, the next one's first."""

    def __init__(
        self,
        config: RNDConfig,
        observations: spaces.Dict,
        num_envs: int,
        device: torch.device,
        generator: torch.Generator,
    ):
        self.config, self.generator = config, generator
        self.name = config.observation or (STATE if STATE in observations.spaces else POLICY)
        space = observations.spaces.get(self.name)
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            there = ", ".join(f"{name} {each}" for name, each in observations.spaces.items())
            raise UserError(
                f"random network distillation needs a vector, and the observation {self.name!r} is "
                f"{'not there' if space is None else space}; there is {there}"
            )
        (size,) = space.shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())
            predictor, target = (
                mlp([size, *hidden, config.num_outputs], config.activation)
                for hidden in (config.predictor_hidden_dims, config.target_hidden_dims)
            )
        state = RunningNormalizer(size) if config.state_normalization else None
        returns = RunningNormalizer(1) if config.reward_normalization else None
        parts: dict[str, nn.Module] = {"predictor": predictor, "target": target.requires_grad_(False)}
        parts |= {name: part for name, part in (("state", state), ("returns", returns)) if part is not None}
        self.parts = nn.ModuleDict(parts).to(device)
        self.discounted = torch.zeros(num_envs, device=device)
        self.optimizer = torch.optim.Adam(predictor.parameters(), config.learning_rate)
        self.steps, self.statistics = 0, dict[str, float]()

    @torch.no_grad()
    def rewards(self, rollout: EnvRollout) -> EnvRollout:
        """The rollout with weight * |target - predictor| of the next observations added to what is learnt from."""
        self.learnt_from = rollout.valid_observations()[self.name]
        reached = torch.cat((rollout.observations[self.name][1:], rollout.following[self.name][None]))
        intrinsic = self.errors(reached).norm(dim=-1)
        if "returns" in self.parts:
            intrinsic = torch.stack([self._normalized(reward) for reward in intrinsic])
        num_steps, num_envs = intrinsic.shape
        after = [self.steps + (t + 1) * num_envs for t in range(num_steps)]
        weights = intrinsic.new_tensor([self.config.weight_at(step) for step in after])
        self.steps = after[-1]
        bonus = weights[:, None] * intrinsic
        self.statistics = {"rnd_weight": self.config.weight_at(self.steps), "rnd_reward": float(bonus.mean())}
        return replace(rollout, learnt_rewards=rollout.learnt_rewards + bonus)

    def errors(self, observations: Tensor) -> Tensor:
        """Differences of the embeddings (..., E) of ``observations`` (..., D); gradients reach the predictor."""
        with torch.no_grad():
            seen = self.parts["state"](observations) if "state" in self.parts else observations
            wanted = self.parts["target"](seen)
        difference: Tensor = self.parts["predictor"](seen) - wanted
        return difference

    def _normalized(self, rewards: Tensor) -> Tensor:
        """Rewards (N,) of one step over the deviation of R <- DISCOUNT R + r, which episodes do not end."""
        self.discounted = DISCOUNT * self.discounted + rewards
        statistics = self.parts["returns"]
        assert isinstance(statistics, RunningNormalizer)
        statistics.update(self.discounted[:, None])
        deviation = statistics.var.sqrt()
        return torch.where(deviation > 0.0, rewards / deviation, rewards)

    def update(self, batch: Batch) -> dict[str, float]:
        """Fit the predictor to the observations of the rollout, then let the normaliser see them."""
        config, total = self.config, 0.0
        minibatches = min(config.minibatches, len(self.learnt_from))
        for _ in range(config.epochs):
            order = torch.randperm(len(self.learnt_from), generator=self.generator, device=self.learnt_from.device)
            for rows in order.tensor_split(minibatches):
                loss = self.errors(self.learnt_from[rows]).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += float(loss.detach())
        if "state" in self.parts:
            state = self.parts["state"]
            assert isinstance(state, RunningNormalizer)
            state.update(self.learnt_from)
        return self.statistics | {"rnd_loss": total / (config.epochs * minibatches)}

    def state_dict(self) -> dict[str, Any]:
        return {
            "parts": self.parts.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "discounted": self.discounted,
            "steps": self.steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.parts.load_state_dict(state["parts"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.discounted, self.steps = state["discounted"], state["steps"]
