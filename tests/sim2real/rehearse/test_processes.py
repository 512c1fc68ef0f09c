"""The twin and the deployment as processes over DDS on the loopback interface, and the end of one of them."""

import dataclasses
import signal
import sys

import pytest
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.rehearse import processes
from gaitway_sim2real.rehearse.processes import ENDINGS, _longest_gap, rehearse_processes
from gaitway_tasks.robots import GO2

pytest.importorskip("cyclonedds")
LAUNCHER = (sys.executable, "-m", "gaitway")


@pytest.fixture
def ear(dds_domain):
    from gaitway_onboard.wire.dds import DdsBus

    bus = DdsBus("lo", dds_domain, sender_times=True)
    yield bus
    bus.close()


@pytest.mark.slow
def test_a_second_deployment_is_refused_and_killed_with_9_the_robot_is_damped(go2_bundle, ear, dds_domain):
    ending = next(each for each in ENDINGS if each.signal == signal.SIGKILL)
    ending = dataclasses.replace(ending, newcomer=True)
    (trial,) = rehearse_processes(go2_bundle, hardware_from(GO2), ear, LAUNCHER, domain=dds_domain, endings=[ending])
    assert trial.failures() == [], trial.outcome
    assert "guardian" in trial.outcome
    assert "second refused with exit code 2" in [check.title for check in trial.checks]
    assert trial.facts["frames heard"] > 1000


def test_a_deployment_that_cannot_start_is_told_why(go2_bundle, ear, dds_domain, monkeypatch):
    monkeypatch.setattr(processes, "START", 20.0)
    launcher = (sys.executable, "-c", "import sys; sys.exit('nobody is there')")
    (trial,) = rehearse_processes(go2_bundle, hardware_from(GO2), ear, launcher, domain=dds_domain, endings=ENDINGS[:1])
    assert not trial.passed and "nobody is there" in trial.outcome


def test_gaps_are_those_of_the_first_half_second():
    assert _longest_gap([1.0, 1.1, 1.4, 3.0]) == pytest.approx(0.3)
    assert _longest_gap([1.0]) != _longest_gap([1.0])  # not measured
