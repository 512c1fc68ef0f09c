"""Limits and checks: each is provoked at its edge, and no command ever asks for more torque than there may be."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Health, Signals
from gaitway_onboard.safety.checks import TRIPS, SafetyFilter
from gaitway_onboard.safety.clamp import Clamp
from gaitway_onboard.safety.gains import standing_gains
from gaitway_onboard.safety.limits import LimitError, SafetyLimits, parse_limits
from gaitway_tasks.robots.go2 import GO2
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tree import ROOT

JOINTS = 4
EFFORT = np.array([23.7, 45.43, 80.0, 0.5])
LOW, HIGH = np.array([-1.0, -3.0, 0.2, -0.1]), np.array([1.0, -0.5, 2.0, 0.1])


def numbers(low: float, high: float) -> Any:
    return st.floats(low, high, width=32)


def vector(*choices: Any) -> Any:
    return arrays(np.float64, JOINTS, elements=st.one_of(*choices))


STATES = vector(numbers(-4.0, 4.0), numbers(-1e6, 1e6))
SPEEDS = vector(numbers(-40.0, 40.0), numbers(-1e6, 1e6), st.just(0.0))
GAINS = vector(numbers(0.0, 500.0), numbers(0.0, 1e7), st.just(0.0))
TARGETS = vector(numbers(-5.0, 5.0), st.floats(allow_nan=True, allow_infinity=True))


@settings(max_examples=300)
@given(targets=TARGETS, pos=STATES, vel=SPEEDS, kp=GAINS, kd=GAINS)
def test_the_torque_of_a_command_is_within_the_limit_whatever_is_asked(
    targets: np.ndarray, pos: np.ndarray, vel: np.ndarray, kp: np.ndarray, kd: np.ndarray
) -> None:
    command = Clamp(EFFORT, LOW, HIGH).command(targets, pos, vel, kp, kd)
    sent = command.targets, command.stiffness, command.damping
    assert all(numbers.dtype == np.float32 and np.isfinite(numbers).all() for numbers in sent)
    wanted, stiffness, damping = (numbers.astype(float) for numbers in sent)
    assert (np.abs(stiffness * (wanted - pos) - damping * vel) <= EFFORT).all()
    assert (stiffness <= np.float32(kp)).all() and (damping <= np.float32(kd)).all()
    inside = (pos >= LOW) & (pos <= HIGH)
    assert ((wanted >= LOW - 1e-6) & (wanted <= HIGH + 1e-6))[inside].all()


@given(targets=vector(numbers(-5.0, 5.0)), pos=vector(numbers(-3.0, 3.0)), vel=vector(numbers(-30.0, 30.0)))
def test_what_is_harmless_passes_unchanged(targets: np.ndarray, pos: np.ndarray, vel: np.ndarray) -> None:
    kp, kd = np.full(JOINTS, 25.0), np.full(JOINTS, 0.5)
    command = Clamp(EFFORT, LOW, HIGH).command(targets, pos, vel, kp, kd)
    torque = np.abs(kp * (targets - pos) - kd * vel)
    harmless = (torque < 0.999 * EFFORT) & (targets >= LOW) & (targets <= HIGH) & (kd * np.abs(vel) < 0.999 * EFFORT)
    np.testing.assert_allclose(command.targets[harmless], targets[harmless], rtol=1e-6)
    assert command.clamped or harmless.all() or np.allclose(command.targets, targets, atol=1e-4)
    if harmless.all():
        assert not command.clamped and (command.damping == np.float32(0.5)).all()


@given(pos=STATES, vel=SPEEDS, kd=GAINS)
def test_damping_holds_no_position_and_stays_within_the_limit(pos: np.ndarray, vel: np.ndarray, kd: np.ndarray) -> None:
    command = Clamp(EFFORT, LOW, HIGH).damp(pos, vel, kd)
    assert not command.stiffness.any() and np.isfinite(command.targets).all()
    assert (np.abs(command.damping.astype(float) * vel) <= EFFORT).all()
    if (kd * np.abs(vel) < 0.999 * EFFORT).all():
        assert not command.clamped and (command.damping == np.float32(kd)).all()


def test_a_joint_beyond_its_range_is_pulled_back_with_its_limit_at_most() -> None:
    command = Clamp(EFFORT, LOW, HIGH).command(
        np.full(4, 0.5), np.array([1.1, -0.4, 2.1, 0.15]), np.zeros(4), np.full(4, 800.0), np.zeros(4)
    )
    np.testing.assert_allclose(800.0 * (command.targets - [1.1, -0.4, 2.1, 0.15]), -EFFORT, rtol=1e-3)


@pytest.fixture
def contract(exported: Any) -> Contract:
    return Contract.load(exported)


def state(contract: Contract, now: float = 0.0, **changes: Any) -> Signals:
    default = np.array(contract.default_joint_pos)
    return dataclasses.replace(
        Signals(default, np.zeros(12), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), now), **changes
    )


def judge(contract: Contract, **changes: Any) -> str | None:
    """Name of the fault of one state that came just now."""
    fault = SafetyFilter(contract, contract.joint_names, SafetyLimits()).fault(state(contract, **changes), 0.0)
    return fault.name if fault is not None else None


def with_one(array: np.ndarray, value: float) -> np.ndarray:
    return np.r_[array[:-1], value]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"stamp": -0.019}, None),
        ({"stamp": -0.021}, "state_age"),
        ({"stamp": np.nan}, "state_age"),
        ({"imu_quat_wxyz": np.zeros(4)}, "imu"),
        ({"imu_quat_wxyz": np.array([np.nan, 0.0, 0.0, 1.0])}, "imu"),
        ({"gyro": np.array([0.0, np.inf, 0.0])}, "imu"),
        ({"imu_quat_wxyz": np.array([np.cos(0.49), 0.0, np.sin(0.49), 0.0])}, None),
        ({"imu_quat_wxyz": np.array([np.cos(0.51), 0.0, np.sin(0.51), 0.0])}, "tilt"),
        ({"imu_quat_wxyz": np.array([np.cos(1.5), 0.0, 0.0, np.sin(1.5)])}, None),  # only turned
        ({"joint_vel": with_one(np.zeros(12), -29.9)}, None),
        ({"joint_vel": with_one(np.zeros(12), -30.1)}, "joint_velocity"),
        ({"joint_vel": with_one(np.zeros(12), np.nan)}, "not_finite"),
        ({"joint_pos": with_one(np.zeros(12), np.nan)}, "not_finite"),
        ({"joint_pos": with_one(np.zeros(12), np.inf)}, "not_finite"),
        ({"health": Health(other_writers=("someone",))}, "second_writer"),
        ({"health": Health(other_sources=("someone",))}, "second_state_writer"),
        ({"health": Health(taken_by="normal")}, "taken_back"),
        ({"health": Health(behind=0.049)}, None),
        ({"health": Health(behind=0.051)}, "tick_back"),
        ({"health": Health(motor_temperature=with_one(np.full(12, 30.0), 79.0), battery=0.11)}, None),
        ({"health": Health(motor_temperature=with_one(np.full(12, 30.0), 81.0))}, "temperature"),
        ({"health": Health(motor_temperature=with_one(np.full(12, 30.0), np.nan))}, "temperature"),
        ({"health": Health(battery=0.09)}, "battery"),
        ({"health": Health(battery=np.nan)}, "battery"),
    ],
)
def test_one_state_is_judged(contract: Contract, changes: dict[str, Any], fault: str | None) -> None:
    assert judge(contract, **changes) == fault
    assert fault is None or fault in TRIPS


def test_joint_ranges_have_a_margin(contract: Contract) -> None:
    low, high = contract.joint_pos_limits[0]
    default = np.array(contract.default_joint_pos)
    for value, fault in ((low - 0.09, None), (low - 0.11, "joint_limit"), (high + 0.11, "joint_limit")):
        assert judge(contract, joint_pos=np.r_[value, default[1:]]) == fault


def play(contract: Contract, healths: list[Health], period: float = 0.002) -> list[str | None]:
    """Names of the faults of states that come one after another."""
    safety = SafetyFilter(contract, contract.joint_names, SafetyLimits())
    names = []
    for number, health in enumerate(healths):
        now = number * period
        fault = safety.fault(state(contract, now, health=health), now)
        names.append(fault.name if fault is not None else None)
    return names


def test_a_tick_that_stands_still_is_an_old_state(contract: Contract) -> None:
    names = play(contract, [Health(tick=min(number, 10)) for number in range(30)])
    assert names[:21] == 21 * [None] and names[21:] == 9 * ["frozen_tick"]  # 20 ms after the last that moved
    assert play(contract, 30 * [Health(tick=0)]) == 30 * [None]  # robots that do not count
    assert play(contract, 30 * [Health()]) == 30 * [None]


def test_wrong_checksums_trip_before_the_silence_that_they_cause(contract: Contract) -> None:
    names = play(contract, [Health(corrupt=max(0, number - 5)) for number in range(20)])
    assert names.index("checksum") == 11  # the sixth
    now_and_then = [Health(corrupt=number // 250) for number in range(5000)]  # two in a second
    assert set(play(contract, now_and_then)) == {None}


def test_motors_may_lose_a_message_now_and_then(contract: Contract) -> None:
    lost = np.zeros(12, int)
    before = [Health(motor_lost=lost + 1000)]  # since the robot was switched on
    assert set(play(contract, before * 10)) == {None}
    names = play(contract, before + [Health(motor_lost=lost + 1000 + number) for number in range(5)])
    assert names[-1] == "motor_lost"
    assert set(play(contract, [Health(motor_lost=with_one(lost, number // 200)) for number in range(3000)])) == {None}


def test_the_robots_own_limits_count_where_they_are_stricter(exported: Any) -> None:
    assert GO2.hardware is not None
    anymal = Contract.load(exported)
    contract = dataclasses.replace(
        anymal,
        joint_names=GO2.joint_names,
        default_joint_pos=GO2.default_joint_pos,
        joint_pos_limits=GO2.joint_limits,
        actuators=(dataclasses.replace(anymal.actuators[0], joints=GO2.joint_names, effort_limit=30.0),),
    )
    safety = SafetyFilter(contract, GO2.hardware.joint_names, SafetyLimits(), GO2.hardware)
    np.testing.assert_allclose(safety.effort_limit, 4 * [23.7, 23.7, 30.0])
    np.testing.assert_allclose(safety.max_vel, 4 * [30.0, 30.0, 1.2 * 15.7])
    stiffness, damping = standing_gains(contract, GO2.hardware.joint_names, GO2.hardware)
    assert (stiffness <= 80.0).all() and ((damping >= 3.0) & (damping <= 5.0)).all()


def test_nonsense_and_jumps_of_a_policy(contract: Contract) -> None:
    safety = SafetyFilter(contract, contract.joint_names, SafetyLimits(max_target_rate=10.0))
    default = safety.default
    assert safety.nonsense(default + 9.9) is None
    for value in (10.1, -1e30, np.nan, np.inf):
        fault = safety.nonsense(with_one(default, default[-1] + value))
        assert fault is not None and fault.name == "policy_output" and contract.joint_names[-1] in fault.text
    limited, cut = safety.limit_rate(default + 1.0, default)
    assert cut and np.allclose(limited, default + 0.2)  # 10 rad/s for 20 ms
    limited, cut = safety.limit_rate(default - 0.1, default)
    assert not cut and np.allclose(limited, default - 0.1)


def test_limits_are_read_strictly() -> None:
    assert parse_limits(["max_tilt=0.6", "max_overruns=3"]) == SafetyLimits(max_tilt=0.6, max_overruns=3)
    assert parse_limits([]) == SafetyLimits()
    for setting, message in {
        "max_tild=1": "write NAME=VALUE with one of max_state_age, ",
        "max_tilt": "write NAME=VALUE",
        "max_tilt=steep": "'steep' is not a number",
        "max_tilt=nan": "max_tilt = nan: give a number of at least zero",
        "max_joint_vel=-1": "max_joint_vel = -1.0",
        "max_state_age=0": "above zero",
        "max_state_age=1000": "max_state_age = 1000: give at most 0.5 s, beyond which",
        "max_tilt=1e300": r"max_tilt = 1e\+300: give at most 1.5 rad",
        "min_battery=0.04": "min_battery = 0.04: give at least 0.05, .* the default is 0.1",
    }.items():
        with pytest.raises(LimitError, match=message):
            parse_limits([setting])


def caps() -> dict[str, float]:
    return {field.name: field.metadata["cap"] for field in dataclasses.fields(SafetyLimits)}


@pytest.mark.hostile("deployment")
def test_no_limit_can_be_taken_away() -> None:
    """Each has a cap, itself allowed and named as looser; what lies beyond is refused, whoever asks."""
    limits = SafetyLimits(**caps())
    said = limits.loosened()
    assert len(said) == len(caps()) and SafetyLimits().loosened() == ()
    assert said[0] == "max_state_age is loosened to 0.5 s, the default is 0.02"
    for name, cap in caps().items():
        assert any(line.startswith(f"{name} is loosened to {cap:g}") for line in said)
        default = getattr(SafetyLimits(), name)
        stricter, beyond = default - (cap - default) / 1e3, cap + (cap - default) / 1e3
        assert SafetyLimits(**{name: stricter}).loosened() == ()
        with pytest.raises(LimitError, match=f"{name} = .*: give at .* {cap:g}"):
            SafetyLimits(**{name: beyond})


@pytest.mark.hostile("deployment")
def test_a_robot_that_fell_silent_is_not_driven_for_long_whatever_is_allowed(contract: Contract) -> None:
    """The state that stands still is half a second old at most, by its stamp and by the robot's tick."""
    limits = SafetyLimits(**caps())
    for stamp in (lambda now: 0.0, lambda now: now):
        safety = SafetyFilter(contract, contract.joint_names, limits)
        times = np.arange(0.0, 3.0, 0.002)
        faults = [safety.fault(state(contract, stamp=stamp(now), health=Health(tick=7)), now) for now in times]
        first = next(now for now, fault in zip(times, faults, strict=True) if fault is not None)
        assert first < 0.51


