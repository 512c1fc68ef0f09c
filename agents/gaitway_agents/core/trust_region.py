"""Trust-region policy optimisation: one natural-gradient step a batch, as long as the KL divergence allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from gaitway_files.ranges import Checked, NonNegativeFloat, PositiveFloat, PositiveInt, Range, one_of
from torch import Tensor

from . import objective
from .advantage import normalise
from .batch import Batch
from .critic import CriticConfig, CriticOptimizer
from .finite import NonFiniteError, first_bad
from .flat import FlatParameters
from .policy import Evaluation, Policy

RESIDUAL = 1e-10
"""Conjugate gradients stop where the squared residual is this share of the squared gradient."""


@dataclass(frozen=True, kw_only=True)
class TrustRegionConfig(Checked):
    """Settings of TRPO (Schulman et al. 2015). Defaults are those of the paper and of its reference implementations."""

    target_kl: PositiveFloat = 0.01
    """Largest mean KL divergence of one update, in nats; typically 0.005 to 0.02."""
    cg_iterations: PositiveInt = 10
    """Iterations of conjugate gradients; typically 10 to 20."""
    cg_damping: NonNegativeFloat = 0.1
    """Damping added to the curvature in every direction; typically 0.01 to 0.1."""
    line_search_steps: PositiveInt = 10
    """Most steps of the line search; typically 10."""
    line_search_shrink: Annotated[float, Range(lambda factor: 0.0 < factor < 1.0, "must lie between 0 and 1")] = 0.8
    """Factor by which each of them shrinks the update; typically 0.5 to 0.8."""
    normalize_advantages: Annotated[str, one_of("batch", "none")] = "batch"
    """Normalisation of advantages to mean 0 and standard deviation 1 over the "batch", or "none"."""
    critic: CriticConfig = field(default_factory=lambda: CriticConfig(epochs=20))
    """Fit of the critic."""

    @property
    def learning_rate(self) -> float:
        """Learning rate of the critic: the policy's step has none."""
        return self.critic.learning_rate

    @property
    def minibatches(self) -> int:
        return self.critic.minibatches

    @property
    def needs_distribution(self) -> bool:
        """Never: the region is one about the policy as the update finds it."""
        return False


class TrustRegionOptimizer:
    """``update(batch)`` improves ``policy`` within a region of KL divergence, then regresses its critic.

    Needs, besides what every optimiser does, ``policy.head.kl`` and an actor that shares nothing with the critic.
    """

    def __init__(self, policy: Policy, config: TrustRegionConfig, generator: torch.Generator | None = None):
        self.policy, self.config = policy, config
        head: Any = policy.head
        self._divergence: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor] = head.kl
        groups = policy.parameter_groups()
        self.critic = CriticOptimizer(policy, groups, config.critic, generator)
        self.actor = FlatParameters(groups[:1])

    @property
    def learning_rate(self) -> float:
        return self.critic.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.critic.learning_rate = value

    def update(self, batch: Batch, refresh: object = None) -> dict[str, float]:
        """Optimise the policy on ``batch`` and return statistics; ``kl`` is that of the whole update.

        ``step`` is the share of the longest step that the line search took, 0 if it refused all of them. The policy
        has no further epoch whose advantages could be refreshed.
        """
        if self.config.normalize_advantages == "batch":
            batch = batch.replace(advantages=normalise(batch.advantages, batch.mask))
        statistics = self._improve(batch)
        return statistics | self.critic.update(batch) | {"learning_rate": self.learning_rate}

    def _improve(self, batch: Batch) -> dict[str, float]:
        count = batch.decisions
        now = self.policy.evaluate(batch)
        start = tuple(parameter.detach() for parameter in now.distribution)
        surrogate = self._surrogate(now, batch, count)
        gradient = self._gradient(surrogate, retain_graph=True)
        statistics = {
            "policy_loss": -float(surrogate.detach()),
            "entropy": float(objective.masked_mean(now.entropy.detach(), batch.mask, count)),
            "kl": 0.0,
            "step": 0.0,
            "grad_norm": float(gradient.norm()),
        }
        if not torch.isfinite(gradient).all():
            raise NonFiniteError(f"training diverged: {first_bad(self.policy, batch)} is not finite")
        direction = self._longest_step(self._kl(start, now, batch, count), gradient)
        if direction is None:
            return statistics
        found = self._line_search(direction, batch, start, float(surrogate.detach()), count)
        return statistics | found

    def _longest_step(self, kl: Tensor, gradient: Tensor) -> Tensor | None:
        """The natural gradient, as long as the KL divergence to second order allows; None where all is flat."""
        slope = self._gradient(kl, create_graph=True)

        def curvature(direction: Tensor) -> Tensor:
            product = self._gradient(slope @ direction, retain_graph=True)
            return product + self.config.cg_damping * direction

        direction = conjugate_gradient(curvature, gradient, self.config.cg_iterations)
        squared = direction @ curvature(direction)
        if not squared > 0.0:
            return None
        return direction * (2.0 * self.config.target_kl / squared).sqrt()

    @torch.no_grad()
    def _line_search(
        self, step: Tensor, batch: Batch, start: tuple[Tensor, ...], surrogate: float, count: Tensor | float
    ) -> dict[str, float]:
        """The first of ever shorter steps that improves the surrogate inside the region; else none is taken."""
        parameters = self.actor.flat.data
        before, share = parameters.clone(), 1.0
        for _ in range(self.config.line_search_steps):
            torch.add(before, step, alpha=share, out=parameters)
            new = self.policy.evaluate(batch)
            found = float(self._surrogate(new, batch, count))
            kl = float(self._kl(start, new, batch, count))
            if found > surrogate and kl <= self.config.target_kl:
                return {"policy_loss": -found, "kl": kl, "step": share}
            share *= self.config.line_search_shrink
        parameters.copy_(before)
        return {}

    def _surrogate(self, new: Evaluation, batch: Batch, count: Tensor | float) -> Tensor:
        ratio = (new.log_probs - batch.log_probs).exp()
        return objective.masked_mean(ratio * batch.advantages, batch.mask, count)

    def _kl(self, start: tuple[Tensor, ...], new: Evaluation, batch: Batch, count: Tensor | float) -> Tensor:
        return objective.masked_mean(self._divergence(start, new.distribution), batch.mask, count)

    def _gradient(self, value: Tensor, *, retain_graph: bool = False, create_graph: bool = False) -> Tensor:
        """The gradient with respect to the actor's parameters, in one vector."""
        parts = torch.autograd.grad(
            value,
            self.actor.parameters,
            retain_graph=retain_graph or create_graph,
            create_graph=create_graph,
            materialize_grads=True,
        )
        return torch.cat([part.flatten() for part in parts])

    def state_dict(self) -> dict[str, Any]:
        return {"critic": self.critic.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.critic.load_state_dict(state["critic"])


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, iterations: int) -> Tensor:
    """Approximates x with A x = ``target`` for the symmetric positive matrix A that ``product`` multiplies with.

    Hestenes and Stiefel (1952), from x = 0.
    """
    x = torch.zeros_like(target)
    residual, direction = target.clone(), target.clone()
    squared = residual @ residual
    enough = RESIDUAL * squared
    for _ in range(iterations):
        if squared <= enough:
            break
        image = product(direction)
        length = squared / (direction @ image)
        x += length * direction
        residual -= length * image
        before, squared = squared, residual @ residual
        direction = residual + squared / before * direction
    return x
