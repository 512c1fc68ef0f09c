"""Every simulation here is the same physics: the same robot, law and targets give the same motion."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from gaitway_mujoco.options import PhysicsOptions
from gaitway_mujoco.world import MujocoWorld
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.digital_twin.command import Command
from gaitway_sim2real.digital_twin.drives import Drives, drive_limits
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_sim2real.mujoco.body import Body
from gaitway_sim2real.mujoco.delay import DelayLine
from gaitway_sim2real.mujoco.plant import PHYSICS_DT, Plant, actuator_laws, build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_tasks.robots import ANYMAL_C, GO2, H1, Robot
from gaitway_tasks.velocity import velocity_flat
from stand_bundle import make_stand_bundle
from tree import ROOT

N, STEPS, HEIGHT = 4, 25, 5.0
DELAYS = np.array([0.0, 0.005, 0.015, 0.04])
ROBOTS = [ANYMAL_C, H1]


def make_plant(folder: Path, robot: Robot) -> tuple[Plant, Contract]:
    """A robot whose joints all have its first law: a DC motor (ANYmal, Go2) or a PD (H1)."""
    bundle = make_stand_bundle(folder / robot.name, robot)
    contract = Contract.load(bundle)
    return build_plant(contract, bundle / "robot.xml", bundle / "robot.xml"), contract


def rough_targets(robot: Robot, steps: int, count: int, size: float = 0.4) -> np.ndarray:
    """Joint targets about the default pose [rad], (T, N, J)."""
    noise = np.random.default_rng(0).uniform(-size, size, (steps, count, robot.num_joints))
    return np.array(robot.default_joint_pos) + noise


def train(robot: Robot, contract: Contract, targets: np.ndarray, prepare: Callable[[MujocoWorld], None]) -> np.ndarray:
    """The training world, from rest high above the ground: qpos and qvel of base and joints, (T, N, 13 + 2 J)."""
    task = velocity_flat(robot.replace(actuators={"all": actuator_laws(contract)[0]}))
    timing = task.timing.__class__(physics_dt=PHYSICS_DT, decimation=round(contract.control_dt / PHYSICS_DT))
    options = PhysicsOptions(max_action_delay=float(DELAYS.max()))
    world = MujocoWorld(task.replace(timing=timing), N, torch.Generator().manual_seed(0), options, 1)
    ids, joints = torch.arange(N), robot.num_joints
    world.reset_physics(ids)
    still = torch.zeros(N, 3)
    world.write_root_state(ids, torch.tensor([[0.0, 0.0, HEIGHT]] * N), torch.eye(4)[:1].repeat(N, 1), still, still)
    pose = torch.tensor(robot.default_joint_pos).expand(N, joints)
    world.write_joint_state(ids, pose, torch.zeros(N, joints))
    prepare(world)
    world.finish_events()
    rows = []
    for target in targets:
        world.batch.bind("ctrl")[:] = target
        world.step_physics()
        qpos, qvel = world.batch.bind("qpos"), world.batch.bind("qvel")
        where = world.robot
        rows.append(np.hstack([qpos[:, :7], qpos[:, where.qpos_adr], qvel[:, :6], qvel[:, where.qvel_adr]]))
    return np.array(rows)


def validate(robot: Robot, plant: Plant, contract: Contract, targets: np.ndarray, strength: np.ndarray,
             delay: np.ndarray) -> np.ndarray:  # fmt: skip
    """The same in the rig of the validation suite."""
    robots = RobotBatch(plant, contract, N, 1)
    robots.randomise(friction=np.ones(N), payload=np.zeros(N), strength=strength)
    robots.place(yaw=np.zeros(N), joint_offset=np.zeros((N, robot.num_joints)), velocity=np.zeros((N, 2)))
    robots.qpos[:, 2] = HEIGHT
    robots.qpos[:, plant.joint_qpos] = np.float32(robot.default_joint_pos)  # as the training world has it
    robots.batch.forward()
    line = DelayLine(np.tile(np.float32(robot.default_joint_pos), (N, 1)), delay, PHYSICS_DT, plant.decimation)
    rows = []
    for target in targets:
        for count, ctrl in line.push(target):
            robots.ctrl[:] = ctrl
            robots.step(count)
        qpos, qvel = robots.qpos, robots.qvel
        rows.append(np.hstack([qpos[:, :7], qpos[:, plant.joint_qpos], qvel[:, :6], qvel[:, plant.joint_dof]]))
    return np.array(rows)


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.name)
def test_training_and_validation_are_one_physics(robot: Robot, tmp_path: Path) -> None:
    """Nominal, with motors of other strengths and with late targets; in the air, where no contact settings matter."""
    plant, contract = make_plant(tmp_path, robot)
    targets, strength = rough_targets(robot, STEPS, N), np.array([1.0, 0.8, 0.9, 1.2])
    ids, joints = torch.arange(N), robot.num_joints

    def weaken(world: MujocoWorld) -> None:
        world._strength = world._strength.double()
        world.set_motor_strength(ids, torch.tensor(strength)[:, None].expand(N, joints))

    def hold_back(world: MujocoWorld) -> None:
        world.set_action_delay(ids, torch.tensor(DELAYS))

    for prepare, factor, delay in (
        (lambda world: None, np.ones(N), np.zeros(N)),
        (weaken, strength, np.zeros(N)),
        (hold_back, np.ones(N), DELAYS),
    ):
        trained = train(robot, contract, targets, prepare)
        validated = validate(robot, plant, contract, targets, factor, delay)
        assert np.abs(validated[..., 7 : 7 + joints] - robot.default_joint_pos).max() > 0.3, "the joints moved"
        np.testing.assert_allclose(trained, validated, atol=1e-9, rtol=0.0)


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.name)
def test_lockstep_and_validation_are_one_physics(robot: Robot, tmp_path: Path) -> None:
    """On the ground, from the start of both."""
    plant, contract = make_plant(tmp_path, robot)
    targets = rough_targets(robot, STEPS, 1, 0.1)
    robots, single = RobotBatch(plant, contract, 1, 1), LockstepRobot(tmp_path / robot.name)
    robots.place(yaw=np.zeros(1), joint_offset=np.zeros((1, robot.num_joints)), velocity=np.zeros((1, 2)))
    order = [contract.joint_names.index(name) for name in single.joint_names]
    gains = (np.array(contract.per_joint(name), float)[order] for name in ("stiffness", "damping"))
    stiffness, damping = gains
    for step, target in enumerate(targets):
        robots.ctrl[:] = target
        robots.step(plant.decimation)
        single.write(target[0, order], stiffness, damping)
        single.sleep_until((step + 1) * contract.control_dt)
        np.testing.assert_allclose(single.data.qpos, robots.qpos[0], atol=1e-9, rtol=0.0)
        np.testing.assert_allclose(single.data.qvel, robots.qvel[0], atol=1e-9, rtol=0.0)
        signals, measured = single.read(), robots.signals()
        for name in ("imu_quat_wxyz", "gyro"):
            np.testing.assert_allclose(getattr(signals, name), measured[name][0], atol=1e-9)
        np.testing.assert_allclose(single.base_velocity()[:2], robots.lin_vel()[0, :2], atol=1e-9)


@pytest.mark.parametrize("robot", [GO2, H1], ids=lambda robot: robot.name)
def test_the_twins_body_and_the_lockstep_robot_are_one_physics(robot: Robot, tmp_path: Path) -> None:
    """With drives without quirks, on the ground. A DC motor is kept below its limits.

    There the twin holds the limits of its torque-speed line over a physics step, and MuJoCo's motor is implicit.
    """
    plant, contract = make_plant(tmp_path, robot)
    single, body = LockstepRobot(tmp_path / robot.name), Body(robot, robot.joint_names, timestep=PHYSICS_DT)
    law, joints = actuator_laws(contract)[0], robot.num_joints
    limits = dict.fromkeys(robot.joint_names, law.effort_limit)
    bounds = drive_limits(robot, robot.joint_names, limits, dict.fromkeys(robot.joint_names, 1e6), limits)
    drives = Drives(robot.joint_names, bounds, Quirks(), np.random.SeedSequence(0))
    single.data.qpos[:] = body.data.qpos  # feet just on the ground: an impact would saturate the drives
    mujoco.mj_forward(single.model, single.data)
    order = [robot.joint_names.index(name) for name in single.joint_names]
    every = np.ones(joints)
    command = {"enabled": every.astype(bool), "dq": 0.0 * every, "tau": 0.0 * every}
    for step, [target] in enumerate(rough_targets(robot, STEPS, 1, 0.02)):
        single.write(target[order], law.stiffness, law.damping)
        now = step * contract.control_dt
        drives.command(now, Command(q=target, kp=law.stiffness * every, kd=law.damping * every, **command))
        single.sleep_until(now + contract.control_dt)
        for _ in range(plant.decimation):
            body.set_drives(*drives.drive(now, PHYSICS_DT, body.joint_vel, body.joint_torque))
            body.step()
            now += PHYSICS_DT
        np.testing.assert_allclose(body.data.qpos, single.data.qpos, atol=1e-9, rtol=0.0)
        np.testing.assert_allclose(body.data.qvel, single.data.qvel, atol=1e-8, rtol=0.0)
        assert 0.5 < np.abs(body.joint_torque).max() < 0.9 * law.effort_limit
    truth = body.truth(0.0)
    np.testing.assert_allclose(truth.base_lin_vel[:2], single.base_velocity()[:2], atol=1e-9)


def test_only_one_module_knows_how_mujoco_encodes_a_drive() -> None:
    """Gains, limits and types of actuators are read and written in ``mjcf.py`` alone."""
    encoding = re.compile(r"gainprm|biasprm|gaintype|biastype|forcerange|dynprm|dyntype|set_to_(?!\w*json)\w+\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("tasks", "agents", "extensions", "sim2real", "gaitway")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != ROOT / "tasks/gaitway_tasks/robots/mjcf.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if encoding.search(line)
    ]
    assert found == []