def page_of_trips() -> str:
    return (ROOT / "docs" / "trips.md").read_text("utf-8")


def test_the_page_has_every_check() -> None:
    page = page_of_trips()
    assert [name for name in TRIPS if f"\n| {name} |" not in page] == []


def test_the_page_has_every_limit_as_it_is() -> None:
    page = page_of_trips()
    table = page[page.index("\n| limit |") : page.index("### Torque")]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.strip().splitlines()[2:]]
    fields = dataclasses.fields(SafetyLimits)

    def shown(field: dataclasses.Field[Any], value: float) -> str:
        return f"{value:g} {field.metadata['unit']}".strip()

    wanted = [[field.name, shown(field, field.default), shown(field, field.metadata["cap"])] for field in fields]
    assert rows == wanted


# ---- the robot's clock, and what a joint can do in a time of it ----------------------------------------------------


def states(
    contract: Contract, ticks: Any, *, late: Any = 0.0, pos: Any = 0.0, rate: float | None = 1000.0
) -> list[Any]:
    """Names of the faults of states with these ticks, each ``late`` [s], with every joint ``pos`` off the default."""
    safety = SafetyFilter(contract, contract.joint_names, SafetyLimits(max_speed_error=10.0))
    names = []
    ticks = np.asarray(ticks)
    arrivals = np.maximum.accumulate(1e-3 * np.arange(0, 2 * len(ticks), 2) + late)  # they do not overtake each other
    for tick, now, offset in zip(ticks, arrivals, np.broadcast_to(pos, len(ticks)), strict=True):
        default = np.array(contract.default_joint_pos) + offset
        health = Health(tick=int(tick), tick_rate=rate)
        fault = safety.fault(state(contract, now, joint_pos=default, stamp=now, health=health), now)
        names.append(fault.name if fault is not None else None)
    return names


