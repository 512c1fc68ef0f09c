"""A picture of a robot that stands."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.writing import whole_file
from gaitway_tasks.robots import Robot

from ..mujoco.camera import Camera, RenderingError
from ..mujoco.model import addresses, compile_robot, prepare_robot

SIZE = (848, 480)


def take_picture(robot: Robot, out: Path) -> None:
    """Write ``out`` (png). Raises :class:`RenderingError` where this machine cannot render."""
    spec, base = prepare_robot(robot.mjcf, robot.joint_names, timestep=0.005, visual=True)
    model = compile_robot(spec, robot.mjcf)
    at = addresses(model, base, robot.joint_names)
    qpos = np.array(model.qpos0)
    qpos[at["base_qpos"] : at["base_qpos"] + 7] = 0.0, 0.0, robot.init_height, 1.0, 0.0, 0.0, 0.0
    qpos[at["joint_qpos"]] = robot.default_joint_pos
    try:
        from PIL import Image

        with Camera(model, SIZE) as camera, whole_file(out) as partial:
            camera.camera.distance = 3.2 * max(robot.init_height, 0.2)
            camera.look(qpos, np.array([0.0, 0.0, 0.6 * robot.init_height]))
            camera.blot(np.zeros(3), 0.0, (0.75 * robot.init_height, 0.4 * robot.init_height), 0.06)
            Image.fromarray(camera.shoot()).save(partial)
    except ImportError as error:
        raise RenderingError(f"{error.name or error} is not installed: pip install gaitway[mujoco]") from None
    except (RuntimeError, AttributeError, OSError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RenderingError(f"cannot render ({reason}): install libegl1 and libopengl0") from None
