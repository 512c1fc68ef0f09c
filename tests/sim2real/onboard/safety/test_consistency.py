"""Sensors and drives that lie, each within its range: what is noticed, how soon, and what honest noise is not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Health, Signals
from gaitway_onboard.rotation import quat_conjugate, quat_from_rpy
from gaitway_onboard.safety.checks import SafetyFilter
from gaitway_onboard.safety.clamp import Command
from gaitway_onboard.safety.limits import SafetyLimits
from hypothesis import given, settings
from hypothesis import strategies as st

DT, LIES = 0.002, 0.5
"""Of a state, and when the lies begin [s]."""
Lie = Callable[[Signals, Signals, float], None]
"""Change of a reading, given the one of the moment the lie began, and the time since then [s]."""


class Walker:
    """A robot that sways and swings its legs as told, from which honest readings of every sensor follow."""

    def __init__(
        self, contract: Contract, *, still: bool = False, noise: float = 1.0, loss: float = 0.0, seed: int = 0
    ):
        self.contract, self.size, self.noise, self.loss = contract, 0.0 if still else 1.0, noise, loss
        self.rng = np.random.default_rng(seed)
        self.safety = SafetyFilter(contract, contract.joint_names, SafetyLimits())
        self.kp, self.kd = np.array(contract.per_joint("stiffness")), np.array(contract.per_joint("damping"))
        self.torque = 0.4 * np.array(contract.per_joint("effort_limit"))
        self.begun: Signals | None = None

    def reading(self, time: float) -> Signals:
        """A step of 2 Hz: rolls and pitches of 0.05 rad, joints that move by 0.3 rad."""

        random, phase, quiet = self.rng.standard_normal, 4.0 * np.pi * time, self.noise
        quat, gyro, force = _swayed(self.size, time)
        return Signals(
            joint_pos=np.array(self.contract.default_joint_pos)
            + 0.3 * self.size * np.sin(phase) + quiet * 1e-3 * random(12),
            joint_vel=0.3 * self.size * 4.0 * np.pi * np.cos(phase) * np.ones(12) + quiet * 0.1 * random(12),
            imu_quat_wxyz=_multiply(quat, np.r_[1.0, quiet * 5e-4 * random(3)]),
            gyro=gyro + quiet * 0.03 * random(3),
            stamp=time,
            accelerometer=force + quiet * 0.3 * random(3),
            joint_torque=self.torque * np.ones(12) * (np.cos(phase) if self.size else 1.0) + quiet * 0.3 * random(12),
            health=Health(tick=round(1e3 * time), tick_rate=1e3),
        )  # fmt: skip

    def walk(
        self,
        seconds: float,
        lie: Lie | None = None,
        late: Callable[[float], float] = lambda time: 0.0,
        tells: bool = True,
    ) -> Any:
        """Name of the first fault and when it came after :data:`LIES`, or None. ``tells``: its torque."""
        for step in range(1, round((LIES + seconds) / DT)):
            if self.rng.random() < self.loss:
                continue
            time = 10.0 + step * DT
            signals = self.reading(time)
            told, since = signals.joint_torque.copy(), time - 10.0 - LIES
            if not tells:
                signals.joint_torque = None
            if since >= 0.0 and lie is not None:
                self.begun = self.begun or self.reading(time)
                lie(signals, self.begun, since)
            signals.stamp = now = time + (late(since) if since >= 0.0 else 0.0)
            if (fault := self.safety.fault(signals, now)) is not None:
                return fault.name, since
            self.safety.sent(self.command(signals, told))
        return None

    def command(self, signals: Signals, torque: np.ndarray) -> Command:
        """Command that asks for ``torque`` in the next state."""
        targets = signals.joint_pos + (torque + self.kd * signals.joint_vel) / self.kp
        return Command(targets, self.kp, self.kd, False)


@functools.cache
def _swayed(size: float, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orientation, turning [rad/s] and what an accelerometer feels [m/s^2] of a base that sways."""

    def quat(t: float) -> np.ndarray:
        phase = 4.0 * np.pi * t
        return quat_from_rpy(size * np.array([0.05 * np.sin(phase), 0.05 * np.sin(2 * phase), 0.5 * t]))

    phase = 4.0 * np.pi * time
    change = _multiply(quat_conjugate(quat(time - 1e-4)), quat(time + 1e-4))
    w, x, y, z = quat(time)
    up = 9.81 * np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])
    return quat(time), change[1:] / 1e-4, up + 2.0 * size * np.array([np.sin(phase), 0.0, np.cos(phase)])


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (w, x, y, z), (e, f, g, h) = a, b
    product = np.array([
        w * e - x * f - y * g - z * h, w * f + x * e + y * h - z * g,
        w * g - x * h + y * e + z * f, w * h + x * g - y * f + z * e,
    ])  # fmt: skip
    return product / np.linalg.norm(product)