EVEN = np.arange(2, 5_002, 2)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.85, 1.15, 1.5, 3.0])
def test_a_clock_that_runs_at_another_rate(contract: Contract, share: float) -> None:
    names = states(contract, 2 + np.arange(0, 5_000, 2) * share if share else EVEN // 200)
    assert "clock" not in names[:50]
    if share == 0.0:
        assert {"frozen_tick"} <= set(names)
    elif share < 1.0:  # one that is slow looks as if its states came later and later
        assert {None, "state_age"} <= set(names) <= {None, "state_age", "clock"}
        assert names.index("state_age") == pytest.approx(0.02 / (1.0 - share) / 0.002, abs=2.0 / (1.0 - share))
    else:
        assert set(names) == {None, "clock"} and "clock" in names[: round(1000 * 0.3 / (share - 1.0))]


@pytest.mark.parametrize("share", [0.9995, 1.0, 1.05])
def test_a_clock_that_is_a_little_off_is_no_reason(contract: Contract, share: float) -> None:
    rng = np.random.default_rng(0)
    ticks = np.rint(2 + np.arange(0, 5_000, 2) * share)
    assert set(states(contract, ticks, late=0.015 * rng.random(len(ticks)))) == {None}


def test_a_clock_that_jumps(contract: Contract) -> None:
    names = states(contract, EVEN + np.where(EVEN > 4000, 300, 0))
    assert names.index("clock") == 2000 and names[2001:] == 499 * [None], "and goes on from there"
    assert set(states(contract, EVEN + np.where(EVEN > 4000, 300, 0), rate=None)) == {None}, "of a rate not known"
    assert set(states(contract, (EVEN + (1 << 32) - 6000) % (1 << 32))) == {None}, "32 bits begin anew"


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.floats(0.0, 0.2), jitter=st.floats(0.0, 0.015))
def test_joints_at_full_speed_do_not_jump_whatever_is_lost_or_late(
    exported: Any, seed: int, loss: float, jitter: float
) -> None:
    contract, rng = Contract.load(exported), np.random.default_rng(seed)
    position = 0.3 * np.sin(100.0 * 1e-3 * EVEN[:500])  # up to 30 rad/s, the limit
    kept = rng.random(500) >= loss
    late = jitter * rng.random(500)
    noise = 0.01 * rng.standard_normal(500)
    names = states(contract, EVEN[:500][kept], late=late[kept], pos=(position + noise)[kept])
    assert "joint_jump" not in names


