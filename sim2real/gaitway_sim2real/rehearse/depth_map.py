"""The heights around a twin as depth cameras and a map would give them: late and noisy. No wire carries them."""

from __future__ import annotations

from collections import deque

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.estimation.estimator import Estimator
from gaitway_onboard.interface import Array, Signals
from gaitway_onboard.rotation import yaw_of

from ..digital_twin.twin import Twin


class DepthMap:
    """Estimator of ``height_scan`` from the twin's truth, beside the bundle's own estimator if it names one.

    It scans at the policy's rate; quirks ``scan_delay`` [s] and ``scan_noise`` [m] are the twin's.
    """

    def __init__(self, twin: Twin, contract: Contract, other: Estimator | None = None, seed: int = 0) -> None:
        assert contract.height_scan is not None
        self.provides = ("height_scan", *(other.provides if other is not None else ()))
        self._twin, self._other, self._period = twin, other, contract.control_dt
        self._points = np.array(contract.height_scan.points())
        self._random = np.random.default_rng(seed)
        self._scans: deque[tuple[float, Array]] = deque()
        """Time [s] and heights [m], (P,), the newest last; the first is what is known now."""

    def reset(self) -> None:
        """The map outlives a change of mode."""
        if self._other is not None:
            self._other.reset()

    def update(self, signals: Signals) -> None:
        if self._other is not None:
            self._other.update(signals)
        now, quirks = self._twin.time, self._twin.quirks
        if not self._scans or now >= self._scans[-1][0] + self._period - 1e-9:
            self._scans.append((now, self._scan() + self._random.normal(0.0, quirks.scan_noise, len(self._points))))
        while len(self._scans) > 1 and self._scans[1][0] <= now - quirks.scan_delay + 1e-9:
            self._scans.popleft()
        signals.height_scan = self._scans[0][1]

    def _scan(self) -> Array:
        truth = self._twin.truth()
        pos, quat = truth.base_pos[None], truth.base_quat_wxyz[None]
        found: Array = self._twin.body.ground.scan(self._points, pos, yaw_of(quat))[0]
        return found
