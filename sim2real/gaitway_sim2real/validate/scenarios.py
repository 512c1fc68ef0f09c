"""What a policy is put through: a seeded, versioned list of scenarios, as data.

Change anything here that changes a number and ``SUITE_VERSION`` goes up: two verdicts of the same version and seed are
comparable, others are not.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..mujoco.model import GRAVITY
from ..mujoco.physics import HARD_FLOOR, NOMINAL_PHYSICS, Physics
from .command_classes import CLASSES, draw_class

SUITE_VERSION = "2.0"
Range = tuple[float, float]
NOMINAL_FRICTION = 0.8

NOISE = {
    "gyro": 0.2,  # [rad/s]
    "orientation": 0.05,  # [rad]
    "joint_pos": 0.01,  # [rad]
    "joint_vel": 1.5,  # [rad/s]
    "base_lin_vel": 0.1,  # [m/s]
    "height_scan": 0.1,  # [m]
}
"""Half-widths of the uniform noise of sensors and estimates, Isaac Lab's magnitudes."""


FULL_PAYLOAD_MASS = 40.0
"""Robots lighter than this [kg] carry the suite's payloads in proportion."""

MOST_TAKEN_AWAY = 0.5
"""Share of the base's mass that a negative payload may take: a humanoid's base is a pelvis of a few kilograms."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """``metric <= value``, or ``>=`` when ``at_least``."""

    metric: str
    value: float
    at_least: bool = False
    unit: str = ""
    """One of :data:`ROBOT_UNITS`: ``value`` counts in it and grows with the robot."""

    def passes(self, measured: float) -> bool:
        """NaN never passes."""
        return measured >= self.value if self.at_least else measured <= self.value

    def for_robot(self, height: float) -> Limit:
        """The limit in SI units, for a robot whose base stands ``height`` [m] above the ground."""
        return replace(self, value=self.value * ROBOT_UNITS[self.unit](height), unit="") if self.unit else self


ROBOT_UNITS: dict[str, Callable[[float], float]] = {
    "length": lambda height: height,
    "time": lambda height: math.sqrt(height / GRAVITY),
    "rate": lambda height: math.sqrt(GRAVITY / height),
    "speed": lambda height: math.sqrt(GRAVITY * height),
}
"""L, sqrt(L/g), sqrt(g/L) and sqrt(g L), with the standing height L: robots that move alike have the same numbers."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One experiment, repeated on ``envs`` robots. Ranges are uniform, one draw per robot."""

    name: str
    title: str
    about: str
    limits: tuple[Limit, ...]
    required: bool = True
    """Whether its limits decide the verdict; otherwise they are shown for orientation."""
    envs: int = 48
    seconds: float = 10.0
    commands: str = "random"
    """``grid``, ``standing``, ``random`` (a fifth of the robots stand), ``steps`` (a new command every 4 s) or one of
    :data:`.command_classes.CLASSES`."""
    push: float = 0.0
    """Velocity step in a random horizontal direction, one in each full four seconds [m/s]."""
    friction: Range = (NOMINAL_FRICTION, NOMINAL_FRICTION)
    payload: Range = (0.0, 0.0)
    """Mass added to the base [kg]."""
    strength: Range = (1.0, 1.0)
    """Factor on the delivered torque."""
    delay: Range = (0.0, 0.0)
    """Time from the policy's output to the motors [s]."""
    noise: float = 0.0
    """Factor on :data:`NOISE`."""
    slope: float = 0.0
    """Inclination of the ground [degrees]; the robots start in random directions."""
    physics: Physics = NOMINAL_PHYSICS
    """How the simulator solves it."""
    gait: bool = False
    """Whether the feet are recorded at every physics step and the gait is measured."""


FALLS_1 = Limit(metric="falls", value=0.01)
FALLS_5 = Limit(metric="falls", value=0.05)
LINEAR = Limit(metric="lin_vel_error", value=0.15)
YAW = Limit(metric="yaw_vel_error", value=0.15)


def _friction(value: float) -> Scenario:
    return Scenario(
        name=f"friction_{value:.1f}",
        title=f"Friction {value:.1f}",
        about=f"Sliding friction of the ground {value:.1f} instead of {NOMINAL_FRICTION}.",
        friction=(value, value),
        limits=(FALLS_5,),
        required=value >= 0.4,
    )


def _delay(milliseconds: int) -> Scenario:
    return Scenario(
        name=f"delay_{milliseconds}ms",
        title=f"Delay {milliseconds} ms",
        about=f"Every joint target reaches the motors {milliseconds} ms late.",
        delay=(milliseconds / 1000, milliseconds / 1000),
        limits=(FALLS_5,),
        required=milliseconds <= 20,
    )


def _payload(kilograms: float) -> Scenario:
    return Scenario(
        name=f"payload_{kilograms:+.0f}kg",
        title=f"Payload {kilograms:+.0f} kg".replace("-", "−"),
        about=f"The base weighs {abs(kilograms):.0f} kg {'more' if kilograms > 0 else 'less'} than modelled.",
        payload=(kilograms, kilograms),
        limits=(FALLS_5,),
    )