@pytest.fixture(scope="module")
def contract(exported: Path) -> Contract:
    return Contract.load(exported)


@pytest.mark.parametrize("still", [False, True], ids=["walking", "standing"])
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_an_honest_robot_is_believed(contract: Contract, still: bool, noise: float) -> None:
    assert Walker(contract, still=still, noise=noise).walk(3.0) is None


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.floats(0.0, 0.3), jitter=st.floats(0.0, 0.015))
def test_whatever_is_lost_or_late(exported: Path, seed: int, loss: float, jitter: float) -> None:
    walker = Walker(Contract.load(exported), loss=loss, seed=seed)
    assert walker.walk(1.0, late=lambda since: jitter * walker.rng.random()) is None


def negated(signals: Signals, begun: Signals, since: float) -> None:
    signals.gyro = -signals.gyro


def spinning(signals: Signals, begun: Signals, since: float) -> None:
    signals.gyro = signals.gyro + np.array([0.0, 0.0, 50.0])


def conjugated(signals: Signals, begun: Signals, since: float) -> None:
    signals.imu_quat_wxyz = quat_conjugate(signals.imu_quat_wxyz)


def leaning(signals: Signals, begun: Signals, since: float) -> None:
    signals.imu_quat_wxyz = _multiply(signals.imu_quat_wxyz, quat_from_rpy(np.array([0.0, 0.1 * since, 0.0])))


def hung(signals: Signals, begun: Signals, since: float) -> None:
    signals.gyro, signals.imu_quat_wxyz, signals.accelerometer = begun.gyro, begun.imu_quat_wxyz, begun.accelerometer


def one_joint(signals: Signals, begun: Signals, since: float) -> None:
    signals.joint_pos[3], signals.joint_vel[3] = begun.joint_pos[3], begun.joint_vel[3]


def positions(signals: Signals, begun: Signals, since: float) -> None:
    signals.joint_pos = begun.joint_pos.copy()


def speeds(signals: Signals, begun: Signals, since: float) -> None:
    signals.joint_vel = np.zeros(12)


def dead(signals: Signals, begun: Signals, since: float) -> None:
    signals.joint_torque = np.zeros(12)


