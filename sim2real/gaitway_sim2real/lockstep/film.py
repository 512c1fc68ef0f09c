"""Film what the twin did, with the camera and the overlay of the validation videos."""

from __future__ import annotations

from pathlib import Path

import imageio_ffmpeg
import mujoco
import numpy as np
from gaitway_files.writing import whole_file
from gaitway_onboard.interface import Array

from ..mujoco.plant import Plant
from ..validate.video import BLUE, ORANGE, SIZE, Camera, Frames, RenderingError, overlay

FPS = 25


class VideoNameError(ValueError):
    """A file name that no video can have."""


def check_video_path(out: Path) -> None:
    """Refuse a bad name before anything runs."""
    if out.suffix != ".mp4":
        raise VideoNameError(f"video {out}: the name must end in .mp4")


def film(
    plant: Plant,
    qpos: Array,
    command: Array,
    velocity: Array,
    labels: list[str],
    out: Path,
    *,
    control_dt: float,
    frames: Frames = iter,
) -> None:
    """Write ``out`` (mp4). One row per control period: qpos (T, nq), command and measured velocity (T, 3).

    Velocities are vx, vy, yaw rate in the contract's base frame.
    """
    stride = max(1, round(1.0 / (FPS * control_dt)))
    ahead = np.zeros((len(qpos), 2))
    for row, pose in enumerate(qpos):
        ahead[row] = _heading(plant, pose)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Camera(plant.model, SIZE) as camera, whole_file(out) as partial:
            writer = imageio_ffmpeg.write_frames(
                str(partial), SIZE, fps=1.0 / (stride * control_dt), codec="libx264", macro_block_size=2
            )
            writer.send(None)
            for now in frames(range(0, len(qpos), stride)):
                base = qpos[now, plant.base_qpos : plant.base_qpos + 3]
                around = qpos[max(0, now - 12) : now + 13, plant.base_qpos : plant.base_qpos + 2].mean(0)
                recent = velocity[max(0, now - 10) : now + 1].mean(0)
                camera.look(qpos[now], np.array([*around, 0.7 * plant.start_height]))
                for row, colour, lift in ((command[now], BLUE, 0.32), (recent, ORANGE, 0.37)):
                    start, (cos, sin) = base + np.array([0.0, 0.0, lift]), ahead[now]
                    along = np.array([cos * row[0] - sin * row[1], sin * row[0] + cos * row[1], 0.0])
                    camera.arrow(start, start + 0.6 * along, colour)
                writer.send(overlay(camera.shoot(), labels[now], command[now], recent, now * control_dt))
            writer.close()
    except (RuntimeError, AttributeError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RenderingError(f"cannot film {out} ({reason}): install libegl1, or set MUJOCO_GL=osmesa") from error


def _heading(plant: Plant, qpos: Array) -> tuple[float, float]:
    """Cosine and sine of the yaw of the contract's base frame."""
    quat, turn = np.zeros(4), np.zeros(9)
    mujoco.mju_mulQuat(quat, qpos[plant.base_qpos + 3 : plant.base_qpos + 7], plant.frame.quat_wxyz)
    mujoco.mju_quat2Mat(turn, quat)
    yaw = np.arctan2(turn[3], turn[0])
    return float(np.cos(yaw)), float(np.sin(yaw))