def _strength(factor: float) -> Scenario:
    return Scenario(
        name=f"strength_{round(100 * factor)}",
        title=f"Motor strength {round(100 * factor)} %",
        about=f"Motors deliver {round(100 * factor)} % of the torque they should.",
        strength=(factor, factor),
        limits=(FALLS_5,),
    )


def _slope(degrees: float) -> Scenario:
    return Scenario(
        name=f"slope_{degrees:.0f}deg",
        title=f"Slope {degrees:.0f}°",
        about=f"Ground inclined by {degrees:.0f} degrees; up, down and across.",
        slope=degrees,
        limits=(FALLS_5,),
        required=False,
    )


CARPET = replace(HARD_FLOOR, solref=(0.02, 1.0), solimp=(0.9, 0.97, 0.001))

GAIT_LIMITS = (
    Limit(metric="swing_time", value=0.80, at_least=True, unit="time"),
    Limit(metric="step_rate", value=0.62, unit="rate"),
    Limit(metric="clearance", value=0.06, at_least=True, unit="length"),
    Limit(metric="slip", value=0.05, unit="speed"),
    Limit(metric="dragging_feet", value=0.02),
    Limit(metric="stumbles", value=0.1),
    Limit(metric="lin_vel_error", value=0.2),
    Limit(metric="yaw_vel_error", value=0.2),
)
LIMP = Limit(metric="left_right", value=0.4)


def _gait(name: str, carpet: bool) -> Scenario:
    """The gait of one command class, on a floor where loaded feet do not creep."""
    kind = CLASSES[name]
    floor = "a carpet, in which the feet of a standing ANYmal sink by 6.6 mm" if carpet else "a hard floor"
    return Scenario(
        name=f"gait_{name}" + ("_carpet" if carpet else ""),
        title=("Gait on carpet: " if carpet else "Gait: ") + kind.title,
        about=f"How the feet move when the command is {kind.title}, on {floor}; measured at every physics step.",
        commands=name,
        envs=12,
        seconds=8.0,
        physics=CARPET if carpet else HARD_FLOOR,
        gait=True,
        limits=(*GAIT_LIMITS, LIMP) if kind.straight else GAIT_LIMITS,
    )


SUITE: tuple[Scenario, ...] = (
    Scenario(
        name="command_grid",
        title="Command grid",
        about="One command per robot for the whole time: 7 x 7 over (vx, vy), 7 x 7 over (vx, yaw rate), all corners, "
        "and random draws.",
        commands="grid",
        envs=128,
        seconds=20.0,
        limits=(LINEAR, YAW, FALLS_1),
    ),
    Scenario(
        name="standing",
        title="Standing still",
        about="Zero command; drift is the distance between first and last position over the time between.",
        commands="standing",
        envs=32,
        limits=(Limit(metric="drift", value=0.05), FALLS_1),
    ),
    Scenario(
        name="command_steps",
        title="Command steps",
        about="A new random command every 4 s, stops and reversals included; errors count the transitions.",
        commands="steps",
        seconds=20.0,
        limits=(Limit(metric="lin_vel_error", value=0.25), Limit(metric="yaw_vel_error", value=0.25), FALLS_5),
    ),
    *(_gait(name, carpet) for carpet in (False, True) for name in CLASSES),
    Scenario(
        name="pushes",
        title="Pushes 0.5 m/s",
        about="Velocity steps of 0.5 m/s in random directions while walking or standing.",
        push=0.5,
        envs=64,
        seconds=20.0,
        limits=(Limit(metric="pushes_survived", value=0.95, at_least=True),),
    ),
    *(_friction(value) for value in (0.3, 0.4, 0.6, 0.9, 1.2)),
    *(_payload(kilograms) for kilograms in (-5.0, 5.0)),
    *(_strength(factor) for factor in (0.9, 1.1)),
    *(_delay(milliseconds) for milliseconds in (10, 20, 30, 40)),
    Scenario(
        name="sensor_noise",
        title="Sensor noise",
        about=f"Uniform noise: gyro {NOISE['gyro']} rad/s, orientation {NOISE['orientation']} rad, joint positions "
        f"{NOISE['joint_pos']} rad, joint velocities {NOISE['joint_vel']} rad/s.",
        noise=1.0,
        limits=(Limit(metric="lin_vel_error", value=0.2), FALLS_5),
        required=False,
    ),
    *(_slope(degrees) for degrees in (5.0, 10.0)),
    Scenario(
        name="pushes_hard",
        title="Pushes 1.0 m/s",
        about="Twice the required push.",
        push=1.0,
        seconds=12.0,
        limits=(Limit(metric="pushes_survived", value=0.8, at_least=True),),
        required=False,
    ),
    Scenario(
        name="everything",
        title="All at once",
        about="Friction 0.4-1.2, payload ±5 kg, strength ±10 %, delay 0-20 ms, sensor noise, pushes of 0.5 m/s.",
        commands="steps",
        push=0.5,
        friction=(0.4, 1.2),
        payload=(-5.0, 5.0),
        strength=(0.9, 1.1),
        delay=(0.0, 0.02),
        noise=1.0,
        seconds=12.0,
        limits=(Limit(metric="falls", value=0.1),),
        required=False,
    ),
)

