"""Motions of other projects, read as :class:`.motion.Motion`; a reader for each kind of file.

========================  =============================================================================================
``.npz``                  Gaitway's own; whole_body_tracking's and holosoma's, with joint names or in Isaac Lab's order
``.csv``                  Unitree's: no header, x y z, quaternion x y z w, joints in Unitree's order, 30 frames a second
``.txt``                  motion_imitation's, of a Laikago: JSON, and for quadrupeds only
========================  =============================================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.archives import read_npz
from gaitway_files.json_files import read_json
from gaitway_files.reading import TEXT_BYTES, read_text
from gaitway_onboard.rotation import quat_conjugate, quat_mul
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.orders import physx_order

from .motion import Array, Motion, MotionError, load

CSV_FPS = 30.0
"""Frames per second of Unitree's retargeted LAFAN1."""
LAIKAGO = (
    "FR_hip", "FR_thigh", "FR_calf", "FL_hip", "FL_thigh", "FL_calf",
    "RR_hip", "RR_thigh", "RR_calf", "RL_hip", "RL_thigh", "RL_calf",
)  # fmt: skip
"""Joints of motion_imitation's clips, by Unitree's names."""
LAIKAGO_START = np.array([0.5, 0.5, 0.5, 0.5])
"""Rotation of its base at rest, in its clips."""


def read_motion(path: Path, robot: Robot, fps: float | None = None) -> Motion:
    """The motion in ``path``, whose joints are named, or in an order of ``robot``'s. Raises :class:`MotionError`.

    ``fps`` is for files that do not say their rate.
    """
    readers = {".npz": _npz, ".csv": _csv, ".txt": _laikago}
    if path.suffix not in readers:
        raise MotionError(f"motion {path}: expected a file that ends in {', '.join(readers)}")
    try:
        return readers[path.suffix](path, robot, fps)
    except MotionError as error:
        text = str(error)
        raise MotionError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _npz(path: Path, robot: Robot, fps: float | None) -> Motion:
    arrays = read_npz(path)
    if "root_pos" in arrays:
        return load(path)
    if "joint_pos" not in arrays or "body_pos_w" not in arrays:
        raise MotionError(
            f"it has {', '.join(arrays)}: expected joint_pos and body_pos_w, as whole_body_tracking writes"
        )
    rate = fps if fps is not None else float(np.ravel(arrays["fps"])[0]) if "fps" in arrays else None
    if rate is None:
        raise MotionError("it does not say its rate: give --fps")
    joint_pos, bodies = arrays["joint_pos"].astype(float), arrays["body_pos_w"].astype(float)
    names = tuple(map(str, arrays["joint_names"])) if "joint_names" in arrays else physx_order(robot)
    if joint_pos.ndim != 2 or bodies.ndim != 3:
        raise MotionError(f"joint_pos has the shape {joint_pos.shape} and body_pos_w {bodies.shape}")
    if joint_pos.shape[1] == len(names) + 7:  # holosoma's are MuJoCo's qpos: the base first
        return _motion(rate, names, joint_pos[:, 7:], joint_pos[:, :3], joint_pos[:, 3:7])
    if joint_pos.shape[1] != len(names):
        raise MotionError(f"it has {joint_pos.shape[1]} joints without names, and {robot.name} has {len(names)}")
    return _motion(rate, names, joint_pos, bodies[:, 0], arrays["body_quat_w"].astype(float)[:, 0])


def _csv(path: Path, robot: Robot, fps: float | None) -> Motion:
    lines = read_text(path, TEXT_BYTES).split()
    try:
        rows = np.array([[float(value) for value in line.split(",")] for line in lines])
    except ValueError:
        raise MotionError("expected lines of numbers with commas, of equal length and without a header") from None
    names = robot.joint_names if robot.hardware is None else tuple(robot.hardware.joint_names)
    if rows.ndim != 2 or rows.shape[1] != 7 + len(names):
        found = rows.shape[1] if rows.ndim == 2 else 0
        raise MotionError(
            f"it has {found} columns: expected {7 + len(names)} for {robot.name}, which are x, y, z, the quaternion x, "
            f"y, z, w and {len(names)} joints"
        )
    return _motion(fps or CSV_FPS, names, rows[:, 7:], rows[:, :3], rows[:, [6, 3, 4, 5]])


def _laikago(path: Path, robot: Robot, fps: float | None) -> Motion:
    content: Any = read_json(path)
    try:
        rows = np.array(content["Frames"], float)
        rate = fps or 1.0 / float(content["FrameDuration"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise MotionError("expected JSON with Frames and FrameDuration, as motion_imitation writes") from None
    if rows.ndim != 2 or rows.shape[1] != 7 + len(LAIKAGO):
        raise MotionError(f"its frames have the shape {rows.shape}: expected {7 + len(LAIKAGO)} numbers each")
    quat = quat_mul(rows[:, [6, 3, 4, 5]], quat_conjugate(np.tile(LAIKAGO_START, (len(rows), 1))))
    return _motion(rate, LAIKAGO, rows[:, 7:], rows[:, :3], quat)


def _motion(fps: float, names: tuple[str, ...], joints: Array, place: Array, quat_wxyz: Array) -> Motion:
    lengths = np.linalg.norm(quat_wxyz, axis=-1, keepdims=True)
    near = np.abs(lengths - 1) < 0.02
    return Motion(
        fps=fps, joint_names=names, joint_pos=joints, root_pos=place,
        root_quat_wxyz=np.where(near, quat_wxyz / np.maximum(lengths, 1e-9), quat_wxyz), loop=(0, len(joints) - 1),
    )  # fmt: skip
