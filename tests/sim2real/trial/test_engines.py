"""Conditions for another engine and its recording, with MuJoCo in the place of the other engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import yaw_of
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.plant import Plant, build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.engines import Walk, part, plan, together, trajectory_of
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import simulate
from gaitway_sim2real.trial.stressors import SensorNoise
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_velocity.metrics import compute_metrics
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

STANDING = Scenario(name="s", title="", about="", limits=(), envs=3, seconds=1.0, commands="standing")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def contract(bundle: Path) -> Contract:
    return Contract.load(bundle)


@pytest.fixture(scope="module")
def plant(bundle: Path, contract: Contract) -> Plant:
    return build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", gait=True)


def conditions_of(contract: Contract, scenario: Scenario = STANDING):
    return SUITE.draw(scenario, contract, 0)


class MujocoAsEngine:
    """Records as Isaac Lab does, from MuJoCo's poses, velocities and forces."""

    name, title, software = "mujoco", "MuJoCo", {}

    def __init__(self, plant: Plant):
        self.plant = plant

    def record(self, walk: Walk) -> dict[str, np.ndarray]:
        plant, n = self.plant, len(walk.start["base_quat"])
        world = RobotBatch(plant, walk.contract, n, 1)
        world.randomise(friction=np.full(n, walk.friction), payload=np.zeros(n), strength=np.ones(n))
        world.place(yaw=np.zeros(n), joint_offset=np.zeros((n, walk.contract.num_joints)), velocity=np.zeros((n, 2)))
        world.qpos[:, :3], world.qpos[:, 3:7] = walk.start["base_pos"], walk.start["base_quat"]
        world.qpos[:, plant.joint_qpos] = walk.start["joint_pos"]
        world.qvel[:, :3] = walk.start["lin_vel"]
        world.batch.forward()
        policy = BatchedPolicy(walk.bundle / "policy.onnx", walk.contract, n)
        slow, fast = [], []
        for command in walk.command:
            target, _ = policy({**world.signals(), "command": command})
            world.ctrl[:] = target
            for _ in range(walk.decimation):
                world.step(1)
                fast.append(self.feet(walk, world, world.qpos, world.qvel))
            state = {name: value.copy() for name, value in world.measure().items() if not name.startswith("foot")}
            press = np.linalg.norm(world._sensors[:, world._fall_columns], axis=-1)
            slow.append({**state, "target": target, "press": press})
        return {name: np.array([row[name] for row in rows], np.float32) for rows in (slow, fast) for name in rows[0]}

    def feet(self, walk: Walk, world: RobotBatch, qpos: np.ndarray, qvel: np.ndarray) -> dict[str, np.ndarray]:
        model, data = self.plant.model, mujoco.MjData(self.plant.model)
        rows = []
        for i in range(len(qpos)):
            data.qpos[:], data.qvel[:] = qpos[i], qvel[i]
            mujoco.mj_fwdPosition(model, data)
            mujoco.mj_fwdVelocity(model, data)
            for foot, *_ in walk.feet:
                body, speed = model.body(foot).id, np.zeros(6)
                mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, speed, 0)
                rows.append((data.xpos[body].copy(), data.xquat[body].copy(), speed[3:], speed[:3]))
        shape = len(qpos), len(walk.feet), -1
        force = world._sensors[:, world._load_columns]
        columns = zip(("pos", "quat", "lin_vel", "ang_vel"), zip(*rows, strict=True), strict=True)
        return {**{f"foot_{name}": np.reshape(values, shape) for name, values in columns}, "foot_force": -force}