NOT_TESTED = (
    "stairs, steps, gaps, rough or soft ground",
    "heat, battery voltage, gear backlash and flexible links",
    "faults: a dead joint, a frozen encoder, lost messages",
    "collisions with people or objects",
)
"""Said in the report, so that a PASS is not read as more than it is."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What each of N robots meets over T control steps: every random draw of a scenario but the sensor noise."""

    command: np.ndarray  # (T, N, 3) vx, vy [m/s], yaw rate [rad/s]
    push: np.ndarray  # (T, N, 2) velocity step before control step t, world frame [m/s]; mostly zero
    friction: np.ndarray  # (N,)
    payload: np.ndarray  # (N,) [kg]
    strength: np.ndarray  # (N,)
    delay: np.ndarray  # (N,) [s]
    yaw: np.ndarray  # (N,) initial heading [rad]
    joint_offset: np.ndarray  # (N, J) initial joint positions minus the default pose [rad]
    velocity: np.ndarray  # (N, 2) initial horizontal velocity [m/s]
    noise_scale: float  # factor on NOISE
    noise_seed: tuple[int, ...]


def draw(scenario: Scenario, ranges: Sequence[Range], joints: int, control_dt: float, seed: int) -> Conditions:
    """Draw a scenario's conditions. The name enters the seed, so that scenarios do not depend on each other."""
    entropy = (seed, zlib.crc32(scenario.name.encode()))
    rng = np.random.default_rng(entropy)
    n, steps = scenario.envs, round(scenario.seconds / control_dt)

    def uniform(limits: Range) -> np.ndarray:
        return rng.uniform(*limits, size=n)

    period = max(1, round(4.0 / control_dt))
    return Conditions(
        command=_commands(scenario.commands, n, steps, period, np.array(ranges), rng),
        push=_pushes(scenario.push, n, steps, period, rng),
        friction=uniform(scenario.friction),
        payload=uniform(scenario.payload),
        strength=uniform(scenario.strength),
        delay=uniform(scenario.delay),
        yaw=rng.uniform(-math.pi, math.pi, n),
        joint_offset=rng.uniform(-0.05, 0.05, (n, joints)),
        velocity=rng.uniform(-0.1, 0.1, (n, 2)),
        noise_scale=scenario.noise,
        noise_seed=(*entropy, 1),
    )


def command_grid(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """7 x 7 over (vx, vy), 7 x 7 over (vx, yaw), the corners, then random draws; (n, 3), cut to ``n``."""
    vx, vy, yaw = (np.linspace(low, high, 7) for low, high in ranges)
    zero = np.clip(0.0, *ranges.T)
    plane = np.array([(x, y, zero[2]) for x in vx for y in vy])
    turning = np.array([(x, zero[1], z) for x in vx for z in yaw])
    corners = np.array([(x, y, z) for x in ranges[0] for y in ranges[1] for z in ranges[2]])
    fixed = np.vstack([plane, turning, corners])
    return np.vstack([fixed, _random(ranges, max(0, n - len(fixed)), rng)])[:n]


def _random(ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(ranges[:, 0], ranges[:, 1], (n, 3))


def _commands(kind: str, n: int, steps: int, period: int, ranges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    stand = np.clip(np.zeros(3), *ranges.T)
    if kind == "grid":
        return np.broadcast_to(command_grid(ranges, n, rng), (steps, n, 3))
    if kind == "standing":
        return np.broadcast_to(stand, (steps, n, 3))
    if kind == "random":
        command = _random(ranges, n, rng)
        command[: n // 5] = stand
        return np.broadcast_to(command, (steps, n, 3))
    if kind == "steps":
        count = math.ceil(steps / period)
        command = np.stack([_random(ranges, n, rng) for _ in range(count)])
        for k in range(1, count):  # a quarter of the changes are full stops, a quarter full reversals
            choice = rng.integers(0, 4, n)
            command[k, choice == 0] = stand
            reverse = np.clip(-command[k - 1], ranges[:, 0], ranges[:, 1])
            command[k, choice == 1] = reverse[choice == 1]
        return np.repeat(command, period, axis=0)[:steps]
    if kind in CLASSES:
        return np.broadcast_to(draw_class(kind, ranges, n, rng), (steps, n, 3))
    raise ValueError(f"commands {kind!r}: use 'grid', 'standing', 'random', 'steps' or one of {', '.join(CLASSES)}")


def _pushes(speed: float, n: int, steps: int, period: int, rng: np.random.Generator) -> np.ndarray:
    """One push per whole ``period``, 40 to 60 % into it, so that each has time to show its end."""
    push = np.zeros((steps, n, 2))
    if speed:
        for start in range(0, steps - period + 1, period):
            when = start + rng.integers(round(0.4 * period), round(0.6 * period) + 1, n)
            angle = rng.uniform(-math.pi, math.pi, n)
            push[when, np.arange(n)] = speed * np.stack([np.cos(angle), np.sin(angle)], 1)
    return push
