"""Estimates of a policy are printed, recorded and replayed beside the simulation's truth."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np
import pytest
from estimating import estimating_bundle
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.flight.reading import Flight, read_flight
from gaitway_sim2real.lockstep.run import RunReport, run_bundle
from gaitway_sim2real.replay.compare import motion_of
from gaitway_sim2real.replay.report import report as page_of
from gaitway_sim2real.replay.summary import own_velocity, summarise, text

Run = tuple[Path, RunReport, Flight, list[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    bundle, said = estimating_bundle(tmp_path_factory), []
    log = tmp_path_factory.mktemp("run") / "flight.mcap"
    report = run_bundle(bundle, 2.0, command=[(0.0, (0.3, 0.0, 0.0))], log=log, echo=said.append)
    return bundle, report, read_flight(log), said


def test_each_step_records_what_the_graph_estimates(run: Run) -> None:
    bundle, _, flight, _ = run
    policy, steps = OnboardPolicy(bundle, flight.joint_names), flight.policy
    states = np.searchsorted(flight.state.time, steps.time, side="right") - 1
    for k in range(0, len(steps), 9):
        policy.state = steps.memory[k]
        policy.step(flight.signals(int(states[k])), steps.command[k])
        np.testing.assert_allclose(
            steps.estimated_base_lin_vel[k], policy.estimates["estimated_base_lin_vel"], atol=1e-6
        )
    assert np.ptp(steps.estimated_base_lin_vel, axis=0).min() > 1e-3


def test_it_is_shown_beside_the_truth_and_its_error_is_told(run: Run) -> None:
    _, report, flight, said = run
    states = np.searchsorted(flight.state.time, flight.policy.time, side="right") - 1
    error = flight.policy.estimated_base_lin_vel - flight.state.base_lin_vel[states]
    in_charge = flight.policy.time < flight.policy.time[0] + 2.0 - 1e-6  # without the time in which it settles
    expected = np.sqrt((error[in_charge] ** 2).sum(1).mean())
    assert report.own_error == pytest.approx(expected, rel=1e-4)
    assert f"the policy's estimate of its velocity {expected:.3f} m/s off" in said[-1]
    head, row = (next(line for line in said if what in line).split("|") for what in ("t [s]", "       2 |"))
    assert head[3].split() == ["estimated", "vx", "vy", "vz"] and [len(c) for c in head] == [len(c) for c in row]
    second = flight.policy.estimated_base_lin_vel[in_charge][50:].mean(0)
    np.testing.assert_allclose([float(number) for number in row[3].split()], second, atol=0.006)
    summary = summarise(flight)
    assert summary.own_error == pytest.approx(np.sqrt((error**2).mean(0)), rel=1e-5)
    assert "velocity as the policy estimates it, against the simulation: " in text(summary)


def test_the_page_of_a_flight_draws_both(run: Run) -> None:
    flight = run[2]
    motion = motion_of(flight)
    assert motion.source == "the simulation's own"
    page = page_of(summarise(flight), motion, None, "").html()
    section = page.partition("What the policy estimates")[2].partition("</section>")[0]
    assert section.count("<svg") == 3 and "base_lin_vel x [m/s]" in section and escape(motion.source) in section
    assert section.count('class="measured"') == section.count('class="command"') == 3


def test_between_steps_the_newest_estimate_holds(run: Run) -> None:
    flight = run[2]
    found = own_velocity(flight)
    assert found is not None and np.isnan(found[0]).all()
    after = np.flatnonzero(flight.state.time >= flight.policy.time[10])[0]
    np.testing.assert_array_equal(found[after], flight.policy.estimated_base_lin_vel[10])
