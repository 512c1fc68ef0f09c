"""Record a policy's observations and actions in Gaitway's MuJoCo environments, for ``gaitway diagnose``."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_tasks.commands import steering
from gaitway_tasks.recording import Recording, RolloutBuffer
from gymnasium.vector import VectorEnv, VectorWrapper
from torch import Tensor

from .env import MujocoVectorEnv
from .model import drives_are_network


class RolloutRecorder(VectorWrapper):
    """Records every step between a policy and ``env``, a :class:`MujocoVectorEnv` or a wrapper of one.

    :attr:`buffer` collects the rows from the first :meth:`reset` on; :meth:`recording` has them so far.
    """

    def __init__(self, env: VectorEnv, group: str = "policy"):
        super().__init__(env)
        self.world, self.group = _world(env), group
        task = self.world.task
        scanners = task.observations[group].terms.values()
        self._scanner = next((term.params["sensor"] for term in scanners if "sensor" in term.params), None)
        self._command = steering(task)[0]
        self.buffer = RolloutBuffer(
            joint_names=task.robot.joint_names,
            quat_order="wxyz",
            velocity_frame="base",
            control_dt=task.timing.step_dt,
            physics_dt=task.timing.physics_dt,
            simulator=f"MuJoCo {mujoco.__version__}",
            starts_at_reset=True,
            observation_noise=task.observations[group].enable_corruption,
            torques_held=drives_are_network(task.robot),
            flat_ground=task.ground.flat,
        )
        self._observation: Tensor | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Restart the environments and forget what was recorded."""
        observation, info = self.env.reset(**kwargs)
        self._observation = observation[self.group]
        self.buffer.rows.clear()
        return observation, info

    def step(self, actions: Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and add a row: the state before the step, and whether the step ended the episode."""
        assert self._observation is not None, "step() before reset()"
        row = {"observation": self._observation.numpy(), "action": actions.numpy(), **self._state()}
        row = {name: np.array(value) for name, value in row.items()}
        result = self.env.step(actions)
        observation, _, terminated, truncated, _ = result
        target = self.world.joint_pos_target.numpy()
        self.buffer.add({**row, "joint_pos_target": target, "done": (terminated | truncated).numpy()})
        self._observation = observation[self.group]
        return result

    def recording(self) -> Recording:
        return self.buffer.recording()

    def _state(self) -> dict[str, np.ndarray]:
        world, robot = self.world, self.world.robot
        scan = {} if self._scanner is None else {"height_scan": world.height_scan(self._scanner).numpy()}
        return {
            "joint_pos": robot.joint_pos.numpy(),
            "joint_vel": robot.joint_vel.numpy(),
            "root_pos_w": robot.root_pos_w.numpy(),
            "root_quat": robot.root_quat_wxyz.numpy(),
            "root_lin_vel": robot.root_lin_vel_b.numpy(),
            "root_ang_vel": robot.root_ang_vel_b.numpy(),
            "applied_torque": robot.applied_torque.numpy(),
            "command": world.command(self._command).numpy(),
            **scan,
        }


def _world(env: VectorEnv) -> Any:
    inner = env.unwrapped
    if not isinstance(inner, MujocoVectorEnv):
        raise UserError(f"{type(inner).__name__} is no MujocoVectorEnv: use the recorder of its own world")
    return inner.world
