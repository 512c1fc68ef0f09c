"""Recordings of the feet at every physics step, against the known motion of the robots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.mujoco.plant import NOMINAL_PHYSICS, Physics, Plant, build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial import validate_bundle
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_tasks.ground import Slope
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_velocity.gait import mirrored_feet
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

STANDING = Scenario(name="s", title="", about="", limits=(), envs=3, seconds=2.0, commands="standing", gait=True)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def contract(bundle: Path) -> Contract:
    return Contract.load(bundle)


def plant_of(bundle: Path, model: Path | None = None, **changes: object) -> Plant:
    own = bundle / "robot.xml"
    return build_plant(Contract.load(bundle), model or own, own, gait=True, **changes)


def stand(bundle: Path, plant: Plant, scenario: Scenario = STANDING) -> Trajectory:
    contract = Contract.load(bundle)
    conditions = SUITE.draw(scenario, contract, 0)
    return simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs), conditions)


@pytest.mark.parametrize(("slope", "physics"), [(0.0, NOMINAL_PHYSICS), (0.0, FIRM), (0.15, FIRM)])
def test_standing_feet_carry_the_weight_and_do_not_move(bundle: Path, slope: float, physics: Physics) -> None:
    plant = plant_of(bundle, ground=Slope(angle=slope), physics=physics)
    feet = stand(bundle, plant).feet
    assert feet is not None and feet.dt == physics.timestep and feet.names == plant.foot_names
    assert feet.contact.shape == (2.0 / feet.dt, 3, 4) and feet.decimation * feet.dt == pytest.approx(0.02)
    end = slice(-round(0.2 / feet.dt), None)
    weight = plant.mass * 9.81
    assert feet.contact[end].all() and (np.abs(feet.clearance[end]) < 0.02).all() and (feet.slip[end] < 0.02).all()
    np.testing.assert_allclose(feet.normal_force[end].sum(-1).mean(), weight * np.cos(slope), rtol=0.02)
    assert feet.clearance.max() > 0  # they start a little above the ground


def test_recording_changes_nothing(bundle: Path, contract: Contract) -> None:
    own = bundle / "robot.xml"
    with_feet = stand(bundle, plant_of(bundle, physics=FIRM))
    without = stand(bundle, build_plant(contract, own, own, physics=FIRM))
    assert without.feet is None
    np.testing.assert_array_equal(with_feet.joint_pos, without.joint_pos)
    np.testing.assert_array_equal(with_feet.base_pos, without.base_pos)


def test_the_plant_knows_where_its_feet_are(bundle: Path) -> None:
    plant = plant_of(bundle)
    forward, left = plant.foot_places.T
    names = np.array(plant.foot_names)
    assert set(names[(forward > 0) & (left > 0)]) == {"LF_FOOT"} and set(names[forward < 0]) == {"LH_FOOT", "RH_FOOT"}
    assert 0.5 < plant.stand_height < 0.6


SHAPES = {
    "sphere": {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [0.03, 0, 0]},
    "capsule": {"type": mujoco.mjtGeom.mjGEOM_CAPSULE, "size": [0.02, 0.04, 0]},
    "box": {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": [0.05, 0.03, 0.02]},
    "cylinder": {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "size": [0.03, 0.02, 0]},
    "mesh": {"type": mujoco.mjtGeom.mjGEOM_MESH, "meshname": "tetrahedron"},
}


def lowest(shape: str, normal: np.ndarray) -> float:
    """Reach of a shape from its centre along minus ``normal``, given in the shape's frame [m]."""
    size = np.array(SHAPES[shape].get("size", [0, 0, 0]))
    across = np.hypot(normal[0], normal[1])
    return {
        "sphere": size[0],
        "capsule": size[0] + size[1] * abs(normal[2]),
        "box": size @ np.abs(normal),
        "cylinder": size[0] * across + size[1] * abs(normal[2]),
        "mesh": 0.0,
    }[shape]


@pytest.mark.parametrize("slope", [0.0, 0.2])
@pytest.mark.parametrize("shape", ["sphere", "capsule", "box", "cylinder", "mesh"])
def test_clearance_is_that_of_the_lowest_point(bundle: Path, tmp_path: Path, shape: str, slope: float) -> None:
    spec = mujoco.MjSpec.from_file(str(bundle / "robot.xml"))
    spec.add_mesh(name="tetrahedron", uservert=[0, 0, 0, 0.04, 0, 0, 0, 0.04, 0, 0, 0, 0.04])
    for name in ("LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"):
        for geom in list(spec.body(name).geoms):
            spec.delete(geom)
        spec.body(name).add_geom(contype=1, conaffinity=1, mass=0, **SHAPES[shape])
    spec.compile()
    path = tmp_path / "feet.xml"
    path.write_text(spec.to_xml())
    plant = plant_of(bundle, path, ground=Slope(angle=slope))
    robots = RobotBatch(plant, Contract.load(bundle), 2, 1)
    robots.place(yaw=np.array([0.3, 2.0]), joint_offset=np.full((2, 12), 0.04), velocity=np.zeros((2, 2)))
    robots.qpos[:, 2] += [0.1, 0.3]
    robots.step(1)
    measured = robots.measure_feet(robots.foot_readings)
    assert not measured["contact"].any() and not measured["slip"].any()
    up = np.array([-np.sin(slope), 0.0, np.cos(slope)])
    data = mujoco.MjData(plant.model)
    robots.place(yaw=np.array([0.3, 2.0]), joint_offset=np.full((2, 12), 0.04), velocity=np.zeros((2, 2)))
    for n, lift in enumerate([0.1, 0.3]):
        data.qpos[:] = robots.qpos[n]
        data.qpos[2] += lift
        mujoco.mj_forward(plant.model, data)
        for f, name in enumerate(plant.foot_names):
            (geom,) = np.flatnonzero(plant.model.geom_bodyid == plant.model.body(name).id)
            centre, turn = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
            if shape == "mesh":
                first = plant.model.mesh_vertadr[plant.model.geom_dataid[geom]]
                corners = plant.model.mesh_vert[first : first + 4] @ turn.T + centre
                expected = (corners @ up).min()
            else:
                expected = centre @ up - lowest(shape, turn.T @ up)
            assert measured["clearance"][n, f] == pytest.approx(expected, abs=1e-5)


