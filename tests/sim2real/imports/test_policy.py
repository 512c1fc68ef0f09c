"""The halves of a described policy against a slow account of what a runner does, step by step."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
import torch
from gaitway_sim2real.bundle.golden import plausible_signals
from gaitway_sim2real.imports.description_file import description_from
from gaitway_sim2real.imports.policy import Mover, Observer
from sim2real.imports.published import GO2, description

STEPS, ROBOTS = 45, 3


def signals_for(d, seed=0):
    return plausible_signals(
        np.array(GO2.default_joint_pos), np.array(list(d.command.ranges.values())), steps=STEPS, batch=ROBOTS,
        step_dt=d.control_dt, seed=seed, estimated={"base_lin_vel": 3},
    )  # fmt: skip


def roll(d, signals, act=lambda observation: observation[:, :12]):
    """Observations (T, N, D), targets and actions of the two halves with ``act`` between them."""
    observer = Observer(d, GO2.joint_names)
    mover = Mover(observer, GO2.joint_names, GO2.default_joint_pos)
    state = torch.zeros(ROBOTS, sum(observer.widths))
    rows = []
    for step in range(STEPS):
        inputs = [torch.from_numpy(signals[name][step]) for name in list(observer.input_widths)[:-1]]
        observation, kept = observer(*inputs, state)
        target, action, state = mover(act(observation), kept)
        rows.append((observation.numpy(), target.numpy(), action.numpy()))
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def gravity(quat):
    w, x, y, z = quat
    return np.array([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1])


def frames_of(d, signals, robot):
    """Each step's frame of one robot, written out; the action is the first twelve numbers of the observation."""
    order = [GO2.joint_names.index(name) for name in d.joints]
    pose, history, last, rows = np.array(d.default_joint_pos), deque(maxlen=8), np.zeros(12), []
    for step in range(STEPS):
        q, v = (signals[name][step, robot][order] for name in ("joint_pos", "joint_vel"))
        frame = np.concatenate([
            signals["gyro"][step, robot] * 0.25, gravity(signals["imu_quat_wxyz"][step, robot]),
            signals["command"][step, robot] * [2.0, 2.0, 0.25], q - pose, v * 0.05, last,
        ])  # fmt: skip
        history.append(frame)
        seen = _read(d, list(history))
        last = seen[:12]
        rows.append(seen)
    return np.stack(rows)


def _read(d, history):
    """The policy's input of the frames so far, oldest first."""

    def at(age):
        if age < len(history):
            return history[-1 - age]
        return history[0] if d.history.fill == "first" else np.zeros_like(history[0])

    if d.history.by == "step":
        return np.concatenate([at(age) for age in d.history.ages])
    ends = np.cumsum([d.width(term) for term in d.observation])
    starts = [0, *ends[:-1]]
    return np.concatenate([at(age)[a:b] for a, b in zip(starts, ends, strict=True) for age in d.history.ages])


@pytest.mark.parametrize("by", ["term", "step"])
@pytest.mark.parametrize("fill", ["first", "zeros"])
@pytest.mark.parametrize("ages", [(0,), (2, 1, 0), (0, 1, 2), (0, 3)], ids=str)
def test_histories_are_laid_out_and_filled_as_the_runner_does(ages, by, fill):
    d = description_from(description(history={"ages": list(ages), "by": by, "fill": fill}), "d.yaml")
    signals = signals_for(d)
    observations, _, _ = roll(d, signals)
    assert observations.shape[2] == d.observation_dim == 45 * len(ages)
    for robot in range(ROBOTS):
        np.testing.assert_allclose(observations[:, robot], frames_of(d, signals, robot), atol=2e-6)


@pytest.mark.parametrize("fill", ["first", "zeros"])
def test_a_term_may_have_frames_of_its_own(fill):
    terms = ["base_ang_vel", {"term": "generated_commands", "ages": [1, 3]}, "base_ang_vel"]
    d = description_from(description(observation=terms, history={"fill": fill}), "d.yaml")
    signals = signals_for(d)
    seen = numbers(d, signals)
    assert seen.shape[2] == d.observation_dim == 3 + 2 * 3 + 3
    for step in range(STEPS):
        frames = [
            signals["command"][max(step - age, 0)] * float(step >= age or fill == "first") for age in (1, 3)
        ]  # fmt: skip
        gyro = signals["gyro"][step]
        np.testing.assert_allclose(seen[step], np.concatenate([gyro, *frames, gyro], 1), atol=1e-6)


def test_targets_are_in_the_contracts_order_and_clipped():
    d = description_from(
        description(action={"scale": {".*hip.*": 0.125, ".*": 0.25}, "raw_clip": 0.2, "clip": {".*calf.*": [-1.6, -1.4],
                                                                                         ".*": [-9.0, 9.0]}}),
        "d.yaml",
    )  # fmt: skip
    observations, targets, actions = roll(d, signals_for(d))
    raw = np.clip(observations[..., :12], -0.2, 0.2)
    for place, name in enumerate(d.joints):
        column = GO2.joint_names.index(name)
        np.testing.assert_array_equal(actions[..., column], raw[..., place])
        scale = 0.125 if "hip" in name else 0.25
        expected = np.float32(d.default_joint_pos[place]) + np.float32(scale) * raw[..., place]
        if "calf" in name:
            expected = expected.clip(-1.6, -1.4)
        np.testing.assert_allclose(targets[..., column], expected, atol=1e-6)


