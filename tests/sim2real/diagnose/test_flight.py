"""Diagnosis of flights: a walk of the twin, into whose columns or twin a fault is put."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.flight.reading import Columns, Flight, read_flight
from gaitway_onboard.rotation import quat_mul
from gaitway_sim2real.diagnose import flight as flights
from gaitway_sim2real.diagnose.drive_law import fit_drive_law, misfits
from gaitway_sim2real.diagnose.flight import diagnose_flight
from gaitway_sim2real.diagnose.load_causes import explain_loads
from gaitway_sim2real.diagnose.loads import Loads, turn
from gaitway_sim2real.diagnose.readings import read_readings
from gaitway_sim2real.diagnose.recorded import Recorded, recorded
from gaitway_sim2real.diagnose.simulated import fly
from gaitway_sim2real.diagnose.symptoms import Symptoms, is_matched
from gaitway_sim2real.digital_twin.quirks import SENSORS, Quirks
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.hardware import HARDWARE
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from stand_bundle import make_stand_bundle

import gaitway
from gaitway.cli import main

BUNDLES = Path(gaitway.__file__).parent / "demo" / "bundles"
BUNDLE = BUNDLES / "go2"
KNEE = "FL_calf_joint"
Alter = Callable[[Twin], None]
Change = Callable[[np.ndarray], np.ndarray]


def walk(
    out: Path, seconds: float = 2.0, quirks: Quirks = SENSORS, alter: Callable[[Twin], None] | None = None
) -> Path:
    hardware = HARDWARE["unitree-go2"]
    fly(out, BUNDLE, hardware, lambda t: (0.5, 0.0, 0.3), seconds, quirks=quirks, seed=3, alter=alter)
    return out


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return walk(tmp_path_factory.mktemp("flown") / "flight.mcap")


@pytest.fixture(scope="module")
def flown(path: Path) -> Flight:
    return read_flight(path)


def edited(flight: Flight, **columns: Any) -> Flight:
    """``columns`` of the states, or functions of what they were."""
    values = dict(flight.state.values)
    values |= {name: new(values[name].copy()) if callable(new) else new for name, new in columns.items()}
    return replace(flight, state=Columns(values, flight.state.lost))


def part(flight: Flight, keep: np.ndarray) -> Flight:
    return replace(flight, state=Columns({name: v[keep] for name, v in flight.state.values.items()}, 0))


def column(
    flight: Flight, joint: str, change: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    def edit(values: np.ndarray) -> np.ndarray:
        values[:, flight.joint_names.index(joint)] = change(values[:, flight.joint_names.index(joint)])
        return values

    return edit


def record_of(flight: Flight) -> Recorded:
    return recorded(flight, BUNDLE)


def test_a_clean_flight_has_no_fault(path: Path) -> None:
    found = diagnose_flight(BUNDLE, path, simulate=False)
    assert (found.verdict, found.exit_code, found.findings) == ("no fault", 0, ())
    assert "NO FAULT FOUND" in found.summary()


def test_readings_tell_clock_gyroscope_noise_and_losses(flown: Flight) -> None:
    clean = read_readings(record_of(flown))
    assert clean.clock_rate == pytest.approx(1.0, abs=1e-3) and clean.lost == 0.0 and clean.flipped is None
    assert np.abs(clean.gyro_bias).max() < 0.02
    assert clean.noise["joint_vel"] == pytest.approx(SENSORS.velocity_noise, rel=0.15)
    biased = edited(flown, gyro=lambda gyro: gyro + np.array([0.0, 0.1, 0.0]))
    assert read_readings(record_of(biased)).gyro_bias == pytest.approx([0.0, 0.1, 0.0], abs=0.02)
    fast = edited(flown, tick=lambda tick: tick[0] + np.round(1.05 * (tick - tick[0])).astype(int))
    assert read_readings(record_of(fast)).clock_rate == pytest.approx(1.05, abs=2e-3)
    kept = np.random.default_rng(0).random(len(flown.state)) > 0.1
    assert read_readings(record_of(part(flown, kept))).lost == pytest.approx(0.1, abs=0.02)


def test_an_encoder_that_turns_round_is_seen_in_its_jump(flown: Flight) -> None:
    middle = len(flown.state) // 2
    turned = edited(flown, joint_pos=column(flown, KNEE, lambda pos: np.where(np.arange(len(pos)) < middle, pos, -pos)))
    joint, time = read_readings(record_of(turned)).flipped or (-1, 0.0)
    assert flown.joint_names[joint] == KNEE and time == pytest.approx(flown.state.time[middle])


def test_the_drive_law_tells_gains_and_delay(flown: Flight) -> None:
    law = fit_drive_law(record_of(flown))
    assert law.stiffness_most == pytest.approx(1.0, abs=0.02) and law.damping_most == pytest.approx(1.0, abs=0.05)
    assert not misfits(record_of(flown), law)
    weak = fit_drive_law(record_of(edited(flown, joint_torque=lambda torque: 0.7 * torque)))
    assert weak.stiffness_most == pytest.approx(0.7, abs=0.02)
    frame = dict(flown.frame.values)
    early = replace(flown, frame=Columns(frame | {"time": frame["time"] - 0.012}, 0))
    assert fit_drive_law(record_of(early)).delay == pytest.approx(law.delay + 0.012, abs=0.0015)


@pytest.mark.parametrize(
    ("kind", "torque"),
    [("dead", lambda t: 0.1 * np.sin(t)), ("stuck", lambda t: 0.0 * t + 4.0), ("motor_sign", lambda t: -t),
     ("", lambda t: 12.0 * np.sign(np.sin(np.arange(len(t)))))],
)  # fmt: skip
def test_a_motor_of_its_own_is_told_by_its_torque(flown: Flight, kind: str, torque: Callable[..., np.ndarray]) -> None:
    record = record_of(edited(flown, joint_torque=column(flown, KNEE, torque)))
    found = misfits(record, fit_drive_law(record))
    assert [(flown.joint_names[each.joint], each.kind) for each in found] == [(KNEE, kind)]


def test_a_joint_that_follows_another_target_is_named_with_it(flown: Flight) -> None:
    targets = flown.frame.targets.copy()
    i, j = flown.joint_names.index("FL_hip_joint"), flown.joint_names.index("RL_hip_joint")
    targets[:, [i, j]] = targets[:, [j, i]]
    swapped = replace(flown, frame=Columns(dict(flown.frame.values) | {"targets": targets}, 0))
    record = record_of(swapped)
    found = misfits(record, fit_drive_law(record))
    assert {(each.joint, each.kind, each.other) for each in found} == {(i, "order", j), (j, "order", i)}


def explained(flight: Flight) -> Any:
    return explain_loads(Loads(record_of(flight), BUNDLE)).best


def test_loads_tell_the_strength_of_a_motor(flown: Flight) -> None:
    found = explained(edited(flown, joint_torque=column(flown, KNEE, lambda torque: torque / 0.6)))
    assert (found.cause, found.joint) == ("motor_strength", KNEE) and found.values == pytest.approx([-0.4], abs=0.04)


def test_loads_tell_the_zero_of_an_encoder(flown: Flight) -> None:
    found = explained(edited(flown, joint_pos=column(flown, KNEE, lambda pos: pos + 0.12)))
    assert (found.cause, found.joint) == ("encoder_offset", KNEE) and found.values == pytest.approx([0.12], abs=0.03)


def test_loads_tell_how_the_imu_is_mounted(flown: Flight) -> None:
    angle = 0.1
    quat = np.array([np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0])
    tilted = edited(
        flown, imu_quat_wxyz=lambda q: quat_mul(q, np.broadcast_to(quat, q.shape)),
        gyro=lambda gyro: turn(gyro, 0, -angle), accelerometer=lambda force: turn(force, 0, -angle),
    )  # fmt: skip
    found = explained(tilted)
    assert found.cause == "imu_mounting" and found.values == pytest.approx([angle, 0.0], abs=0.02)


def test_a_counterfactual_must_bring_about_what_the_flight_showed() -> None:
    flown, without = Symptoms(values={"pitch": 0.1, "torque": 5.0}), Symptoms(values={"pitch": 0.0, "torque": 5.0})
    assert is_matched(flown, without, Symptoms(values={"pitch": 0.09, "torque": 5.0})) == (True, ["pitch"])
    assert is_matched(flown, without, Symptoms(values={"pitch": 0.02, "torque": 5.0})) == (False, ["pitch"])
    assert is_matched(without, without, flown) == (False, [])
    tripped = Symptoms(trip="not_following: the drive of a joint")
    assert is_matched(tripped, without, tripped) == (True, ["ended early"])
    assert is_matched(tripped, without, without) == (False, ["ended early"])


def test_a_difference_without_a_cause_has_its_own_exit_code(
    flown: Flight, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    odd = edited(flown, joint_torque=column(flown, KNEE, lambda t: 12.0 * np.sign(np.sin(np.arange(len(t))))))
    odd = edited(odd, accelerometer=lambda force: force, has_accelerometer=np.zeros(len(flown.state), bool))
    monkeypatch.setattr(flights, "read_flight", lambda _: odd)
    said = tmp_path / "said.json"
    words = ["diagnose", str(BUNDLE), "--flight", str(path), "--no-simulation", "--json", str(said)]
    assert main(words) == 3
    assert KNEE in capsys.readouterr().out
    assert json.loads(said.read_text("utf-8"))["verdict"] == "unexplained"
    biased = edited(flown, gyro=lambda gyro: gyro + np.array([0.0, 0.1, 0.0]))
    monkeypatch.setattr(flights, "read_flight", lambda _: biased)
    assert main(words) == 1
    assert [each["level"] for each in json.loads(said.read_text("utf-8"))["findings"]] == ["read"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: edited(f, has_joint_torque=np.zeros(len(f.state), bool)), "no joint torques"),
        (lambda f: part(f, np.arange(len(f.state)) < 60), "at least 0.3 s"),
        (lambda f: part(f, np.arange(len(f.state)) % 50 == 0), "a state every 100 ms"),
        (lambda f: part(f, np.arange(len(f.state)) // 100 % 2 == 0), "missing for"),
        (lambda f: replace(f, metadata=f.metadata | {"robot": "anymal-c"}), "flight of anymal-c"),
        (lambda f: replace(f, contract_yaml=b"another"), "another bundle"),
    ],
)
def test_a_flight_that_tells_too_little_is_refused(flown: Flight, spoil: Callable[[Flight], Flight], said: str) -> None:
    with pytest.raises(UserError, match=said):
        record_of(spoil(flown))


def test_another_robots_bundle_and_no_flight_are_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(BUNDLES / "anymal-c"), "--flight", str(path)]) == 2
    assert "another robot" in capsys.readouterr().err
    assert main(["diagnose", str(BUNDLE), "--flight", "nowhere.mcap"]) == 2
    assert "no flight at" in capsys.readouterr().err


@pytest.mark.slow
def test_planted_faults_are_named_and_matched_by_simulation(tmp_path: Path) -> None:
    """One of each way to find a cause; benchmarks/flight_causes.py has all kinds and sizes."""
    joints = {name: JointParameters(strength=0.6) for name in HARDWARE["unitree-go2"].joint_names}
    heavy, weak = (RobotParameters(robot="go2", **what) for what in ({"base_mass": 11.9}, {"joints": joints}))
    planted: list[tuple[str, str, Quirks, Alter | None]] = [
        ("", "", SENSORS, None),
        ("payload", flights.MATCHED, replace(SENSORS, parameters=heavy), None),
        ("motor_strength", flights.MATCHED, replace(SENSORS, parameters=weak), None),
        ("dead_motor", flights.MATCHED, SENSORS, lambda twin: twin.inject("motor", after=2.6, joint=KNEE) and None),
    ]  # fmt: skip
    for number, (cause, level, quirks, alter) in enumerate(planted):
        found = diagnose_flight(BUNDLE, walk(tmp_path / f"{number}.mcap", 3.0, quirks, alter))
        assert found.causes == ((cause,) if cause else ()), found.summary()
        assert [each.level for each in found.findings] == [level] * bool(cause), found.summary()
        assert found.exit_code == int(bool(cause))


def test_states_that_are_far_apart_accuse_no_motor(tmp_path: Path) -> None:
    """A robot that falls onto its feet has other torques 20 ms later."""
    bundle = make_stand_bundle(tmp_path / "stand", GO2, stiffness=60.0, damping=2.0)
    flight = tmp_path / "flight.mcap"
    assert main(["run", str(bundle), "--seconds", "0.3", "--log", str(flight)]) == 0
    found = diagnose_flight(bundle, flight)
    assert found.exit_code == 0 and "motors: not checked, states are 20 ms apart" in str(found.checks)
    assert found.summary().count("NO FAULT FOUND, BUT NOT EVERYTHING COULD BE CHECKED") == 1
