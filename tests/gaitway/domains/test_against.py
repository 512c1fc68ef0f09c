"""Training against failing cases: their disturbances are drawn, and an examination has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gaitway_sim2real.bundle.in_memory import in_memory
from gaitway_sim2real.falsify.case import Case
from gaitway_sim2real.population.twin import Twin
from gaitway_sim2real.population.walk import Blow
from gaitway_tasks.registry import find_task
from gaitway_tasks.spec import Task
from torch import nn

from gaitway.domains.against import Against
from gaitway.errors import ConfigError, UserError
from gaitway.train_config import resolve

NAME = "velocity-flat-anymal-c-blind"


@pytest.fixture(scope="module")
def task() -> Task:
    found = find_task(NAME, "cpu")
    assert isinstance(found, Task)
    return found


@pytest.fixture
def case(task, tmp_path) -> Path:
    told = Case(
        task=NAME, robot=task.robot.name, joint_names=task.robot.joint_names, policy_sha256="", contract_sha256="",
        seconds=8.0, seed=0, command=((0.0, 0.0, 0.0, 0.0),), blows=(Blow(at=2.0, impulse=(0.6, 0.8)),),
        twin=Twin(payload=0.2, payload_at=(0.1, 0.0, 0.0), friction=0.9, strength=0.85, delay=0.02, jitter=0.005),
        size=2.0, shares={"payload": 1.0}, says="falls", cause="base tilt", falls_after=1.0, falls=8,
    )  # fmt: skip
    return told.save(tmp_path / "case-1.json")


def test_what_a_case_has_is_drawn_in_training(task, case):
    against = Against(task, [case])
    before, events = task.events, against.joined(task).events
    assert before is not events and against.paths == (str(case),)

    def drawn(name, key):
        (event,) = [event for event in events.values() if event.func.__name__ == name]
        return event.params[key]

    assert drawn("push_by_setting_velocity", "velocity_range")["y"] == pytest.approx((-1.0, 1.0))
    mass = 0.2 * against.kind.plant.mass
    assert drawn("randomize_rigid_body_mass", "mass_distribution_params") == pytest.approx((-5.0, mass))
    assert drawn("randomize_rigid_body_material", "friction_range") == (0.35, 1.6), "it was drawn before"
    assert drawn("randomize_motor_strength", "strength_range") == (0.85, 1.0)
    assert drawn("randomize_action_delay", "delay_range") == (0.0, 0.025)
    assert events["reset_base"] == before["reset_base"]


def test_a_policy_that_falls_fails_the_case(task, case):
    actor = nn.Sequential(nn.Linear(task_width(task), 12))
    with torch.no_grad():
        actor[0].weight.zero_()
        actor[0].bias.fill_(3.0)
    _, policy = in_memory(task, actor)
    (check,) = Against(task, [case]).checks(1)(policy)
    assert not check.check.passed and check.words() == "8 of 8 robots fell in case 1"


def task_width(task: Task) -> int:
    from gaitway_sim2real.bundle.in_memory import contract_before_training

    return sum(term.dim * term.history for term in contract_before_training(task).observation)


def test_the_configuration_has_the_cases(case):
    config = resolve(NAME, preset="cpu", overrides=["until=good"], options={"against": [case.parent]})
    assert config.against == (str(case),)
    assert "randomize_motor_strength" in config.task.events
    with pytest.raises(ConfigError, match="--until good"):
        resolve(NAME, preset="cpu", options={"against": [case]})
    with pytest.raises(ConfigError, match="--against"):
        resolve("cartpole", options={"against": [case]})


def test_a_case_of_another_robot_is_refused(case):
    with pytest.raises(UserError, match=r"case of anymal-c .* for their own robot"):
        resolve("velocity-flat-go2-blind", preset="cpu", overrides=["until=good"], options={"against": [case]})
