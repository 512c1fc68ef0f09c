"""Small commands: planted dead zones, slopes and jumps are found; robots are driven to waypoints; arms move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_from_axis
from gaitway_sim2real.trial import running
from gaitway_sim2real.trial.commands import Told
from gaitway_sim2real.trial.evidence import Evidence
from gaitway_sim2real.trial.needs import unmet
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_sim2real.trial.tally import Tally, measured
from gaitway_tasks.robots import ROBOTS
from gaitway_velocity.arms import PERIOD, SHARE, ArmsMoved, arm_joints
from gaitway_velocity.needs import NEEDS, Subject
from gaitway_velocity.response import AXES, FINE, LEVELS, RESPONSES, Response, dead_zone, jump, levels, slopes
from gaitway_velocity.small_commands import SMALL_COMMANDS, dead_zones
from gaitway_velocity.small_section import response_map
from gaitway_velocity.suite import SUITE
from gaitway_velocity.waypoints import MOST, PATIENCE, Course, Waypoints, ahead, ideal_time, seen_from, waypoint_samples
from recording import recording
from stand_bundle import make_stand_bundle

from gaitway.demo import BUNDLES

DEMO = BUNDLES / "anymal-c"
DT = 0.02
SCENARIO = {scenario.name: scenario for scenario in SMALL_COMMANDS}
RANGES = np.array([[-1.0, 1.0], [-0.5, 0.5], [-1.0, 1.0]])


def swept(name: str, answer: Any, sweeps: int = 4) -> Trajectory:
    """Robots whose velocity along one axis is the function ``answer`` of their command, with a sway about it."""
    scenario = replace(SCENARIO[name], envs=sweeps * LEVELS)
    told = Told(ranges=RANGES, still=np.zeros(3), control_dt=DT)
    command = RESPONSES[name].draw(scenario, told, np.random.default_rng(0))
    steps, robots = command.shape[:2]
    index, time = AXES[name].index, DT * np.arange(steps)[:, None]
    mean = answer(command[0, :, index])
    moving = mean + 0.3 * np.sin(2 * np.pi * 1.3 * time)
    lin_vel, quat = np.zeros((steps, robots, 3)), np.zeros((steps, robots, 4))
    quat[..., 0] = 1.0
    if index == 2:
        quat = quat_from_axis(2, np.cumsum(moving, 0) * DT)
    else:
        lin_vel[..., index] = moving
    return recording(steps=steps, robots=robots, command=command, lin_vel=lin_vel, base_quat=quat)


def judged(rec: Trajectory, name: str) -> Any:
    contract = Contract.load(DEMO)
    tally = Tally(SUITE, SCENARIO[name], contract)
    tally.add(measured(SUITE, SCENARIO[name], rec, contract), 0, 0)
    return tally.result()


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("width", [0.1, 0.2, 0.25])
def test_a_planted_dead_zone_is_found_with_its_width(name: str, width: float) -> None:
    result = judged(swept(name, lambda c: np.where(np.abs(c) > width, c, 0.0)), name)
    prefix = AXES[name].prefix
    assert result.metrics[f"{prefix}dead_zone"] == pytest.approx(width, abs=FINE / 2)
    assert result.metrics[f"{prefix}response_jump"] == pytest.approx(width, abs=FINE)  # from 0 to the command
    check = next(check for check in result.checks if check.metric.name.endswith("dead_zone"))
    assert check.passed == (width <= 0.1)
    (said,) = dead_zones([result])
    assert said.startswith(f"{AXES[name].name} is ignored for |command| <= ") and f"{check.value:.2f}" in said


def test_a_robot_that_follows_passes_and_one_that_answers_too_little_does_not() -> None:
    good = judged(swept("response_vx", lambda c: c), "response_vx")
    assert good.passed and good.metrics["dead_zone"] == 0.0 and good.metrics["slope_error"] < 0.02
    assert dead_zones([good]) == []
    weak = judged(swept("response_vx", lambda c: np.where(c > 0, 0.6 * c, c)), "response_vx")
    assert weak.metrics["slope_error"] == pytest.approx(0.4, abs=0.02)
    assert [check.metric.name for check in weak.checks if not check.passed] == ["slope_error"]


def test_each_side_has_a_zone_and_a_slope() -> None:
    told = levels(RANGES[0])
    answer = np.where(told < 0, 0.5 * told, np.where(told > 0.15, told + 0.2, 0.0))
    assert dead_zone(told, answer) == pytest.approx((0.0, 0.15))
    assert slopes(told, answer)[0] == pytest.approx(0.5)
    assert jump(told, answer) == pytest.approx(0.325)  # 0 at 0.125, 0.375 at 0.175
    assert dead_zone(told, np.zeros(LEVELS)) == pytest.approx((1.0, 1.0))  # nothing is answered


def test_what_is_not_known_is_no_answer_and_no_zone() -> None:
    told = levels(RANGES[0])
    answer = np.zeros(LEVELS)
    answer[told == 0.125] = np.nan
    assert dead_zone(told, answer)[1] == pytest.approx(0.1)
    rec = swept("response_vx", lambda c: c)
    rec.alive[50:, 3] = False
    response = Response.of(rec, AXES["response_vx"])
    assert np.isnan(response.answer[0, 3]) and np.isfinite(response.answer[1]).all()
    assert np.isfinite(response.measure()["response_jump"]).all()


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 2.0), (-0.3, 0.3), (-0.02, 0.8)])
def test_commands_of_a_sweep_stay_in_the_range_and_are_fine_near_zero(ends: tuple[float, float]) -> None:
    found = levels(np.array(ends))
    assert len(found) == LEVELS and found.min() >= ends[0] and found.max() == ends[1] and (found == 0).any()
    small = found[np.abs(found) <= 0.3]
    assert (np.diff(small) > 0).all() and np.diff(small).max() <= FINE + 1e-9


def test_what_they_need() -> None:
    def lacking(ranges: np.ndarray, **body: bool) -> list[str]:
        subject = Subject(ranges=ranges, feet=2, **body)
        needs = {name: (*SUITE.kinds[s.commands].needs, *s.needs) for name, s in SCENARIO.items()}
        return [name for name in SCENARIO if unmet(needs[name], subject, NEEDS)]

    assert lacking(RANGES, arms=True) == []
    assert lacking(RANGES) == ["arms_moved"]
    assert lacking(np.array([[0.0, 1.0], [0.0, 0.0], [-1.0, 1.0]]), arms=True) == ["response_vy", "tour"]
    assert lacking(np.array([[0.3, 1.0], [-1.0, 1.0], [-0.1, 0.1]]), arms=True) == [
        "response_vx", "response_yaw", "tour",
    ]  # fmt: skip


def test_a_map_is_drawn_with_its_zone() -> None:
    rec = swept("response_vx", lambda c: np.where(np.abs(c) > 0.2, c, 0.0))
    svg, words = response_map(Response.of(rec, AXES["response_vx"]), AXES["response_vx"])
    assert 'class="mode damp"' in svg and "vx is ignored for |command| <= 0.20 m/s" in words
    evidence = Evidence()
    evidence.add(SUITE.evidence(SCENARIO["response_vx"], rec))
    evidence.add(SUITE.evidence(replace(SCENARIO["response_vx"], commands="response_vy"), rec))
    assert set(evidence.own) == {"response_vx", "response_vy"}


# ---- the tour ---------------------------------------------------------------------------------------------------


def test_poses_are_seen_from_where_they_were_put() -> None:
    rng = np.random.default_rng(0)
    pose, step = rng.uniform(-3.0, 3.0, (2, 20, 3))
    assert seen_from(pose, ahead(pose, step)) == pytest.approx(step)
    assert ideal_time(np.array([0.04, 0.1, 0.5]), 0.05, 0.3)[1:] == pytest.approx(
        [np.log(2) / 2, 0.35 / 0.3 + np.log(3) / 2]
    )


class Cart:
    """Robots that follow every command above ``deaf`` at once, in place of a simulation."""

    def __init__(self, n: int, deaf: float = 0.0) -> None:
        self.contract, self.mass, self.deaf = Contract.load(DEMO), np.ones(n), deaf
        self.pose = np.zeros((n, 3))

    def base_pos(self) -> np.ndarray:
        return self.pose

    def base_quat(self) -> np.ndarray:
        return quat_from_axis(2, self.pose[:, 2])

    def drive(self, seconds: float) -> Trajectory:
        tour = Waypoints()
        kept: Course = tour.start(self, np.random.default_rng(0))
        zeros = np.zeros((len(self.mass), 3))
        for _ in range(round(seconds / self.contract.control_dt)):
            told = tour.told(zeros, self, kept)
            assert (np.abs(told) <= 0.3 + 1e-9).all()
            heard = np.where(np.abs(told) > self.deaf, told, 0.0)
            self.pose = ahead(self.pose, heard * self.contract.control_dt)
        return recording(robots=len(self.mass), noted=tour.noted(kept))


def test_a_cart_reaches_every_waypoint_in_the_ideal_time() -> None:
    found = waypoint_samples(Cart(8).drive(30.0))
    assert found["waypoints"].value == 1.0 and len(found["waypoints"].values) > 8 * 10
    assert abs(found["time_lost"].value) < 0.1


def test_a_deaf_cart_misses_those_it_stops_before() -> None:
    found = waypoint_samples(Cart(8, deaf=0.2).drive(30.0))
    assert found["waypoints"].value < 0.7 and found["time_lost"].value > 2.0
    assert found["time_lost"].value < PATIENCE
    assert np.isnan(waypoint_samples(recording())["waypoints"].value)


# ---- simulated --------------------------------------------------------------------------------------------------


def run(bundle: Path, scenario: Scenario) -> Trajectory:
    contract = Contract.load(bundle)
    plants = running.Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    return running.run_scenario(SUITE, bundle, contract, plants, scenario, 0)


def test_the_demo_robot_answers_and_is_driven() -> None:
    rec = run(DEMO, replace(SCENARIO["response_vx"], envs=LEVELS, seconds=4.0))
    response = Response.of(rec, AXES["response_vx"])
    assert response.answer[0, -1] == pytest.approx(1.0, abs=0.05)  # ... and it stands still when told 0.075 m/s
    assert dead_zone(response.told, response.answer[0]) == pytest.approx((0.1, 0.1))
    toured = run(DEMO, replace(SCENARIO["tour"], envs=4, seconds=4.0))
    time = toured.noted["waypoint_time"]
    assert time.shape == (MOST, 4) and (np.isfinite(time).sum(0) >= 1).all()
    assert toured.of(slice(1, 3)).noted["waypoint_time"].shape == (MOST, 2)


@pytest.fixture(scope="module")
def statue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An H1 that holds its default pose stiffly."""
    folder = tmp_path_factory.mktemp("h1")
    stiff = {"stiffness": 3000.0, "damping": 100.0, "speed": 0.5, "effort_limit": 5000.0}
    bundle = make_stand_bundle(folder, ROBOTS["h1"], **stiff)
    replace(Contract.load(bundle), base_body=ROBOTS["h1"].base_name).save(bundle)
    return bundle


