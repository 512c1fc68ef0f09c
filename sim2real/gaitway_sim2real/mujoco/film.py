"""Films of a robot that follows commands: the camera follows the base, arrows and bars compare command and velocity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.writing import whole_file
from gaitway_onboard.rotation import quat_apply

from .camera import Camera, RenderingError
from .encoder import encoder
from .model import RobotModel, ground_height

SIZE = (848, 480)
FPS = 25
BLUE, ORANGE, INK = (38, 110, 196), (226, 119, 28), (28, 32, 38)
COMPONENTS = (("vx", "m/s"), ("vy", "m/s"), ("yaw", "rad/s"))
GLIDE, SMOOTH = 12, 10  # control periods: of the camera, which does not bob with the trunk; of the velocity, a step
CLOSE = 2.4
"""Distance of the camera from a fixed base, in the robot's reach."""
Frames = Callable[[range], Iterable[int]]
"""Goes through the numbers of the frames, as ``iter`` does, and may say how far it is."""


class VideoNameError(UserError):
    """A file name that no video can have."""


def check_video_path(out: Path) -> None:
    """Refuse a bad name before anything runs."""
    if out.suffix != ".mp4":
        raise VideoNameError(f"video {out}: the name must end in .mp4")


def film(
    robot: RobotModel,
    qpos: np.ndarray,
    command: np.ndarray,
    velocity: np.ndarray | None,
    labels: Sequence[str],
    out: Path,
    *,
    control_dt: float,
    components: Sequence[tuple[str, str]] = COMPONENTS,
    frames: Frames = iter,
    size: tuple[int, int] = SIZE,
) -> Path:
    """Write ``out`` (mp4); nothing is left behind when it fails, with :class:`RenderingError`.

    One row per control period: qpos (T, nq), command (T, D), a label. ``velocity`` (T, 3) is what became of a velocity
    command: vx, vy, yaw rate in the contract's base frame; None for commands of other ``components``, whose names and
    units these are.
    """
    stride = max(1, round(1.0 / (FPS * control_dt)))
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Camera(robot.model, size) as camera, whole_file(out) as partial:
            rows = range(0, len(qpos), stride)
            if robot.fixed_pose is not None:
                camera.camera.distance = CLOSE * _reach(robot)
            camera.rise_above_ground([_target(robot, qpos, now) for now in rows])
            compact = ["-crf", "27", "-preset", "veryfast", "-movflags", "+faststart"]
            fps = 1.0 / (stride * control_dt)
            with encoder(partial, size, fps, codec="libx264", output_params=compact) as add:
                for now in frames(rows):
                    recent = None if velocity is None else velocity[max(0, now - SMOOTH) : now + 1].mean(0)
                    picture = _picture(camera, robot, qpos, now, command[now], recent)
                    add(overlay(picture, labels[now], command[now], recent, now * control_dt, components))
    except ImportError as error:
        raise RenderingError(f"{error.name or error} is not installed: pip install gaitway[mujoco]") from None
    except (RuntimeError, AttributeError, OSError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        way_out = "install libegl1 and libopengl0, or set MUJOCO_GL=osmesa"
        raise RenderingError(f"cannot film {out} ({reason}): {way_out}") from error
    return out


def _picture(
    camera: Camera, robot: RobotModel, qpos: np.ndarray, now: int, command: np.ndarray, velocity: np.ndarray | None
) -> np.ndarray:
    camera.look(qpos[now], _target(robot, qpos, now))
    base = robot.base_pose(qpos[now])
    quat = robot.frame.orientation(base[3:].astype(float))
    _shadows(camera, robot, quat)
    for row, colour, lift in ((command, BLUE, 0.32), (velocity, ORANGE, 0.37)) if velocity is not None else ():
        start = base[:3] + np.array([0.0, 0.0, lift])
        camera.arrow(start, start + 0.6 * quat_apply(quat, np.array([row[0], row[1], 0.0])), colour)
    return camera.shoot()


def _target(robot: RobotModel, qpos: np.ndarray, now: int) -> np.ndarray:
    """Target of the camera [m], (3,): somewhat below the base, following its climbs; a fixed base itself."""
    around = robot.base_pose(qpos[max(0, now - GLIDE) : now + GLIDE + 1])[:, :3].mean(0)
    if robot.fixed_pose is not None:
        return np.asarray(around)
    return np.asarray(around - np.array([0.0, 0.0, 0.3 * robot.start_height]))


def _reach(robot: RobotModel) -> float:
    """Greatest distance of a body of the robot from its base [m]."""
    model, reach = robot.model, np.zeros(robot.model.nbody)
    for body in range(robot.base_body + 1, model.nbody):
        reach[body] = reach[model.body_parentid[body]] + np.linalg.norm(model.body_pos[body])
    return float(reach.max())


def _shadows(camera: Camera, robot: RobotModel, quat: np.ndarray) -> None:
    """Blots under the trunk and the feet, fainter the higher they are."""
    forward = quat_apply(quat, np.array([1.0, 0.0, 0.0]))
    yaw, body = float(np.arctan2(forward[1], forward[0])), camera.data.xpos
    if robot.fixed_pose is None:
        size = tuple(robot.start_height * np.array([0.75, 0.4]))
        camera.blot(_below(camera, body[robot.base_body]), yaw, size, 0.06)
    for name in robot.foot_names:
        foot = body[camera.model.body(name).id]
        ground = _below(camera, foot)
        height = foot[2] - ground[2]
        camera.blot(ground, yaw, (0.05, 0.05), 0.12 * float(np.clip(1 - 4 * (height - 0.03), 0, 1)))


def _below(camera: Camera, pos: np.ndarray) -> np.ndarray:
    """The ground under ``pos`` [m], (3,)."""
    return np.array([*pos[:2], ground_height(camera.data, pos)])


def overlay(
    picture: np.ndarray,
    label: str,
    command: np.ndarray,
    measured: np.ndarray | None,
    time: float,
    components: Sequence[tuple[str, str]] = COMPONENTS,
) -> np.ndarray:
    """Draw the panel with the command and, per component, a bar for the command and one for the measurement, if any."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(picture)
    unit = image.height / 540
    draw = ImageDraw.Draw(image, "RGBA")
    small, large = (ImageFont.load_default(round(size * unit)) for size in (14, 18))
    left, top, width, height = (round(v * unit) for v in (18, 18, 292, 142))
    draw.rounded_rectangle((left, top, left + width, top + height), round(8 * unit), fill=(255, 255, 255, 205))
    draw.text((left + 14 * unit, top + 9 * unit), label, fill=INK, font=large)
    draw.text((left + width - 14 * unit, top + 12 * unit), f"{time:4.1f} s", fill=INK, font=small, anchor="ra")
    middle, scale = left + 126 * unit, 50 * unit
    for row, (name, unit_name) in enumerate(components[:3]):
        y = top + (44 + 25 * row) * unit
        draw.text((left + 14 * unit, y), name, fill=INK, font=small)
        draw.line((middle, y - 1 * unit, middle, y + 18 * unit), fill=(*INK, 110))
        bars = [(command[row], BLUE, 1)] if measured is None else [(command[row], BLUE, 1), (measured[row], ORANGE, 10)]
        for value, rgb, offset in bars:
            end = middle + scale * float(np.clip(value, -1.25, 1.25))
            draw.rectangle((min(middle, end), y + offset * unit, max(middle, end), y + (offset + 7) * unit), fill=rgb)
        draw.text(
            (left + width - 14 * unit, y),
            f"{(command if measured is None else measured)[row]:+.2f} {unit_name}",
            fill=INK,
            font=small,
            anchor="ra",
        )
    y = top + 120 * unit
    legend = [(14, BLUE, "commanded"), (132, ORANGE, "measured")]
    for x, rgb, text in legend if measured is not None else legend[:1]:
        draw.rectangle((left + x * unit, y + 3 * unit, left + (x + 10) * unit, y + 12 * unit), fill=rgb)
        draw.text((left + (x + 16) * unit, y - 1 * unit), text, fill=INK, font=small)
    return np.asarray(image)