def test_soles_of_another_engine_have_heels_toes_and_places(tmp_path):
    bundle = make_stand_bundle(tmp_path, ROBOTS["g1-29dof"], stiffness=3000.0, damping=100.0, effort_limit=5000.0)
    contract = replace(Contract.load(bundle), base_body="pelvis")
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", gait=True)
    drawn = conditions_of(contract)
    conditions = replace(drawn, joint_offset=0 * drawn.joint_offset, velocity=0 * drawn.velocity)
    ours = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 3), conditions)
    walk = plan(bundle, contract, plant, conditions)
    theirs = trajectory_of(MujocoAsEngine(plant).record(walk), conditions, contract, plant)
    assert ours.feet is not None and theirs.feet is not None and (ours.fall_step == -1).all()
    stands = slice(-40, None)
    for end in ("heel", "toe"):
        found, known = getattr(theirs.feet, end), getattr(ours.feet, end)
        assert known[stands].mean() > 0.8 and found[known].mean() > 0.98  # what presses is within 5 mm of the ground
        assert not getattr(theirs.feet, end)[0].any()  # it starts a little above the ground
    np.testing.assert_allclose(theirs.feet.left, ours.feet.left, atol=5e-3)
    np.testing.assert_allclose(theirs.height, ours.height, atol=1e-4)
    assert theirs.arms == ours.arms and theirs.feet.soles.all()


def test_feet_of_meshes_are_refused_by_name(bundle, contract, tmp_path):
    spec = mujoco.MjSpec.from_file(str(bundle / "robot.xml"))
    spec.add_mesh(name="tetrahedron", uservert=[0, 0, 0, 0.04, 0, 0, 0, 0.04, 0, 0, 0, 0.04])
    for geom in list(spec.body("LF_FOOT").geoms):
        spec.delete(geom)
    spec.body("LF_FOOT").add_geom(
        contype=1, conaffinity=1, mass=0, type=mujoco.mjtGeom.mjGEOM_MESH, meshname="tetrahedron"
    )
    spec.compile()
    path = tmp_path / "meshes.xml"
    path.write_text(spec.to_xml())
    meshes = build_plant(contract, path, bundle / "robot.xml", gait=True)
    with pytest.raises(ModelError, match=r"foot 'LF_FOOT' has a collision shape of type mjGEOM_MESH.*sphere, capsule"):
        plan(bundle, contract, meshes, conditions_of(contract))


def test_the_same_physics_gives_the_same_trajectory(bundle, contract, plant):
    conditions = conditions_of(contract)
    ours = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 3), conditions)
    walk = plan(bundle, contract, plant, conditions)
    theirs = trajectory_of(MujocoAsEngine(plant).record(walk), conditions, contract, plant)
    assert (ours.fall_step == -1).all() and ours.feet is not None and theirs.feet is not None
    for name in ("start_pos", "base_pos", "base_quat", "lin_vel", "ang_vel", "joint_pos", "joint_vel", "torque"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), atol=1e-4, err_msg=name)
    for name in ("alive", "fall_step", "command", "push", "mass", "foot_contact"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name), err_msg=name)
    assert theirs.feet.names == ours.feet.names and theirs.feet.dt == ours.feet.dt
    np.testing.assert_array_equal(theirs.feet.contact, ours.feet.contact)
    for name in ("clearance", "normal_force", "horizontal_force"):
        found, known = getattr(theirs.feet, name), getattr(ours.feet, name)
        np.testing.assert_allclose(found[1:], known[1:], atol=1e-3, err_msg=name)
    np.testing.assert_allclose(theirs.feet.slip[1:], ours.feet.slip[1:], atol=0.02)
    metrics = compute_metrics(theirs, contract)
    assert metrics["falls"] == 0.0 and metrics["lin_vel_error"] < 0.2


def recorded(plant: Plant, contract: Contract, steps: int = 4, robots: int = 2) -> dict[str, np.ndarray]:
    """Robots that stand in the air at their initial height."""
    joints, feet, physics = contract.num_joints, len(plant.foot_names), steps * plant.decimation
    upright = np.array([1.0, 0.0, 0.0, 0.0])
    still = {
        "joint_pos": joints, "joint_vel": joints, "base_pos": 3, "lin_vel": 3, "ang_vel": 3, "torque": joints,
        "target": joints, "press": len(plant.fall_bodies),
    }  # fmt: skip
    found = {name: np.zeros((steps, robots, width), np.float32) for name, width in still.items()}
    found["base_pos"][..., 2] = plant.start_height
    found["base_quat"] = np.tile(upright, (steps, robots, 1))
    found["foot_quat"] = np.tile(upright, (physics, robots, feet, 1))
    for name in ("pos", "lin_vel", "ang_vel", "force"):
        found[f"foot_{name}"] = np.zeros((physics, robots, feet, 3), np.float32)
    return found


