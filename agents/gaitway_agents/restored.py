"""A policy and its actor, made of settings and weights alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import Tensor, nn

from .models.actor_critic import ActorCritic, ActorCriticConfig
from .models.estimator import EstimatorColumns
from .models.recurrent import POLICIES
from .symmetry import CanonicalActor, Symmetry


def restored(
    state: dict[str, Any],
    config: Any,
    *,
    groups: Collection[str],
    num_actions: int,
    symmetry: Symmetry | None = None,
    columns: EstimatorColumns | None = None,
) -> tuple[ActorCritic, nn.Module]:
    """Policy and actor of an on-policy trainer's ``state``, whose weights tell how wide observations are.

    ``config`` are the trainer's settings, PPO's or those of a distillation.
    Observations are the vectors named ``groups``, and actions are vectors as well.
    """
    weights = state["policy"]
    if getattr(config, "average_steps", None) is not None:
        weights = {name.removeprefix("module."): x for name, x in state["average"].items() if name != "n_averaged"}
    widths = {name: box(width) for name, width in _widths(weights).items() if name in groups}
    policy = make_policy(spaces.Dict(widths), box(num_actions), config.model, columns)
    policy.load_state_dict(weights)
    return policy, actor_of(policy, symmetry if getattr(config, "symmetry", "none") == "canonical" else None)


def make_policy(
    observations: spaces.Dict, actions: spaces.Space, config: ActorCriticConfig, columns: EstimatorColumns | None
) -> ActorCritic:
    """The policy that settings describe; ``columns`` are for one with an estimator."""
    known = () if columns is None else (columns,)
    return POLICIES[config.recurrent](observations, actions, config, *known)


def actor_of(policy: ActorCritic, canonical: Symmetry | None) -> nn.Module:
    """The deterministic actor of a policy that sees ``canonical`` images, or observations as they are."""
    actor = policy.export_actor()
    return (actor if canonical is None else CanonicalActor(actor, canonical)).eval()


def box(size: int) -> spaces.Space[Any]:
    """The space of vectors of ``size`` numbers without bounds."""
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _widths(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """Widths of the vectors "policy" and "critic" that a policy with these weights reads."""
    widths = {}
    for network, name, *others in (("actor", "policy", "estimator.net.0.weight"), ("critic", "critic")):
        first = f"{network}_encoder.parts.{name}.normalizer.mean", f"{network}_gru.input.weight"
        found = next(weights[key] for key in (*first, *others, f"{network}.0.weight") if key in weights)
        widths[name] = found.shape[-1]
    return widths
