"""Collect rollouts from a vector environment and improve the policy on them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from .core.advantage import gae
from .core.batch import Batch
from .core.optimizer import NonFiniteError, PolicyOptimizer
from .models.normalizer import RewardScaler
from .models.recurrent import POLICIES
from .presets import PPOConfig
from .rollout import Lane, Rollout, join
from .symmetry import CanonicalActor, Symmetry
from .trainer import Episode, Observation


@runtime_checkable
class SplitStep(Protocol):
    """An environment whose ``step`` is these three in a row, so that only its physics need run in the background."""

    def apply_action(self, actions: Tensor) -> None: ...
    def step_physics(self) -> None: ...
    def evaluate(self) -> tuple[Any, ...]: ...


class OnPolicyTrainer:
    """PPO's outer loop: ``iterate()`` is one rollout and one update.

    Environments are ``gymnasium.vector.VectorEnv`` in torch with dictionary observations and SAME_STEP autoreset.
    Several of them are stepped in turn as one: while the physics of one runs in the background, the terms and the
    policy of the next are computed. With canonical symmetry the whole learner lives in the canonical domain and only
    what enters an environment is mirrored back.
    """

    def __init__(
        self,
        envs: VectorEnv | Sequence[VectorEnv],
        config: PPOConfig,
        *,
        seed: int,
        symmetry: Symmetry | None = None,
        total_steps: int | None = None,
    ):
        self.envs = [envs] if isinstance(envs, VectorEnv) else list(envs)
        for env in self.envs:
            if env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
                raise ValueError(f"autoreset mode {env.metadata.get('autoreset_mode')}: SAME_STEP is needed")
        if (config.symmetry != "none") != (symmetry is not None):
            raise ValueError(f"symmetry is {config.symmetry!r} but {'no' if symmetry is None else 'a'} group was given")
        if config.learning_rate_final is not None and not total_steps:
            raise ValueError("learning_rate_final needs total_steps: how long the training over which to anneal is")
        self.config, self.symmetry, self.total_steps = config, symmetry, total_steps
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            observation_space = self.env.single_observation_space
            if not isinstance(observation_space, spaces.Dict):
                raise ValueError(
                    f"observation space {observation_space}: Dict is needed; see gaitway_agents.vector.adapt"
                )
            kind = POLICIES[config.model.recurrent]
            self.policy = kind(observation_space, self.env.single_action_space, config.model)
        self.optimizer = PolicyOptimizer(self.policy, config.optimizer, self.generator)
        self.reward_scaler = RewardScaler(self.num_envs, config.gamma) if config.scale_rewards else None
        self.steps = 0
        self.timing: dict[str, float] = {}
        self._episodes: list[Episode] = []
        self._observations: list[Observation] | None = None
        # One environment that cannot be split has nothing to run beside it, and a thread would only cost time.
        alone = len(self.envs) == 1 and not isinstance(self.env, SplitStep)
        self._background = None if alone else ThreadPoolExecutor(1, "physics")

    @property
    def env(self) -> VectorEnv:
        """The first environment, which has the spaces and the task of all of them."""
        return self.envs[0]

    @property
    def num_envs(self) -> int:
        return sum(env.num_envs for env in self.envs)

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """One rollout and one update. Returns metrics, with the seconds spent under ``time/``."""
        self.timing = {"environment": 0.0, "policy": 0.0}
        start = time.perf_counter()
        rollout = self._collect()
        collected = time.perf_counter()
        self._anneal()
        batch = self._prepare(rollout)
        refresh = functools.partial(self._prepare, rollout) if self.config.recompute_advantages else None
        statistics = self.optimizer.update(batch, refresh)
        self.policy.update_normalizers(rollout.flat_observations())
        self.steps += self.config.num_steps * self.num_envs
        end = time.perf_counter()
        metrics = {f"learn/{name}": value for name, value in statistics.items()}
        metrics |= {f"learn/{name}": value for name, value in self.policy.head.spread().items()}
        metrics["learn/explained_variance"] = _explained_variance(batch)
        metrics["rollout/reward"] = float(rollout.rewards.mean())
        metrics |= {f"rollout/{name}": value for name, value in rollout.log.items()}
        metrics |= {f"time/{name}": value for name, value in self.timing.items()}
        return metrics | {"time/learning": end - collected, "time/total": end - start}

    @torch.no_grad()
    def _collect(self) -> Rollout:
        """``num_steps`` steps of every environment; the environments take turns."""
        if self._observations is None:
            self._check_rows()
            options = {"random_episode_step": True} if self.config.random_episode_start else None
            self._observations = [
                env.reset(options=options)[0] | self.policy.initial_memory(env.num_envs) for env in self.envs
            ]
        lanes = [Lane() for _ in self.envs]
        pending = [self._act(lane, i) for i, lane in enumerate(lanes)]
        for t in range(self.config.num_steps):
            for i, lane in enumerate(lanes):
                start = time.perf_counter()
                observation, *outcome = pending[i]()
                lane.add_outcome(*outcome, steps=self.steps + (t + 1) * self.num_envs)
                self._observations[i] = observation | lane.memory
                self.timing["environment"] += time.perf_counter() - start
                if t + 1 < self.config.num_steps:
                    pending[i] = self._act(lane, i)
        for lane in lanes:
            self._episodes += lane.episodes
        rollout = join(lanes)
        if self.reward_scaler is None:
            return rollout
        scaled = self.reward_scaler(rollout.rewards, rollout.terminated | rollout.truncated)
        return replace(rollout, learnt_rewards=scaled)

    def _check_rows(self) -> None:
        """A rollout must fill the minibatches; checked before the first one is collected."""
        cfg = self.config
        rows = len(self.policy.rows(torch.empty(cfg.num_steps, self.num_envs)))
        if rows < cfg.optimizer.minibatches:
            raise ValueError(
                f"optimizer.minibatches {cfg.optimizer.minibatches}: a rollout of {cfg.num_steps} steps in "
                f"{self.num_envs} environments has {rows} rows with model.recurrent {cfg.model.recurrent!r}: take "
                "fewer minibatches or more environments"
            )

    def _act(self, lane: Lane, i: int) -> Callable[[], tuple[Any, ...]]:
        """Choose actions for environment ``i`` and start its step; the result returns what ``step`` does.

        Where a step can be split, only its physics runs in the background.
        """
        start = time.perf_counter()
        observation, element = self._canonical(self._observations[i])  # type: ignore[index]
        distribution, lane.memory = self.policy.act(observation)
        action = self.policy.head.sample(distribution, self.generator)
        lane.decisions.append((observation, action, distribution))
        if element is not None:
            action = self.symmetry.apply_to("action", action, element)  # type: ignore[union-attr]
        action = self.policy.head.to_env(action)
        self.timing["policy"] += time.perf_counter() - start
        env = self.envs[i]
        if self._background is None:
            return lambda: env.step(action)
        if isinstance(env, SplitStep):
            env.apply_action(action)
            physics = self._background.submit(env.step_physics)
            return lambda: (physics.result(), env.evaluate())[1]
        return self._background.submit(env.step, action).result

    @torch.no_grad()
    def _prepare(self, rollout: Rollout) -> Batch:
        """Values, advantages and returns of a rollout, as a batch."""
        cfg, policy = self.config, self.policy
        values = policy.value(rollout.flat_observations()).reshape(cfg.num_steps, -1)
        last = [policy.value(self._canonical(observation)[0]) for observation in self._observations or ()]
        next_values = torch.cat((values[1:], torch.cat(last)[None]))
        for t, envs, final in rollout.finals:
            next_values[t, envs] = policy.value(self._canonical(final)[0])
        done = rollout.terminated | rollout.truncated
        advantages = gae(rollout.learnt_rewards, values, next_values, rollout.terminated, done, cfg.gamma, cfg.lam)
        batch = Batch(
            observations=rollout.observations,
            actions=rollout.actions,
            log_probs=policy.head.log_prob(rollout.distribution, rollout.actions),
            advantages=advantages,
            values=values,
            returns=advantages + values,
            distribution=rollout.distribution if cfg.optimizer.needs_distribution else (),
            mask=None if rollout.valid.all() else rollout.valid.to(values.dtype),
        ).map(policy.rows)
        if not torch.isfinite(batch.advantages).all():
            bad = next(name for name, value in batch.named_tensors().items() if not torch.isfinite(value).all())
            raise NonFiniteError(f"the rollout holds a non-finite value: {bad}")
        if cfg.symmetry == "augment" and self.symmetry is not None:
            return self.symmetry.augment(batch, policy.distribution)
        return batch

    def _canonical(self, observation: Observation) -> tuple[Observation, Tensor | None]:
        if self.config.symmetry != "canonical":
            return observation, None
        return self.symmetry.canonicalize(observation)  # type: ignore[union-attr]

    def _anneal(self) -> None:
        final = self.config.learning_rate_final
        if final is not None and self.total_steps:
            start = self.config.optimizer.learning_rate
            self.optimizer.learning_rate = start + (final - start) * min(1.0, self.steps / self.total_steps)

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    def actor(self) -> nn.Module:
        """The deterministic policy, observation (N, D) to action (N, A), as it acts on the environment.

        That of a recurrent policy takes its memory as well and returns the next one.
        """
        actor = self.policy.export_actor()
        if self.config.symmetry == "canonical" and self.symmetry is not None:
            actor = CanonicalActor(actor, self.symmetry)
        return actor.eval()

    def pop_episodes(self) -> list[Episode]:
        episodes, self._episodes = self._episodes, []
        return episodes

    def initial_memory(self, num_envs: int) -> Observation:
        return self.policy.initial_memory(num_envs)

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The most likely actions, as environments take them, and the policy's memory."""
        seen, element = self._canonical(observations)
        distribution, memory = self.policy.act(seen)
        action = self.policy.head.mode(distribution)
        if element is not None:
            action = self.symmetry.apply_to("action", action, element)  # type: ignore[union-attr]
        return self.policy.head.to_env(action), memory

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "reward_scaler": None if self.reward_scaler is None else self.reward_scaler.state_dict(),
            "steps": self.steps,
            "observations": self._observations,
            "envs": [env.state_dict() for env in self.envs],  # type: ignore[attr-defined]
        }

    def load_policy(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        if self.reward_scaler is not None:
            self.reward_scaler.load_state_dict(state["reward_scaler"])
        self.steps = state["steps"]
        self._observations = state["observations"]
        for env, env_state in zip(self.envs, state["envs"], strict=True):
            env.load_state_dict(env_state)  # type: ignore[attr-defined]


def _explained_variance(batch: Batch) -> float:
    assert batch.values is not None and batch.returns is not None
    variance = batch.returns.var()
    return float(1.0 - (batch.returns - batch.values).var() / variance) if variance > 0 else 0.0
