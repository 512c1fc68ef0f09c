"""Names that the Python of each page takes for granted."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gaitway_tasks.robots import ANYMAL_C


def names_of(page: str) -> dict[str, Any]:
    """The names that are defined before the first snippet of a page."""
    make = NAMES.get(page)
    return {"__name__": "__main__"} | (make() if make is not None else {})


def robot() -> dict[str, Any]:
    """A simulated robot and one of its states."""
    from gaitway_sim2real.lockstep.robot import LockstepRobot
    from gaitway_tasks.robots import GO2

    twin = LockstepRobot("bundle")
    signals = twin.read()
    return {
        "robot": twin, "bundle": Path("bundle"), "hardware": GO2.hardware, "signals": signals,
        "q": signals.joint_pos, "qd": signals.joint_vel, "quat_wxyz": signals.imu_quat_wxyz, "gyro": signals.gyro,
        "stamp": signals.stamp,
    }  # fmt: skip


def estimating() -> dict[str, Any]:
    """The same, with the bundle that the page has just exported."""
    names = robot()
    signals = replace(names["signals"], accelerometer=np.array([0.0, 0.0, 9.81]))
    feet = SimpleNamespace(feet=ANYMAL_C.foot_names)
    return names | {"bundle": Path("estimating"), "hardware": feet, "signals": signals}


def comparable() -> dict[str, Any]:
    """Runs of which some were long enough for a return."""
    for run in Path("runs").iterdir():
        if run.name != "cartpole":
            shutil.rmtree(run)
    return {}


def policy() -> dict[str, Any]:
    """A trained task and its actor."""
    from gaitway.runs.folder import RunFolder
    from gaitway.training.load import load_actor

    config, actor, _ = load_actor(RunFolder.open(Path("runs/walk")))
    return {"task": config.robot_task, "actor": actor, "digest": "0" * 64}


def pony() -> dict[str, Any]:
    """The modules of the example, which lie in the workshop."""
    from pony import tasks

    return vars(sys.modules["pony"]) | vars(tasks) | {"__file__": sys.modules["pony"].__file__}


def reacher() -> dict[str, Any]:
    """The modules of the example of another task."""
    from reacher import suite, tasks

    return vars(sys.modules["reacher"]) | vars(tasks) | vars(suite) | {"__file__": sys.modules["reacher"].__file__}


NAMES = {
    "docs/bundle.md": robot,
    "docs/compare.md": comparable,
    "docs/estimation.md": estimating,
    "docs/export.md": policy,
    "docs/gyms.md": lambda: {"action": torch.zeros(8, 3)},
    "docs/rsl_rl.md": lambda: {"digest": "0" * 64},
    "docs/run.md": robot,
    "docs/your_robot.md": pony,
    "docs/your_task.md": reacher,
    "docs/worlds.md": lambda: {"action": torch.zeros(64, 12)},
}
