"""A tour of waypoints that are close together: an operator, or a planner, who closes the loop with small commands.

A proportional controller drives each robot to a place and a heading. The next waypoint is given as soon as the robot
is there, or when its time is up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from gaitway_onboard.rotation import yaw_of
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.commands import held
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.metric import Metric
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_sim2real.trial.stressors import Stressor

from .needs import BOTH_WAYS

GAIN = 2.0
"""Commanded speed for each metre or radian off the waypoint [1/s]."""
FASTEST = 0.3
"""Largest command [m/s, rad/s]."""
NEAR, ALIGNED = 0.05, math.radians(5.0)
"""A robot has reached a waypoint within these [m, rad]."""
PATIENCE = 10.0
"""Time after which a waypoint is missed [s]; an ideal robot takes 0.3 to 2.6 s."""
DISTANCE = (0.1, 0.5)
"""From one waypoint to the next, in any direction [m]."""
TURN = (math.radians(10.0), math.radians(45.0))
"""From one heading to the next, to either side [rad]."""
MOST = 64
"""Waypoints of a robot, more than it can reach."""

WAYPOINT_METRICS = (
    Metric("waypoints", "Waypoints reached", "", "Share of the waypoints reached within 5 cm, 5 degrees and 10 s.",
           percent=True),
    Metric("time_lost", "Time lost", "s", "Mean time to a waypoint, 10 s for one that is missed, beyond that of a "
           "robot that follows every command at once."),
)  # fmt: skip


@dataclass
class Course:
    """Progress of N robots."""

    steps: np.ndarray  # (MOST, N, 3) from one waypoint to the next: x, y [m] in its frame, turn [rad]
    time: np.ndarray  # (MOST, N) [s], infinite if missed, NaN if not tried or not over
    ideal: np.ndarray  # (MOST, N) [s]
    at: np.ndarray  # (N,), number of the waypoint
    taken: np.ndarray  # (N,) [s] on the way to it
    goal: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (N, 3), x, y [m] and heading [rad] in the world


@dataclass(frozen=True)
class Waypoints(Stressor):
    """Proportional control of place and heading in place of the scenario's command."""

    def start(self, world: RobotBatch, rng: np.random.Generator) -> Course:
        n, most = len(world.mass), top_speeds(np.array(world.contract.command_ranges))
        shape = MOST, n
        far, way = rng.uniform(*DISTANCE, shape), rng.uniform(-math.pi, math.pi, shape)
        turn = rng.uniform(*TURN, shape) * rng.choice([-1.0, 1.0], shape)
        ideal = np.maximum(ideal_time(far, NEAR, float(most[:2].min())), ideal_time(np.abs(turn), ALIGNED, most[2]))
        steps = np.stack([far * np.cos(way), far * np.sin(way), turn], -1)
        return Course(
            steps=steps, time=np.full(shape, np.nan), ideal=ideal, at=np.zeros(n, int), taken=np.zeros(n)
        )  # fmt: skip

    def told(self, command: np.ndarray, world: RobotBatch, kept: Course) -> np.ndarray:
        robots, dt = np.arange(len(command)), world.contract.control_dt
        pose = np.column_stack([world.base_pos()[:, :2], yaw_of(world.base_quat())])
        if not kept.goal.size:
            kept.goal = ahead(pose, kept.steps[0])
        off = seen_from(pose, kept.goal)
        there = (np.hypot(off[:, 0], off[:, 1]) <= NEAR) & (np.abs(off[:, 2]) <= ALIGNED)
        over = (there | (kept.taken >= PATIENCE - dt / 2)) & (kept.at < MOST - 1)
        kept.time[kept.at[over], robots[over]] = np.where(there, kept.taken, np.inf)[over]
        kept.at[over] += 1
        kept.taken[over] = 0.0
        kept.goal[over] = ahead(kept.goal[over], kept.steps[kept.at[over], robots[over]])
        kept.taken += dt
        most = top_speeds(np.array(world.contract.command_ranges))
        wanted = GAIN * seen_from(pose, kept.goal)
        fast = np.maximum(np.hypot(wanted[:, 0], wanted[:, 1]) / FASTEST, 1.0)
        wanted[:, :2] /= fast[:, None]
        return np.clip(wanted, -most, most)

    def noted(self, kept: Course) -> dict[str, np.ndarray]:
        return {"waypoint_time": kept.time, "waypoint_ideal": kept.ideal}


def top_speeds(ranges: np.ndarray) -> np.ndarray:
    """Largest vx, vy and yaw rate of a tour, (3,), to both sides; ``ranges`` (3, 2)."""
    return np.minimum(FASTEST, np.abs(ranges).min(1))


def ideal_time(off: np.ndarray, near: float, most: float) -> np.ndarray:
    """Time [s] in which proportional control brings an error ``off`` down to ``near`` at a speed of up to ``most``."""
    slow = np.minimum(off, most / GAIN)  # where the command is no longer clipped
    clipped = (off - slow) / most
    return np.asarray(np.where(near < slow, clipped + np.log(slow / near) / GAIN, (off - near) / most))


def ahead(pose: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Poses (N, 3) in the world of ``step`` (N, 3), which counts from ``pose`` (N, 3)."""
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    moved = np.column_stack([c * step[:, 0] - s * step[:, 1], s * step[:, 0] + c * step[:, 1], step[:, 2]])
    return np.asarray(pose + moved)


def seen_from(pose: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Poses ``goal`` (N, 3) from those of robots, (N, 3): x ahead, y to the left, and the way to turn in -pi to pi."""
    x, y, turn = (goal - pose).T
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    return np.column_stack([c * x + s * y, c * y - s * x, np.remainder(turn + math.pi, 2 * math.pi) - math.pi])


def waypoint_samples(rec: Trajectory) -> dict[str, Samples]:
    """:data:`WAYPOINT_METRICS` of a recording; NaN without a tour. The one that time ended at does not count."""
    none = np.full(1, np.nan)
    if "waypoint_time" not in rec.noted:
        return {"waypoints": Samples(values=none, kind="share"), "time_lost": Samples(values=none, kind="mean")}
    time = rec.noted["waypoint_time"]
    over = ~np.isnan(time)
    lost = np.where(over, np.minimum(time, PATIENCE) - rec.noted["waypoint_ideal"], 0.0).sum(0)
    return {
        "waypoints": Samples(values=np.isfinite(time.T[over.T]).astype(float), kind="share"),
        "time_lost": Samples(values=lost / np.maximum(over.sum(0), 1), kind="mean"),
    }


WAYPOINTS = held(lambda told, n, rng: np.tile(told.still, (n, 1)), (BOTH_WAYS,), (Waypoints(),))
"""Kind of commands."""
