"""The whole of a rehearsal: verdict, file, page, and what a deployment makes of it."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.verdict import REHEARSAL, VerdictError, read_verdict
from gaitway_onboard.interface import DeployError
from gaitway_onboard.safety.preflight import rehearsal_doubts
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.rehearse import suite
from gaitway_sim2real.rehearse.suite import RehearsalError, Settings, rehearse_bundle, save, write_report
from gaitway_sim2real.rehearse.trace import Trace
from gaitway_sim2real.rehearse.verdict import FAULTS, NOMINAL, WIRE, Rehearsal, Trial, TrialCheck
from gaitway_tasks.robots import ANYMAL_C, GO2, H1

GOOD = TrialCheck(title="falls", value=0, limit=0)
BAD = TrialCheck(title="torque", value=1.25, limit=1.0, unit="N m")


def trial(**changes):
    base = Trial(group=FAULTS, name="silence", mode="hold", about="Nothing comes.", outcome="state_age", checks=(GOOD,))
    return dataclasses.replace(base, **changes)


def rehearsal(*trials, bundle=None):
    contract = Contract.load(bundle) if bundle else None
    return Rehearsal(
        robot="unitree-go2",
        task="stand",
        policy_sha256=contract.files["policy.onnx"] if contract else "ab" * 32,
        contract_sha256=suite.sha256((bundle / "contract.yaml").read_bytes()) if bundle else "cd" * 32,
        settings={"minutes": 1.0},
        trials=trials,
        software={"gaitway": "test"},
    )


def test_one_failed_check_fails_it_all():
    assert rehearsal(trial()).passed and rehearsal(trial()).word == "PASS"
    failed = rehearsal(trial(), trial(checks=(GOOD, BAD)))
    assert not failed.passed
    assert "silence in hold: torque 1.25 N m, allowed at most 1 N m; state_age" in failed.summary()
    assert not rehearsal().passed, "nothing tried is nothing passed"


@pytest.mark.parametrize("at_least", [False, True])
def test_what_was_not_measured_never_passes(at_least):
    check = TrialCheck(title="x", value=math.nan, limit=0.0, at_least=at_least)
    assert not check.passed and "not measured" in check.sentence()


def test_file_is_sealed_and_read_back(go2_bundle, tmp_path):
    found = rehearsal(trial(), trial(facts={"x": math.inf}), bundle=go2_bundle)
    path = save(found, tmp_path / "rehearsal.json")
    data = read_verdict(path, policy=go2_bundle / "policy.onnx", kind=REHEARSAL)
    assert data["verdict"] == "PASS" and data["trials"][1]["facts"]["x"] is None
    path.write_text(path.read_text().replace('"state_age"', '"nothing"'))
    with pytest.raises(VerdictError, match="gaitway rehearse again"):
        read_verdict(path, kind=REHEARSAL)


def test_a_deployment_is_told(go2_bundle, tmp_path):
    bundle = shutil.copytree(go2_bundle, tmp_path / "bundle")
    hardware = hardware_from(GO2)
    assert "run gaitway rehearse first" in rehearsal_doubts(bundle, hardware)[0]
    save(rehearsal(trial(), bundle=bundle), bundle / "rehearsal.json")
    assert rehearsal_doubts(bundle, hardware) == ()
    save(rehearsal(trial(), trial(group="policies", name="huge", mode=""), bundle=bundle), bundle / "rehearsal.json")
    assert rehearsal_doubts(bundle, hardware) == (), "a group of earlier versions"
    assert "another robot" in rehearsal_doubts(bundle, hardware_from(H1))[0]
    save(rehearsal(trial(checks=(BAD,)), bundle=bundle), bundle / "rehearsal.json")
    assert rehearsal_doubts(bundle, hardware) == ("FAILED ITS REHEARSAL: silence in hold; see its report",)


def test_page_shows_every_trial(tmp_path):
    trials = (
        trial(group=NOMINAL, name="command script", mode=""),
        trial(),
        trial(name="tilt <&>", mode="policy", checks=(BAD,)),
        trial(group=WIRE, name="SIGKILL", mode="", facts={"p99 [ms]": 2.25}),
    )
    time = np.arange(0.0, 60.0, 0.02)
    wave = np.sin(time)[:, None] * np.ones(3)
    trace = Trace(time, wave, 0.9 * wave, 0.3 + 0.0 * time, 0.1 + 0.0 * time, 0.5 + 0.0 * time, lap=20.0)
    page = write_report(rehearsal(*trials), trace, tmp_path / "report", "gaitway rehearse b --robot unitree-go2")
    text = page.read_text()
    for wanted in ("tilt &lt;&amp;&gt;", "SIGKILL", "2.25", "FAIL", "cannot happen here", "gaitway rehearse b"):
        assert wanted in text
    assert text.count("<svg") == 6 and "http" not in text.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert json.loads((page.parent / "rehearsal.json").read_text())["verdict"] == "FAIL"


def test_errors_are_of_steady_commands_only():
    time = np.arange(0.0, 4.0, 0.02)
    command = np.where(time[:, None] < 2.0, 0.0, [[0.5, 0.0, 0.2]])
    velocity = np.where(time[:, None] < 3.0, 0.0, command + np.array([0.03, 0.04, -0.1]))
    trace = Trace(time, command, velocity, time, time, time)
    linear, yaw = trace.errors(1.0)
    steady = ((time >= 1.0) & (time < 2.0)) | (time >= 3.0)
    share = float((time >= 3.0).sum() / steady.sum())
    assert linear == pytest.approx(0.05 * share) and yaw == pytest.approx(0.1 * share)
    assert all(math.isnan(value) for value in Trace().errors(1.0))


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [({"minutes": 0.0}, "minutes"), ({"loss": 1.0}, "loss"), ({"jitter": -0.1}, "jitter"), ({"jobs": -1}, "jobs")],
)
def test_settings_that_make_no_sense(changes, wrong):
    with pytest.raises(RehearsalError, match=wrong):
        Settings(**changes)


def test_a_bundle_for_another_robot_is_refused(go2_bundle):
    with pytest.raises(DeployError, match="go2"):
        rehearse_bundle(go2_bundle, hardware_from(H1), Settings())
    assert hardware_from(ANYMAL_C) is None


@pytest.mark.slow
def test_two_processes_find_what_one_finds(go2_bundle, monkeypatch):
    monkeypatch.setattr(suite, "QUICK_TROUBLES", ("speeds-sign", "deaf"))  # each is tried in one mode, the first
    seen = []
    alone, together = (
        rehearse_bundle(
            go2_bundle,
            hardware_from(GO2),
            Settings(quick=True, jobs=jobs),
            groups=(FAULTS,),
            wire=lambda: iter([trial(group=WIRE)]),
            progress=lambda done, total, newest: seen.append((done, total, newest.name)),
        )[0]
        for jobs in (1, 2)
    )
    assert alone == together and alone.passed
    assert seen[:3] == [(1, 2, "speeds-sign"), (2, 2, "deaf"), (3, 3, "silence")] and seen[5] == seen[2]
    assert {name for _, _, name in seen[3:5]} == {"speeds-sign", "deaf"}, "as they are done"
