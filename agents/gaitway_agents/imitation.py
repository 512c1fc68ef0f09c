"""Settings of additions to PPO that imitate motions, and what they are given of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaitway_files.ranges import Share

from .additions import Addition, AdditionConfig

if TYPE_CHECKING:
    import torch

    from .models.actor_critic import ActorCritic
    from .symmetry import Symmetry


@dataclass(frozen=True)
class Demonstrations:
    """What an addition imitates."""

    rows: torch.Tensor
    """Observations (P, D) of the group that the addition names."""
    symmetry: Symmetry | None = None
    """Mirror group, if the learner lives in the canonical domain: rollouts hold canonical images then."""


@dataclass(frozen=True, kw_only=True)
class ImitationConfig(AdditionConfig, ABC):
    """Settings of an addition that imitates motions, which the domain of the task turns into observations."""

    motions: tuple[str, ...] = ()
    """Names or files."""
    observation: str = ""
    """Observation group in which they are given."""
    state_init: Share = 0.0
    """Share of the episodes that begin in a frame of a motion."""

    @abstractmethod
    def make(
        self,
        policy: ActorCritic,
        source: Any,
        generator: torch.Generator,
        demonstrations: Demonstrations | None = None,
    ) -> Addition:
        """As :meth:`AdditionConfig.make`; ``demonstrations`` are those of its motions."""
