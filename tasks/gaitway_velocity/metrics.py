"""Numbers from a recording. Pure numpy; every mean runs over the time before a robot's fall, robots weigh the same."""

from __future__ import annotations

import math

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.model import GRAVITY
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.metric import GENERAL, Metric, level, measure_general, per_robot
from gaitway_sim2real.trial.simulate import Trajectory

from .gait import gait_metrics
from .needs import ARMS, FOOT_PAIRS, HANDS, SOLES, TWO_FEET
from .rest import rest_metrics, stop_metrics
from .steady import steady_metrics

MOVING = 0.2  # [m/s], commands slower than this say nothing about the cost of transport


EVERY = {each.name: each for each in GENERAL}
_ROWS: tuple[Metric, ...] = (
    EVERY["falls"],
    Metric(
        "corner_falls",
        "Falls at corners",
        "",
        "Corners of the command ranges, mirror images counted once, at which at least half of the robots fell.",
        places="falls at",
    ),
    Metric("crossed", "Crossed", "", "Share of robots that went their way over the ground unfallen.", percent=True),
    EVERY["cut"],
    Metric(
        "pushes_survived",
        "Pushes survived",
        "",
        "Share of pushes not followed by a fall before the next one.",
        percent=True,
    ),
    Metric("drift", "Drift", "m/s", "Mean distance from start to end over the time between."),
    Metric(
        "lin_vel_error", "Linear velocity error", "m/s", "Mean length of commanded minus measured (vx, vy), base frame."
    ),
    Metric("yaw_vel_error", "Yaw rate error", "rad/s", "Mean absolute difference of commanded and measured yaw rate."),
    Metric(
        "lin_vel_bias", "Linear velocity bias", "m/s", "Length of commanded minus mean (vx, vy), after the first 2 s."
    ),
    Metric("yaw_vel_bias", "Yaw rate bias", "rad/s", "Absolute difference of commanded and mean yaw rate, after 2 s."),
    Metric(
        "lin_vel_oscillation",
        "Linear velocity oscillation",
        "m/s",
        "Mean distance of (vx, vy) from its own mean, after 2 s.",
    ),
    Metric(
        "yaw_vel_oscillation",
        "Yaw rate oscillation",
        "rad/s",
        "Mean distance of the yaw rate from its own mean, after 2 s.",
    ),
    Metric("heading_drift", "Heading drift", "rad/s", "Mean turning while told to go straight, after the first 2 s."),
    Metric(
        "sideways_drift",
        "Sideways drift",
        "m/m",
        "Mean velocity across a straight command over that along it, in the base's heading, after 2 s.",
    ),
    Metric("stop_time", "Stopping time", "s", "From a zero command until the robot stays below 0.1 m/s and 0.1 rad/s."),
    Metric("stop_way", "Stopping distance", "m", "Greatest distance from where the command became zero."),
    Metric(
        "steps_at_rest",
        "Steps at rest",
        "",
        "Share of robots of which a foot is off the ground later than 2 s after a stop or push.",
        percent=True,
    ),
    Metric("rest_speed", "Speed at rest", "m/s", "Root mean square, from 2 s after a stop or push."),
    Metric("rest_yaw_rate", "Yaw rate at rest", "rad/s", "Root mean square, from 2 s after a stop or push."),
    Metric("rest_joint_speed", "Joint speed at rest", "rad/s", "Root mean square over joints and time at rest."),
    Metric(
        "rest_torque_change",
        "Torque change at rest",
        "/s",
        "Root mean square rate of change of the torques at rest, in shares of the effort limits.",
    ),
    Metric(
        "hand_drift",
        "Hand drift",
        "m",
        "Root mean square distance of the hands from their mean place in the base's frame, at rest.",
        needs=(HANDS,),
    ),
    Metric(
        "cost_of_transport", "Cost of transport", "", "Mechanical energy, sum of |torque x speed|, over weight x path."
    ),
    EVERY["torque_rms"],
    EVERY["torque_peak"],
    EVERY["torque_saturation"],
    EVERY["joint_speed_peak"],
    EVERY["joint_limit_use"],
    EVERY["action_rate"],
    Metric("foot_slip", "Foot slip", "m/s", "Mean tangential speed of feet on the ground."),
    Metric("air_time", "Air time", "s", "Mean time between lift-off and touch-down, at control steps."),
    Metric(
        "own_velocity_error",
        "Own velocity estimate error",
        "m/s",
        "Root mean square distance of the base's velocity as the policy estimates it from the true one.",
    ),
    Metric(
        name="swing_time",
        title="Swing time",
        unit="s",
        about="Mean swing of each foot, 0 for one that does not swing, then over the feet.",
    ),
    Metric("step_rate", "Step rate", "/s", "Completed swings per foot and second."),
    Metric(
        name="clearance",
        title="Clearance",
        unit="m",
        about="Greatest height of the lowest point of a foot in a swing: median of each foot, 0 for one that does not "
        "swing, then the mean over the lower half of the feet.",
    ),
    Metric("slip", "Slip", "m/s", "Mean tangential speed of loaded contact points, at physics steps."),
    Metric(
        "dragging_feet",
        "Dragging feet",
        "",
        "Share of feet lifted less than 0.02 L (two feet: 0.007 L) or fewer than 0.05 sqrt(g/L) times a second.",
        percent=True,
    ),
    Metric(
        "stumbles",
        "Stumbles",
        "per step",
        "Touches shorter than 0.02 s amid a swing, and pushes of the ground more sideways than five to one.",
    ),
    Metric("duty_factor", "Duty factor", "", "Share of the time that a foot stands.", percent=True),
    Metric(
        "left_right",
        "Left-right asymmetry",
        "",
        "Swing times of mirrored feet: difference over mean.",
        needs=(FOOT_PAIRS,),
    ),
    Metric("front_hind", "Front-hind asymmetry", "", "Swing times of a side's two feet: difference over mean."),
    Metric(
        "impact_speed", "Impact speed", "m/s", "Mean downward speed of the foot's lowest point just before touch-down."
    ),
    Metric(
        "torque_frequency",
        "Torque frequency",
        "Hz",
        "RMS change of the torques over their RMS deviation, as of a sine.",
    ),
    Metric("base_acceleration", "Base acceleration", "m/s²", "Root mean square over time."),
    Metric("base_height", "Base height", "", "Mean height of the base over that in the default pose.", percent=True),
    Metric("bob", "Bob", "m", "The base up and down: a sine of the same deviation, bottom to top."),
    Metric(
        "step_width",
        "Step width",
        "m",
        "Distance across the robot of a foot that touches down and the one across; negative if they cross.",
        needs=(FOOT_PAIRS,),
    ),
    Metric("double_support", "Double support", "", "Share of the time on both feet.", percent=True, needs=(TWO_FEET,)),
    *(
        Metric(
            name,
            f"{title} touch-downs",
            "",
            f"Share of touch-downs in whose first 0.02 s the ground presses on {where} of the sole.",
            percent=True,
            needs=(SOLES,),
        )
        for name, title, where in (
            ("heel_first", "Heel first", "only the rear half"),
            ("flat", "Flat", "both halves"),
            ("toe_first", "Toe first", "only the front half"),
        )
    ),
    Metric(
        "arm_swing",
        "Arm swing",
        "rad",
        "The shoulders to and fro: a sine of the same deviation, end to end.",
        needs=(ARMS,),
    ),
    Metric(
        "arms_with_legs",
        "Arms with legs across",
        "",
        "Correlation of each shoulder with the hip across: 1 as people swing, -1 with the leg of its own side.",
        needs=(ARMS,),
    ),
)
METRICS = {row.name: row for row in _ROWS}
"""Metrics by name, those that every suite has among them."""

