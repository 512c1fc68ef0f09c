"""The operator's transmitter: 40 bytes in every state, or a topic of its own."""

from __future__ import annotations

import math
import struct

from ..interface import Remote, pressed

DEADZONE = 0.01
"""Sticks do not return to exactly zero; Unitree's own value."""
_REMOTE = struct.Struct("<2xH5f")
"""Head, buttons; left x, right x, right y, the L2 lever, left y."""


def parse_remote(data: bytes) -> Remote | None:
    """``wireless_remote`` of a state; None if it is all zero, as where there is no transmitter."""
    if not any(data):
        return None
    keys, left_x, right_x, right_y, _, left_y = _REMOTE.unpack_from(data)
    return make_remote(left_x, left_y, right_x, right_y, keys)


def make_remote(left_x: float, left_y: float, right_x: float, right_y: float, keys: int) -> Remote:
    """Sticks as sent, within [-1, 1]; a number that is not finite is a stick at rest."""
    return Remote((_stick(left_x), _stick(left_y)), (_stick(right_x), _stick(right_y)), pressed(keys))


def _stick(value: float) -> float:
    if not math.isfinite(value) or abs(value) < DEADZONE:
        return 0.0
    return max(-1.0, min(1.0, value))
