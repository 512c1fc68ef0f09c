"""The short examination of a policy in training, beside the suite and the exported bundle."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from drawing import drawn
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.bundle.export import ExportError, exportable
from gaitway_sim2real.bundle.golden import plausible_signals
from gaitway_sim2real.bundle.in_memory import UNKNOWN, InMemoryPolicy, in_memory
from gaitway_sim2real.trial.examination import Check, Examination, Examiner
from gaitway_sim2real.trial.scenario import MARGIN, Limit, Scenario
from gaitway_sim2real.trial.stressors import SensorNoise
from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import Task
from gaitway_velocity.limits import CORNERS
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from torch import nn

BY_NAME = {scenario.name: scenario for scenario in SUITE.examination}
SHORT = tuple(replace(s, seconds=3.2 if s.gait else 0.4, envs=3) for s in SUITE.examination)


def picked(*names: str) -> tuple[Scenario, ...]:
    return tuple(scenario for scenario in SHORT if scenario.name in names)


def test_a_policy_in_memory_is_the_exported_one(task: Task, actor: nn.Module, exported: Path) -> None:
    """Same contract but for hashes, and the same joint targets over a sequence of signals."""
    contract, policy = in_memory(task, actor)
    written = Contract.load(exported)
    blank = {"files": {}, "checkpoint_sha256": UNKNOWN, "software": {}}
    assert dataclasses.replace(written, **blank) == contract
    ours, theirs = InMemoryPolicy(policy, 5), BatchedPolicy(exported / "policy.onnx", written, 5)
    ranges = np.array(contract.command_ranges)
    signals = plausible_signals(np.array(contract.default_joint_pos), ranges, steps=12, batch=5, step_dt=0.02, seed=1)
    for step in range(12):
        now = {name: values[step] for name, values in signals.items()}
        for mine, exact in zip(ours(now), theirs(now), strict=True):
            np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)


def test_targets_are_clipped_as_in_a_bundle() -> None:
    """Clipping to the joints' ranges, for robots that Gaitway drives."""
    task = get_task("velocity-flat-go2-blind")
    assert task.actions.clip is None
    contract, policy = in_memory(task, Constant(50.0))
    signals = plausible_signals(
        np.array(contract.default_joint_pos), np.array(contract.command_ranges), steps=1, batch=2, step_dt=0.02, seed=0
    )
    target, _ = InMemoryPolicy(policy, 2)({name: values[0] for name, values in signals.items()})
    assert (target <= np.array(contract.joint_pos_limits)[:, 1] + 1e-6).all()
    assert contract.action.clip == tuple(task.robot.joint_limits) and exportable(task).actions.clip is not None


class Constant(nn.Module):
    """An actor that wants the same whatever it sees."""

    def __init__(self, value: float):
        super().__init__()
        self.value = value

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return torch.full((observation.shape[0], 12), self.value)


def test_every_limit_is_the_suites_and_a_margin_tighter() -> None:
    suite = {scenario.name: scenario for scenario in SCENARIOS}
    for scenario in SUITE.examination:
        theirs = {limit.metric: limit for limit in suite[scenario.name].limits if limit.metric != "falls"}
        ours = {limit.metric: limit for limit in scenario.limits}
        assert ours.pop("falls").value == 0.0 and ours.keys() == theirs.keys()
        for name, limit in ours.items():
            share = 1.0 + MARGIN if limit.at_least else 1.0 - MARGIN
            assert math.isclose(limit.value, share * theirs[name].value), (scenario.name, name)
    assert {"gait_turning", "gait_combined", "command_grid", "straight", "standing", "stops"} <= BY_NAME.keys()


def test_the_small_grid_has_all_corners() -> None:
    ranges = ((-1.0, 1.0), (-0.5, 0.5), (-2.0, 2.0))
    command = drawn(BY_NAME["command_grid"], ranges, 12, 0.02, 0).command[0]
    assert sorted(map(tuple, command[25:33])) == [*itertools.product(*ranges)]
    assert (command[:13, 2] == 0.0).all() and (command[13:25, 1] == 0.0).all()
    assert len({*map(tuple, command)}) == 60


@pytest.fixture(scope="module")
def two_grounds(task: Task) -> Examiner:
    return Examiner(task, scenarios=picked("gait_forward_slow", "gait_turning", "command_grid", "standing"))


def test_a_seed_is_an_examination_and_leaves_no_trace(two_grounds: Examiner, actor: nn.Module) -> None:
    weights = {name: value.clone() for name, value in actor.state_dict().items()}
    chance = torch.get_rng_state()
    first, again = two_grounds(actor), two_grounds(actor)
    assert first.to_dict() == again.to_dict() and not first.passed
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(torch.equal(value, weights[name]) for name, value in actor.state_dict().items())
    names = [check.scenario for check in first.checks]
    assert {*names, *first.left_out} == {"gait_forward_slow", "gait_turning", "command_grid", "standing"}


