"""A policy as a checkpoint of rsl_rl, which its runner and Isaac Lab's own scripts load.

One file serves rsl_rl 3 (Isaac Lab 2.3), which looks for ``model_state_dict``, and rsl_rl 4 and 5 (Isaac Lab 3.0),
which look for ``actor_state_dict`` and ``critic_state_dict``. The optimiser starts anew: its moments have another order
in each of them.
"""

from __future__ import annotations

from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..models.actor_critic import ActorCritic
from ..models.encoders import Encoder, Vector
from ..models.heads import Gaussian
from ..models.normalizer import RunningNormalizer

ACTIVATIONS = {"silu": "swish"}
"""rsl_rl's names of activations, where they are not ours."""
NORMALIZER, STD = "obs_normalizer.", "distribution."

Networks = dict[str, dict[str, Tensor]]
"""Tensors of "actor" and "critic" by rsl_rl 5's names."""


def networks_of(policy: nn.Module) -> Networks:
    """Networks of a policy, Gaitway's or rsl_rl's own. Raises ValueError for networks without a model in rsl_rl."""
    if not isinstance(policy, ActorCritic):
        return {name: dict(policy.get_submodule(name).state_dict()) for name in ("actor", "critic")}
    head, config = policy.head, policy.config
    if config.recurrent != "none":
        raise UserError(f"model.recurrent {config.recurrent!r}: only feed-forward policies can be written for rsl_rl")
    if config.estimator is not None:
        raise UserError(
            "model.estimator: rsl_rl has no actor that reads estimates; train with agent.model.estimator=null"
        )
    if not isinstance(head, Gaussian) or config.dreamer.critic != "squared":
        raise UserError("rsl_rl needs continuous actions and a critic that says one number")
    std = head.std.detach()
    spread = {"log_std_param": std.log()} if head.log_std else {"std_param": std}
    return {
        "actor": {f"{STD}{name}": value for name, value in spread.items()}
        | _network(policy.actor, policy.actor_encoder, "policy"),
        "critic": _network(policy.critic, policy.critic_encoder, "critic"),
    }


def checkpoint(networks: Networks, *, iteration: int, learning_rate: float) -> dict[str, Any]:
    """The content of rsl_rl's ``model_<iteration>.pt``."""
    named = [(network, name, value) for network, tensors in networks.items() for name, value in tensors.items()]
    learnt = [nn.Parameter(torch.zeros(1)) for _, name, _ in named if not name.startswith(NORMALIZER)]
    return {
        "actor_state_dict": networks["actor"],
        "critic_state_dict": networks["critic"],
        "model_state_dict": {_older(network, name): value for network, name, value in named},
        "optimizer_state_dict": torch.optim.Adam(learnt, lr=learning_rate).state_dict(),
        "iter": iteration,
        "infos": None,
    }


def _older(network: str, name: str) -> str:
    """rsl_rl 3's name of a tensor, which has both networks in one model."""
    if name.startswith(STD):
        return name.removeprefix(STD).removesuffix("_param")
    if name.startswith(NORMALIZER):
        return f"{network}_{name}"
    return name.replace("mlp", network, 1)


def settings_of(networks: Networks, *, actor: str, critic: str) -> dict[str, list[str]]:
    """Overrides, by release, with which Isaac Lab's scripts load the networks; their activations are given.

    Isaac Lab 2.3 knows one activation for both.
    """
    activations = {"actor": ACTIVATIONS.get(actor, actor), "critic": ACTIVATIONS.get(critic, critic)}
    std_type = "log" if f"{STD}log_std_param" in networks["actor"] else "scalar"
    told: dict[str, list[str]] = {
        "3.0": [f"agent.actor.distribution_cfg.std_type={std_type}"],
        "2.3": [f"agent.policy.noise_std_type={std_type}", f"agent.policy.activation={activations['actor']}"],
    }
    for network, tensors in networks.items():
        weights = [value for name, value in tensors.items() if name.startswith("mlp.") and name.endswith(".weight")]
        hidden = f"[{','.join(str(len(weight)) for weight in weights[:-1])}]"
        normalized = str(any(name.startswith(NORMALIZER) for name in tensors)).lower()
        told["3.0"] += [
            f"agent.{network}.hidden_dims={hidden}",
            f"agent.{network}.activation={activations[network]}",
            f"agent.{network}.obs_normalization={normalized}",
        ]
        told["2.3"] += [
            f"agent.policy.{network}_hidden_dims={hidden}",
            f"agent.policy.{network}_obs_normalization={normalized}",
        ]
    return told if actor == critic else {"3.0": told["3.0"]}


def _network(layers: nn.Module, encoder: Encoder, network: str) -> dict[str, Tensor]:
    parts = list(encoder.parts.values())
    if len(parts) != 1 or not isinstance(parts[0], Vector) or parts[0].symlog:
        raise UserError(f"the {network} reads {', '.join(encoder.keys)}: rsl_rl needs one plain vector")
    tensors = {f"mlp.{name}": value.clone() for name, value in layers.state_dict().items()}
    normalizer = parts[0].normalizer
    if not isinstance(normalizer, RunningNormalizer):
        return tensors
    if normalizer.clip is not None:
        raise UserError(f"model.clip_observations {normalizer.clip}: rsl_rl's normaliser does not clip")
    found = {
        "_mean": normalizer.mean[None],
        "_var": normalizer.var[None],
        "_std": normalizer.var[None].sqrt(),
        "count": normalizer.count.long(),
    }
    return tensors | {f"{NORMALIZER}{name}": value.clone() for name, value in found.items()}
