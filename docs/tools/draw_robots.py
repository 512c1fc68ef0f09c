"""Draw every robot in its default pose: ``python docs/tools/draw_robots.py [NAME ...]``.

Writes docs/images/robots/NAME.jpg, 640 x 480 pixels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
from gaitway_sim2real.mujoco.camera import Camera
from gaitway_sim2real.mujoco.model import distance_to_ground
from gaitway_sim2real.mujoco.stage import set_stage
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.known import own
from gaitway_tasks.robots.mjcf import add_ground, load_spec
from PIL import Image

OUT = Path(__file__).parents[1] / "images" / "robots"
SIZE = (640, 480)
AZIMUTH, ELEVATION = 135.0, -14.0
"""Of the camera [degrees]."""
DISTANCE = 1.85
"""Of the camera from the middle of the robot, in the size of the robot."""


def draw(robot: Robot) -> np.ndarray:
    """A picture of the robot standing, its feet on the floor, or of an arm where its model has it."""
    spec = load_spec(robot.mjcf)
    add_ground(spec, LEVEL)
    set_stage(spec)
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, value in zip(robot.joint_names, robot.default_joint_pos, strict=True):
        data.joint(name).qpos[:] = value
    mujoco.mj_kinematics(model, data)
    geoms = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] > 0]
    if not robot.fixed_base:
        root = data.qpos[model.joint(model.jnt_type.argmin()).qposadr[0] :][:3]  # a free joint is type 0
        root[2] -= min(distance_to_ground(data, geom) for geom in geoms)
        mujoco.mj_kinematics(model, data)
    places, radii = data.geom_xpos[geoms], model.geom_rbound[geoms, None]
    low, high = (places - radii).min(0), (places + radii).max(0)
    with Camera(model, SIZE) as camera:
        camera.camera.distance = DISTANCE * float((high - low).max())
        camera.camera.azimuth, camera.camera.elevation = AZIMUTH, ELEVATION
        camera.look(data.qpos, (low + high) / 2)
        return camera.shoot()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name, described in own().items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            path = OUT / f"{name}.jpg"
            Image.fromarray(draw(described.robot)).save(path, quality=85, optimize=True)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
