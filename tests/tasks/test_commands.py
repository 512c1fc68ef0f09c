"""Velocity commands: ranges, shares, heading control, resampling times, state."""

import math
from dataclasses import replace

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.math import quat_from_yaw
from gaitway_tasks.mdp.commands import UniformVelocityCommand, VelocityCommandGenerator
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close

N = 20_000
CFG = UniformVelocityCommand(lin_vel_x=(-1.0, 2.0), lin_vel_y=(-0.5, 0.5), resampling_time_range=(4.0, 8.0))


def make(cfg, n=N, seed=0):
    world = TensorWorld(ANYMAL_C, n)
    return VelocityCommandGenerator(cfg, world, torch.Generator().manual_seed(seed)), world


def sampled(cfg):
    generator, _ = make(cfg)
    generator.resample(torch.arange(N))
    return generator


def test_uniform_over_the_ranges():
    generator = sampled(replace(CFG, heading_command=False))
    for values, (low, high) in (
        (generator.command[:, 0], CFG.lin_vel_x),
        (generator.command[:, 1], CFG.lin_vel_y),
        (generator.command[:, 2], CFG.ang_vel_z),
        (generator.heading_target, CFG.heading),
        (generator.time_left, CFG.resampling_time_range),
    ):
        assert (values >= low).all() and (values <= high).all()
        span = high - low
        # Mean and variance of a uniform variable, to five standard errors.
        assert abs(values.mean().item() - (low + high) / 2) < 5 * span / math.sqrt(12 * N)
        assert values.var().item() == pytest.approx(span**2 / 12, rel=0.05)
    # Independent draws: no pair of columns is correlated.
    columns = torch.stack((*generator.command.T, generator.heading_target, generator.time_left))
    correlation = torch.corrcoef(columns) - torch.eye(5)
    assert correlation.abs().max() < 5 / math.sqrt(N)


def test_shares_of_standing_heading_and_single_axis_environments():
    generator = sampled(replace(CFG, rel_standing_envs=0.1, rel_heading_envs=0.7, rel_zero_axis=0.25))
    for share, expected in (
        (generator.is_standing, 0.1),
        (generator.is_heading, 0.7),
        (generator.command[:, 0] == 0, 0.25),
        (generator.command[:, 1] == 0, 0.25),
        ((generator.command[:, :2] == 0).all(1), 0.0625),
        (generator.is_standing & generator.is_heading, 0.07),  # drawn independently
    ):
        assert share.float().mean().item() == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / N))
    generator.follow()
    assert not generator.command[generator.is_standing].any()
    assert (generator.command[~generator.is_standing, 2] != 0).all()


STRAIGHT = replace(CFG, ang_vel_z=(-0.8, 1.5), heading_command=False, rel_standing_envs=0.0)


SIDES = [(a, b, c) for c in (-1, 0, 1) for b in (-1, 0, 1) for a in (-1, 0, 1)]
"""Signs of the three speeds, the first of which changes fastest."""


def test_ends_have_their_share_and_are_near_the_ends():
    command = sampled(replace(STRAIGHT, rel_ends=0.3)).command
    ranges = torch.tensor([STRAIGHT.lin_vel_x, STRAIGHT.lin_vel_y, STRAIGHT.ang_vel_z])
    shares = command / torch.where(command > 0, ranges[:, 1], ranges[:, 0])
    most = shares.amax(1, keepdim=True)
    assert (shares >= 0.0).all() and (most <= 1.0 + 1e-6).all()
    # Each speed is 0 or the same share of an end as the others are, which chance alone does not give.
    drawn = ((shares == 0) | ((shares - most).abs() < 1e-4)).all(1)
    assert drawn.float().mean().item() == pytest.approx(0.3, abs=5 * math.sqrt(0.3 * 0.7 / N))
    near = most[drawn & (most[:, 0] > 0), 0]
    assert near.min() >= 0.8 - 1e-4
    assert near.mean().item() == pytest.approx(0.9, abs=5 * 0.2 / math.sqrt(12 * len(near)))
    which = (command[drawn].sign() + 1).long() @ torch.tensor([1, 3, 9])
    counts = torch.bincount(which, minlength=27) / len(which)
    zeros = (command[drawn] == 0).sum(1)
    expected = torch.tensor([0.375 ** (3 - n) * 0.25**n for n in range(4)])
    share = torch.stack([expected[(torch.tensor(side) == 0).sum()] for side in SIDES])
    assert ((counts - share).abs() < 5 * (share / len(which)).sqrt()).all()
    assert zeros.float().mean().item() == pytest.approx(0.75, abs=5 * 0.75 / math.sqrt(len(which)))