def one_dead(signals: Signals, begun: Signals, since: float) -> None:
    assert signals.joint_torque is not None
    signals.joint_torque[7] = 0.0


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize(("lie", "still", "name", "within"), [
    (negated, False, "imu_inconsistent", 0.5),
    (spinning, False, "imu_inconsistent", 0.02),
    (spinning, True, "imu_inconsistent", 0.02),
    (conjugated, False, "imu_inconsistent", 0.5),
    (leaning, False, "imu_inconsistent", 4.5),
    (leaning, True, "imu_inconsistent", 4.5),
    (hung, False, "frozen_sensor", 0.06),
    (hung, True, "frozen_sensor", 0.06),
    (one_joint, False, "frozen_sensor", 0.06),
    (one_joint, True, "frozen_sensor", 0.06),
    (positions, False, "joint_inconsistent", 0.3),
    (positions, True, "frozen_sensor", 0.06),
    (speeds, True, "frozen_sensor", 0.06),
    (dead, False, "not_following", 0.3),
    (one_dead, False, "not_following", 0.3),
])  # fmt: skip
def test_a_lie_is_noticed(contract: Contract, lie: Lie, still: bool, name: str, within: float) -> None:
    found = Walker(contract, still=still).walk(within + 0.5, lie)
    assert found is not None and found[0] == name and 0.0 <= found[1] <= within


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize(("growth", "within"), [(0.09, 0.25), (0.005, 6.0)])
def test_states_that_grow_old_are_noticed_although_each_is_fresh(
    contract: Contract, growth: float, within: float
) -> None:
    found = Walker(contract).walk(within, late=lambda since: growth * since)
    assert found is not None and found[0] == "state_age" and found[1] * growth <= 0.027


@pytest.mark.parametrize(("share", "tells", "trips"), [(0.55, False, True), (0.55, True, False), (0.95, True, True)])
def test_a_drive_that_is_told_too_much_for_long_does_not_get_there(
    contract: Contract, share: float, tells: bool, trips: bool
) -> None:
    """One that says that it gives what it is told is believed for longer."""
    walker = Walker(contract, still=True)
    walker.torque = share * np.array(contract.per_joint("effort_limit"))
    _edit(walker, lambda signals: setattr(signals, "joint_torque", walker.torque.copy()))
    found = walker.walk(1.0, tells=tells)
    assert (found is not None) == trips and (found is None or found[0] == "not_following")


def _edit(walker: Walker, change: Callable[[Signals], None]) -> None:
    read = walker.reading

    def reading(time: float) -> Signals:
        signals = read(time)
        change(signals)
        return signals

    walker.reading = reading


@pytest.mark.parametrize("value", [None, 0.0, np.nan])
def test_what_a_robot_does_not_tell_is_not_judged(contract: Contract, value: float | None) -> None:
    walker = Walker(contract)
    _edit(walker, lambda signals: setattr(signals, "accelerometer", None if value is None else np.full(3, value)))
    assert walker.walk(1.0, tells=False) is None


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("value", [None, np.nan])
def test_a_torque_that_is_told_no_more_is_noticed(contract: Contract, value: float | None) -> None:
    def silent(signals: Signals, begun: Signals, since: float) -> None:
        signals.joint_torque = None if value is None else np.full(12, value)

    assert Walker(contract).walk(1.0, silent) == ("not_finite", 0.0)


def test_a_pause_begins_anew(contract: Contract) -> None:
    """States that come after a gap, as when a cable was out, are not compared with those before it."""
    walker = Walker(contract)
    assert walker.walk(0.5) is None
    later = walker.reading(20.0)
    later.gyro = later.gyro + 30.0
    assert walker.safety.fault(later, 20.0) is None or walker.safety.fault(later, 20.0).name != "imu_inconsistent"


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_an_accelerometer_that_falls_silent_is_named(contract: Contract, value: float) -> None:
    def dead(signals: Signals, begun: Signals, since: float) -> None:
        signals.accelerometer = np.full(3, value)

    fault = Walker(contract).walk(1.0, dead)
    assert fault == ("imu", pytest.approx(0.05, abs=0.01))


@pytest.mark.parametrize(("seconds", "named"), [(0.15, False), (0.6, True)])
def test_a_fall_is_named_and_a_leap_is_not(contract: Contract, seconds: float, named: bool) -> None:
    def flies(signals: Signals, begun: Signals, since: float) -> None:
        if since % 1.0 < seconds:
            signals.accelerometer = signals.accelerometer - signals.accelerometer.round(0)

    fault = Walker(contract).walk(1.5, flies)
    assert (fault is not None) == named
    if fault is not None:
        assert fault[0] == "falling" and fault[1] < 0.5
