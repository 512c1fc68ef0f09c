"""An environment of a few lines that steps, resets and observes in the order of Isaac Lab's ``ManagerBasedRLEnv``.

Its state is a position and a heading on a plane; reaching ``edge`` ends an episode. Like Isaac Lab it draws from
torch's common stream, reuses its buffers for rewards and flags, and observes after resets and commands.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor


class History:
    """Isaac Lab 2.3's ``CircularBuffer``: it writes in place, and a first push fills it."""

    def __init__(self, length: int):
        self.length, self._pointer = length, -1
        self._buffer: Tensor | None = None
        self._num_pushes: Tensor | None = None

    def append(self, data: Tensor) -> None:
        if self._buffer is None:
            self._buffer = torch.empty(self.length, *data.shape)
            self._num_pushes = torch.zeros(len(data), dtype=torch.long)
        assert self._num_pushes is not None
        self._pointer = (self._pointer + 1) % self.length
        self._buffer[self._pointer] = data
        first = self._num_pushes == 0
        self._buffer[:, first] = data[first]
        self._num_pushes += 1

    @property
    def buffer(self) -> Tensor:
        assert self._buffer is not None
        return torch.roll(self._buffer, self.length - self._pointer - 1, 0).transpose(0, 1)

    def reset(self, env_ids: Tensor) -> None:
        if self._num_pushes is not None:
            self._num_pushes[env_ids] = 0


class Drift:
    """A modifier that remembers: the sum of all it was shown."""

    def __init__(self, num_envs: int):
        self.gain = 1.0
        self.total = torch.zeros(num_envs, 1)

    def __call__(self, x: Tensor) -> Tensor:
        self.total += self.gain * x[:, :1]
        return self.total.expand_as(x).clone()

    def reset(self, env_ids: Tensor) -> None:
        self.total[env_ids] = 0.0


class Data:
    """Isaac Lab 3.0's derived quantities: computed when first read in a step, and kept through a reset."""

    def __init__(self, env: IsaacLike):
        self.env, self.now = env, 0
        self._heading = SimpleNamespace(timestamp=-1, data=torch.zeros(env.num_envs, 1))

    @property
    def heading_w(self) -> Tensor:
        if self._heading.timestamp < self.now:
            self._heading.data, self._heading.timestamp = self.env.heading.clone(), self.now
        return self._heading.data


class Observations:
    def __init__(self, env: IsaacLike, noise: float):
        self.env, self.noise = env, noise
        self._group_obs_term_history_buffer = {"policy": {"position": History(3)}, "critic": {}}
        self._group_obs_class_term_cfgs: dict[str, list[Any]] = {"policy": [], "critic": []}
        self._group_obs_class_instances = [Drift(env.num_envs)]

    def compute_group(self, name: str, update_history: bool = False) -> Tensor:
        env = self.env
        if name == "critic":
            return torch.cat((env.position, env.command, self._group_obs_class_instances[0](env.position)), 1)
        noisy = env.position + self.noise * (2.0 * torch.rand_like(env.position) - 1.0)
        history = self._group_obs_term_history_buffer["policy"]["position"]
        if update_history:
            history.append(noisy)
        return torch.cat((history.buffer.reshape(env.num_envs, -1), env.command), 1)

    def compute(self, update_history: bool = False) -> dict[str, Tensor]:
        return {name: self.compute_group(name, update_history) for name in ("policy", "critic")}

    def reset(self, env_ids: Tensor) -> None:
        self._group_obs_term_history_buffer["policy"]["position"].reset(env_ids)
        self._group_obs_class_instances[0].reset(env_ids)


class HeadingCommand:
    """Turn towards a target: what is commanded follows the heading that was reached."""

    def __init__(self, env: IsaacLike):
        self.env, self.heading_target = env, torch.zeros(env.num_envs, 1)

    def _update_command(self) -> None:
        self.env.command[:] = self.heading_target - self.env.scene.articulations["robot"].data.heading_w

    def reset(self, env_ids: Tensor) -> None:
        self.heading_target[env_ids] = torch.rand(len(env_ids), 1)
        self.env.command[env_ids] = 0.0


