"""The limits that trip a robot into damping: each with a default, a cap, and a name on the command line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaitway_files.errors import UserError


class LimitError(UserError):
    """A safety limit that does not exist or makes no sense."""


def _limit(default: float, cap: float, unit: str = "") -> Any:
    """A limit that may be loosened up to ``cap``, itself included; which way is looser follows from the two."""
    return dataclasses.field(default=default, metadata={"cap": cap, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class SafetyLimits:
    """Limits that trip the robot into damping. The defaults leave room for any gait that a person would call walking.

    Any of them may be made stricter. Looser ones are named by :meth:`loosened`, up to a cap: beyond it a check would
    be none, and :class:`LimitError` is raised.
    """

    max_state_age: float = _limit(0.02, 0.5, "s")
    """Age of the newest state [s], and how long the robot's own tick may stand still: a walking robot moves a
    centimetre or two in that time, and the policy chooses once."""
    max_corrupt: float = _limit(5.0, 50.0, "/s")
    """States per second with a wrong checksum. A cable loses none; more means interference or another layout."""
    max_lost: float = _limit(5.0, 50.0, "/s")
    """Communication failures per second that the motors themselves count."""
    max_tilt: float = _limit(1.0, 1.5, "rad")
    """Angle between the base's z axis and the vertical [rad]: beyond it no policy recovers by walking."""
    joint_pos_margin: float = _limit(0.1, 0.3, "rad")
    """Largest reading of an encoder beyond its joint's range [rad]; lying robots rest on their stops."""
    max_joint_vel: float = _limit(30.0, 50.0, "rad/s")
    """Largest speed of a joint [rad/s]; or 1.2 times what the robot's motors can reach, whichever is less."""
    max_temperature: float = _limit(80.0, 100.0, "degrees C")
    """Highest temperature of a motor [degrees C], or the robot's own limit, whichever is less; magnets and windings
    suffer above it."""
    min_battery: float = _limit(0.1, 0.05)
    """Lowest state of charge, of 1, or the robot's own limit, whichever is more; voltage collapses soon below it."""
    max_ready_error: float = _limit(0.3, 0.6, "rad")
    """Largest distance of a joint from the default pose at which the policy may start [rad]."""
    max_target: float = _limit(10.0, 20.0, "rad")
    """Distance of a target from the default pose [rad] beyond which a policy's output is taken for nonsense."""
    max_target_rate: float = _limit(60.0, 120.0, "rad/s")
    """Largest speed of a policy's target [rad/s]; more is cut off, and counts as clamped."""
    max_policy_overruns: int = _limit(3, 50)
    """Policy periods in a row without a result in time; until then the last targets are held."""
    max_overruns: int = _limit(10, 2000)
    """Periods of the loop in a row that may end late."""
    max_stall: float = _limit(0.05, 1.0, "s")
    """Largest lateness of a single period [s]: for that long, the robot was not watched."""
    max_torque_error: float = _limit(0.12, 1.0)
    """Largest difference of a drive's torque from its command, of its effort limit, besides 0.3 of the command."""
    max_load: float = _limit(0.5, 1.0)
    """Largest commanded torque of a drive that does not report its torque, of its effort limit, on average over a tenth
    of a second.

    Good gaits take half of it. A drive that reports its torque, and delivers the command, may take most of the rest
    up to 1: a shove may need all that a joint has."""
    max_speed_error: float = _limit(3.0, 10.0, "rad/s")
    """Largest difference between a joint's speed and the rate of change of its position [rad/s]."""
    max_gyro_error: float = _limit(0.5, 5.0, "rad/s")
    """Largest difference of the gyroscope and the orientation's rate of change [rad/s], besides half of the base's turn
    rate."""
    max_gravity_error: float = _limit(0.3, 1.0, "rad")
    """Largest angle between the verticals of accelerometer and orientation, over a second [rad]."""
    max_support_error: float = _limit(0.35, 1.0, "rad")
    """Largest angle between the force by which the legs carry the robot and the vertical of the orientation, over a
    second [rad]."""
    max_repeats: int = _limit(25, 500)
    """States in a row in which a noisy reading may be the same to the last digit."""
    max_silence: float = _limit(0.1, 0.5, "s")
    """Longest standstill of the controller's process [s] before the guardian process damps the robot."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0.0):
                raise LimitError(f"safety limit {field.name} = {value!r}: give a number of at least zero")
            if _looser(field, value, field.metadata["cap"]):
                raise LimitError(
                    f"safety limit {field.name} = {value:g}: give at {'most' if _rises(field) else 'least'} "
                    f"{_text(field, field.metadata['cap'])}, beyond which it would protect nothing; the default is "
                    f"{field.default:g}"
                )
        if self.max_state_age == 0.0 or self.max_tilt == 0.0 or self.max_joint_vel == 0.0:
            raise LimitError("safety limits max_state_age, max_tilt and max_joint_vel must be above zero")

    def loosened(self) -> tuple[str, ...]:
        """A line for each limit that is looser than its default."""
        return tuple(
            f"{field.name} is loosened to {_text(field, getattr(self, field.name))}, the default is {field.default:g}"
            for field in dataclasses.fields(self)
            if _looser(field, getattr(self, field.name), field.default)
        )


def _rises(field: dataclasses.Field[Any]) -> bool:
    """True if larger values are looser."""
    return bool(field.metadata["cap"] > field.default)


def _looser(field: dataclasses.Field[Any], value: float, than: Any) -> bool:
    return bool(value > than if _rises(field) else value < than)


def _text(field: dataclasses.Field[Any], value: float) -> str:
    return f"{value:g} {field.metadata['unit']}".strip()


def parse_limits(settings: Sequence[str]) -> SafetyLimits:
    """``["max_tilt=0.6", ...]`` as limits; the others keep their defaults."""
    fields = {field.name: field for field in dataclasses.fields(SafetyLimits)}
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in fields:
            raise LimitError(f"limit {setting!r}: write NAME=VALUE with one of {', '.join(fields)}")
        try:
            values[name] = int(text) if isinstance(fields[name].default, int) else float(text)
        except ValueError:
            raise LimitError(f"limit {setting!r}: {text!r} is not a number") from None
    return SafetyLimits(**values)
