"""Collect rollouts from a vector environment and improve the policy on them."""

from __future__ import annotations

import time
from typing import Any

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from .core.advantage import gae, normalise
from .core.batch import Batch
from .core.optimizer import NonFiniteError, PolicyOptimizer
from .models.mlp import ActorCritic, gaussian_log_prob
from .presets import PPOConfig
from .symmetry import CanonicalActor, Symmetry

Observation = dict[str, Tensor]


class OnPolicyTrainer:
    """PPO's outer loop: ``iterate()`` is one rollout and one update.

    The environment is a ``gymnasium.vector.VectorEnv`` in torch with dictionary observations and SAME_STEP
    autoreset. With canonical symmetry the whole learner lives in the canonical domain and only what enters the
    environment is mirrored back.
    """

    def __init__(
        self,
        env: VectorEnv,
        config: PPOConfig,
        *,
        seed: int,
        symmetry: Symmetry | None = None,
        total_steps: int | None = None,
    ):
        if env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset mode {env.metadata.get('autoreset_mode')}: SAME_STEP is needed")
        if (config.symmetry != "none") != (symmetry is not None):
            raise ValueError(f"symmetry is {config.symmetry!r} but {'no' if symmetry is None else 'a'} group was given")
        self.env, self.config, self.symmetry, self.total_steps = env, config, symmetry, total_steps
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            dims = {name: space.shape[0] for name, space in env.single_observation_space.spaces.items()}
            self.policy = ActorCritic(dims, env.single_action_space.shape[0], config.model)
        self.optimizer = PolicyOptimizer(self.policy, config.optimizer, self.generator)
        self.steps = 0
        self._observation: Observation | None = None

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """One rollout and one update. Returns metrics, with the seconds spent under ``time/``."""
        timing = {"physics": 0.0, "terms": 0.0, "policy": 0.0}
        log: dict[str, list[float]] = {}
        start = time.perf_counter()
        rollout = self._collect(timing, log)
        collected = time.perf_counter()
        self._anneal()
        batch, values = self._prepare(rollout)
        statistics = self.optimizer.update(batch)
        self.policy.update_normalizers(batch.observations)
        self.steps += self.config.num_steps * self.env.num_envs
        end = time.perf_counter()
        metrics = {f"learn/{name}": value for name, value in statistics.items()}
        metrics["learn/std"] = float(self.policy.std.detach().mean())
        metrics["learn/value_mean"] = float(values.mean())
        metrics["learn/explained_variance"] = _explained_variance(batch)
        metrics["rollout/reward"] = float(rollout["rewards"].mean())
        metrics |= {f"rollout/{name}": float(sum(v) / len(v)) for name, v in log.items()}
        metrics |= {f"time/{name}": value for name, value in timing.items()}
        metrics["time/learning"] = end - collected
        metrics["time/total"] = end - start
        return metrics

    @torch.no_grad()
    def _collect(self, timing: dict[str, float], log: dict[str, list[float]]) -> dict[str, Any]:
        env, policy, clock = self.env, self.policy, time.perf_counter
        if self._observation is None:
            options = {"random_episode_step": True} if self.config.random_episode_start else None
            self._observation, _ = env.reset(options=options)
        steps: list[dict[str, Any]] = []
        split = hasattr(env, "apply_action")
        for _ in range(self.config.num_steps):
            t0 = clock()
            observation, element = self._canonical(self._observation)
            mean, std = policy.distribution(observation)
            action = mean + std * torch.randn(mean.shape, generator=self.generator)
            outer = action if element is None else self.symmetry.apply_to("action", action, element)  # type: ignore[union-attr]
            t1 = clock()
            if split:
                env.apply_action(outer)
                env.step_physics()
                t2 = clock()
                self._observation, reward, terminated, truncated, info = env.evaluate()
            else:
                t2 = t1
                self._observation, reward, terminated, truncated, info = env.step(outer)
            t3 = clock()
            timing["policy"] += t1 - t0
            timing["physics"] += t2 - t1
            timing["terms"] += t3 - t2
            step = {
                "observations": observation,
                "actions": action,
                "means": mean,
                "rewards": reward,
                "terminated": terminated,
                "truncated": truncated,
            }
            if bool(truncated.any()):
                rows = truncated.nonzero().flatten()
                step["final"] = (rows, {name: value[rows] for name, value in info["final_obs"].items()})
            steps.append(step)
            for name, value in info.get("log", {}).items():
                log.setdefault(name, []).append(value)
        return {
            "observations": {n: torch.stack([s["observations"][n] for s in steps]) for n in steps[0]["observations"]},
            **{n: torch.stack([s[n] for s in steps]) for n in ("actions", "means", "rewards", "terminated", "truncated")},
            "std": std,
            "final": [(t, *step["final"]) for t, step in enumerate(steps) if "final" in step],
        }

    @torch.no_grad()
    def _prepare(self, rollout: dict[str, Any]) -> tuple[Batch, Tensor]:
        """Values, advantages and returns of a rollout, as a flat batch."""
        cfg, policy = self.config, self.policy
        observations = {name: value.flatten(0, 1) for name, value in rollout["observations"].items()}
        values = policy.value(observations).reshape(cfg.num_steps, -1)
        last, _ = self._canonical(self._observation)  # type: ignore[arg-type]
        next_values = torch.cat((values[1:], policy.value(last)[None]))
        for t, rows, final in rollout["final"]:
            next_values[t, rows] = policy.value(self._canonical(final)[0])
        terminated, done = rollout["terminated"], rollout["terminated"] | rollout["truncated"]
        advantages = gae(rollout["rewards"], values, next_values, terminated, done, cfg.gamma, cfg.lam)
        returns = advantages + values
        mean, std = rollout["means"], rollout["std"].expand_as(rollout["means"])
        batch = Batch(
            observations=observations,
            actions=rollout["actions"].flatten(0, 1),
            log_probs=gaussian_log_prob(mean, std, rollout["actions"]).flatten(),
            advantages=(normalise(advantages) if cfg.normalize_advantages else advantages).flatten(),
            values=values.flatten(),
            returns=returns.flatten(),
            distribution=(mean.flatten(0, 1), std.flatten(0, 1)),
        )
        if not torch.isfinite(batch.advantages).all():
            bad = next(name for name, value in batch.named_tensors().items() if not torch.isfinite(value).all())
            raise NonFiniteError(f"the rollout holds a non-finite value: {bad}")
        if cfg.symmetry == "augment":
            batch = self.symmetry.augment(batch)  # type: ignore[union-attr]
        return batch, values

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
        """The deterministic policy, observation (N, D) to action (N, A), as it acts on the environment."""
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
            "observation": self._observation,
            "env": self.env.state_dict(),  # type: ignore[attr-defined]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.steps = state["steps"]
        self._observation = state["observation"]
        self.env.load_state_dict(state["env"])  # type: ignore[attr-defined]


def _explained_variance(batch: Batch) -> float:
    assert batch.values is not None and batch.returns is not None
    variance = batch.returns.var()
    return float(1.0 - (batch.returns - batch.values).var() / variance) if variance > 0 else 0.0
