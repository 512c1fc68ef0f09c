"""Prediction errors of a set of parameters on a flight: one policy step ahead, and a second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array

from .hung_model import HungModel, Values
from .windows import Windows, cut

ONE_STEP, ROLL_OUT = 0.02, 1.0  # [s]
STRIDES = (0.1, 0.5)  # [s], between two starts


@dataclass(frozen=True, kw_only=True)
class PredictionErrors:
    """Root mean squares over starts in the windows held out, (J,) each."""

    step_pos: Array
    """After one policy step [rad]."""
    step_vel: Array
    """[rad/s]"""
    roll_pos: Array
    """Error of the positions over a roll-out [rad]."""
    roll_vel: Array
    """[rad/s]"""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutWindows:
    """Starts for predictions, within the windows that were not used to fit."""

    one_step: Windows
    roll_out: Windows

    @classmethod
    def of(cls, held_out: Windows) -> HeldOutWindows:
        parts = []
        for length, stride in zip((ONE_STEP, ROLL_OUT), STRIDES, strict=True):
            found = cut(held_out.logs, length=length, burn_in=0.0, stride=stride)
            inside = _inside(found, held_out)
            parts.append(found.take(inside if inside.any() else np.ones(len(found), bool)))
        return cls(one_step=parts[0], roll_out=parts[1])

    def errors(self, model: HungModel, values: Values) -> PredictionErrors:
        step, roll = model.predict(values, self.one_step), model.predict(values, self.roll_out)
        last = self.one_step.scored[:, -1]
        scored = self.roll_out.scored
        return PredictionErrors(
            step_pos=_rms((step.pos - self.one_step.pos)[:, -1][last]),
            step_vel=_rms((step.vel - self.one_step.vel)[:, -1][last]),
            roll_pos=_rms((roll.pos - self.roll_out.pos)[scored]),
            roll_vel=_rms((roll.vel - self.roll_out.vel)[scored]),
        )

    @property
    def spread(self) -> Array:
        """Standard deviation of the measured positions in roll-outs about their starts [rad], (J,)."""
        return _rms((self.roll_out.pos - self.roll_out.pos[:, :1])[self.roll_out.scored])


def _inside(found: Windows, held_out: Windows) -> np.ndarray:
    """Windows of ``found`` that lie within one of ``held_out``."""
    length, room = found.period * (found.steps - 1), held_out.period * (held_out.steps - 1)
    after = found.start[:, None] >= held_out.start - 1e-9
    before = found.start[:, None] + length <= held_out.start + room + 1e-9
    result: np.ndarray = (after & before & (found.log[:, None] == held_out.log)).any(1)
    return result


def _rms(errors: Array) -> Array:
    result: Array = np.sqrt((errors**2).mean(0))
    return result