def test_a_margin_widens_what_was_drawn():
    plain, wide = sampled(replace(STRAIGHT, rel_ends=0.3)), sampled(replace(STRAIGHT, rel_ends=0.3, margin=0.1))
    close(wide.command, 1.1 * plain.command, 1e-6)
    assert wide.command[:, 2].max() > 1.5 and wide.command[:, 0].min() < -1.0
    standing = sampled(replace(STRAIGHT, rel_ends=1.0, margin=0.1, rel_standing_envs=1.0))
    standing.follow()
    assert not standing.command.any()


def test_without_ends_the_draws_are_those_of_old():
    """One uniform draw of (9, n), row after row, as runs from before ends and margins made it."""
    cfg = replace(STRAIGHT, rel_zero_axis=0.25)
    mine, theirs = make(cfg, n=50)[0], torch.Generator().manual_seed(0)
    mine.resample(torch.arange(50))
    r = torch.rand(9, 50, generator=theirs)
    limits = zip((cfg.lin_vel_x, cfg.lin_vel_y, cfg.ang_vel_z), r[1:4], strict=True)
    x, y, yaw = (low + (high - low) * row for (low, high), row in limits)
    assert torch.equal(mine.command, torch.stack((x * (r[7] >= 0.25), y * (r[8] >= 0.25), yaw), 1))
    assert torch.equal(mine.generator.get_state(), theirs.get_state())


def test_all_and_none():
    assert sampled(replace(CFG, rel_standing_envs=1.0)).is_standing.all()
    assert not sampled(replace(CFG, rel_standing_envs=0.0)).is_standing.any()
    assert sampled(replace(CFG, rel_heading_envs=1.0)).is_heading.all()
    assert not sampled(replace(CFG, heading_command=False)).is_heading.any()


def test_heading_control_by_hand():
    generator, world = make(replace(CFG, heading_control_stiffness=0.5, ang_vel_z=(-0.6, 0.8)), n=5)
    generator.is_heading[:] = torch.tensor([True, True, True, True, False])
    generator.heading_target = torch.tensor([1.0, 3.0, 3.0, -2.0, 3.0])
    generator.command = torch.tensor([[0.4, 0.1, 9.0]]).repeat(5, 1)
    world.robot.root_quat_wxyz = quat_from_yaw(torch.tensor([0.2, -3.0, 0.5, 1.0, 0.0]))
    generator.follow()
    # 0.5 x 0.8; across the cut at pi: 0.5 x (6 - 2 pi); clipped above; clipped below; not a heading environment.
    close(generator.command[:, 2], [0.4, 0.5 * (6.0 - 2 * math.pi), 0.8, -0.6, 9.0], 1e-5)
    close(generator.command[:, :2], [[0.4, 0.1]] * 5)


def test_standing_wins_over_heading():
    generator, _ = make(CFG, n=1)
    generator.is_heading[:] = generator.is_standing[:] = True
    generator.heading_target[:], generator.command[:] = 1.0, 0.5
    generator.follow()
    close(generator.command, [[0.0, 0.0, 0.0]])


def test_commands_change_exactly_when_their_time_is_up():
    generator, _ = make(replace(CFG, heading_command=False, rel_standing_envs=0.0), n=2)
    generator.resample(torch.arange(2))
    generator.time_left[:] = torch.tensor([0.05, 9.0])
    before = generator.command.clone()
    for _ in range(2):
        generator.step(0.02)
    assert torch.equal(generator.command, before)
    generator.step(0.02)  # 0.05 s have passed
    assert (generator.command[0] != before[0]).all() and torch.equal(generator.command[1], before[1])
    assert 4.0 <= generator.time_left[0] <= 8.0 and generator.time_left[1] == pytest.approx(8.94)