def test_joints_that_the_policy_does_not_move_stay_where_they_are_held():
    legs = [name for name in description()["joints"] if "FR" not in name]
    d = description_from(description(joints=legs, observation=["joint_pos_rel", "last_action"]), "d.yaml")
    _, targets, actions = roll(d, signals_for(d), act=lambda observation: observation[:, :9])
    for column, name in enumerate(GO2.joint_names):
        if "FR" in name:
            assert (targets[..., column] == np.float32(GO2.default_joint_pos[column])).all()
            assert (actions[..., column] == 0).all()
        else:
            assert np.ptp(targets[..., column]) > 0.01


def numbers(d, signals):
    return roll(d, signals, act=lambda observation: torch.zeros(ROBOTS, 12))[0]


def test_commands_are_clamped_then_dead_then_slew():
    ranges = {"lin_vel_x": [-0.3, 0.3], "lin_vel_y": [-0.2, 0.2], "ang_vel_z": [-1.0, 1.0]}
    d = description_from(
        description(observation=["generated_commands"],
                    command={"ranges": ranges, "clamp": True, "deadband": 0.25, "acceleration": [1.0, 1.0, 2.0]}),
        "d.yaml",
    )  # fmt: skip
    signals = signals_for(d)
    signals["command"] *= 3.0
    seen, now = numbers(d, signals), np.zeros((ROBOTS, 3))
    for step in range(STEPS):
        wanted = signals["command"][step].clip([-0.3, -0.2, -1.0], [0.3, 0.2, 1.0])
        wanted[np.linalg.norm(wanted[:, :2], axis=1) < 0.25, :2] = 0.0
        now = now + (wanted - now).clip(np.array([-1, -1, -2]) * 0.02, np.array([1, 1, 2]) * 0.02)
        np.testing.assert_allclose(seen[step], now, atol=1e-6)


CLOCK = {"frequency": 1.5, "offsets": [0.0, 0.5]}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("frequency", [1.5, 1.25, 1.0, 1.37])
def test_a_clock_of_any_frequency_keeps_its_phase(frequency, first):
    clock = {**CLOCK, "frequency": frequency, "first": first}
    d = description_from(description(observation=["phase_sin", "phase_cos"], clock=clock), "d.yaml")
    seen = numbers(d, signals_for(d))
    angle = 2 * np.pi * ((np.arange(STEPS)[:, None] + first) * frequency * 0.02 + np.array([0.0, 0.5]))
    expected = np.concatenate([np.sin(angle), np.cos(angle)], 1)
    np.testing.assert_allclose(seen, np.repeat(expected[:, None], ROBOTS, 1), atol=2e-6)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("phase", [None, 0.5])
def test_a_clock_rests_with_the_command(phase, restarts):
    clock = {**CLOCK, "rest_below": 0.01, "rest_phase": phase, "restarts": restarts}
    d = description_from(description(observation=["phase_sin", "phase_cos"], clock=clock), "d.yaml")
    signals = signals_for(d)
    signals["command"][:] = 0.5
    signals["command"][10:20] = 0.001
    seen, count = numbers(d, signals), 0
    for step in range(STEPS):
        angle = 2 * np.pi * (count * 0.03 + np.array([0.0, 0.5]))
        expected = np.concatenate([np.sin(angle), np.cos(angle)])
        count += 1
        if 10 <= step < 20:
            expected = np.array([0.0, 0.0, -1.0, -1.0]) if phase else np.zeros(4)
            count = 0 if restarts else count
        np.testing.assert_allclose(seen[step], np.tile(expected, (ROBOTS, 1)), atol=2e-6)


def test_moving_is_zero_where_the_clock_rests():
    clock = {**CLOCK, "rest_below": 0.01}
    d = description_from(description(observation=["moving"], clock=clock), "d.yaml")
    signals = signals_for(d)
    signals["command"][:] = 0.5
    signals["command"][10:20] = 0.001
    expected = np.ones((STEPS, ROBOTS, 1))
    expected[10:20] = 0.0
    np.testing.assert_array_equal(numbers(d, signals), expected)
    never = description_from(description(observation=["moving"], clock=CLOCK), "d.yaml")
    assert (numbers(never, signals) == 1.0).all()


def test_a_longer_stance_stretches_the_first_half_of_the_phase():
    clock = {"frequency": 1.5, "offsets": [0.83, 0.33], "stance": 0.6}
    d = description_from(description(observation=["phase", "phase_sin"], clock=clock), "d.yaml")
    seen = numbers(d, signals_for(d))
    for step in range(STEPS):
        feet = [(step * 0.03 + offset) % 1.0 for offset in (0.83, 0.33)]
        warped = [x / 1.2 if x < 0.6 else 0.5 + (x - 0.6) / 0.8 for x in feet]
        apart = np.abs(seen[step, :, :2] - warped)
        assert np.minimum(apart, 1.0 - apart).max() < 2e-6
        np.testing.assert_allclose(
            seen[step, :, 2:], np.tile(np.sin(2 * np.pi * np.array(warped)), (ROBOTS, 1)), atol=5e-6
        )


