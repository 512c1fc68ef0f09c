"""Collect rollouts from a vector environment and improve the policy on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from .core.advantage import gae, normalise
from .core.batch import Batch
from .core.optimizer import NonFiniteError, PolicyOptimizer
from .models.mlp import gaussian_log_prob
from .models.recurrent import POLICIES
from .presets import PPOConfig
from .rollout import Lane, Observation, Rollout, join
from .symmetry import CanonicalActor, Symmetry


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
            observation_space, action_space = self.env.single_observation_space, self.env.single_action_space
            if not isinstance(observation_space, spaces.Dict) or not isinstance(action_space, spaces.Box):
                raise ValueError(f"spaces {observation_space} -> {action_space}: Dict -> Box is needed")
            dims = {name: spaces.flatdim(space) for name, space in observation_space.spaces.items()}
            self.policy = POLICIES[config.model.recurrent](dims, spaces.flatdim(action_space), config.model)
        self.optimizer = PolicyOptimizer(self.policy, config.optimizer, self.generator)
        self.steps = 0
        self.timing: dict[str, float] = {}
        self._observations: list[Observation] | None = None
        self._background = ThreadPoolExecutor(1, "physics")

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
        self.timing = {"physics": 0.0, "terms": 0.0, "policy": 0.0}
        start = time.perf_counter()
        rollout = self._collect()
        collected = time.perf_counter()
        self._anneal()
        batch = self._prepare(rollout)
        statistics = self.optimizer.update(batch)
        self.policy.update_normalizers(rollout.flat_observations())
        self.steps += self.config.num_steps * self.num_envs
        end = time.perf_counter()
        metrics = {f"learn/{name}": value for name, value in statistics.items()}
        metrics["learn/std"] = float(self.policy.std.detach().mean())
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
                pending[i].result()
                stepped = time.perf_counter()
                observation, *outcome = self._finish(self.envs[i], pending[i])
                lane.add_outcome(*outcome)
                self._observations[i] = observation | lane.memory
                self.timing["physics"] += stepped - start
                self.timing["terms"] += time.perf_counter() - stepped
                if t + 1 < self.config.num_steps:
                    pending[i] = self._act(lane, i)
        return join(lanes)

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

    def _act(self, lane: Lane, i: int) -> Future[Any]:
        """Choose actions for environment ``i`` and start its physics, or its whole step where that cannot be split."""
        start = time.perf_counter()
        observation, element = self._canonical(self._observations[i])  # type: ignore[index]
        mean, std, lane.memory = self.policy.act(observation)
        action = mean + std * torch.randn(mean.shape, generator=self.generator)
        lane.decisions.append((observation, action, mean))
        if element is not None:
            action = self.symmetry.apply_to("action", action, element)  # type: ignore[union-attr]
        self.timing["policy"] += time.perf_counter() - start
        env = self.envs[i]
        if isinstance(env, SplitStep):
            env.apply_action(action)
            return self._background.submit(env.step_physics)
        return self._background.submit(env.step, action)

    @staticmethod
    def _finish(env: VectorEnv, pending: Future[Any]) -> tuple[Any, ...]:
        return env.evaluate() if isinstance(env, SplitStep) else pending.result()

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
        advantages = gae(rollout.rewards, values, next_values, rollout.terminated, done, cfg.gamma, cfg.lam)
        mean, rows = rollout.means, policy.rows
        std = policy.action_std().expand_as(mean)
        batch = Batch(
            observations={name: rows(value) for name, value in rollout.observations.items()},
            actions=rows(rollout.actions),
            log_probs=rows(gaussian_log_prob(mean, std, rollout.actions)),
            advantages=rows(normalise(advantages) if cfg.normalize_advantages else advantages),
            values=rows(values),
            returns=rows(advantages + values),
            distribution=(rows(mean), rows(std)),
        )
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

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "observations": self._observations,
            "envs": [env.state_dict() for env in self.envs],  # type: ignore[attr-defined]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.steps = state["steps"]
        self._observations = state["observations"]
        for env, env_state in zip(self.envs, state["envs"], strict=True):
            env.load_state_dict(env_state)  # type: ignore[attr-defined]


def _explained_variance(batch: Batch) -> float:
    assert batch.values is not None and batch.returns is not None
    variance = batch.returns.var()
    return float(1.0 - (batch.returns - batch.values).var() / variance) if variance > 0 else 0.0
