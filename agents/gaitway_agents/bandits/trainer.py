"""Strategies for multi-armed bandits: how to earn while finding out what pays."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, Share, one_of
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..tabular.td_control import epsilon_greedy, one_hot, sample
from ..trainer import Observation, episodes_from
from ..with_env import WithEnv

STRATEGIES = ("epsilon-greedy", "ucb1", "thompson", "gradient")


@dataclass(frozen=True, kw_only=True)
class BanditConfig(Checked):
    """One strategy, with what each of them needs."""

    strategy: Annotated[str, one_of(*STRATEGIES)] = "ucb1"
    """"epsilon-greedy", "ucb1" (Auer et al. 2002), "thompson" (Thompson 1933) or "gradient" (Sutton & Barto 2018,
    section 2.8)."""
    epsilon: Share = 0.1
    """Share of random pulls of "epsilon-greedy"; 0 is greedy."""
    exploration: PositiveFloat = 2.0**0.5
    """Width of the confidence bounds of "ucb1", for rewards in [0, 1]; scale it with their range."""
    prior: Annotated[str, one_of("beta", "gaussian")] = "beta"
    """Prior of "thompson": "beta", uniform in the probability of a reward of 1; or "gaussian", for any rewards."""
    prior_std: PositiveFloat = 1.0
    """Standard deviation of the means under the "gaussian" prior, around 0."""
    reward_std: PositiveFloat = 1.0
    """Known noise of the rewards under the "gaussian" prior."""
    learning_rate: PositiveFloat = 0.1
    """Step size of the preferences of "gradient"."""
    num_steps: PositiveInt = 100
    """Pulls in every environment per iteration."""


@dataclass
class Knowledge:
    """Pulls, sums of rewards and preferences (N, K) of N players and K arms, each from its own pulls only."""

    counts: Tensor
    sums: Tensor
    preferences: Tensor

    @classmethod
    def none(cls, players: int, arms: int) -> Knowledge:
        return cls(*(torch.zeros(players, arms, dtype=torch.float64) for _ in range(3)))

    @property
    def means(self) -> Tensor:
        """Mean reward of each arm, 0 where it was never pulled."""
        return self.sums / self.counts.clamp(min=1.0)


def choose(config: BanditConfig, known: Knowledge, generator: torch.Generator) -> Tensor:
    """The arms (N,) to pull next."""
    if config.strategy == "ucb1":
        return sample(epsilon_greedy(ucb1_index(known.counts, known.sums, config.exploration), 0.0), generator)
    if config.strategy == "thompson":
        posterior = _beta if config.prior == "beta" else _gaussian
        return posterior(config, known, generator).argmax(1)
    if config.strategy == "gradient":
        probabilities = known.preferences.softmax(1)
    else:
        probabilities = epsilon_greedy(known.means, config.epsilon)
    return sample(probabilities, generator)


def ucb1_index(counts: Tensor, sums: Tensor, exploration: float) -> Tensor:
    """Upper confidence bounds (N, K): mean + ``exploration`` * sqrt(ln t / n) after t pulls, n of them of the arm.

    With ``exploration`` sqrt(2) and rewards in [0, 1] the regret after t pulls is below
    8 ln t * sum(1 / gap) + (1 + pi^2 / 3) * sum(gap) for every t (Auer, Cesa-Bianchi & Fischer 2002, theorem 1).
    """
    total = counts.sum(1, keepdim=True).clamp(min=1.0)
    bounds = sums / counts + exploration * (total.log() / counts).sqrt()
    return torch.where(counts == 0, torch.inf, bounds)


def learn(config: BanditConfig, known: Knowledge, arms: Tensor, rewards: Tensor) -> None:
    """Take in one pull of every player: ``arms`` (N,) paid ``rewards`` (N,)."""
    pulled, rewards = one_hot(arms, known.counts.shape[1]), rewards.double()[:, None]
    if config.strategy == "thompson" and config.prior == "beta":
        wrong = (rewards != 0.0) & (rewards != 1.0)
        if bool(wrong.any()):
            raise UserError(
                f"prior 'beta' with a reward of {float(rewards[wrong][0])}: it knows 0 and 1; use 'gaussian'"
            )
    if config.strategy == "gradient":
        pulls = known.counts.sum(1, keepdim=True)
        baseline = torch.where(pulls > 0, known.sums.sum(1, keepdim=True) / pulls.clamp(min=1.0), rewards)
        gradient = pulled - known.preferences.softmax(1)
        known.preferences += config.learning_rate * (rewards - baseline) * gradient
    known.counts += pulled
    known.sums += pulled * rewards


def _beta(config: BanditConfig, known: Knowledge, generator: torch.Generator) -> Tensor:
    # torch.distributions takes no generator of one's own; this is what its Beta is made of.
    wins, losses = (
        torch._standard_gamma(1.0 + count, generator=generator) for count in (known.sums, known.counts - known.sums)
    )
    return wins / (wins + losses)


def _gaussian(config: BanditConfig, known: Knowledge, generator: torch.Generator) -> Tensor:
    weight = known.counts + (config.reward_std / config.prior_std) ** 2
    noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return known.sums / weight + config.reward_std / weight.sqrt() * noise


class BanditTrainer(WithEnv):
    """Every environment has a player of its own, so that the curves are means over as many independent runs.

    ``iterate()`` is ``num_steps`` pulls of each. ``predict`` names the arm that all of them together think best.
    """

    def __init__(self, env: VectorEnv, config: BanditConfig, *, seed: int, total_steps: int | None = None):
        super().__init__(env, total_steps)
        self.config = config
        _check_spaces(env)
        self.first_action = int(env.single_action_space.start)  # type: ignore[attr-defined]
        arms = int(env.single_action_space.n)  # type: ignore[attr-defined]
        self.known = Knowledge.none(env.num_envs, arms)
        self.generator = torch.Generator().manual_seed(seed)
        self.regret = 0.0
        """Expected regret of all players together so far: loss against always pulling the best arm."""

    def iterate(self) -> dict[str, float]:
        """``num_steps`` pulls. Returns metrics, with the seconds spent under ``time/``."""
        begin = time.perf_counter()
        times = {"environment": 0.0, "policy": 0.0, "learning": 0.0}
        if self.steps == 0:
            self.env.reset()
        rewards, regrets = [], []
        for _ in range(self.config.num_steps):
            start = time.perf_counter()
            arms = choose(self.config, self.known, self.generator)
            chosen = time.perf_counter()
            _, reward, _, _, info = self.env.step(arms + self.first_action)
            stepped = time.perf_counter()
            learn(self.config, self.known, arms, reward)
            self.steps += self.num_envs
            self._episodes += episodes_from(info, self.steps)
            rewards.append(reward)
            regrets += [info["regret"]] if "regret" in info else []
            times["policy"] += chosen - start
            times["environment"] += stepped - chosen
            times["learning"] += time.perf_counter() - stepped
        metrics = {"rollout/reward": float(torch.cat(rewards).mean())}
        if regrets:
            lost = torch.cat(regrets)
            self.regret += float(lost.sum())
            metrics["rollout/best_arm"] = float((lost == 0.0).double().mean())
            metrics["learn/regret"] = self.regret / self.num_envs
        metrics |= {f"time/{name}": seconds for name, seconds in times.items()}
        return metrics | {"time/total": time.perf_counter() - begin}

    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The arm with the best mean over all pulls, for every observation."""
        best = int((self.known.sums.sum(0) / self.known.counts.sum(0)).nan_to_num(nan=-math.inf).argmax())
        return torch.full((len(observations["policy"]),), best + self.first_action), {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "known": [{name: value.clone() for name, value in vars(self.known).items()}],
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "regret": self.regret,
            "envs": self.env_states(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        (known,) = state["known"]
        if len(known["counts"]) != self.num_envs:
            raise UserError(f"{len(known['counts'])} players, {self.num_envs} are needed")
        self.load_policy(state)
        self.steps, self.regret = state["steps"], state["regret"]
        self.generator.set_state(state["generator"])
        self.load_env_states(state["envs"])

    def load_policy(self, state: dict[str, Any]) -> None:
        """Take only what the players know, however many they are."""
        (known,) = state["known"]
        arms, needed = known["counts"].shape[1], self.known.counts.shape[1]
        if arms != needed:
            raise UserError(f"{arms} arms, {needed} are needed")
        self.known = Knowledge(**{name: value.clone() for name, value in known.items()})


def _check_spaces(env: VectorEnv) -> None:
    space, actions = env.single_observation_space, env.single_action_space
    if not isinstance(actions, spaces.Discrete):
        raise UserError(f"action space {actions}: a bandit has Discrete arms; use an agent such as ppo or sac")
    seen = space.spaces.get("policy") if isinstance(space, spaces.Dict) else None
    blind = isinstance(seen, spaces.Discrete) and seen.n == 1
    if not blind and not (isinstance(seen, spaces.Box) and bool((seen.low == seen.high).all())):
        raise UserError(
            f"observation space {space}: a bandit has no state; use an agent such as q-learning, dqn or ppo"
        )
