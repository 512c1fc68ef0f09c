"""The safety filter between a policy and simulated robots: what it lets through, cuts off and stops, and who counts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.safety.clamp import Clamp
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.trial.guards import Guards
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_velocity.metrics import measure
from gaitway_velocity.rough import ROUGH
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

ROBOTS = 3


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def contract(bundle: Path) -> Contract:
    return Contract.load(bundle)


def at_rest(contract: Contract) -> dict[str, np.ndarray]:
    return {
        "joint_pos": np.tile(contract.default_joint_pos, (ROBOTS, 1)),
        "joint_vel": np.zeros((ROBOTS, contract.num_joints)),
        "imu_quat_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (ROBOTS, 1)),
        "gyro": np.zeros((ROBOTS, 3)),
    }


def test_each_robot_is_sent_what_the_clamp_of_a_robot_sends(contract: Contract) -> None:
    signals, everyone = at_rest(contract), np.arange(ROBOTS)
    targets = signals["joint_pos"].copy()
    targets[1, 0] += 0.9  # within a period's 1.2 rad, beyond the effort limit or the range
    guards = Guards(contract, ROBOTS)
    guards.look(signals, np.zeros_like(targets), 0.0, everyone)
    sent, cut = guards.follow(targets, signals, everyone)
    assert cut.tolist() == [False, True, False] and guards.faults == [None] * ROBOTS
    low, high = np.array(contract.joint_pos_limits).T
    clamp = Clamp(np.array(contract.per_joint("effort_limit")), low, high)
    gains = [np.array(contract.per_joint(name)) for name in ("stiffness", "damping")]
    for i in everyone:
        alone = clamp.command(targets[i], signals["joint_pos"][i], signals["joint_vel"][i], *gains)
        assert (sent[i] == alone.targets).all()


def test_targets_that_jump_are_cut_to_the_controllers_rate(contract: Contract) -> None:
    signals, everyone = at_rest(contract), np.arange(ROBOTS)
    guards = Guards(contract, ROBOTS)
    targets = signals["joint_pos"] + 3.0
    _, cut = guards.follow(targets, signals, everyone)
    assert cut.all() and guards._goal == pytest.approx(signals["joint_pos"] + 60.0 * contract.control_dt)


def test_a_faulty_robot_stops_and_the_others_go_on(contract: Contract) -> None:
    signals, everyone = at_rest(contract), np.arange(ROBOTS)
    guards = Guards(contract, ROBOTS)
    signals["imu_quat_wxyz"][0] = [math.cos(0.6), math.sin(0.6), 0.0, 0.0]
    wild = signals["joint_pos"].copy()
    wild[2, 3] += 50.0
    guards.look(signals, np.zeros_like(wild), 0.0, everyone)
    sent, cut = guards.follow(wild, signals, everyone)
    names = [None if fault is None else fault.name for fault in guards.faults]
    assert names == ["tilt", None, "policy_output"] and not cut.any()
    assert sent == pytest.approx(wild)  # float32 goes on the wire


class Held:
    """A policy whose first robot pulls one joint with all it has; the others stand."""

    def __init__(self, contract: Contract, joint: int, by: float):
        self.estimates: dict[str, np.ndarray] = {}
        self.targets = np.tile(np.array(contract.default_joint_pos, np.float32), (ROBOTS, 1))
        self.targets[0, joint] += by

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return self.targets, self.targets


def pulled(bundle: Path, contract: Contract, *, guarded: bool, strength: float = 1.0) -> Trajectory:
    """Robots with weak or strong motors, of which the first is told to fold its knee."""
    scenario = Scenario(
        name="s", title="", about="", limits=(), commands="standing", envs=ROBOTS, seconds=1.0, guarded=guarded,
        strength=(strength, strength),
    )  # fmt: skip
    conditions = SUITE.draw(scenario, contract, 0)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    knee = next(i for i, name in enumerate(contract.joint_names) if "KFE" in name or "calf" in name)
    return simulate(plant, contract, Held(contract, knee, 1.1), replace(conditions, velocity=np.zeros((ROBOTS, 2))))


def test_a_robot_whose_drives_do_not_follow_is_stopped_and_counts_as_fallen(bundle: Path, contract: Contract) -> None:
    strong, weak = (pulled(bundle, contract, guarded=True, strength=share) for share in (1.0, 0.2))
    assert strong.cut is not None and strong.cut[:, 0].any() and not strong.cut[:, 1:].any()
    assert weak.fall_cause[0] == "stopped: not_following" and 0 < weak.fall_step[0] < 25
    found = measure(weak, contract)
    assert found["falls"].value > 0.0 and found["cut"].kind == "mean" and 0.0 < found["cut"].value < 1.0


def test_without_a_filter_nothing_is_cut(bundle: Path, contract: Contract) -> None:
    free = pulled(bundle, contract, guarded=False, strength=0.2)
    assert free.cut is None and not any("stopped" in cause for cause in free.fall_cause)
    assert math.isnan(measure(free, contract)["cut"].value)


def test_rungs_are_walked_behind_the_filter_and_the_suite_is_not() -> None:
    assert all(rung.guarded for rung in ROUGH) and not any(scenario.guarded for scenario in SCENARIOS)
