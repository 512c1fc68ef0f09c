"""Commands corrected by what a robot does with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_sim2real.bundle.calibration import (
    LEAST_ROBOTS,
    NUM_FEATURES,
    CommandCalibration,
    allowed,
    ends_of,
    features,
    fit,
    grid,
)
from gaitway_sim2real.bundle.in_memory import calibrated
from gaitway_tasks.mdp.commands import UniformVelocityCommand
from gaitway_tasks.robots import ANYMAL_C, ROBOTS
from gaitway_tasks.spec import Task
from gaitway_tasks.symmetry import SIGNS
from torch import Tensor, nn

COMMAND = UniformVelocityCommand(lin_vel_x=(-1.0, 1.5), lin_vel_y=(-0.5, 0.5), ang_vel_z=(-1.0, 1.0), margin=0.1)
MIRRORS = {"both": list(ANYMAL_C.mirrors.values()), "left-right": list(ROBOTS["go2"].mirrors.values()), "none": []}


def walks(told: Tensor) -> Tensor:
    """Velocities (vx, vy, yaw rate) of a robot that is slow, slower while it turns, and drifts as curves do."""
    x, y, yaw = told.T
    slow = 0.9 - 0.05 * yaw.abs() - 0.02 * x**2
    return torch.stack((slow * x, 0.85 * y + 0.04 * x * yaw, 0.93 * yaw + 0.05 * x * y), 1)


def fitted(mirrors: str) -> CommandCalibration:
    told = grid(COMMAND)
    found = walks(torch.from_numpy(told)).numpy()
    calibration = fit(told, found, COMMAND, MIRRORS[mirrors])
    assert calibration is not None
    return calibration


def commands(rows: int = 500, most: float = 0.75) -> Tensor:
    ranges = torch.tensor([COMMAND.lin_vel_x, COMMAND.lin_vel_y, COMMAND.ang_vel_z]) * most
    return ranges[:, 0] + (ranges[:, 1] - ranges[:, 0]) * torch.rand(
        rows, 3, generator=torch.Generator().manual_seed(7)
    )


def random_calibration(mirrors: str, size: float = 0.05) -> CommandCalibration:
    table = size * torch.randn(3, NUM_FEATURES, generator=torch.Generator().manual_seed(1)) * allowed(MIRRORS[mirrors])
    return CommandCalibration(table, ends_of(COMMAND), 1.1)


@pytest.mark.parametrize("mirrors", MIRRORS)
def test_a_smooth_error_is_taken_out_of_commands_never_measured(mirrors: str):
    asked = commands()
    before = (walks(asked) - asked).abs().max()
    after = (walks(fitted(mirrors)(asked)) - asked).abs().max()
    assert before > 0.1 and after < 0.01


def test_robots_that_fell_do_not_count_and_too_few_tell_nothing():
    told = grid(COMMAND)
    found = walks(torch.from_numpy(told)).numpy()
    found[LEAST_ROBOTS:] = np.nan
    assert fit(told, found, COMMAND, []) is not None
    found[0, 1] = np.nan
    assert fit(told, found, COMMAND, []) is None


def test_what_is_measured_lies_in_the_ranges_as_trained():
    told = grid(COMMAND)
    ranges = 1.1 * np.array([COMMAND.lin_vel_x, COMMAND.lin_vel_y, COMMAND.ang_vel_z])
    assert (told >= ranges[:, 0] - 1e-9).all() and (told <= ranges[:, 1] + 1e-9).all()
    for axis in range(3):
        alone = told[(np.delete(told, axis, 1) == 0).all(1), axis]
        np.testing.assert_allclose([alone.min(), alone.max()], ranges[axis])
    assert np.array_equal(told, grid(COMMAND))  # the same policy gets the same calibration


@pytest.mark.parametrize("mirrors", MIRRORS)
def test_standing_stays_standing(mirrors: str):
    assert not features(torch.zeros(1, 3)).any()
    for calibration in (fitted(mirrors), random_calibration(mirrors)):
        assert not calibration(torch.zeros(1, 3)).any()


@pytest.mark.parametrize("mirrors", ["both", "left-right"])
def test_mirrored_commands_are_told_mirrored(mirrors: str):
    asked = torch.cat((commands(most=1.3), torch.eye(3), -torch.eye(3)))
    for calibration in (fitted(mirrors), random_calibration(mirrors)):
        for mirror in MIRRORS[mirrors]:
            signs = torch.tensor(SIGNS["planar_twist"][mirror.axis])
            torch.testing.assert_close(calibration(asked * signs), calibration(asked) * signs, rtol=0.0, atol=1e-6)
    lopsided = CommandCalibration(0.05 * torch.ones(3, NUM_FEATURES), ends_of(COMMAND), 1.1)
    signs = torch.tensor(SIGNS["planar_twist"][MIRRORS["left-right"][0].axis])
    assert not torch.allclose(lopsided(asked * signs), lopsided(asked) * signs, atol=1e-3)


def test_the_inverse_undoes_it_both_ways():
    calibration, asked = fitted("both"), commands()
    torch.testing.assert_close(calibration.inverse(calibration(asked)), asked, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(calibration(calibration.inverse(asked)), asked, rtol=0.0, atol=1e-5)


def test_no_command_is_told_beyond_what_was_learnt():
    """Unless it is itself: then it is made no larger."""
    ends, asked = ends_of(COMMAND), commands(most=1.5)
    for size in (0.05, 1.0):
        shares = random_calibration("none", size)(asked) / ends
        assert (shares.abs() <= (asked / ends).abs().clamp(min=1.1) + 1e-6).all()
        assert (shares - asked / ends).abs().max() <= 0.25 + 1e-6
    assert shares.abs().max() > 1.1


def test_an_axis_that_is_not_commanded_has_an_end_all_the_same():
    ends = ends_of(dataclasses.replace(COMMAND, lin_vel_y=(0.0, 0.0)))
    assert ends.tolist() == [1.5, 1.0, 1.0]


def test_a_contract_carries_it(bundle: Path, reseal: Callable[..., None]):
    calibration = fitted("both")
    reseal(bundle, command_calibration=calibration.described())
    described = Contract.load(bundle).command_calibration
    assert described is not None
    again = CommandCalibration.of(described)
    assert torch.equal(again(commands()), calibration(commands()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("factors", ((0.0,) * (NUM_FEATURES - 1),) * 3),
        ("factors", ((0.0,) * NUM_FEATURES,) * 2),
        ("ends", (1.0, 1.0)),
        ("ends", (1.0, 0.0, 1.0)),
        ("most", 0.9),
    ],
)
def test_a_contract_with_another_shape_is_refused(bundle: Path, reseal: Callable[..., None], field: str, value: object):
    described = fitted("both").described()
    with pytest.raises(BundleError, match=rf"command_calibration.*{field}"):
        reseal(bundle, command_calibration=dataclasses.replace(described, **{field: value}))
        Contract.load(bundle)


class Stands(nn.Module):
    """Holds the default pose whatever it is told."""

    def forward(self, observation: Tensor) -> Tensor:
        return torch.zeros(len(observation), 12)


def test_a_policy_that_knows_no_more_than_its_ranges_is_not_calibrated(task: Task):
    assert task.commands["base_velocity"].margin == 0.0
    assert calibrated(task, Stands()).calibration is None


def test_a_policy_that_knows_more_is_measured_in_simulation(task: Task):
    """One that only stands moves at no speed: the largest correction in every direction, as mirrors have it."""
    command = dataclasses.replace(task.commands["base_velocity"], margin=0.1)
    policy = calibrated(task.replace(commands={"base_velocity": command}), Stands())
    assert policy.calibration is not None
    assert policy.calibration.most == pytest.approx(1.1)
    assert not policy.calibration.table[~allowed(list(task.robot.mirrors.values()))].any()
