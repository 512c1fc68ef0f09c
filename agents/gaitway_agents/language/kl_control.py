"""The weight of a KL penalty, fixed or steered to a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, one_of


@dataclass(frozen=True, kw_only=True)
class KLControlConfig(Checked):
    """A penalty in the reward for every token: ``coefficient`` times an estimate of the KL from the reference."""

    coefficient: PositiveFloat = 0.05
    """Coefficient, with a ``target`` the initial one; typically 0.001 to 0.1."""
    estimator: Annotated[str, one_of("k1", "k2", "k3")] = "k1"
    """Schulman's "k1", log pi - log ref, unbiased; "k2", half its square; or "k3", unbiased and never negative."""
    target: PositiveFloat | None = None
    """KL of a whole sequence, in nats, that the coefficient is steered to (Ziegler et al. 2019); None leaves it."""
    horizon: PositiveInt = 10_000
    """Sequences within which the coefficient can grow by a factor e at an error of 100 %, that is 5 times 20 %."""


class KLController:
    """Keeps the coefficient; with a target, a proportional controller in log space with a bounded error."""

    def __init__(self, config: KLControlConfig):
        self.config = config
        self.coefficient = config.coefficient

    def update(self, kl: float, sequences: int) -> None:
        """Note the mean KL of ``sequences`` sequences, in nats each."""
        if self.config.target is None:
            return
        error = min(max(kl / self.config.target - 1.0, -0.2), 0.2)
        self.coefficient *= 1.0 + error * sequences / self.config.horizon

    def state_dict(self) -> dict[str, Any]:
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.coefficient = state["coefficient"]