class Levels:
    """A curriculum that moves up whoever has come far from where it stood."""

    def __init__(self, env: IsaacLike):
        self.env = env

    def compute(self, env_ids: Tensor) -> None:
        terrain, far = self.env.scene.terrain, self.env.climb & (self.env.position[env_ids].norm(dim=1) > 0.5)
        terrain.terrain_levels[env_ids] = (terrain.terrain_levels[env_ids] + far.long()).clamp(max=4)
        self.env.move(env_ids)


class IsaacLike(gymnasium.Env):
    def __init__(
        self,
        num_envs: int,
        *,
        seed: int = 0,
        episode_length: int = 20,
        edge: float = 1.0,
        noise: float = 0.0,
        climb: bool = False,
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs {num_envs}: at least one environment is needed")
        torch.manual_seed(seed)
        n = self.num_envs = num_envs
        self.device, self.max_episode_length, self.edge = "cpu", episode_length, edge
        self.climb = climb
        self.common_step_counter, self.extras = 0, {}
        self.episode_length_buf = torch.zeros(n, dtype=torch.long)
        self.position, self.heading, self.command = torch.zeros(n, 2), torch.zeros(n, 1), torch.zeros(n, 1)
        self.reward_buf = torch.zeros(n)
        self.reset_terminated, self.reset_time_outs = (torch.zeros(n, dtype=torch.bool) for _ in range(2))
        origins = torch.arange(5 * 2 * 3.0).view(5, 2, 3)
        self.scene = SimpleNamespace(
            articulations={"robot": SimpleNamespace(data=Data(self))},
            terrain=SimpleNamespace(
                terrain_levels=torch.zeros(n, dtype=torch.long),
                terrain_types=torch.arange(n) % 2,
                terrain_origins=origins,
                env_origins=torch.zeros(n, 3),
            ),
        )
        self.curriculum_manager = Levels(self)
        self.heading_command = HeadingCommand(self)
        self.command_manager = SimpleNamespace(_terms={"heading": self.heading_command, "other": SimpleNamespace()})
        self.observation_manager = Observations(self, noise)
        self.single_observation_space = spaces.Dict(
            policy=spaces.Box(-np.inf, np.inf, (7,)), critic=spaces.Box(-np.inf, np.inf, (5,))
        )
        self.single_action_space = spaces.Box(-np.inf, np.inf, (3,))
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, n)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, n)
        self.closed = False

    def move(self, env_ids: Tensor) -> None:
        terrain = self.scene.terrain
        terrain.env_origins[env_ids] = terrain.terrain_origins[
            terrain.terrain_levels[env_ids], terrain.terrain_types[env_ids]
        ]

    def step(self, action: Tensor) -> tuple[Any, ...]:
        self.position += 0.1 * action[:, :2]
        self.heading += 0.1 * action[:, 2:]
        self.scene.articulations["robot"].data.now += 1
        self.episode_length_buf += 1
        self.common_step_counter += 1
        self.reset_time_outs[:] = self.episode_length_buf >= self.max_episode_length
        self.reset_terminated[:] = self.position.abs().amax(1) > self.edge
        self.reward_buf[:] = 1.0 - self.position.norm(dim=1)
        ended = (self.reset_terminated | self.reset_time_outs).nonzero().squeeze(-1).int()
        if len(ended) > 0:
            self._reset_idx(ended)
        self.heading_command._update_command()
        self.obs_buf = self.observation_manager.compute(update_history=True)
        return self.obs_buf, self.reward_buf, self.reset_terminated, self.reset_time_outs, self.extras

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, ...]:
        if seed is not None:
            torch.manual_seed(seed)
        self._reset_idx(torch.arange(self.num_envs, dtype=torch.int32))
        self.obs_buf = self.observation_manager.compute(update_history=True)
        return self.obs_buf, self.extras

    def _reset_idx(self, env_ids: Tensor) -> None:
        self.curriculum_manager.compute(env_ids=env_ids)
        self.extras["log"] = {
            "Episode_Reward/alive": self.reward_buf[env_ids].mean(),
            "Episode_Termination/edge": int(self.reset_terminated[env_ids].sum()),
            "Curriculum/levels": self.scene.terrain.terrain_levels.float().mean(),
        }
        self.position[env_ids] = 0.2 * torch.rand(len(env_ids), 2)
        self.heading[env_ids] = 0.0
        self.observation_manager.reset(env_ids)
        self.heading_command.reset(env_ids)
        self.episode_length_buf[env_ids] = 0

    def close(self) -> None:
        self.closed = True
