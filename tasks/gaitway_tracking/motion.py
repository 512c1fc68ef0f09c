"""A reference motion: joint angles and the base's pose at even times, and the part that may be repeated.

Files are ``.npz``: ``fps``, ``joint_names`` (J), ``joint_pos`` (T, J) [rad], ``root_pos`` (T, 3) [m],
``root_quat_wxyz`` (T, 4), ``loop`` (2) [frames], and the name of the robot. Joints are found by their names, so that a
file of one joint order is read by a robot of another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.archives import read_npz
from gaitway_files.errors import UserError
from gaitway_files.writing import write_file
from numpy.typing import NDArray

Array = NDArray[np.float64]

FPS = 1.0, 1000.0
"""Lowest and highest frame rate [1/s]."""
LONGEST = 600.0
"""Longest motion [s]."""
UNIT_ERROR = 0.01
"""Most by which the length of a quaternion may differ from 1."""
FASTEST = 60.0
"""Largest joint speed [rad/s] between two frames; more is a jump of the recording, or degrees."""


class MotionError(UserError):
    """A motion that a robot cannot follow, with what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """T frames of one motion."""

    fps: float
    """Frames per second."""
    joint_names: tuple[str, ...]
    joint_pos: Array
    """[rad], (T, J)."""
    root_pos: Array
    """Place of the base [m], (T, 3), z from the ground."""
    root_quat_wxyz: Array
    """(T, 4)."""
    loop: tuple[int, int]
    """Frames between which the motion is repeated: that of the second continues with the one after the first."""
    robot: str = ""
    """Name of the robot that it was made for."""

    def __post_init__(self) -> None:
        check_shapes(self)

    def __len__(self) -> int:
        return len(self.joint_pos)

    @property
    def seconds(self) -> float:
        return (len(self) - 1) / self.fps

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_file(path, lambda file: np.savez_compressed(file, allow_pickle=False, **self.arrays()))

    def arrays(self) -> dict[str, Any]:
        return {
            "fps": np.float64(self.fps), "joint_names": np.array(self.joint_names), "joint_pos": self.joint_pos,
            "root_pos": self.root_pos, "root_quat_wxyz": self.root_quat_wxyz, "loop": np.array(self.loop),
            "robot": np.array(self.robot),
        }  # fmt: skip

    def resampled(self, fps: float) -> Motion:
        """The same motion at another rate: linear between joint angles and places, spherical between rotations."""
        if abs(fps - self.fps) < 1e-9:
            return self
        count = round(self.seconds * fps) + 1
        at = np.clip(np.arange(count) * (self.fps / fps), 0, len(self) - 1)
        low = np.minimum(at.astype(int), len(self) - 2)
        share = (at - low)[:, None]

        def between(values: Array) -> Array:
            return values[low] * (1 - share) + values[low + 1] * share

        return replace(
            self,
            fps=fps,
            joint_pos=between(self.joint_pos),
            root_pos=between(self.root_pos),
            root_quat_wxyz=slerp(self.root_quat_wxyz[low], self.root_quat_wxyz[low + 1], share),
            loop=(round(self.loop[0] * fps / self.fps), min(count - 1, round(self.loop[1] * fps / self.fps))),
        )

    def ordered(self, joint_names: tuple[str, ...]) -> Motion:
        """The same motion with the joints in the order of ``joint_names``, all of which it must have."""
        missing = [name for name in joint_names if name not in self.joint_names]
        if missing:
            raise MotionError(
                f"the motion lacks the joints {', '.join(missing)}: it has {', '.join(self.joint_names)}; "
                "'gaitway motion retarget' makes one for another robot"
            )
        columns = [self.joint_names.index(name) for name in joint_names]
        return replace(self, joint_names=joint_names, joint_pos=self.joint_pos[:, columns])


