"""A bonus for entropy only as large as keeps a policy from collapsing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gaitway_files.ranges import Checked, PositiveFloat


@dataclass(frozen=True, kw_only=True)
class EntropyControlConfig(Checked):
    """Settings of the controller of Skywork-OR1 (He et al. 2025)."""

    target: PositiveFloat = 0.2
    """Mean entropy of a token, in nats, below which there is a bonus; typically 0.1 to 0.5."""
    step: PositiveFloat = 0.005
    """Change of the coefficient in one update: up below the target, down above it."""
    limit: PositiveFloat = 1.0
    """Largest coefficient."""


class EntropyController:
    """Counts up and down; the bonus is paid only while the entropy is at or below the target."""

    def __init__(self, config: EntropyControlConfig):
        self.config = config
        self._count, self._low = 0.0, False

    @property
    def coefficient(self) -> float:
        """Coefficient of the bonus in the next update."""
        return self._count if self._low else 0.0

    def update(self, entropy: float) -> None:
        """Note the mean entropy of an update's tokens, in nats."""
        self._low = entropy <= self.config.target
        step = self.config.step if self._low else -self.config.step
        self._count = min(max(self._count + step, 0.0), self.config.limit)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, "low": self._low}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count, self._low = state["count"], state["low"]