GAIT = tuple(METRICS)[list(METRICS).index("swing_time") :]
"""Metrics of :func:`.gait.gait_metrics`, known where feet were recorded at every physics step."""


def measure(rec: Trajectory, contract: Contract, walking: np.ndarray | None = None) -> dict[str, Samples]:
    """All metrics of one recording; NaN where it holds nothing to measure (no pushes, no swing, ...).

    Shares and means keep a value per robot (per push for pushes), so that runs can be pooled and intervals are known.
    ``walking`` (N,) are the robots whose gait counts, if not all. ``corner_falls`` needs all runs of a scenario and is
    left to the suite.
    """
    told_to_stand = not np.abs(rec.command).any()
    standing = rest_metrics(rec, contract)
    lifts = standing.pop("steps_at_rest")
    gait = dict.fromkeys(GAIT, np.zeros(0)) if rec.feet is None else gait_metrics(rec, rec.feet)
    if walking is not None:
        gait = {name: values[walking[: len(values)]] for name, values in gait.items()}
    means = {
        "drift": drifts(rec) if told_to_stand else np.full(rec.command.shape[1], np.nan),
        "lin_vel_error": lin_vel_errors(rec),
        "yaw_vel_error": yaw_vel_errors(rec),
        **steady_metrics(rec),
        **stop_metrics(rec),
        **standing,
        **gait,
        "own_velocity_error": own_velocity_errors(rec),
    }
    shares = {
        "crossed": crossings(rec),
        "pushes_survived": survivals(rec.push, rec.fall_step),
        "steps_at_rest": lifts,
    }
    levels = {
        "corner_falls": math.nan,
        "cost_of_transport": cost_of_transport(rec),
        "foot_slip": foot_slip(rec),
        "air_time": air_time(rec.foot_contact, rec.alive, rec.control_dt),
    }
    samples = {
        **measure_general(rec, contract),
        **{name: Samples(values=values, kind="share") for name, values in shares.items()},
        **{name: Samples(values=values, kind="mean") for name, values in means.items()},
        **{name: level(value) for name, value in levels.items()},
    }
    return {name: samples[name] for name in METRICS}


