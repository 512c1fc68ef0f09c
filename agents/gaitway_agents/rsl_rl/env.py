"""Vector environments as rsl_rl wants to see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch import Tensor

NO_LIMIT = 2**31 - 1


class RslRlVecEnv(VecEnv):
    """One or several environments with torch observations and SAME_STEP autoreset as one ``rsl_rl.env.VecEnv``.

    ``observations`` names those of the environment that rsl_rl gets to see, each float32 (N, D). Time-outs are those
    truncations that are no terminations. ``extras["infos"]`` holds what each environment said beside, and
    ``extras["restarted"]`` is True for a step that was no transition anywhere, only a new start, to be left out.
    """

    def __init__(self, envs: Sequence[VectorEnv], observations: Sequence[str]):
        self.envs, self.names = list(envs), tuple(dict.fromkeys(observations))
        self.sizes = [env.num_envs for env in self.envs]
        self.num_envs = sum(self.sizes)
        self.action_shape = tuple(self.envs[0].single_action_space.shape or ())
        self.num_actions = spaces.flatdim(self.envs[0].single_action_space)
        self.max_episode_length = getattr(self.envs[0].spec, "max_episode_steps", None) or NO_LIMIT
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
        self._observations = self._join([env.reset(options=options)[0] for env in self.envs])
        self._lengths = torch.zeros(self.num_envs, dtype=torch.int64, device=self._observations.device)

    def _join(self, observations: list[dict[str, Tensor]]) -> TensorDict:
        joined = {name: torch.cat([part[name] for part in observations]) for name in self.names}
        return TensorDict(joined, batch_size=[self.num_envs], device=joined[self.names[0]].device)

    def get_observations(self) -> TensorDict:
        return self._observations

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Actions (N, A) to observations, rewards (N,), dones (N,) and extras, as rsl_rl documents them."""
        parts = actions.reshape(-1, *self.action_shape).split(self.sizes)
        results = [env.step(part) for env, part in zip(self.envs, parts, strict=True)]
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
        valid = torch.cat([info.get("valid", torch.ones_like(end)) for info, end in zip(infos, truncated, strict=True)])
        if valid.any() and not valid.all():
            raise ValueError(
                "agent rsl_rl cannot leave out single rows that are no transitions, and this environment has some: its "
                "episodes restart with a step of their own. Use ppo, or an environment that restarts within a step"
            )
        self._observations = self._join(list(observations))
        terminations, truncations = torch.cat(terminated), torch.cat(truncated)
        dones = terminations | truncations
        self._lengths = (self._lengths + 1) * ~dones
        extras: dict[str, Any] = {"time_outs": truncations & ~terminations, "infos": list(infos)}
        extras["restarted"] = not valid.any()
        if log := mean_log([info["log"] for info in infos if "log" in info]):
            extras["log"] = log
        return self._observations, torch.cat(rewards), dones.long(), extras

    def state_dict(self) -> dict[str, Any]:
        return {
            "envs": [env.state_dict() for env in self.envs],  # type: ignore[attr-defined]
            "observations": self._observations.to_dict(),
            "lengths": self._lengths,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for env, env_state in zip(self.envs, state["envs"], strict=True):
            env.load_state_dict(env_state)  # type: ignore[attr-defined]
        self._observations = self._join([state["observations"]]).to(self.device)
        self._lengths = state["lengths"].to(self.device)


def mean_log(logs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Every entry of any of the ``logs``, averaged over those that have it."""
    entries: dict[str, list[float]] = {}
    for log in logs:
        for name, value in log.items():
            entries.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in entries.items()}
