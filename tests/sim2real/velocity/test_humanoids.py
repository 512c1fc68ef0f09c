"""Robots with soles, arms and hands: what is found of them, how they stand and fall, and what they are asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_from_axis, quat_mul
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.plant import Plant, build_plant
from gaitway_sim2real.mujoco.robots import CONTACT_FORCE, RobotBatch
from gaitway_sim2real.trial import Verdict, report, validate_bundle
from gaitway_sim2real.trial.judging import usable
from gaitway_sim2real.trial.needs import by_reason
from gaitway_sim2real.trial.running import Plants
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_tasks.robots import ROBOTS
from gaitway_velocity.limits import FALLS_5
from gaitway_velocity.needs import NEEDS, Subject
from gaitway_velocity.rest import rest_metrics
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from recording import recording
from stand_bundle import make_stand_bundle

HUMANOIDS = ("h1", "g1-29dof")
WITH_FINGERS = "g1"
STANDING = Scenario(name="s", title="", about="", limits=(), envs=3, seconds=3.0, commands="standing")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Robots whose joints are held as stiffly as a statue's."""
    folder = tmp_path_factory.mktemp("stand")

    def make(name: str) -> Path:
        bundle = make_stand_bundle(
            folder / name, ROBOTS[name], stiffness=3000.0, damping=100.0, speed=0.5, effort_limit=5000.0
        )
        contract = Contract.load(bundle)
        replace(contract, base_body=ROBOTS[name].base_name).save(bundle)
        return bundle

    return {name: make(name) for name in (*HUMANOIDS, WITH_FINGERS, "anymal-c")}


def plant_of(bundle: Path, contract: Contract | None = None) -> Plant:
    own = bundle / "robot.xml"
    return build_plant(contract or Contract.load(bundle), own, own, gait=True)


@pytest.mark.parametrize(("name", "ends"), [("h1", (-0.10, 0.20)), ("g1-29dof", (-0.05, 0.12))])
def test_soles_arms_and_hands_are_found(bundles: dict[str, Path], name: str, ends: tuple[float, float]) -> None:
    plant, joints = plant_of(bundles[name]), ROBOTS[name].joint_names
    assert plant.has_soles
    for sole in plant.foot_soles:
        np.testing.assert_allclose([sole.heel @ sole.forward, sole.toe @ sole.forward], ends, atol=2e-3)
    assert [hand.split("_")[0] for hand in plant.hands] == ["left", "right"]
    for arm in plant.arms:
        (shoulder, forward), (hip, _) = arm.joints
        side = arm.hand.split("_")[0]
        assert joints[shoulder].startswith(f"{side}_shoulder_pitch") and "hip_pitch" in joints[hip]
        assert not joints[hip].startswith(side) and forward == -1.0  # a larger angle swings it backward
    assert len(plant.arms) == 2
    quadruped = plant_of(bundles["anymal-c"])
    assert not quadruped.has_soles and quadruped.hands == () == quadruped.arms


def test_fingers_are_of_one_arm(bundles: dict[str, Path]) -> None:
    plant, joints = plant_of(bundles[WITH_FINGERS]), ROBOTS[WITH_FINGERS].joint_names
    assert len(plant.hands) > 2
    assert [joints[arm.joints[0][0]] for arm in plant.arms] == [
        "left_shoulder_pitch_joint", "right_shoulder_pitch_joint"
    ]  # fmt: skip


@pytest.mark.parametrize("name", HUMANOIDS)
@pytest.mark.parametrize(("lean", "heel", "toe"), [(0.15, False, True), (0.0, True, True), (-0.15, True, False)])
def test_heel_and_toe_are_told_apart(bundles: dict[str, Path], name: str, lean: float, heel: bool, toe: bool) -> None:
    """A statue that leans forward, stands, or leans back, turned by any heading, set down on the ground."""
    bundle = bundles[name]
    plant, contract = plant_of(bundle), Contract.load(bundle)
    robots = RobotBatch(plant, contract, 2, 1)
    yaw = np.array([0.4, 2.5])
    robots.place(yaw=yaw, joint_offset=np.zeros((2, contract.num_joints)), velocity=np.zeros((2, 2)))
    robots.qpos[:, 3:7] = quat_mul(quat_from_axis(2, yaw), quat_from_axis(1, np.full(2, lean)))
    robots.qpos[:, 2] += 0.2
    robots.batch.forward()
    robots.qpos[:, 2] -= robots.measure_feet(robots.foot_readings)["clearance"].min(1) + 0.005
    robots.qvel[:] = 0.0
    robots.batch.forward()
    measured = robots.measure_feet(robots.foot_readings)
    assert measured["contact"].all()
    assert (measured["heel"] == heel).all() and (measured["toe"] == toe).all()
    np.testing.assert_allclose(measured["left"], np.tile(plant.foot_places[:, 1], (2, 1)), atol=2e-3)


