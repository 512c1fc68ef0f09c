"""Numbers from a recording. Pure numpy; every mean runs over the time before a robot's fall, robots weigh the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..mujoco.model import GRAVITY
from ..pages.verdict import rounded
from .gait import gait_metrics
from .intervals import Samples
from .needs import ARMS, FOOT_PAIRS, HANDS, SOLES, TWO_FEET
from .rest import rest_metrics, stop_metrics
from .simulate import Trajectory
from .steady import steady_metrics

MOVING = 0.2  # [m/s], commands slower than this say nothing about the cost of transport


@dataclass(frozen=True, kw_only=True)
class Metric:
    title: str
    unit: str
    about: str
    percent: bool = False
    needs: tuple[str, ...] = ()
    """Properties that a robot must have to be measured: names of :data:`.needs.NEEDS`."""


METRICS: dict[str, Metric] = {
    "falls": Metric(title="Falls", unit="", percent=True, about="Share of robots that fell."),
    "corner_falls": Metric(
        title="Falls at corners",
        unit="",
        about="Corners of the command ranges, mirror images counted once, at which at least half of the robots fell.",
    ),
    "crossed": Metric(
        title="Crossed", unit="", percent=True, about="Share of robots that went their way over the ground unfallen."
    ),
    "cut": Metric(
        title="Targets cut off",
        unit="",
        percent=True,
        about="Share of the periods in which the controller's safety filter moved a joint target.",
    ),
    "pushes_survived": Metric(
        title="Pushes survived",
        unit="",
        percent=True,
        about="Share of pushes not followed by a fall before the next one.",
    ),
    "drift": Metric(title="Drift", unit="m/s", about="Mean distance from start to end over the time between."),
    "lin_vel_error": Metric(
        title="Linear velocity error", unit="m/s", about="Mean length of commanded minus measured (vx, vy), base frame."
    ),
    "yaw_vel_error": Metric(
        title="Yaw rate error", unit="rad/s", about="Mean absolute difference of commanded and measured yaw rate."
    ),
    "lin_vel_bias": Metric(
        title="Linear velocity bias", unit="m/s", about="Length of commanded minus mean (vx, vy), after the first 2 s."
    ),
    "yaw_vel_bias": Metric(
        title="Yaw rate bias", unit="rad/s", about="Absolute difference of commanded and mean yaw rate, after 2 s."
    ),
    "lin_vel_oscillation": Metric(
        title="Linear velocity oscillation", unit="m/s", about="Mean distance of (vx, vy) from its own mean, after 2 s."
    ),
    "yaw_vel_oscillation": Metric(
        title="Yaw rate oscillation", unit="rad/s", about="Mean distance of the yaw rate from its own mean, after 2 s."
    ),
    "heading_drift": Metric(
        title="Heading drift", unit="rad/s", about="Mean turning while told to go straight, after the first 2 s."
    ),
    "sideways_drift": Metric(
        title="Sideways drift",
        unit="m/m",
        about="Mean velocity across a straight command over that along it, in the base's heading, after 2 s.",
    ),
    "stop_time": Metric(
        title="Stopping time",
        unit="s",
        about="From a zero command until the robot stays below 0.1 m/s and 0.1 rad/s.",
    ),
    "stop_way": Metric(
        title="Stopping distance", unit="m", about="Greatest distance from where the command became zero."
    ),
    "steps_at_rest": Metric(
        title="Steps at rest",
        unit="",
        percent=True,
        about="Share of robots of which a foot is off the ground later than 2 s after a stop or push.",
    ),
    "rest_speed": Metric(title="Speed at rest", unit="m/s", about="Root mean square, from 2 s after a stop or push."),
    "rest_yaw_rate": Metric(
        title="Yaw rate at rest", unit="rad/s", about="Root mean square, from 2 s after a stop or push."
    ),
    "rest_joint_speed": Metric(
        title="Joint speed at rest", unit="rad/s", about="Root mean square over joints and time at rest."
    ),
    "rest_torque_change": Metric(
        title="Torque change at rest",
        unit="/s",
        about="Root mean square rate of change of the torques at rest, in shares of the effort limits.",
    ),
    "hand_drift": Metric(
        title="Hand drift",
        unit="m",
        about="Root mean square distance of the hands from their mean place in the base's frame, at rest.",
        needs=(HANDS,),
    ),
    "cost_of_transport": Metric(
        title="Cost of transport", unit="", about="Mechanical energy, sum of |torque x speed|, over weight x path."
    ),
    "torque_rms": Metric(title="Torque RMS", unit="N m", about="Root mean square over all joints."),
    "torque_peak": Metric(
        title="Torque peak", unit="", percent=True, about="Largest torque as a share of the effort limit."
    ),
    "torque_saturation": Metric(
        title="Torque at limit", unit="", percent=True, about="Share of joint samples above 98 % of the effort limit."
    ),
    "joint_speed_peak": Metric(title="Joint speed peak", unit="rad/s", about="Largest joint speed."),
    "joint_limit_use": Metric(
        title="Outside soft limits", unit="", percent=True, about="Share of joint samples beyond the soft limits."
    ),
    "action_rate": Metric(title="Target rate", unit="rad/s", about="RMS rate of change of the joint targets."),
    "foot_slip": Metric(title="Foot slip", unit="m/s", about="Mean tangential speed of feet on the ground."),
    "air_time": Metric(
        title="Air time", unit="s", about="Mean time between lift-off and touch-down, at control steps."
    ),
    "own_velocity_error": Metric(
        title="Own velocity estimate error",
        unit="m/s",
        about="Root mean square distance of the base's velocity as the policy estimates it from the true one.",
    ),
    "swing_time": Metric(
        title="Swing time",
        unit="s",
        about="Mean swing of each foot, 0 for one that does not swing, then over the feet.",
    ),
    "step_rate": Metric(title="Step rate", unit="/s", about="Completed swings per foot and second."),
    "clearance": Metric(
        title="Clearance",
        unit="m",
        about="Greatest height of the lowest point of a foot in a swing: median of each foot, 0 for one that does not "
        "swing, then the mean over the lower half of the feet.",
    ),
    "slip": Metric(title="Slip", unit="m/s", about="Mean tangential speed of loaded contact points, at physics steps."),
    "dragging_feet": Metric(
        title="Dragging feet",
        unit="",
        percent=True,
        about="Share of feet lifted less than 0.02 L (two feet: 0.007 L) or fewer than 0.05 sqrt(g/L) times a second.",
    ),
    "stumbles": Metric(
        title="Stumbles",
        unit="per step",
        about="Touches shorter than 0.02 s amid a swing, and pushes of the ground more sideways than five to one.",
    ),
    "duty_factor": Metric(title="Duty factor", unit="", percent=True, about="Share of the time that a foot stands."),
    "left_right": Metric(
        title="Left-right asymmetry",
        unit="",
        about="Swing times of mirrored feet: difference over mean.",
        needs=(FOOT_PAIRS,),
    ),
    "front_hind": Metric(
        title="Front-hind asymmetry", unit="", about="Swing times of a side's two feet: difference over mean."
    ),
    "impact_speed": Metric(
        title="Impact speed", unit="m/s", about="Mean downward speed of the foot's lowest point just before touch-down."
    ),
    "torque_frequency": Metric(
        title="Torque frequency", unit="Hz", about="RMS change of the torques over their RMS deviation, as of a sine."
    ),
    "base_acceleration": Metric(title="Base acceleration", unit="m/s²", about="Root mean square over time."),
    "base_height": Metric(
        title="Base height", unit="", percent=True, about="Mean height of the base over that in the default pose."
    ),
    "bob": Metric(title="Bob", unit="m", about="The base up and down: a sine of the same deviation, bottom to top."),
    "step_width": Metric(
        title="Step width",
        unit="m",
        about="Distance across the robot of a foot that touches down and the one across; negative if they cross.",
        needs=(FOOT_PAIRS,),
    ),
    "double_support": Metric(
        title="Double support", unit="", percent=True, about="Share of the time on both feet.", needs=(TWO_FEET,)
    ),
    **{
        name: Metric(
            title=f"{title} touch-downs",
            unit="",
            percent=True,
            about=f"Share of touch-downs in whose first 0.02 s the ground presses on {where} of the sole.",
            needs=(SOLES,),
        )
        for name, title, where in (
            ("heel_first", "Heel first", "only the rear half"),
            ("flat", "Flat", "both halves"),
            ("toe_first", "Toe first", "only the front half"),
        )
    },
    "arm_swing": Metric(
        title="Arm swing",
        unit="rad",
        about="The shoulders to and fro: a sine of the same deviation, end to end.",
        needs=(ARMS,),
    ),
    "arms_with_legs": Metric(
        title="Arms with legs across",
        unit="",
        about="Correlation of each shoulder with the hip across: 1 as people swing, -1 with the leg of its own side.",
        needs=(ARMS,),
    ),
}

GAIT = tuple(METRICS)[list(METRICS).index("swing_time") :]
"""Metrics of :func:`.gait.gait_metrics`, known where feet were recorded at every physics step."""

PEAKS = frozenset({"torque_peak", "joint_speed_peak"})
"""Metrics that are the largest value seen."""


def measure(rec: Trajectory, contract: Contract, walking: np.ndarray | None = None) -> dict[str, Samples]:
    """All metrics of one recording; NaN where it holds nothing to measure (no pushes, no swing, ...).

    Shares and means keep a value per robot (per push for pushes), so that runs can be pooled and intervals are known.
    ``walking`` (N,) are the robots whose gait counts, if not all. ``corner_falls`` needs all runs of a scenario and is
    left to :class:`.tally.Tally`.
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
    }
    levels = {
        "corner_falls": math.nan,
        "cost_of_transport": cost_of_transport(rec),
        **joint_use(rec, contract),
        "action_rate": action_rate(rec),
        "foot_slip": foot_slip(rec),
        "air_time": air_time(rec.foot_contact, rec.alive, rec.control_dt),
    }
    samples = {
        "falls": Samples(values=(rec.fall_step >= 0).astype(float), kind="share"),
        "crossed": Samples(values=crossings(rec), kind="share"),
        "cut": Samples(values=cuts(rec), kind="mean"),
        "pushes_survived": Samples(values=survivals(rec.push, rec.fall_step), kind="share"),
        "steps_at_rest": Samples(values=lifts, kind="share"),
        **{name: Samples(values=values, kind="mean") for name, values in means.items()},
        "own_velocity_error": Samples(values=own_velocity_errors(rec), kind="mean"),
        **{
            name: Samples(values=np.array([value]), kind="peak" if name in PEAKS else "level")
            for name, value in levels.items()
        },
    }
    return {name: samples[name] for name in METRICS}