def test_slip_is_the_speed_of_the_sole_over_the_ground(bundle: Path) -> None:
    """A robot pushed along on ice: the soles, which slowly splay forward and backward, move along with the base."""
    plant = plant_of(bundle, physics=FIRM)
    robots = RobotBatch(plant, Contract.load(bundle), 1, 1)
    robots.randomise(friction=np.full(1, 0.01), payload=np.zeros(1), strength=np.ones(1))
    robots.place(yaw=np.zeros(1), joint_offset=np.zeros((1, 12)), velocity=np.zeros((1, 2)))
    for _ in range(200):
        robots.step(1)
    robots.qvel[:, plant.base_dof] += 0.5
    robots.step(1)
    robots.step(1)
    measured = robots.measure_feet(robots.foot_readings)
    assert measured["contact"].all()
    assert measured["slip"].mean() == pytest.approx(0.5, abs=0.01)
    assert (measured["horizontal_force"] <= 0.0101 * measured["normal_force"] + 1e-6).all()


def test_a_foot_without_a_shape_is_refused_before_anything_is_run(bundle: Path, tmp_path: Path) -> None:
    spec = mujoco.MjSpec.from_file(str(bundle / "robot.xml"))
    for name in ("RF_FOOT", "RF_SHANK"):
        for geom in spec.body(name).geoms:
            geom.contype = geom.conaffinity = 0
    spec.compile()
    path = tmp_path / "bare.xml"
    path.write_text(spec.to_xml())
    message = (
        r"bare\.xml: found 3 feet \(LF_SHANK, LH_SHANK, RH_SHANK\), and the contract has 4 \(LF_FOOT, .*\); no shape "
        "that can touch the ground on: RF_SHANK: name the feet like the contract's, and give each a collision geom"
    )
    with pytest.raises(ModelError, match=message):
        validate_bundle(bundle, model=path, report_dir=tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_feet_without_shapes_of_their_own_are_those_of_the_last_links(bundle: Path, tmp_path: Path) -> None:
    spec = mujoco.MjSpec.from_file(str(bundle / "robot.xml"))
    for leg in ("LF", "LH", "RF", "RH"):
        for geom in list(spec.body(f"{leg}_FOOT").geoms):
            geom.contype = geom.conaffinity = 0
        spec.body(f"{leg}_SHANK").add_geom(size=[0.03, 0, 0], pos=spec.body(f"{leg}_FOOT").pos, mass=0)
    spec.compile()
    path = tmp_path / "shanks.xml"
    path.write_text(spec.to_xml())
    assert plant_of(bundle, path).foot_names == ("LF_SHANK", "LH_SHANK", "RF_SHANK", "RH_SHANK")
    assert plant_of(bundle, path, ground=Slope(angle=0.17)).foot_names[0] == "LF_SHANK"


@pytest.mark.parametrize("name", ["h1", "g1", "go2", "anymal-d"])
def test_feet_of_other_robots(name: str, tmp_path: Path) -> None:
    """Under another name too: hands and arms are no feet."""
    robot = ROBOTS[name]
    bundle = make_stand_bundle(tmp_path / "bundle", robot)
    spec = mujoco.MjSpec.from_file(str(bundle / "robot.xml"))
    base = next(body for body in spec.worldbody.bodies if body.joints).name
    contract = replace(Contract.load(bundle), base_body=base)
    own = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", gait=True)
    assert own.foot_names == robot.foot_names and 0.4 < own.stand_height / robot.init_height < 1.1
    left, right = mirrored_feet(own.foot_places)
    assert sorted([*left, *right]) == list(range(len(robot.foot_names)))
    np.testing.assert_allclose(own.foot_places[left], own.foot_places[right] * [1, -1], atol=0.02)
    for foot in robot.foot_names:
        spec.body(foot).name = f"renamed_{foot}"
    spec.compile()
    path = tmp_path / "renamed.xml"
    path.write_text(spec.to_xml())
    renamed = build_plant(contract, path, bundle / "robot.xml", gait=True)
    assert len(renamed.foot_names) == len(robot.foot_names)
    np.testing.assert_allclose(renamed.stand_height, own.stand_height, atol=1e-6)
    assert (np.sign(renamed.foot_places[:, 1]) == np.sign(own.foot_places[:, 1])).all()
