"""Runs that are told to stop, and what they have learnt."""

from __future__ import annotations

import os
import signal
from typing import Any

from gaitway.runs.folder import RunFolder, read_checkpoint
from gaitway.training.progress import Progress


class KillAfter(Progress):
    """Progress that sends this very process a signal after some iterations."""

    def __init__(self, iterations: int, number: signal.Signals):
        self.left, self.number = iterations, number

    def show(self, steps: int, metrics: dict[str, float], *, last: bool = False) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def final_state(run: RunFolder) -> dict[str, Any]:
    """The trainer's state in the newest checkpoint."""
    state: dict[str, Any] = read_checkpoint(run.checkpoints()[-1])["trainer"]
    return state
