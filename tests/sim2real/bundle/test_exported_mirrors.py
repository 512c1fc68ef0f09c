"""Exported policies treat left as right, and front as back, where the robot's mirrors say so."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.models.actor_critic import ActorCritic
from gaitway_agents.symmetry import CanonicalActor
from gaitway_onboard.bundle.parts import ESTIMATE
from gaitway_sim2real.bundle.calibration import NUM_FEATURES, CommandCalibration, allowed, ends_of
from gaitway_sim2real.bundle.contracts import exportable
from gaitway_sim2real.bundle.export import _export_graph, open_session
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_tasks.layout import width
from gaitway_tasks.robots import Mirror
from gaitway_tasks.spec import Task
from gaitway_tasks.symmetry import SIGNS, joint_mirror
from hypothesis import given, settings
from torch import Tensor

from gaitway.train_config import resolve

ROBOTS = ("anymal-c", "go2")
"""One that is alike in front and behind too, and one that is not."""
STEPS = 4
WALKS = torch.tensor([signs for signs in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(signs)])
N = len(WALKS)


@cache
def exported(robot: str) -> tuple[Task, SignalPolicy]:
    """A random policy of the preset, with estimates, a calibrated command and a limit on its acceleration."""
    config = resolve(f"velocity-flat-{robot}-blind", preset="cpu")
    domain, model = config.domain, config.agent.model
    sizes = {
        name: group.history_length * sum(width(config.task, key, term) for key, term in group.terms.items())
        for name, group in config.task.observations.items()
    }
    torch.manual_seed(1)
    columns = domain.columns(config, model.estimator.signals)
    policy = ActorCritic(boxes(**sizes), box(12), replace(model, actor_hidden=(32,), critic_hidden=(8,)), columns)
    seen = {name: 0.3 + torch.randn(300, size) for name, size in sizes.items()}
    policy.update_normalizers(seen)
    policy.actor[-1].weight.data /= 2.0 * policy.distribution(seen)[0].std().detach()  # to actions of about a half
    task, mirrors = exportable(config.task), list(config.task.robot.mirrors.values())
    (command,) = task.commands.values()
    table = 0.02 * torch.randn(3, NUM_FEATURES) * allowed(mirrors)
    calibration = CommandCalibration(table, ends_of(command), 1.0 + command.margin)
    actor = CanonicalActor(policy.export_actor(), domain.symmetry(config)).eval()
    return task, SignalPolicy(task, actor, calibration).eval()


def signals_of(command: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    quat = torch.tensor([1.0, 0, 0, 0]) + 0.2 * torch.randn(N, 4, generator=generator)
    return {
        "joint_pos": torch.randn(N, 12, generator=generator),
        "joint_vel": 3.0 * torch.randn(N, 12, generator=generator),
        "imu_quat_wxyz": torch.nn.functional.normalize(quat),
        "gyro": torch.randn(N, 3, generator=generator),
        "command": command,
    }


def mirrored(task: Task, mirror: Mirror, signals: dict[str, Tensor]) -> dict[str, Tensor]:
    perm, sign = joint_mirror(task.robot, mirror)
    axial, twist = (torch.tensor(SIGNS[kind][mirror.axis]) for kind in ("axial", "planar_twist"))
    return {
        "joint_pos": signals["joint_pos"][:, perm] * sign,
        "joint_vel": signals["joint_vel"][:, perm] * sign,
        "imu_quat_wxyz": signals["imu_quat_wxyz"] * torch.cat((torch.ones(1), axial)),
        "gyro": signals["gyro"] * axial,
        "command": signals["command"] * twist,
    }


def just_reset(policy: SignalPolicy, step: int) -> Tensor:
    """The state after a reset, but with the clock at ``step`` of its cycle."""
    state = torch.zeros(N, policy.state_dim)
    state[:, -4] = float(step % policy.cycle_steps)  # before the limited command
    return state


@torch.inference_mode()
def rolled(policy: SignalPolicy, inputs: list[dict[str, Tensor]], state: Tensor) -> list[tuple[Tensor, ...]]:
    """Targets, actions and estimates of each step, and the memory that leads from one to the next."""
    found = []
    for signals in inputs:
        found.append(policy(*signals.values(), state))
        state = found[-1][-1]
    return found


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=40)
@given(
    robot=st.sampled_from(ROBOTS),
    which=st.integers(0, 1),
    size=st.sampled_from([0.05, 0.3, 1.0, 1.3]),
    step=st.integers(0, 10_000),
    border=st.sampled_from([None, -1, 0]),
    seed=st.integers(0, 1000),
)
def test_mirrored_robots_get_mirrored_targets_and_estimates(robot, which, size, step, border, seed):
    """Of any robot that is told to move, straight ahead, sideways and turning on the spot too, from the first step on.

    Behind the mirror the clock is half a cycle later; ``border`` puts the first step next to the change of its sign.
    For robots that are told to stand, this does not hold by design: see the next test. Of images that nothing chooses
    among the actor takes the mean, so that the half turn is no exception.
    """
    task, policy = exported(robot)
    mirrors = list(task.robot.mirrors.values())
    mirror, half = mirrors[which % len(mirrors)], policy.cycle_steps // 2
    start = step if border is None else half * (step % 2) + border
    generator = torch.Generator().manual_seed(seed)
    inputs = [signals_of(size * WALKS, generator) for _ in range(STEPS)]
    here = rolled(policy, inputs, just_reset(policy, start))
    images = [mirrored(task, mirror, signals) for signals in inputs]
    there = rolled(policy, images, just_reset(policy, start + half))
    (perm, sign), polar = joint_mirror(task.robot, mirror), torch.tensor(SIGNS["vector"][mirror.axis])
    for (target, action, velocity, _), (target_image, action_image, velocity_image, _) in zip(here, there, strict=True):
        assert action.abs().max() > 0.05
        close(action_image, action[:, perm] * sign)
        close(target_image, target[:, perm] * sign)
        close(velocity_image, velocity * polar)


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_that_stands_is_left_as_it_is(robot):
    """It has no clock and no command: its action is that of the network, neither mirrored nor a mean."""
    _, policy = exported(robot)
    signals = signals_of(torch.zeros(N, 3), torch.Generator().manual_seed(0))
    state = just_reset(policy, 7)
    with torch.inference_mode():
        observation, _ = policy.observation(*signals.values(), state)
        action, estimates = policy.actor.actor.with_estimates(observation)
        found = policy(*signals.values(), state)
    assert torch.equal(found[1], action) and torch.equal(found[2], estimates)


@pytest.mark.slow
def test_the_graph_is_the_module(tmp_path: Path):
    """With all mirrors, estimates and calibration in it, over steps, for one robot and for several."""
    _, policy = exported("anymal-c")
    _export_graph(policy, tmp_path / "policy.onnx")
    session = open_session(tmp_path / "policy.onnx")
    assert [output.name for output in session.get_outputs()] == list(policy.output_widths)
    assert f"{ESTIMATE}base_lin_vel" in policy.output_widths
    generator = torch.Generator().manual_seed(3)
    commands = torch.cat((1.3 * WALKS[1:], torch.zeros(1, 3)))
    for rows in (slice(None), slice(1, 2)):
        state = just_reset(policy, 3)[rows]
        for _ in range(30):
            signals = {name: value[rows] for name, value in signals_of(commands, generator).items()}
            feed = {name: value.numpy() for name, value in {**signals, "state": state}.items()}
            found = session.run(None, feed)
            with torch.inference_mode():
                expected = policy(*signals.values(), state)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)
            state = torch.from_numpy(found[-1])
