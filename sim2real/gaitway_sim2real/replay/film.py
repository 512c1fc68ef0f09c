"""The reconstructed motion as a film, with the camera of the validation videos."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from gaitway_onboard.flight.reading import Flight

from ..digital_twin.body import Body
from ..lockstep import film as twin_video
from ..validate.video import Frames
from .compare import EVERY
from .motion import Motion, make_body
from .summary import command_of_states, spans


def stage(body: Body) -> Any:
    """What the film camera needs to know of the model."""
    m = body.model
    return SimpleNamespace(
        model=m,
        base_qpos=body.plant.base_qpos,
        base_body=int(m.jnt_bodyid[np.flatnonzero(m.jnt_qposadr == body.plant.base_qpos)[0]]),
        start_height=body.robot.init_height,
        frame=SimpleNamespace(quat_wxyz=np.array([1.0, 0.0, 0.0, 0.0])),
    )


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
    twin_video.film(
        stage(body),
        motion.qpos[rows],
        np.nan_to_num(command_of_states(flight))[motion.index[rows]],
        velocity[rows],
        [mode[row] for row in rows],
        out,
        control_dt=EVERY,
        frames=frames,
    )