def pressure(plant: Plant, contract: Contract, way: float) -> tuple[float, float]:
    """A statue is pushed forward (1.0) or back (-1.0) ever harder: how far ahead of the ankles the centre of pressure
    gets [m], and how far it leant when that was at nine tenths of its way from the middle [rad]."""
    model, data = plant.model, mujoco.MjData(plant.model)
    data.qpos[plant.base_qpos + 2], data.qpos[plant.base_qpos + 3] = plant.stand_height, 1.0
    data.qpos[plant.joint_qpos] = data.ctrl[:] = contract.default_joint_pos
    weight, force, found = plant.mass * 9.81, np.zeros(6), []
    for step in range(round(16.0 / model.opt.timestep)):
        data.xfrc_applied[plant.base_body, 0] = 0.02 * way * weight * step * model.opt.timestep
        mujoco.mj_step(model, data)
        up = data.xmat[plant.base_body].reshape(3, 3)[2, 2]
        if up < 0.95:
            break
        loads = []
        for number, contact in enumerate(data.contact):
            mujoco.mj_contactForce(model, data, number, force)
            loads.append((force[0], contact.pos[0]))
        load, place = np.array(loads or [(0.0, 0.0)]).T
        ankles = np.mean([data.body(foot).xpos[0] for foot in plant.foot_names])
        found.append(((load @ place) / max(load.sum(), 1e-9) - ankles, np.arccos(min(up, 1.0))))
    assert up < 0.95  # it has fallen
    path, leans = np.array(found).T
    path = np.convolve(path, np.full(20, 0.05), "valid")  # of 0.1 s
    middle = path[:20].mean()
    furthest = path[np.argmax(way * path)]
    return furthest, leans[np.argmax(way * (path - middle) > 0.9 * way * (furthest - middle))]


@pytest.mark.parametrize("name", HUMANOIDS)
def test_the_centre_of_pressure_moves_from_heel_to_toe(bundles: dict[str, Path], name: str) -> None:
    plant, contract = plant_of(bundles[name]), Contract.load(bundles[name])
    sole = plant.foot_soles[0]
    for way, end in ((1.0, sole.toe), (-1.0, sole.heel)):
        furthest, lean = pressure(plant, contract, way)
        assert furthest == pytest.approx(end @ sole.forward, abs=0.1 * sole.length) and lean < 0.1


def fallen(bundle: Path, contract: Contract, **changes: float) -> Trajectory:
    scenario = replace(STANDING, **changes)
    conditions = SUITE.draw(scenario, contract, 0)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs)
    return simulate(plant_of(bundle, contract), contract, policy, conditions)


@pytest.mark.parametrize("name", HUMANOIDS)
def test_a_statue_stands_and_one_that_goes_limp_falls(bundles: dict[str, Path], name: str) -> None:
    bundle, contract = bundles[name], Contract.load(bundles[name])
    still = fallen(bundle, contract)
    assert (still.fall_step == -1).all()
    assert still.hands is not None and rest_metrics(still, contract)["hand_drift"].max() < 1e-3
    limp = tuple(replace(actuator, stiffness=1.0, damping=1.0) for actuator in contract.actuators)
    rec = fallen(bundle, replace(contract, actuators=limp))
    assert (rec.fall_step > 0).all() and (rec.fall_step < 2.0 / 0.02).all()
    allowed = {f"contact: {body}" for body in plant_of(bundle).fall_bodies} | {"base tilt", "base height"}
    assert set(rec.fall_cause) <= allowed


@pytest.mark.parametrize("name", HUMANOIDS)
def test_every_way_down_is_a_fall(bundles: dict[str, Path], name: str) -> None:
    """A statue that is tipped over any edge, and one that is set down on its knees; a hand alone is no fall."""
    bundle = bundles[name]
    contract, plant = Contract.load(bundle), plant_of(bundle)
    robots = RobotBatch(plant, contract, 5, 1)
    n = contract.num_joints
    robots.place(yaw=np.zeros(5), joint_offset=np.zeros((5, n)), velocity=np.zeros((5, 2)))
    robots.qvel[:4, plant.base_dof + 3 : plant.base_dof + 5] = [[0, 3], [0, -3], [3, 0], [-3, 0]]  # [rad/s]
    robots.qpos[4, 2] -= plant.start_height / 2 + 0.05
    for joint, k in zip(contract.joint_names, plant.joint_qpos, strict=True):
        if "knee" in joint:
            robots.qpos[4, k] = 1.6
            robots.ctrl[4, contract.joint_names.index(joint)] = 1.6
    first: dict[int, str] = {}
    for _ in range(round(3.0 / plant.model.opt.timestep)):
        robots.step(1)
        for who, cause in robots.falls():
            for k in np.flatnonzero(who):
                first.setdefault(int(k), cause)
    assert sorted(first) == [0, 1, 2, 3, 4]
    assert not any(hand in cause for hand in plant.hands for cause in first.values())
    assert CONTACT_FORCE == 1.0 and first[4].startswith(("contact: ", "base height"))


