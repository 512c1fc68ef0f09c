"""The synchronous source of rollouts: steps a vector environment with the policy that learns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor

from .core import distributed
from .models.actor_critic import ActorCritic
from .rollout import EnvRollout, Recorder
from .symmetry import Symmetry
from .trainer import Observation, check_autoreset


@runtime_checkable
class ChosenFinals(Protocol):
    """An environment that computes of the final observations those groups that are asked for."""

    final_groups: Sequence[str]


class Collector:
    """Rollouts of ``num_steps`` steps.

    The environment has dictionary observations and SAME_STEP autoreset.
    """

    def __init__(self, env: VectorEnv, *, num_steps: int, random_episode_start: bool):
        check_autoreset(env)
        space = env.single_observation_space
        if not isinstance(space, spaces.Dict):
            raise UserError(f"observation space {space}: Dict is needed; see gaitway_agents.vector.adapt")
        self.env, self.num_envs, self.single_observation_space = env, env.num_envs, space
        self.single_action_space = env.single_action_space
        self.device: torch.device = getattr(env, "device", torch.device("cpu"))
        self.num_steps, self.random_episode_start = num_steps, random_episode_start
        self.observations: Observation | None = None
        self._steps_at_once = self.num_envs * distributed.size()

    def begin(self, policy: ActorCritic, generator: torch.Generator, symmetry: Symmetry | None) -> None:
        self.policy, self.generator, self.symmetry = policy, generator, symmetry
        if isinstance(self.env, ChosenFinals):
            self.env.final_groups = self._final_groups()

    def collect(self, steps: int, *, last: bool) -> EnvRollout:
        return self.play(steps)

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Nothing to do: the policy that acts is the one that learns."""

    @torch.no_grad()
    def play(self, steps: int) -> EnvRollout:
        """Play on from where the environments are; ``steps`` are those before."""
        if self.observations is None:
            options = {"random_episode_step": True} if self.random_episode_start else None
            self.observations = self.env.reset(options=options)[0] | self.policy.initial_memory(self.num_envs)
        timing = {"environment": 0.0, "policy": 0.0}
        recorder = Recorder()
        for t in range(self.num_steps):
            start = time.perf_counter()
            action = self._act(recorder, self.observations, t)
            acted = time.perf_counter()
            observation, *outcome = self.env.step(action)
            recorder.add_outcome(*outcome, steps=steps + (t + 1) * self._steps_at_once)
            self.observations = observation | recorder.memory
            timing["policy"] += acted - start
            timing["environment"] += time.perf_counter() - acted
        return recorder.rollout(self._canonical(self.observations)[0], timing)

    def _final_groups(self) -> list[str]:
        """Groups of final observations that the critic reads, or that tell how to mirror them."""
        read = list(self.policy.critic_encoder.keys)
        return read if self.symmetry is None or "policy" in read else ["policy", *read]

    def _act(self, recorder: Recorder, observation: Observation, step: int) -> Tensor:
        """Choose and record actions; returns them as the environment takes them."""
        observation, element = self._canonical(observation, step)
        with self.policy.playing():
            distribution, recorder.memory = self.policy.act(observation)
        action = self.policy.head.sample(distribution, self.generator)
        recorder.decisions.append((observation, action, distribution))
        if self.symmetry is not None and element is not None:
            action = self.symmetry.apply_to("action", action, element)
        return self.policy.head.to_env(action)

    def _canonical(self, observation: Observation, step: int = 0) -> tuple[Observation, Tensor | None]:
        """The observation as the policy sees it at a step of a rollout, and the mirror element that took it there."""
        return (observation, None) if self.symmetry is None else self.symmetry.canonicalize(observation, step)

    def state_dict(self) -> dict[str, Any]:
        """As of several environments of which there is one; no observations where it restarts when it is loaded."""
        restarts = getattr(self.env, "restarts_on_load", False)
        return {
            "observations": None if restarts or self.observations is None else [self.observations],
            "envs": [self.env.state_dict()],  # type: ignore[attr-defined]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.observations = None if state["observations"] is None else state["observations"][0]
        for env_state in state["envs"]:  # none of a process that was not there
            self.env.load_state_dict(env_state)  # type: ignore[attr-defined]

    def close(self) -> None:
        self.env.close()