def compute_metrics(rec: Trajectory, contract: Contract) -> dict[str, float]:
    """The values of :func:`measure`."""
    return {name: samples.value for name, samples in measure(rec, contract).items()}


def lin_vel_errors(rec: Trajectory) -> np.ndarray:
    """Mean linear tracking error of each robot [m/s], (N,)."""
    return per_robot(np.linalg.norm(rec.command[..., :2] - rec.lin_vel[..., :2], axis=-1), rec.alive)


def yaw_vel_errors(rec: Trajectory) -> np.ndarray:
    """Mean yaw rate tracking error of each robot [rad/s], (N,)."""
    return per_robot(np.abs(rec.command[..., 2] - rec.ang_vel[..., 2]), rec.alive)


def own_velocity_errors(rec: Trajectory) -> np.ndarray:
    """Root mean square error of each robot's own estimate of its base's velocity [m/s], (N,)."""
    if rec.own_velocity_error is None:
        return np.full(rec.command.shape[1], np.nan)
    square = (rec.own_velocity_error.astype(float) ** 2).sum(-1)
    found: np.ndarray = np.sqrt(per_robot(square, rec.alive))
    return found


def lin_vel_error(rec: Trajectory) -> float:
    return _mean(lin_vel_errors(rec))


def yaw_vel_error(rec: Trajectory) -> float:
    return _mean(yaw_vel_errors(rec))


def drift(rec: Trajectory) -> float:
    """Mean of :func:`drifts` [m/s]."""
    return _mean(drifts(rec))


def drifts(rec: Trajectory) -> np.ndarray:
    """Horizontal distance of each robot between start and last position before a fall, over the time [m/s], (N,)."""
    count = rec.alive.sum(0)
    last = rec.base_pos[np.maximum(count - 1, 0), np.arange(len(count))]
    distance = np.linalg.norm((last - rec.start_pos)[:, :2], axis=-1)
    return np.where(count > 0, distance / np.maximum(count * rec.control_dt, 1e-9), np.nan)


def pushes_survived(push: np.ndarray, fall_step: np.ndarray) -> float:
    """Share of the pushes given that were not followed by a fall before the next push or the end."""
    return _mean(survivals(push, fall_step))


def survivals(push: np.ndarray, fall_step: np.ndarray) -> np.ndarray:
    """1 for each push that was survived, 0 for each that was not, robot by robot."""
    given = (push != 0).any(-1)
    kept = []
    for robot, step in enumerate(fall_step):
        survived = np.ones(int(given[:, robot].sum()))
        if step >= 0 and given[: step + 1, robot].any():
            survived[-1] = 0.0
        kept.append(survived)
    return np.concatenate(kept) if kept else np.zeros(0)


def crossings(rec: Trajectory) -> np.ndarray:
    """1 for each robot that crossed its ground, 0 for each that did not, (N,); NaN where there was no way to go."""
    return np.full(rec.command.shape[1], np.nan) if rec.crossed is None else rec.crossed.astype(float)


def cost_of_transport(rec: Trajectory) -> float:
    """Mechanical cost of transport over all steps in which walking was asked for."""
    moving = rec.alive & (np.linalg.norm(rec.command[..., :2], axis=-1) >= MOVING)
    power = np.abs(rec.torque * rec.joint_vel).sum(-1)  # (T, N) [W]
    speed = np.linalg.norm(rec.lin_vel[..., :2], axis=-1)
    if not moving.any() or speed[moving].mean() < MOVING / 2:
        return np.nan  # told to walk and does not: energy per metre means nothing
    return float((power * moving).sum() / (rec.mass * GRAVITY * speed * moving).sum())


def foot_slip(rec: Trajectory) -> float:
    """Mean tangential speed of feet in contact [m/s]."""
    contact = rec.foot_contact & rec.alive[..., None]
    return float(rec.foot_slip[contact].mean()) if contact.any() else np.nan


def air_time(contact: np.ndarray, alive: np.ndarray, control_dt: float) -> float:
    """Mean length of swings that both began and ended while the robot was up [s]; contact (T, N, F)."""
    lengths: list[np.ndarray] = []
    for robot in range(contact.shape[1]):
        down = contact[: int(alive[:, robot].sum()), robot]
        if len(down) < 2:
            continue
        change = np.diff(down.astype(np.int8), axis=0)
        for foot in range(down.shape[1]):
            lift, land = np.flatnonzero(change[:, foot] == -1), np.flatnonzero(change[:, foot] == 1)
            if len(lift):
                land = land[land > lift[0]]
                lengths.append(land - lift[: len(land)])
    swings = np.concatenate(lengths) if lengths else np.zeros(0)
    return float(swings.mean() * control_dt) if swings.size else np.nan


def _mean(values: np.ndarray) -> float:
    """Mean of the finite entries; NaN if there is none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")