def test_state_is_complete_and_seeded():
    first, second, other = (make(CFG, n=16, seed=seed)[0] for seed in (3, 3, 4))
    for generator in (first, second, other):
        generator.resample(torch.arange(16))
        generator.step(0.02)
    for name in VelocityCommandGenerator.STATE:
        assert torch.equal(getattr(first, name), getattr(second, name))
    assert not torch.equal(first.command, other.command)
    tensors = {name for name, value in vars(first).items() if isinstance(value, torch.Tensor)}
    assert tensors == set(VelocityCommandGenerator.STATE)


def test_a_ramp_follows_what_was_drawn_and_an_episode_begins_at_rest():
    cfg = replace(CFG, heading_command=False, ramp=True, acceleration=(1.0, 0.5, 2.0), rel_standing_envs=0.2)
    generator, world = make(cfg, 500)
    generator.resample(torch.arange(500))
    world.episode_step = torch.zeros(500, dtype=torch.int64)
    generator.step(0.02)
    assert not generator.command.any()
    before = generator.command.clone()
    for _ in range(40):
        world.episode_step += 1
        generator.step(0.02)
        changed = (generator.command - before).abs().amax(0)
        assert (changed <= torch.tensor([0.02, 0.01, 0.04]) + 1e-6).all()
        before = generator.command.clone()
    slow = generator.asked.abs() <= torch.tensor([0.8, 0.4, 1.6]) - 1e-3  # reached in 0.8 s
    close(generator.command[slow], generator.asked[slow].numpy())
    assert slow.any() and not slow.all()
    assert 0.1 < (generator.asked == 0.0).all(1).float().mean() < 0.3  # who stands is asked for nothing
    world.episode_step[7] = 0
    generator.step(0.02)
    assert not generator.command[7].any() and generator.command[8].any()
    assert set(generator.state_dict()) >= {"asked", "command"}


@pytest.mark.parametrize("wrong", [{"heading_command": True, "acceleration": 3 * (1.0,)}, {"acceleration": None}])
def test_a_ramp_needs_an_acceleration_and_no_heading(wrong):
    with pytest.raises(UserError, match=r"ramp: .* needs acceleration, and heading_command false"):
        replace(CFG, **{"heading_command": False, "ramp": True} | wrong)


def test_a_robot_that_is_told_to_stop_has_time_to_settle():
    """From the moment at which its command is short, not from that at which it was told."""
    cfg = replace(CFG, heading_command=False, ramp=True, acceleration=(1.0, 1.0, 1.0), rel_standing_envs=0.0)
    generator, world = make(replace(cfg, settle=0.1, resampling_time_range=(9.0, 9.0)), 3)
    generator.resample(torch.arange(3))
    world.episode_step = torch.full((3,), 5)
    generator.asked[:] = torch.tensor([[0.21, 0.0, 0.0], [0.05, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for _ in range(20):
        generator.step(0.02)
    assert generator.settling is not None and generator.settling.tolist() == pytest.approx([0.1, 0.0, 0.0])
    generator.asked[:] = 0.0
    left = []
    for _ in range(14):
        generator.step(0.02)
        left.append(generator.settling[0].item())
    # Six steps of 0.02 m/s until the command is short, the last of which is the first of five of 0.02 s.
    assert left == pytest.approx([0.1] * 5 + [0.08, 0.06, 0.04, 0.02, 0.0] + [0.0] * 4, abs=1e-6)
    generator.asked[:] = torch.tensor([[0.5, 0.0, 0.0]])
    for _ in range(8):
        generator.step(0.02)
    world.episode_step[0] = 0
    generator.step(0.02)
    assert generator.settling.tolist() == pytest.approx([0.0, 0.1, 0.1])
    assert make(cfg, 2)[0].settling is None


def test_time_to_settle_is_not_below_zero():
    with pytest.raises(UserError, match=r"settle = -0\.1 s: it must be 0 or a time"):
        replace(CFG, settle=-0.1)