def test_arms_move_and_nothing_else_does(statue: Path) -> None:
    contract = Contract.load(statue)
    still = run(statue, replace(SCENARIO["arms_moved"], envs=2, seconds=PERIOD, commands="standing", stressors=()))
    moved = run(statue, replace(SCENARIO["arms_moved"], envs=2, seconds=PERIOD, commands="standing"))
    plant = running.Plants(contract, statue / "robot.xml", statue / "robot.xml").get()
    arms = arm_joints(plant, contract.joint_names)
    names = [contract.joint_names[joint] for joint in arms]
    assert names and not any(part in name for name in names for part in ("hip", "knee", "ankle", "torso", "waist"))
    assert (moved.target == still.target).all()  # the policy knows nothing of it
    last = np.abs(moved.joint_pos - still.joint_pos)[-1]
    assert last[:, arms].max() > 0.1 and np.delete(last, arms, 1).max() < 0.05


def test_targets_of_arms_are_smooth_and_in_their_range(statue: Path) -> None:
    contract = Contract.load(statue)
    world = SimpleNamespace(
        contract=contract, plant=running.Plants(contract, statue / "robot.xml", statue / "robot.xml").get()
    )
    stressor, pose = ArmsMoved(), np.tile(contract.default_joint_pos, (3, 1))
    kept = stressor.start(world, np.random.default_rng(0))
    told = np.array([stressor.driven(pose, world, kept) for _ in range(400)])
    own, others = told[..., kept.joints] - pose[0, kept.joints], np.delete(told - pose, kept.joints, 2)
    ends = np.array(contract.soft_joint_pos_limits())[kept.joints] - pose[0, kept.joints, None]
    assert not others.any() and (own[0] == 0.0).all()
    assert (own >= SHARE * ends[:, 0] - 1e-9).all() and (own <= SHARE * ends[:, 1] + 1e-9).all()
    speed = np.abs(np.diff(own, axis=0)) / contract.control_dt
    assert (speed <= np.pi / 2 / PERIOD * SHARE * np.ptp(ends, 1) + 1e-9).all() and speed.max() > 0.1