def test_a_hopeless_policy_is_not_tried_on_every_floor(task: Task, actor: nn.Module, monkeypatch) -> None:
    two = Examiner(task, scenarios=picked("gait_turning", "command_grid"))
    short = two(actor)
    assert short.left_out == ("gait_turning",) and short.to_dict()["left_out"] == ["gait_turning"]
    assert {check.scenario for check in short.checks} == {"command_grid"}
    assert short.words().endswith("; the rest was not examined")
    monkeypatch.setattr("gaitway_sim2real.trial.examination.HOPELESS", math.inf)
    whole = two(actor)
    assert not whole.left_out and {check.scenario for check in whole.checks} == {"gait_turning", "command_grid"}
    assert not replace(short, checks=()).passed  # nothing failed, and something was not tried


def test_robots_walk_as_they_do_alone(task: Task, actor: nn.Module, monkeypatch) -> None:
    """In one batch with those of other scenarios."""
    monkeypatch.setattr("gaitway_sim2real.trial.examination.HOPELESS", math.inf)
    names = ("command_grid", "standing", "command_steps")
    scenarios = picked(*names)
    noisy = replace(scenarios[-1], name="noisy", draws="noisy", stressors=(SensorNoise(),))  # in a batch of its own
    together = Examiner(task, scenarios=(*scenarios, noisy))(actor).checks
    alone = [check for each in (*scenarios, noisy) for check in Examiner(task, scenarios=(each,))(actor).checks]
    for ours, theirs in zip(together, alone, strict=True):
        assert (ours.scenario, ours.check.metric) == (theirs.scenario, theirs.check.metric)
        assert ours.check.value == pytest.approx(theirs.check.value, rel=1e-3, abs=1e-4, nan_ok=True)


def check(scenario: str, metric: str, value: float, limit: float, *, at_least: bool = False) -> Check:
    bound = Limit(metric=metric, value=limit, at_least=at_least)
    return Check.of(replace(BY_NAME[scenario], envs=12), bound, METRICS[metric], value)


def test_what_is_missing_comes_worst_first() -> None:
    found = Examination(
        seed=0,
        checks=(
            check("gait_backward", "step_rate", 2.0, 2.4),
            check("command_grid", "lin_vel_error", 0.171, 0.15),
            check("gait_turning", "clearance", 0.021, 0.033, at_least=True),
            check("gait_forward_slow", "clearance", 0.029, 0.033, at_least=True),
            check("gait_sideways", "dragging_feet", 0.02, 0.018),
        ),
    )
    assert not found.passed
    assert [row.words() for row in found.missing()] == [
        "clearance in turning 2.1 cm (limit 3.3 cm)",
        "linear velocity error in command grid 0.171 m/s (limit 0.150 m/s)",
        "clearance in forward slow 2.9 cm (limit 3.3 cm)",
        "dragging feet in sideways 2.0 % (limit 1.8 %)",
    ]
    line = found.words()
    assert line.index("clearance in turning") < line.index("command grid") < line.index("dragging") and "1 more" in line
    assert found.to_dict()["missing"][0] == "clearance in turning 2.1 cm (limit 3.3 cm)"


def test_a_fall_and_a_number_that_is_not_there_are_missing() -> None:
    fell, nothing = check("standing", "falls", 0.25, 0.0), check("gait_turning", "slip", math.nan, 0.1)
    corner = Check.of(BY_NAME["stops"], CORNERS, METRICS["corner_falls"], 1.0, ("(1, 1, -1)",))
    assert corner.words() == "falls at (1, 1, -1) in stops" and not corner.check.passed
    assert fell.words() == "3 of 12 robots fell in standing" and nothing.words() == "slip in turning not measured"
    assert not fell.check.passed and not nothing.check.passed
    assert Examination(seed=0, checks=(nothing, fell)).missing() == [fell, nothing]
    held = Examination(seed=0, checks=(check("standing", "falls", 0.0, 0.0),))
    assert held.passed and held.missing() == [] and "all 1 checks hold" in held.words()
    assert Examination(seed=0, checks=(nothing,)).to_dict()["checks"][0]["value"] is None


def test_what_cannot_be_exported_cannot_be_examined() -> None:
    with pytest.raises(ExportError, match=r"no robot measures.*base_lin_vel.*root_lin_vel_b"):
        Examiner(get_task("velocity-flat-anymal-c"))
