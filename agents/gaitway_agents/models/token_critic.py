"""Values of the tokens of a sequence: the critic of PPO from human feedback."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from torch import Tensor, nn

from .reward_model import RewardModel
from .sequences import without_dropout


class TokenCritic(nn.Module):
    """A linear head, 0 at first, on the states of a decoder that reads the tokens.

    The decoder is a copy of that of ``model``, a model of transformers, and is trained apart from it.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        net: Any = model
        self.backbone: nn.Module = copy.deepcopy(net.get_decoder())
        without_dropout(self.backbone)
        like = next(model.parameters())
        self.head = nn.Linear(net.config.get_text_config().hidden_size, 1, device=like.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def of(cls, reward_model: RewardModel) -> Self:
        """Critic that begins with the reward model's score of every prefix (as Ziegler et al. 2019)."""
        critic = cls(reward_model.model)
        net: Any = reward_model.model
        with torch.no_grad():
            critic.head.weight.copy_(net.score.weight / reward_model.std)
            critic.head.bias.copy_(-reward_model.mean / reward_model.std)
        return critic

    def of_states(self, states: Tensor) -> Tensor:
        """Value before each token is chosen, shape (B, L), from the states (B, L, D) of a decoder."""
        before = self.head(states[:, :-1].to(self.head.weight.dtype)).squeeze(-1)
        return nn.functional.pad(before if before.dtype == torch.float64 else before.float(), (1, 0))