@pytest.mark.parametrize(
    ("name", "index", "value", "cause"),
    [
        ("press", (2, 1, 0), 5.0, "contact: "),
        ("base_pos", (2, 1, 2), 0.1, "base height"),
        ("base_quat", (2, 1), [0.0, 1.0, 0.0, 0.0], "base tilt"),
        ("target", (2, 1, 3), np.nan, "policy not finite"),
        ("joint_vel", (2, 1, 3), np.nan, "physics diverged"),
    ],
)
def test_a_fall_is_a_fall_in_every_engine(contract, plant, name, index, value, cause):
    conditions = conditions_of(contract, replace(STANDING, envs=2, seconds=0.08))
    values = recorded(plant, contract)
    values[name][index] = value
    found = trajectory_of(values, conditions, contract, plant)
    assert found.fall_step.tolist() == [-1, 2] and found.fall_cause[0] == "" and found.fall_cause[1].startswith(cause)
    assert found.alive[:, 0].all() and found.alive[:, 1].tolist() == [True, True, True, False]
    assert np.isfinite(found.target).all() and np.isfinite(found.joint_vel).all()
    assert not found.base_pos[3, 1].any()  # nothing is kept of what is after the fall


def test_a_plan_has_all_that_an_engine_must_know(bundle, contract, plant):
    conditions = conditions_of(contract)
    walk = plan(bundle, contract, plant, conditions)
    assert (walk.physics_dt, walk.decimation, walk.friction) == (0.005, 4, 0.8)
    assert walk.body_names[0] == "base" and [foot[0] for foot in walk.feet] == list(plant.foot_names)
    assert "base" in walk.fall_bodies
    np.testing.assert_allclose(walk.start["base_pos"][:, 2], plant.start_height)
    np.testing.assert_allclose(yaw_of(walk.start["base_quat"]), conditions.yaw, atol=1e-6)
    limits = np.array(contract.joint_pos_limits)
    assert (walk.start["joint_pos"] >= limits[:, 0]).all() and (walk.start["joint_pos"] <= limits[:, 1]).all()


@pytest.mark.parametrize(
    "change", [{"push": 0.5}, {"payload": (1.0, 1.0)}, {"friction": (0.5, 0.5)}, {"stressors": (SensorNoise(),)}]
)
def test_what_only_mujoco_can_do_is_refused(bundle, contract, plant, change):
    scenario = replace(STANDING, seconds=4.0, **change)
    with pytest.raises(ValueError, match="without disturbances"):
        plan(bundle, contract, plant, conditions_of(contract, scenario))


def test_scenarios_walk_side_by_side_and_are_taken_apart_again(contract, plant):
    short = conditions_of(contract, replace(STANDING, envs=2, seconds=0.04, commands="random"))
    long = conditions_of(contract, replace(STANDING, envs=3, seconds=0.08, commands="random"))
    both = together([short, long])
    assert both.command.shape == (4, 5, 3) and both.push.shape == (4, 5, 2) and both.joint_offset.shape == (5, 12)
    np.testing.assert_array_equal(both.command[:2, :2], short.command)
    np.testing.assert_array_equal(both.command[3, :2], short.command[1])
    np.testing.assert_array_equal(both.yaw[2:], long.yaw)
    values = recorded(plant, contract, steps=4, robots=5)
    first = part(values, slice(0, 2), 2, plant.decimation)
    assert first["base_pos"].shape == (2, 2, 3) and first["foot_pos"].shape == (2 * plant.decimation, 2, 4, 3)
    assert trajectory_of(first, short, contract, plant).alive.shape == (2, 2)