def test_hands_drift_at_rest(bundles: dict[str, Path]) -> None:
    """Two hands, of which one circles at 1 cm and one is still, in a base's frame."""
    time = np.arange(300) * 0.02
    hands = np.zeros((300, 1, 2, 3))
    hands[:, 0, 0, 0], hands[:, 0, 0, 2] = 0.3 + 0.01 * np.cos(np.pi * time), 0.01 * np.sin(np.pi * time)
    hands[:100, 0, 0] += 5.0  # while it settles
    contract = Contract.load(bundles["anymal-c"])
    rec = recording(steps=300, robots=1, hands=hands)
    assert rest_metrics(rec, contract)["hand_drift"][0] == pytest.approx(0.01 / np.sqrt(2), rel=1e-3)


def test_two_feet_have_their_own_clearance_and_four_feet_keep_theirs(bundles: dict[str, Path]) -> None:
    for name, share in (("h1", 0.02), ("g1-29dof", 0.02), ("anymal-c", 0.06)):
        contract, model = Contract.load(bundles[name]), bundles[name] / "robot.xml"
        plants = Plants(contract, model, model)
        kept, _ = usable(SUITE, [s for s in SCENARIOS if s.name == "gait_turning"], contract, plants)
        (limit,) = [limit for limit in kept[0].limits if limit.metric == "clearance"]
        assert limit.value == share * plants.get().stand_height and limit.at_least


def test_two_feet_may_sway_but_must_follow_on_average(bundles: dict[str, Path]) -> None:
    for name, linear in (("h1", 0.20), ("anymal-c", 0.15)):
        contract, model = Contract.load(bundles[name]), bundles[name] / "robot.xml"
        chosen = [s for s in SCENARIOS if s.name in ("command_grid", "nominal", "gait_turning")]
        kept, _ = usable(SUITE, chosen, contract, Plants(contract, model, model))
        limits = [{limit.metric: limit.value for limit in scenario.limits} for scenario in kept]
        assert [limit["lin_vel_error"] for limit in limits] == [linear, 0.2, linear]
        assert limits[0]["lin_vel_bias"] == limits[2]["lin_vel_bias"] == 0.05
        assert all(len(scenario.limits) == len({limit.metric for limit in scenario.limits}) for scenario in kept)


def test_what_is_left_out_is_told_in_the_verdict_and_on_the_page(bundles: dict[str, Path], tmp_path: Path) -> None:
    chosen = (
        *(s for s in SCENARIOS if s.name == "foot_worn"),
        replace(STANDING, name="wave", title="Waves", seconds=0.5, limits=(FALLS_5,), needs=("arms", "two feet")),
    )
    model = bundles["anymal-c"] / "robot.xml"
    contract = Contract.load(bundles["anymal-c"])
    kept, left_out = usable(SUITE, chosen, contract, Plants(contract, model, model))
    assert [scenario.name for scenario in kept] == ["foot_worn"]
    (waves,) = [row for row in left_out if row.kind == "scenario"]
    assert waves.what == "Waves" and waves.why == f"{NEEDS['arms'].why}, and {NEEDS['two feet'].why}"
    verdict = validate_bundle(bundles["h1"], scenarios=chosen, processes=1)
    assert [result.name for result in verdict.scenarios] == ["wave"]
    assert {row.what for row in verdict.left_out} == {"Worn feet"}
    assert "worn feet" in verdict.summary()
    loaded = Verdict.load(verdict.save(tmp_path / "v.json"))
    assert loaded == verdict and json.loads((tmp_path / "v.json").read_text())["left_out"][0]["what"] == "Worn feet"
    _, table = report._left_out(verdict)
    assert table.rows[0][:2] == ["Scenarios", "Worn feet"] and "altered" in table.rows[0][2]


def test_a_need_that_nobody_knows_is_named() -> None:
    subject = Subject(ranges=np.zeros((3, 2)), feet=2)
    with pytest.raises(UserError, match="scenario 's' needs 'wings', which the suite has not; it knows"):
        replace(SUITE, scenarios=(replace(STANDING, needs=("wings",)),))
    assert not SUITE.unmet(("two feet", "zero command"), subject) and SUITE.unmet(("velocity command",), subject)
    assert by_reason([]) == {}
