"""Additions to PPO: parts that change its rewards, advantages or loss, learn beside it, and keep a state of their own.

The estimator of a policy, the scalers of rewards and advantages and the mirror loss are additions, which settings of
their own ask for. Others are asked for in ``agent.additions``, by a dataclass of settings that makes one: ours has a
row in :data:`KINDS`, and another package's is named ``module:Class``, such as a discriminator's reward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaitway_files.ranges import Checked

if TYPE_CHECKING:
    import torch

    from .core.batch import Batch
    from .core.policy import Evaluation
    from .models.actor_critic import ActorCritic
    from .rollout import EnvRollout

KINDS: tuple[str, ...] = ("gaitway_agents.rnd:RNDConfig", "gaitway_agents.amp:AMPConfig")
"""Settings of additions by name; those of other packages are ``module:Class``."""


class Addition:
    """One addition. What it leaves out does nothing; with canonical symmetry it sees the canonical domain."""

    def rewards(self, rollout: EnvRollout) -> EnvRollout:
        """The rollout with other ``learnt_rewards`` (T, N), before values and advantages are estimated."""
        return rollout

    def seen(self, batch: Batch) -> None:
        """Take notice of the batch of an update, before it."""

    def advantages(self, batch: Batch) -> Batch:
        """The batch with other advantages, in every epoch that estimates them anew.

        Further ``observations`` in it reach :meth:`added_loss`; those that networks read may come to it as features.
        """
        return batch

    def added_loss(self, policy: ActorCritic, new: Evaluation, batch: Batch) -> torch.Tensor:
        """What is added to the loss of each decision, shaped like ``batch.log_probs``; its mean is a statistic.

        ``policy`` has the parameters that are learnt, and ``new`` is what it says of these rows of the batch.
        """
        raise NotImplementedError

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn, after the policy's update; returns statistics, which stand under ``learn/``."""
        return {}

    @property
    def has_loss(self) -> bool:
        return type(self).added_loss is not Addition.added_loss

    def state_dict(self) -> dict[str, Any]:
        """What a training goes on from; tensors, numbers, lists and mappings."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state_dict` was."""


@dataclass(frozen=True, kw_only=True)
class AdditionConfig(Checked, ABC):
    """Settings of an addition that ``agent.additions`` asks for."""

    @abstractmethod
    def make(self, policy: ActorCritic, source: Any, generator: torch.Generator) -> Addition:
        """The addition of a training; ``source`` is that of its rollouts, and ``generator`` the trainer's."""
