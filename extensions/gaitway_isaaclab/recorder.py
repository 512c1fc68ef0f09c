"""Record a policy's observations and actions in a ``ManagerBasedRLEnv`` of Isaac Lab, for ``gaitway diagnose``.

``gaitway record RUN|BUNDLE --world isaaclab`` records policies of Gaitway's. Isaac Lab 3.0's ``play`` records any
other with :func:`attach`::

    isaaclab play --rl_library rsl_rl --task TASK --checkpoint MODEL.pt \\
        --external_callback gaitway_isaaclab.recorder.attach --record rollout.npz

In a script, such as 2.3's ``play.py``, it goes between ``gym.make`` and the library's wrapper::

    env = gym.make(args.task, cfg=env_cfg)
    env = RolloutRecorder(env, "rollout.npz", steps=500)
    env = RslRlVecEnvWrapper(env)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gaitway_tasks.recording import MIN_STEPS, Recording, RecordingError, RolloutBuffer
from torch import Tensor

from . import compat


class RolloutRecorder(gym.Wrapper):
    """Records ``steps`` control steps of the first ``envs`` environments, then writes ``path`` and records no more.

    Without a ``path`` it only keeps the :attr:`recording`.

    ``command`` names the velocity command; by default the only one. ``robot`` is the articulation's name in the scene.
    Raises :class:`gaitway_tasks.recording.RecordingError` when made, if the environment cannot be recorded.
    """

    def __init__(
        self,
        env: Any,
        path: str | Path | None,
        steps: int = 500,
        *,
        envs: int = 16,
        group: str = "policy",
        command: str | None = None,
        robot: str = "robot",
        stop: bool = False,
    ):
        """``stop`` raises :class:`KeyboardInterrupt` when the recording is written, as Ctrl-C ends Isaac Lab's play."""
        super().__init__(env)
        if steps < MIN_STEPS:
            raise RecordingError(f"steps {steps}: record at least {MIN_STEPS}")
        inner = env.unwrapped
        self.path, self.steps, self.group, self.stop = path and Path(path), steps, group, stop
        self._commands = inner.command_manager
        self._articulation = _of(inner.scene.articulations, robot, "articulation")
        self._command = _only_command(inner, command)
        self._scanner = _scanner(inner, group)
        self._rows = slice(0, min(envs, inner.num_envs))
        terrain = getattr(inner.cfg.scene, "terrain", None)
        self.buffer = RolloutBuffer(
            joint_names=tuple(self._articulation.joint_names),
            quat_order="xyzw" if compat.is_3() else "wxyz",
            velocity_frame="world",
            control_dt=float(inner.step_dt),
            physics_dt=float(inner.physics_dt),
            simulator=f"Isaac Lab {compat.release()}, {_physics(inner.cfg.sim)}",
            starts_at_reset=True,
            observation_noise=bool(getattr(inner.cfg.observations, group).enable_corruption),
            torques_held=torques_held(self._articulation.cfg.actuators),
            flat_ground=terrain is None or terrain.terrain_type == "plane",
        )
        self._observation: Tensor | None = None
        self.recording: Recording | None = None
        """Recording that is complete; None before."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Restart the environments; a recording that is not complete starts again."""
        observation, info = self.env.reset(**kwargs)
        self._observation = _policy_input(observation, self.group)
        self.buffer.rows.clear()
        return observation, info

    def step(self, action: Tensor) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and add a row: the state before the step, and whether the step ended the episode."""
        if self.recording is not None:
            return self.env.step(action)
        if self._observation is None:
            raise RecordingError("step() before reset(): call env.reset() first")
        row = {"observation": self._host(self._observation), "action": self._host(action), **self._state()}
        result = self.env.step(action)
        observation, _, terminated, truncated, _ = result
        self._observation = _policy_input(observation, self.group)
        targets = self._host(self._articulation.data.joint_pos_target)
        self.buffer.add({**row, "joint_pos_target": targets, "done": self._host(terminated | truncated)})
        if len(self.buffer) == self.steps:
            self._write()
            if self.stop:
                raise KeyboardInterrupt
        return result

    def close(self) -> None:
        """Write the rows recorded so far, if the run ended early, and close the environment."""
        if self.recording is None and len(self.buffer) >= MIN_STEPS:
            self._write()
        self.env.close()

    def _write(self) -> None:
        self.recording = self.buffer.recording()
        if self.path is None:
            return
        path = self.recording.save(self.path)
        print(f"gaitway: recorded {self.recording.steps} steps of {self.recording.num_envs} environments to {path}")

    def _state(self) -> dict[str, np.ndarray]:
        data = self._articulation.data
        state = {
            "joint_pos": data.joint_pos,
            "joint_vel": data.joint_vel,
            "root_pos_w": data.root_link_pos_w,
            "root_quat": data.root_link_quat_w,
            "root_lin_vel": data.root_link_lin_vel_w,
            "root_ang_vel": data.root_link_ang_vel_w,
            "root_com_lin_vel": data.root_com_lin_vel_w,
            "applied_torque": data.applied_torque,
            "command": self._commands.get_command(self._command),
        }
        if self._scanner is not None:
            scan = self._scanner.data
            state["height_scan"] = compat.tensor(scan.pos_w)[:, 2:3] - compat.tensor(scan.ray_hits_w)[..., 2]
        return {name: self._host(value) for name, value in state.items()}

    def _host(self, values: Any) -> np.ndarray:
        """Copy of the recorded environments' rows on the host, independent of the simulation's buffers."""
        return np.array(compat.tensor(values)[self._rows].detach().cpu().numpy())


def attach() -> list[str]:
    """Have Isaac Lab's ``play`` record its task and end then; an ``--external_callback`` of 3.0's command.

    It takes ``--record FILE.npz``, ``--record_steps`` and ``--record_envs`` from the command line, and returns the
    arguments that are left.
    """
    import isaaclab_tasks  # noqa: F401  registers the stock tasks
    from gymnasium.envs.registration import WrapperSpec

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--record", metavar="FILE.npz", required=True)
    parser.add_argument("--record_steps", type=int, default=500)
    parser.add_argument("--record_envs", type=int, default=16)
    options, rest = parser.parse_known_args(sys.argv[1:])
    parser.add_argument("--task", required=True)
    task = gym.spec(parser.parse_known_args(sys.argv[1:])[0].task.split(":")[-1])
    wrapped = {"path": options.record, "steps": options.record_steps, "envs": options.record_envs, "stop": True}
    recorder = WrapperSpec(name="RolloutRecorder", entry_point=f"{__name__}:RolloutRecorder", kwargs=wrapped)
    task.additional_wrappers = (*task.additional_wrappers, recorder)
    return rest


def _policy_input(observation: Any, group: str) -> Tensor:
    found = observation.get(group) if isinstance(observation, dict) else observation
    if not isinstance(found, Tensor) or found.ndim != 2:
        raise RecordingError(
            f"observation group {group!r} is {type(found).__name__}, not one tensor (N, D): concatenate its terms"
        )
    return found


def _only_command(env: Any, name: str | None) -> str:
    names = list(env.command_manager.active_terms)
    fitting = [n for n in names if env.command_manager.get_command(n).shape[1] == 3]
    if name is None and len(fitting) == 1:
        return str(fitting[0])
    if name is None or name not in fitting:
        listed = ", ".join(names) or "none"
        raise RecordingError(f"command {name!r}: name one with (vx, vy, yaw rate); the environment has {listed}")
    return name


def _scanner(env: Any, group: str) -> Any:
    """The height scanner that the policy reads, if it reads one."""
    for name, term in vars(getattr(env.cfg.observations, group)).items():
        if sensor := getattr(term, "params", {}).get("sensor_cfg") if name != "history_length" else None:
            return _of(env.scene.sensors, sensor.name, "sensor")
    return None


def _of(things: Any, name: str, what: str) -> Any:
    if name not in things:
        raise RecordingError(f"the scene has no {what} {name!r}; it has {', '.join(things) or 'none'}")
    return things[name]


def torques_held(actuators: Mapping[str, Any]) -> bool | None:
    """True if all drives are explicit, False if none is, None if only some are."""
    from isaaclab.actuators import ImplicitActuatorCfg

    explicit = {not isinstance(cfg, ImplicitActuatorCfg) for cfg in actuators.values()}
    return explicit.pop() if len(explicit) == 1 else None


def _physics(sim: Any) -> str:
    """Name of the physics engine that a simulation's configuration chooses."""
    return type(getattr(sim, "physics", None)).__name__.removesuffix("Cfg") if compat.is_3() else "PhysX"
