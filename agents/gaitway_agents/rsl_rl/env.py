"""A vector environment as rsl_rl wants to see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch import Tensor

NO_LIMIT = 2**31 - 1


class RslRlVecEnv(VecEnv):
    """An environment with torch observations and SAME_STEP autoreset as a ``rsl_rl.env.VecEnv``.

    ``observations`` names those of the environment that rsl_rl gets to see, each float32 (N, D). Time-outs are those
    truncations that are no terminations. ``extras["info"]`` is the environment's own, and
    ``extras["restarted"]`` is True for a step that was no transition anywhere, only a new start, to be left out.
    """

    def __init__(self, env: VectorEnv, observations: Sequence[str]):
        self.env, self.names = env, tuple(dict.fromkeys(observations))
        self.num_envs = env.num_envs
        self.action_shape = tuple(env.single_action_space.shape or ())
        self.num_actions = spaces.flatdim(env.single_action_space)
        self.max_episode_length = getattr(env.spec, "max_episode_steps", None) or NO_LIMIT
        self.cfg: dict[str, Any] = {}
        self._restart()
        self.device = self._observations.device or torch.device("cpu")

    @property
    def episode_length_buf(self) -> Tensor:
        """Steps that each environment was seen to take since it was last reset, int64 (N,).

        rsl_rl writes random ages here before it starts. Environments of this contract draw such ages themselves when
        they are reset, so that writing anything restarts all of them at ages of their own drawing.
        """
        return self._lengths

    @episode_length_buf.setter
    def episode_length_buf(self, ages: Tensor) -> None:
        self._restart({"random_episode_step": True})

    def _restart(self, options: dict[str, Any] | None = None) -> None:
        self._observations = self._seen(self.env.reset(options=options)[0])
        self._lengths = torch.zeros(self.num_envs, dtype=torch.int64, device=self._observations.device)

    def _seen(self, observations: dict[str, Tensor]) -> TensorDict:
        seen = {name: observations[name] for name in self.names}
        return TensorDict(seen, batch_size=[self.num_envs], device=seen[self.names[0]].device)

    def get_observations(self) -> TensorDict:
        return self._observations

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Actions (N, A) to observations, rewards (N,), dones (N,) and extras, as rsl_rl documents them."""
        actions = actions.reshape(-1, *self.action_shape)
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        valid = info.get("valid", torch.ones_like(truncated))
        if valid.any() and not valid.all():
            raise UserError(
                "agent rsl_rl cannot leave out single rows that are no transitions, and this environment has some: its "
                "episodes restart with a step of their own. Use ppo, or an environment that restarts within a step"
            )
        self._observations = self._seen(observations)
        dones = terminated | truncated
        self._lengths = (self._lengths + 1) * ~dones
        extras: dict[str, Any] = {"time_outs": truncated & ~terminated, "info": info, "restarted": not valid.any()}
        if info.get("log"):
            extras["log"] = info["log"]
        return self._observations, rewards, dones.long(), extras

    def state_dict(self) -> dict[str, Any]:
        return {
            "envs": [self.env.state_dict()],  # type: ignore[attr-defined]
            "observations": self._observations.to_dict(),
            "lengths": self._lengths,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        (env_state,) = state["envs"]
        self.env.load_state_dict(env_state)  # type: ignore[attr-defined]
        self._observations = self._seen(state["observations"]).to(self.device)
        self._lengths = state["lengths"].to(self.device)