def load(path: str | Path) -> Motion:
    """Read a motion's file. Raises :class:`MotionError`."""
    arrays = read_npz(path)
    needed = ("fps", "joint_names", "joint_pos", "root_pos", "root_quat_wxyz")
    if missing := [name for name in needed if name not in arrays]:
        raise MotionError(
            f"{path} has no {', '.join(missing)}: a motion has {', '.join(needed)}; 'gaitway motion convert' reads "
            "other formats"
        )
    frames = len(arrays["joint_pos"]) if arrays["joint_pos"].ndim else 0
    loop = arrays.get("loop", np.array([0, frames - 1]))
    try:
        return Motion(
            fps=float(arrays["fps"]),
            joint_names=tuple(map(str, arrays["joint_names"].ravel())),
            joint_pos=arrays["joint_pos"].astype(float),
            root_pos=arrays["root_pos"].astype(float),
            root_quat_wxyz=arrays["root_quat_wxyz"].astype(float),
            loop=(int(loop[0]), int(loop[1])),
            robot=str(arrays.get("robot", "")),
        )
    except (MotionError, ValueError, TypeError, IndexError) as error:
        raise MotionError(f"{path}: {error}") from None


def check_shapes(motion: Motion) -> None:
    """Raise :class:`MotionError` for numbers that are no motion."""
    count, joints = len(motion.joint_pos), len(motion.joint_names)
    if not FPS[0] <= motion.fps <= FPS[1]:
        raise MotionError(f"{motion.fps:g} frames per second: expected {FPS[0]:g} to {FPS[1]:g}")
    for name, shape in (("joint_pos", (count, joints)), ("root_pos", (count, 3)), ("root_quat_wxyz", (count, 4))):
        values = getattr(motion, name)
        if values.shape != shape:
            raise MotionError(f"{name} has the shape {values.shape}: expected {shape} for {joints} joints")
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise MotionError(f"{name} of frame {row} is not finite")
    if not 3 <= count <= LONGEST * motion.fps:
        raise MotionError(f"{count} frames: expected 3 or more, and at most {LONGEST:g} s")
    if len(set(motion.joint_names)) < joints:
        raise MotionError(f"joints appear twice: {', '.join(motion.joint_names)}")
    lengths = np.linalg.norm(motion.root_quat_wxyz, axis=1)
    if (off := np.abs(lengths - 1)).max() > UNIT_ERROR:
        raise MotionError(
            f"the quaternion of frame {int(off.argmax())} has the length {lengths[off.argmax()]:.3f}, not 1"
        )
    speed = np.abs(np.diff(motion.joint_pos, axis=0)).max(0) * motion.fps
    if speed.max() > FASTEST:
        joint = motion.joint_names[int(speed.argmax())]
        raise MotionError(
            f"{joint} moves at {speed.max():.0f} rad/s between two frames: are its angles in degrees, or is the rate "
            f"of {motion.fps:g} frames per second wrong?"
        )
    first, last = motion.loop
    if not 0 <= first < last < count:
        raise MotionError(f"loop {first} to {last}: expected two of the {count} frames, the first before the second")


def slerp(a: Array, b: Array, share: Array) -> Array:
    """Rotations between ``a`` and ``b`` (..., 4), at ``share`` (..., 1) of the way."""
    dot = (a * b).sum(-1, keepdims=True)
    b, dot = np.where(dot < 0, -b, b), np.abs(dot).clip(max=1.0)
    angle = np.arccos(dot)
    near = angle < 1e-4
    sine = np.where(near, 1.0, np.sin(angle))
    mixed = np.where(
        near, a * (1 - share) + b * share, (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / sine
    )
    unit: Array = mixed / np.linalg.norm(mixed, axis=-1, keepdims=True)
    return unit


def quat_of(roll: Array, pitch: Array, yaw: Array) -> Array:
    """Rotation by yaw, then pitch, then roll [rad], about the axes of the turned frame, (T, 4)."""
    (cr, sr), (cp, sp), (cy, sy) = ((np.cos(a / 2), np.sin(a / 2)) for a in (roll, pitch, yaw))
    return np.stack(
        (
            cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy,
        ), -1,
    )  # fmt: skip