@pytest.mark.parametrize(("jump", "missed", "fault"), [
    (0.15, 0, None), (0.18, 0, "joint_jump"), (0.3, 4, None), (0.45, 4, "joint_jump"), (-1.15, 0, "joint_jump"),
])  # fmt: skip
def test_a_joint_that_jumps_further_than_it_can_turn(
    contract: Contract, jump: float, missed: int, fault: str | None
) -> None:
    ticks = np.r_[EVEN[:100], EVEN[100 + missed : 200 + missed]]
    names = states(contract, ticks, pos=np.where(np.arange(200) < 100, -0.5 * jump, 0.5 * jump))
    assert names[100] == fault and set(names[:100]) == {None}
    # Its speed said nothing of a jump, and is not believed for as long as that is remembered.
    assert set(names[101:]) == {None} or (abs(jump) > 1.0 and set(names[101:150]) <= {None, "joint_inconsistent"})


def test_without_a_clock_a_jump_is_what_no_late_state_explains(contract: Contract) -> None:
    jumps = {
        jump: states(contract, 100 * [0], pos=np.where(np.arange(100) < 50, -0.5 * jump, 0.5 * jump))[50]
        for jump in (0.5, 0.9)
    }
    assert jumps == {0.5: None, 0.9: "joint_jump"}
