"""The reconstructed motion as a film, with the camera of the validation videos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gaitway_onboard.flight.reading import Flight

from ..mujoco.film import Frames
from ..mujoco.film import film as film_motion
from .compare import EVERY
from .motion import Motion, make_body
from .summary import command_of_states, spans


def labels(flight: Flight, motion: Motion) -> list[str]:
    """The mode at each time of the motion."""
    found = np.full(len(motion.time), "", dtype=object)
    since = motion.time - flight.start
    for span in spans(flight):
        found[(since >= span.start) & (since <= span.end)] = span.mode
    return [str(label) for label in found]


def film(flight: Flight, motion: Motion, out: Path, *, frames: Frames = iter) -> None:
    """Write ``out`` (.mp4), in real time: gaps in the recording are not cut."""
    body = make_body(flight, visual=True)
    even = np.arange(motion.time[0], motion.time[-1] + 0.5 * EVERY, EVERY)
    rows = np.clip(np.searchsorted(motion.time, even + 1e-9, side="right") - 1, 0, len(motion.time) - 1)
    velocity = np.column_stack([motion.lin_vel_b[:, :2], flight.state.gyro[motion.index, 2]])
    mode = labels(flight, motion)
    film_motion(
        body.plant,
        motion.qpos[rows],
        np.nan_to_num(command_of_states(flight))[motion.index[rows]],
        velocity[rows],
        [mode[row] for row in rows],
        out,
        control_dt=EVERY,
        frames=frames,
    )
