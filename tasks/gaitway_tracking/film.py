"""A film of a motion, without physics: the robot is where the motion has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.mujoco import film
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_tasks.robots import Robot

from .command import MotionCommand
from .motion import Motion
from .tasks import blind


def film_motion(clip: str, motion: Motion, robot: Robot, out: Path) -> Path:
    """Film ``motion``, called ``clip``, to ``out`` (mp4)."""
    task = blind(robot)
    command = task.commands["motion"]
    assert isinstance(command, MotionCommand)
    task = task.replace(commands={"motion": replace(command, clip=clip)})
    plant = build_plant(contract_before_training(task), robot.mjcf, robot.mjcf, visual=True)
    qpos = np.tile(plant.model.qpos0, (len(motion), 1))
    base = plant.base_qpos
    qpos[:, base : base + 3], qpos[:, base + 3 : base + 7] = motion.root_pos, motion.root_quat_wxyz
    qpos[:, plant.joint_qpos] = motion.joint_pos
    label = f"{Path(clip).stem} of {robot.name}"
    return film.film(
        plant, qpos, np.ones((len(motion), 1)), None, [label] * len(motion), out, control_dt=1.0 / motion.fps,
        components=(("play", "1"),),
    )  # fmt: skip
