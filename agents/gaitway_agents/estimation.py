"""Supervised learning of a policy's estimator, beside the policy's own updates."""

from __future__ import annotations

from typing import Any

import torch

from .additions import Addition
from .core.batch import Batch
from .core.optimizer import OptimizerConfig, PolicyOptimizer
from .core.policy import computing, in_precision
from .models.actor_critic import ActorCritic
from .models.estimator import EstimatorConfig, SquaredError


class EstimatorOptimizer(Addition):
    """``update(batch)`` fits the estimator of ``policy`` to what the critic sees in the batch of an update.

    Threads and precision are those of the policy's own optimiser.
    """

    def __init__(self, policy: ActorCritic, config: EstimatorConfig, beside: Any, generator: torch.Generator):
        assert policy.estimator is not None
        self.policy, self.estimator = policy, policy.estimator
        shared = {
            name: getattr(beside, name) for name in ("chunk_size", "workers", "precision") if hasattr(beside, name)
        }
        settings = OptimizerConfig(
            epochs=config.epochs,
            minibatches=config.minibatches,
            learning_rate=config.learning_rate,
            schedule="constant",
            normalize_advantages="none",
            **shared,
        )
        self.loss = SquaredError(self.estimator.widths)
        self.optimizer = PolicyOptimizer(self.estimator, settings, generator, self.loss)

    def update(self, batch: Batch) -> dict[str, float]:
        """Root mean square error of each signal, in the unit of its term, over the rows as they were learnt from."""
        self.loss.scales = self.policy.estimate_units()[0]
        with torch.no_grad():
            features = self.policy.actor_encoder(batch.observations)
            wanted = self.estimator.wanted(self.policy.critic_encoder(batch.observations))
        with computing(batch.actions.device, self.optimizer.config.precision):
            features = in_precision(features)
        rows = Batch(
            observations={"features": features},
            actions=wanted,
            log_probs=batch.log_probs,
            advantages=batch.advantages,
            mask=batch.mask,
        )
        squares = self.optimizer.update(rows)
        return {f"estimate_error_{name}": squares[name] ** 0.5 for name in self.loss.statistics}

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)