def compute_metrics(rec: Trajectory, contract: Contract) -> dict[str, float]:
    """The values of :func:`measure`."""
    return {name: samples.value for name, samples in measure(rec, contract).items()}


def per_robot(value: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Mean of ``value`` (T, N) over each robot's time before its fall, (N,); NaN if there was none."""
    count = alive.sum(0)
    return np.where(count > 0, (value * alive).sum(0) / np.maximum(count, 1), np.nan)


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


def cuts(rec: Trajectory) -> np.ndarray:
    """Share of each robot's periods in which targets were cut off, (N,); NaN where nothing cuts."""
    return np.full(rec.command.shape[1], np.nan) if rec.cut is None else per_robot(rec.cut, rec.alive)


def cost_of_transport(rec: Trajectory) -> float:
    """Mechanical cost of transport over all steps in which walking was asked for."""
    moving = rec.alive & (np.linalg.norm(rec.command[..., :2], axis=-1) >= MOVING)
    power = np.abs(rec.torque * rec.joint_vel).sum(-1)  # (T, N) [W]
    speed = np.linalg.norm(rec.lin_vel[..., :2], axis=-1)
    if not moving.any() or speed[moving].mean() < MOVING / 2:
        return np.nan  # told to walk and does not: energy per metre means nothing
    return float((power * moving).sum() / (rec.mass * GRAVITY * speed * moving).sum())


def joint_use(rec: Trajectory, contract: Contract) -> dict[str, float]:
    """Torque, speed and range that the joints needed."""
    limit, soft = np.array(contract.per_joint("effort_limit")), np.array(contract.soft_joint_pos_limits())
    torque, pos = np.abs(rec.torque[rec.alive]), rec.joint_pos[rec.alive]
    outside = (pos < soft[:, 0]) | (pos > soft[:, 1])
    if not torque.size:
        names = ("torque_rms", "torque_peak", "torque_saturation", "joint_speed_peak", "joint_limit_use")
        return dict.fromkeys(names, np.nan)
    return {
        "torque_rms": float(np.sqrt(np.mean(torque.astype(float) ** 2))),
        "torque_peak": float((torque / limit).max()),
        "torque_saturation": float((torque > 0.98 * limit).mean()),
        "joint_speed_peak": float(np.abs(rec.joint_vel[rec.alive]).max()),
        "joint_limit_use": float(outside.mean()),
    }


def action_rate(rec: Trajectory) -> float:
    """RMS rate of change of the joint targets [rad/s]."""
    rate = np.diff(rec.target.astype(float), axis=0)[rec.alive[1:]] / rec.control_dt
    return float(np.sqrt(np.mean(rate**2))) if rate.size else np.nan


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


def format_value(metric: str, value: float) -> str:
    """A number as a person wants to read it, with its unit."""
    if math.isnan(value):
        return "not measured"
    info = METRICS[metric]
    if info.percent:
        return f"{100 * value:.1f} %"
    return f"{rounded(value)} {info.unit}".rstrip()
