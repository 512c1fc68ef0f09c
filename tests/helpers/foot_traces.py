"""Traces of feet whose stances and swings are written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from gaitway_sim2real.trial.feet import FootTrace

DT, DECIMATION, HEIGHT = 0.0025, 8, 0.55
QUADRUPED = np.array([[0.4, 0.3], [-0.4, 0.3], [0.4, -0.3], [-0.4, -0.3]])  # LF, LH, RF, RH
BIPED = np.array([[0.0, 0.1], [0.0, -0.1]])


def trace(contact: np.ndarray, places: np.ndarray = QUADRUPED, **changes: Any) -> FootTrace:
    """``contact`` (S, N, F); feet in the air are 5 cm up, and the load is 100 N."""
    values: dict[str, Any] = {
        "dt": DT,
        "decimation": DECIMATION,
        "stand_height": HEIGHT,
        "names": tuple("abcd"[: contact.shape[2]]),
        "places": places,
        "contact": contact,
        "clearance": np.where(contact, 0.0, 0.05),
        "slip": np.zeros(contact.shape),
        "normal_force": 100.0 * contact,
        "horizontal_force": 10.0 * contact,
        "soles": np.zeros(contact.shape[2]),
        "heel": contact,
        "toe": contact,
        "left": np.broadcast_to(places[:, 1], contact.shape),
    }
    return FootTrace(**{**values, **changes})


def steps(*lengths: float, down: bool = True) -> np.ndarray:
    """Contact of one foot, (S,): times on the ground and in the air [s], in turns, after 2 s of ramp on the ground."""
    parts = [np.ones(round(2.0 / DT), bool)]
    for length in lengths:
        parts.append(np.full(round(length / DT), down))
        down = not down
    return np.concatenate(parts)


def robot(*feet: np.ndarray) -> np.ndarray:
    """(S, 1, F), cut to whole control steps."""
    size = min(map(len, feet)) // DECIMATION * DECIMATION
    return np.stack([foot[:size] for foot in feet], 1)[:, None]
