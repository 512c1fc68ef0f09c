"""Each known wrong is named, and nothing else; what training does on purpose is no wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaitway_sim2real.diagnose import diagnose_bundle, one_step
from gaitway_tasks.spec import Task
from sim2real.diagnose.cases import CASES, with_drives
from sim2real.diagnose.walkers import Trample, record, rough_life

Walker = tuple[Task, Trample, Path]


@pytest.fixture(autouse=True)
def fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as many steps to predict: all others are as in the product."""
    monkeypatch.setattr(one_step, "SAMPLES", 150)


SHOW_THROUGH = ("joint order", "sign", "scale", "quaternion order", "history layout")


@pytest.mark.parametrize(("name", "rough"), [*((n, False) for n in CASES), *((n, True) for n in SHOW_THROUGH)])
def test_the_cause_is_named(walker: Walker, tmp_path: Path, name: str, rough: bool) -> None:
    """Also, of those that are large enough, through noise and pushes."""
    task, actor, bundle = walker
    case, life = CASES[name], rough_life(task) if rough else task
    recording = record(case.task(life), actor, seed=int(rough), **case.record(task)).save(tmp_path / "rollout")
    diagnosis = diagnose_bundle(bundle, recording)
    assert diagnosis.causes == (case.cause,), diagnosis.summary()
    assert case.says in diagnosis.findings[0].what


@pytest.mark.parametrize(("stiffness", "damping", "gap"), [(0.6, 1.5, 0.0005), (0.8, 1.5, 0.0005), (1.4, 1.0, 0.0)])
def test_gains_have_the_factors_that_they_were_given(
    walker: Walker, tmp_path: Path, stiffness: float, damping: float, gap: float
) -> None:
    """Also where feet rest higher than MuJoCo's, which sink into the ground: PhysX's are often just above it."""
    task, actor, bundle = walker
    recording = record(with_drives(task, stiffness=stiffness, damping=damping), actor)
    lifted = replace(recording, root_pos_w=recording.root_pos_w + np.float32([0.0, 0.0, gap]))
    diagnosis = diagnose_bundle(bundle, lifted.save(tmp_path / "rollout"))
    assert diagnosis.causes == ("gains",), diagnosis.summary()
    found = diagnosis.findings[0].numbers
    assert (found["stiffness"], found["damping"]) == pytest.approx((stiffness, damping), rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_clean_recordings_raise_no_alarm(walker: Walker, tmp_path: Path, seed: int) -> None:
    """Noise, pushes, payloads, friction and resets are no mismatch."""
    task, actor, bundle = walker
    recording = record(rough_life(task), actor, seed=seed)
    assert recording.done.any()
    diagnosis = diagnose_bundle(bundle, recording.save(tmp_path / "rollout"))
    assert diagnosis.findings == (), diagnosis.summary()


def test_how_torques_were_integrated_is_taken_from_the_recording(walker: Walker, tmp_path: Path) -> None:
    """A torque that is held and an armature of the physics step times the damping look the same from outside."""
    task, actor, bundle = walker
    recording = record(task, actor, seed=1)
    assert recording.torques_held is False
    heavier = replace(recording, torques_held=True).save(tmp_path / "heavier")
    diagnosis = diagnose_bundle(bundle, heavier)
    assert diagnosis.causes == ("armature",), diagnosis.summary()
    damping = task.robot.joint_actuators[0].damping
    assert diagnosis.findings[0].numbers["armature"] == pytest.approx(recording.physics_dt * damping, rel=0.1)
    unknown = replace(recording, torques_held=None).save(tmp_path / "unknown")
    assert diagnose_bundle(bundle, unknown).causes == ()
