"""The command that a policy sees, and the one that its bundle's graph must be told for that.

On the way to the policy the graph limits how fast the command changes, then corrects it. A world that the policy learns
in does the first and not the second: what it records is what the policy saw.
"""

from __future__ import annotations

import numpy as np
import torch
from gaitway_onboard.bundle.contract import Contract

from ..bundle.calibration import CommandCalibration

TOLERANCE = 1e-5
"""[m/s, rad/s]"""


def limited_columns(contract: Contract) -> slice | None:
    """Columns of the limited command in the state of a graph, behind the history; None if it does not limit the
    command."""
    if contract.command_acceleration is None:
        return None
    history = sum(term.dim * term.history for term in contract.observation if term.history > 1)
    clock = int(any("clock" in term.signals for term in contract.observation))
    start = 1 + contract.num_joints + history + clock
    return slice(start, start + 3)


def newest_frame(contract: Contract) -> slice:
    """Columns of the newest frame in the state of a graph with a history; empty without a history."""
    frame, length = sum(term.dim for term in contract.observation), max(term.history for term in contract.observation)
    end = 1 + contract.num_joints + frame * length
    return slice(end - frame, end) if length > 1 else slice(0, 0)


def seen(contract: Contract, command: np.ndarray) -> np.ndarray:
    """Commands as the policy observes them, (N, 3), from those that the graph already follows."""
    if contract.command_calibration is None:
        return command
    found: np.ndarray = CommandCalibration.of(contract.command_calibration)(torch.from_numpy(command)).numpy()
    return found


def told(contract: Contract, command: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The commands (..., 3) of which a graph that follows them makes ``command``, and where there are any, (...)."""
    if contract.command_calibration is None:
        return command, np.full(command.shape[:-1], True)
    correct = CommandCalibration.of(contract.command_calibration).double()
    wanted = torch.from_numpy(np.ascontiguousarray(command, float)).reshape(-1, 3)
    found = correct.inverse(wanted)
    known = (correct(found) - wanted).abs().amax(1) < TOLERANCE
    return found.numpy().reshape(command.shape), known.numpy().reshape(command.shape[:-1])
