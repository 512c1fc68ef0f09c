"""A network with its optimiser, and the slower copy of it that targets come from."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ..core.flat import FlatParameters


class Learner:
    """A network and the Adam that moves it. All its parameters lie in ``vector``, their gradients in ``gradient``."""

    def __init__(
        self,
        network: nn.Module,
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
    ):
        self.network, self.max_grad_norm = network, max_grad_norm
        self.flat = FlatParameters([list(network.parameters())])
        self.vector = self.flat.flat
        self.gradient: Tensor = self.vector.grad  # type: ignore[assignment]
        self.adam = torch.optim.AdamW(
            [self.vector], lr=learning_rate, betas=betas, weight_decay=weight_decay, fused=True
        )

    def zero_grad(self) -> None:
        self.gradient.zero_()

    def step(self) -> None:
        """Clip the gradient's norm and move the network."""
        if self.max_grad_norm is not None:
            self.flat.clip_gradients(self.max_grad_norm)
        self.adam.step()

    def set_learning_rate(self, rate: float) -> None:
        self.adam.param_groups[0]["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.adam.load_state_dict(state["adam"])


class Target:
    """A copy of a network that follows it: at once, or slowly (Polyak averaging)."""

    def __init__(self, learner: Learner):
        self.source = learner
        self.network = copy.deepcopy(learner.network).requires_grad_(False)
        self.vector = FlatParameters([list(self.network.parameters())]).flat.requires_grad_(False)
        for parameter in (self.vector, *self.network.parameters()):
            parameter.grad = None

    @torch.no_grad()
    def move(self, tau: float) -> None:
        """Move by the fraction ``tau`` towards the network; running statistics are taken over whole."""
        if tau == 1.0:
            self.vector.copy_(self.source.vector)
        else:
            self.vector.lerp_(self.source.vector, tau)
        for mine, theirs in zip(self.network.buffers(), self.source.network.buffers(), strict=True):
            mine.copy_(theirs)