def test_a_raw_phase_counts_cycles_and_shows_its_rest_as_it_is():
    clock = {"frequency": 1.4, "offsets": [0.0, 0.5, 0.75, 0.25], "first": 1, "rest_below": 0.01, "rest_phase": -1.0}
    d = description_from(description(observation=["phase"], clock=clock), "d.yaml")
    signals = signals_for(d)
    signals["command"][:] = 0.5
    signals["command"][10:20] = 0.001
    seen = numbers(d, signals)
    assert (seen[10:20] == -1.0).all()
    for step in (*range(10), *range(20, STEPS)):
        expected = np.mod((step + 1) * 1.4 * 0.02 + np.array(clock["offsets"]), 1.0)
        apart = np.abs(seen[step] - expected)
        assert np.minimum(apart, 1.0 - apart).max() < 1e-6 and (seen[step] >= 0.0).all() and (seen[step] < 1.0).all()


@pytest.mark.parametrize("key", ["previous_action", "previous_result"])
def test_a_low_pass_mixes_targets_with_the_past_and_not_the_last_action(key):
    d = description_from(
        description(action={"scale": 0.25, "raw_clip": 0.2, key: 0.2}, observation=["joint_pos_rel", "last_action"]),
        "d.yaml",
    )
    observations, targets, actions = roll(d, signals_for(d))
    past = np.zeros((ROBOTS, 12))
    for step in range(STEPS):
        raw = observations[step][:, :12].clip(-0.2, 0.2)
        if step:
            np.testing.assert_array_equal(observations[step][:, 12:], observations[step - 1][:, :12].clip(-0.2, 0.2))
        mixed = 0.8 * raw + 0.2 * past
        for place, name in enumerate(d.joints):
            column = GO2.joint_names.index(name)
            wanted = d.default_joint_pos[place] + 0.25 * mixed[:, place]
            np.testing.assert_allclose(targets[step][:, column], wanted, atol=1e-6)
            np.testing.assert_array_equal(actions[step][:, column], raw[:, place])
        past = raw if key == "previous_action" else mixed


def test_a_clock_may_go_faster_with_the_command():
    clock = {"frequency": 1.25, "faster": 0.5, "fastest_at": 1.5}
    d = description_from(description(observation=["phase_sin"], clock=clock), "d.yaml")
    signals = signals_for(d)
    phase, seen = np.zeros(ROBOTS), numbers(d, signals)
    for step in range(STEPS):
        np.testing.assert_allclose(seen[step, :, 0], np.sin(2 * math.pi * phase), atol=1e-5)
        length = np.linalg.norm(signals["command"][step], axis=1)
        phase += 0.02 * (1.25 + 0.5 * np.minimum(length, 1.5) / 1.5)


def test_terms_are_clamped_then_scaled_and_columns_and_zeros_are_as_told():
    d = description_from(
        description(
            observation=[
                {"term": "base_ang_vel", "clip": [-0.1, 0.1], "scale": 4.0},
                {"term": "generated_commands", "columns": [2, 0]},
                {"term": "joint_vel_rel", "zeroed": ["FL_hip_joint"]},
                {"term": "constant", "value": 1.0},
                {"term": "constant", "value": [0.5, -0.25], "scale": 2.0},
                {"term": "base_lin_vel", "at": [0.1, 0.0, 0.2]},
            ],
            clip_observation=2.0,
        ),
        "d.yaml",
    )
    signals = signals_for(d)
    seen = numbers(d, signals)
    gyro, v = signals["gyro"], signals["joint_vel"][..., [GO2.joint_names.index(name) for name in d.joints]].copy()
    v[..., d.joints.index("FL_hip_joint")] = 0.0
    velocity = signals["base_lin_vel"] + np.cross(gyro, [0.1, 0.0, 0.2])
    expected = np.concatenate([
        gyro.clip(-0.1, 0.1) * 4.0, signals["command"][..., [2, 0]], v, np.ones((STEPS, ROBOTS, 1)),
        np.tile([1.0, -0.5], (STEPS, ROBOTS, 1)), velocity,
    ], -1).clip(-2.0, 2.0)  # fmt: skip
    np.testing.assert_allclose(seen, expected, atol=2e-6)


def test_euler_angles_are_roll_pitch_yaw():
    d = description_from(description(observation=["euler_xyz"]), "d.yaml")
    signals = signals_for(d)
    roll_, pitch, yaw = 0.3, -0.2, 2.5
    half = np.array([roll_, pitch, yaw]) / 2
    (cr, cp, cy), (sr, sp, sy) = np.cos(half), np.sin(half)
    quat = [
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    ]
    signals["imu_quat_wxyz"][:] = quat
    np.testing.assert_allclose(numbers(d, signals), np.full((STEPS, ROBOTS, 3), [roll_, pitch, yaw]), atol=1e-6)
