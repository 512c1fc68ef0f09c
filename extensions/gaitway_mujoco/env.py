"""Gymnasium's vector API over a MuJoCo world, in torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.managers import Managers
from gaitway_tasks.spec import Task
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from .model import PhysicsOptions
from .world import MujocoWorld

Observation = dict[str, Tensor]


class MujocoVectorEnv(VectorEnv):
    """``num_envs`` copies of a task, stepped together.

    Observations are a dictionary of the task's groups, each float32 (N, D). Finished episodes restart within the
    step that ends them (``AutoresetMode.SAME_STEP``): ``info["final_obs"]`` then holds the final observations of
    the ended episodes, valid in the rows of ``info["_final_obs"]``, and ``info["log"]`` scalars for plots.

    ``info["ended"]`` are the indices (K,) of the environments that ended. Where any did, ``info["episode"]`` has the
    return ``r`` and the length ``l`` of their episodes, (N,), valid in the rows of ``info["_episode"]``.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        task: Task,
        num_envs: int,
        *,
        seed: int = 0,
        num_threads: int = 0,
        options: PhysicsOptions | None = None,
    ):
        if num_envs < 1:
            raise UserError(f"num_envs {num_envs}: at least one environment is needed")
        if task.terrain.kind != "plane":
            raise UserError(f"{task.name} is about rough ground, which this world does not have: use --world isaaclab")
        self.task, self.num_envs = task, num_envs
        self.generator = torch.Generator().manual_seed(seed)
        self.world = MujocoWorld(task, num_envs, self.generator, options or PhysicsOptions(), num_threads)
        self.managers = Managers(task, self.world, self.generator)
        self.world.commands = self.managers.commands
        self.managers.build_observations()
        self._all = torch.arange(num_envs)
        self._returns, self._lengths = torch.zeros(num_envs), torch.zeros(num_envs, dtype=torch.int64)
        self._started = False

        self.single_observation_space = gym.spaces.Dict(
            {name: _box(group.dim) for name, group in self.managers.observations.items()}
        )
        self.single_action_space = _box(task.robot.num_joints)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    @property
    def device(self) -> torch.device:
        return self.world.device

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict]:
        """Restart every environment.

        ``options={"random_episode_step": True}`` starts each episode at a random age, so that time-outs do not
        come all at once.
        """
        if seed is not None:
            self.generator.manual_seed(seed)
            self._started = False  # start-up events depend on the seed too
        if not self._started:
            self.managers.events.apply("startup", self._all)
            self._started = True
        self.managers.rewards.reset(self._all, 1.0)  # discard the sums of abandoned episodes
        self._reset_envs(self._all)
        self._returns.zero_()
        self._lengths.zero_()
        if (options or {}).get("random_episode_step"):
            ages = torch.randint(0, self.world.max_episode_length, (self.num_envs,), generator=self.generator)
            self.world.episode_step = ages
        for command in self.managers.commands.values():
            command.turn_to_heading()
        return self._observe(self._all), {}

    def step(self, actions: Tensor) -> tuple[Observation, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Advance one control step with raw policy outputs ``actions`` (N, A), float32."""
        if not self._started:
            raise gym.error.ResetNeeded("step() before reset(): call env.reset() first")
        actions = torch.as_tensor(actions, dtype=torch.float32)
        if actions.shape != self.action_space.shape:  # torch would quietly broadcast one row to all environments
            raise UserError(
                f"actions have shape {tuple(actions.shape)}, this environment takes {self.action_space.shape}"
            )
        world, managers = self.world, self.managers
        world.apply_action(actions)
        world.step_physics()
        world.robot.update(world.step_dt)
        world.episode_step += 1
        terminated, truncated, reasons = managers.terminations.compute()
        if world.diverged.any():  # its state is that of a restarted simulation: finite, and the episode is over
            terminated, truncated = terminated | world.diverged, truncated & ~world.diverged
        world.terminated = terminated
        reward = managers.rewards.compute()
        self._returns += reward
        self._lengths += 1

        done = terminated | truncated
        env_ids = done.nonzero().flatten()
        info: dict[str, Any] = {"ended": env_ids}
        if len(env_ids):
            for command in managers.commands.values():
                command.turn_to_heading()
            info["final_obs"], info["_final_obs"] = self._final_observation(env_ids), done
            info["log"] = managers.rewards.reset(env_ids, world.max_episode_length * world.step_dt)
            info["log"] |= {f"termination/{name}": float(value[env_ids].sum()) for name, value in reasons.items()}
            info["episode"], info["_episode"] = {"r": self._returns.clone(), "l": self._lengths.clone()}, done
            self._returns[env_ids], self._lengths[env_ids] = 0.0, 0
            self._reset_envs(env_ids)
        for command in managers.commands.values():
            command.step(world.step_dt)
        managers.events.step(world.step_dt)
        world.finish_events()
        return self._observe(env_ids), reward, terminated, truncated, info

    def _reset_envs(self, env_ids: Tensor) -> None:
        world, managers = self.world, self.managers
        for term in self.task.curriculum.values():
            term.func(world, env_ids, **term.params)
        world.reset_physics(env_ids)
        managers.events.apply("reset", env_ids)
        managers.events.reset(env_ids)
        world.finish_events()
        for command in managers.commands.values():
            command.resample(env_ids)
        world.episode_step[env_ids] = 0

    def _observe(self, first: Tensor) -> Observation:
        return {name: group.append(group.frame(), first) for name, group in self.managers.observations.items()}

    def _final_observation(self, env_ids: Tensor) -> Observation:
        final = {}
        for name, group in self.managers.observations.items():
            final[name] = torch.zeros(self.num_envs, group.dim)
            final[name][env_ids] = torch.nan_to_num(group.peek(group.frame()[env_ids], env_ids))
        return final

    def state_dict(self) -> dict[str, Any]:
        """Complete state of the environment, for a checkpoint."""
        return {
            "world": self.world.state_dict(),
            "managers": self.managers.state_dict(),
            "generator": self.generator.get_state(),
            "started": self._started,
            "returns": self._returns.clone(),
            "lengths": self._lengths.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.world.load_state_dict(state["world"])
        self.managers.load_state_dict(state["managers"])
        self.generator.set_state(state["generator"])
        self._started = state["started"]
        for name, counted in (("returns", self._returns), ("lengths", self._lengths)):
            counted.zero_()  # checkpoints of earlier versions do not have them
            if name in state:
                counted.copy_(state[name])


def _box(dim: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (dim,), np.float32)
