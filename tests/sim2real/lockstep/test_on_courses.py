"""A lockstep robot starts in the middle of a course, on its ground, and stands there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_sim2real.lockstep.run import run_bundle
from gaitway_sim2real.mujoco.camera import STEEPER, Camera
from gaitway_sim2real.mujoco.film import _target
from gaitway_sim2real.mujoco.model import ground_height
from gaitway_tasks.terrain import read_ground
from stand_bundle import make_stand_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("anymal") / "bundle")


@pytest.mark.parametrize(
    ("text", "middle"),
    [("stairs-up:0.1", -0.7), ("stairs-down:0.1", 0.7), ("grid:0.1", 0.1), ("stones:0.2", 0.0), ("slope:10", 0.0)],
)
def test_it_stands_in_the_pit_and_on_top(bundle: Path, text: str, middle: float) -> None:
    ground = read_ground(text)
    robot = LockstepRobot(bundle, ground=ground)
    level, contract = LockstepRobot(bundle), Contract.load(bundle)
    assert robot.plant.start_height == pytest.approx(level.plant.start_height, abs=1e-6)
    assert ground.origin(np.zeros(1))[0, 2] == pytest.approx(middle, abs=0.15), "a pit, or a top, in the middle"
    pose = np.array([dict(zip(contract.joint_names, contract.default_joint_pos, strict=True))[name] for name in
                     robot.joint_names])  # fmt: skip
    for each in (robot, level):
        each.write(pose, np.full(12, 150.0), np.full(12, 4.0))
        each.sleep_until(1.0)
    assert robot.base_height() == pytest.approx(level.base_height(), abs=0.02)
    assert robot.read().imu_quat_wxyz[0] > 0.98
    assert ground_height(robot.data, robot.data.qpos[:2]) == pytest.approx(ground.height(robot.data.qpos[:2]), abs=1e-6)


def test_a_run_says_where_it_is(bundle: Path) -> None:
    said: list[str] = []
    report = run_bundle(bundle, 0.5, command=[(0.0, (0.0, 0.0, 0.0))], ground=read_ground("rubble:0.05"),
                        echo=said.append)  # fmt: skip
    assert report.loop.ok and "rubble, 5 cm" in said[0]


def test_a_film_follows_a_robot_that_climbs_and_looks_over_the_ground(bundle: Path) -> None:
    def looks(text: str) -> tuple[float, float]:
        robot = LockstepRobot(bundle, ground=read_ground(text), visual=True)
        target = _target(robot.plant, robot.data.qpos[None], 0)
        camera = Camera(robot.model, (32, 20))
        camera.rise_above_ground([target])
        return float(target[2]), camera.camera.elevation

    (level, usual), (top, same), (pit, steep) = (
        looks(text) for text in ("slope:0", "stairs-down:0.2", "stairs-up:0.3")
    )
    origins = [read_ground(text).origin(np.zeros(1))[0, 2] for text in ("stairs-down:0.2", "stairs-up:0.3")]
    np.testing.assert_allclose([top - level, pit - level], origins, atol=1e-6)
    assert (usual, same) == (STEEPER[0], STEEPER[0]) and steep < usual
