"""A motion as terms read it: tensors with a row for each control step, and the clock that plays them."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gaitway_tasks.robots import Robot
from torch import Tensor

from .feasibility import examine
from .generator import MOTIONS, generate
from .kinematics import bodies_of
from .motion import Array, Motion, MotionError, load


@dataclass(frozen=True, eq=False)
class Reference:
    """K control steps of a motion; bodies are in the robot's order, in the world that the motion starts in."""

    joint_pos: Tensor  # [rad], (K, J)
    joint_vel: Tensor  # [rad/s], (K, J)
    body_pos: Tensor  # [m], (K, B, 3)
    body_quat_wxyz: Tensor  # (K, B, 4)
    body_lin_vel: Tensor  # [m/s], (K, B, 3), of the centres of mass
    body_ang_vel: Tensor  # [rad/s], (K, B, 3)
    root_lin_vel: Tensor  # [m/s], (K, 3), of the base frame's origin, in the world
    loop: tuple[int, int]

    def __len__(self) -> int:
        return len(self.joint_pos)

    def next(self, frame: Tensor, play: Tensor) -> Tensor:
        """Frame (...,) after ``frame``, of a robot that is told to ``play`` (above one half) or to stand.

        Told to play, it repeats the loop. Told to stand, it goes on to the end of the motion, which is its beginning,
        and stays there.
        """
        playing, (first, last) = play > 0.5, self.loop
        after = frame + 1.0
        after = torch.where(playing & (after == last), torch.full_like(after, first), after)
        after = torch.where(after >= len(self) - 1.0, torch.zeros_like(after), after)
        return torch.where((frame <= 0.0) & ~playing, torch.zeros_like(after), after)


def motion_of(clip: str, robot: Robot, fps: float) -> Motion:
    """The motion called ``clip``: one of :data:`.generator.MOTIONS`, or a file's path; at ``fps``, for ``robot``."""
    if clip in MOTIONS:
        return generate(clip, robot, fps)
    if not clip.endswith(".npz") or not Path(clip).is_file():
        raise MotionError(
            f"motion {clip!r} is neither a file (.npz) nor one of {', '.join(MOTIONS)}: 'gaitway motion convert' and "
            "'gaitway motion retarget' write files"
        )
    motion = load(clip).ordered(robot.joint_names).resampled(fps)
    if faults := [finding for finding in examine(motion, robot) if finding.refused]:
        listed = "; ".join(f"{each.name} {each.value:.2f} {each.unit}".rstrip() + f" {each.where}" for each in faults)
        raise MotionError(f"motion {clip}: {listed}: 'gaitway motion check {clip} --robot {robot.name}' says more")
    return motion


_read: dict[tuple[object, ...], Reference] = {}


def reference(clip: str, robot: Robot, dt: float, device: torch.device) -> Reference:
    """The motion ``clip`` for ``robot`` with a row for each control step of ``dt`` [s]; read once."""
    key = clip, robot.name, robot.mjcf, robot.init_height, dt, device
    if key not in _read:
        _read[key] = tables(motion_of(clip, robot, 1.0 / dt), robot, device)
    return _read[key]


def tables(motion: Motion, robot: Robot, device: torch.device) -> Reference:
    """``motion``, whose joints are in the robot's order, with a row for each of its frames."""
    bodies = bodies_of(robot, motion)
    tensor = functools.partial(_tensor, device=device)
    return Reference(
        joint_pos=tensor(motion.joint_pos),
        joint_vel=tensor(np.gradient(motion.joint_pos, 1 / motion.fps, axis=0)),
        body_pos=tensor(bodies.pos),
        body_quat_wxyz=tensor(bodies.quat_wxyz),
        body_lin_vel=tensor(bodies.lin_vel),
        body_ang_vel=tensor(bodies.ang_vel),
        root_lin_vel=tensor(np.gradient(motion.root_pos, 1 / motion.fps, axis=0)),
        loop=motion.loop,
    )


def bundled(clip: str, robot: Robot, dt: float) -> bytes:
    """The motion's file for a bundle: a frame for each control step, and the places of bodies in it."""
    motion = motion_of(clip, robot, 1.0 / dt)
    content = io.BytesIO()
    extra = {"body_names": np.array(robot.body_names), "body_pos": bodies_of(robot, motion).pos}
    np.savez_compressed(content, allow_pickle=False, **motion.arrays(), **extra)
    return content.getvalue()


def _tensor(values: Array, device: torch.device) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)
