"""Checkpoints of skrl and rl_games, written from their documented layouts, with actors computed by hand."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from sim2real.imports.isaaclab.run_folder import env_settings
from torch import Tensor
from torch.nn.functional import elu

HIDDEN = (32, 16)


def skrl_settings(**policy: Any) -> dict[str, Any]:
    """``agent.yaml`` of Isaac Lab's skrl tasks, as far as it is read."""
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": list(HIDDEN), "activations": "elu"}]
    return {
        "models": {"separate": False, "policy": {"class": "GaussianMixin", "clip_actions": False, "network": network,
                                                 "output": "ACTIONS", **policy}},
        "agent": {"class": "PPO", "state_preprocessor": "RunningStandardScaler",
                  "experiment": {"directory": "go2_flat", "experiment_name": ""}},
    }  # fmt: skip


def rl_games_settings(network: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """``agent.yaml`` of Isaac Lab's rl_games tasks, as far as it is read."""
    continuous = {"mu_activation": "None", "sigma_activation": "None", "fixed_sigma": True}
    return {
        "params": {
            "env": {"clip_actions": 0.7, "clip_observations": 2.5},
            "network": {"name": "actor_critic", "separate": False, "space": {"continuous": continuous},
                        "mlp": {"units": list(HIDDEN), "activation": "elu", "d2rl": False}, **(network or {})},
            "config": {"name": "go2_flat", "normalize_input": True, **config},
        }
    }  # fmt: skip


def weights(width: int, actions: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of each layer."""
    rng = torch.Generator().manual_seed(seed)
    sizes = [width, *HIDDEN, actions]
    return [
        (torch.randn(after, before, generator=rng) / before**0.5, torch.randn(after, generator=rng))
        for before, after in pairwise(sizes)
    ]


def statistics(width: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of observations."""
    rng = torch.Generator().manual_seed(1)
    return torch.randn(width, generator=rng).double(), torch.rand(width, generator=rng).double() + 0.01


def network(x: Tensor, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    for weight, bias in layers[:-1]:
        x = elu(x @ weight.T + bias)
    return x @ layers[-1][0].T + layers[-1][1]


def save_skrl(run: Path, width: int, actions: int, *, shared: bool = True, key: str = "state_preprocessor") -> None:
    """``agent_<timestep>.pt`` of two timesteps; the newer is that of seed 0."""
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    mean, variance = statistics(width)
    for step, seed in ((9600, 0), (960, 5)):
        policy: dict[str, Tensor] = OrderedDict(log_std_parameter=torch.zeros(actions))
        layers = weights(width, actions, seed)
        for number, (weight, bias) in enumerate(layers):
            last = shared and number == len(layers) - 1
            name = "policy_layer" if last else f"net_container.{2 * number}"
            policy |= {f"{name}.weight": weight, f"{name}.bias": bias}
        if shared:
            policy |= {"value_layer.weight": torch.zeros(1, HIDDEN[-1]), "value_layer.bias": torch.zeros(1)}
        scaler = {"running_mean": mean, "running_variance": variance, "current_count": torch.tensor(9.0).double()}
        optimizer = torch.optim.Adam([torch.zeros(3, requires_grad=True)]).state_dict()
        modules = {"policy": policy, "value": policy, "optimizer": optimizer, key: scaler}
        torch.save(modules, run / "checkpoints" / f"agent_{step}.pt")


def skrl_action(x: Tensor, width: int, actions: int, clip: float = 5.0, epsilon: float = 1e-8) -> Tensor:
    """Clamp of (x - mean) / (std + epsilon), then the network."""
    mean, variance = (value.float() for value in statistics(width))
    return network(((x - mean) / (variance.sqrt() + epsilon)).clamp(-clip, clip), weights(width, actions))


def save_rl_games(run: Path, width: int, actions: int, prefix: str = "") -> None:
    """``last_<name>_ep_<n>_rew_<r>.pth`` of two epochs, and the best; the newest is that of seed 0."""
    (run / "nn").mkdir(parents=True, exist_ok=True)
    mean, variance = statistics(width)
    names = {"last_go2_flat_ep_200_rew_12.5": 0, "last_go2_flat_ep_50_rew__20.1_": 5, "go2_flat": 6}
    for name, seed in names.items():
        layers = weights(width, actions, seed)
        model = {"a2c_network.sigma": torch.zeros(actions)}
        for number, (weight, bias) in enumerate(layers):
            layer = "mu" if number == len(layers) - 1 else f"actor_mlp.{2 * number}"
            model |= {f"a2c_network.{layer}.weight": weight, f"a2c_network.{layer}.bias": bias}
        model |= {"a2c_network.value.weight": torch.zeros(1, HIDDEN[-1]), "a2c_network.value.bias": torch.zeros(1)}
        for key, value in (("mean", mean), ("var", variance)):
            model[f"running_mean_std.running_{key}"] = value
            model[f"value_mean_std.running_{key}"] = torch.ones(1).double()
        model = {f"{prefix}{key}": value for key, value in model.items()}
        state = {"model": model, "epoch": 200, "frame": 19_660_800, "optimizer": {}, "env_state": None}
        torch.save(state | {"last_mean_rewards": np.float32(12.5)}, run / "nn" / f"{name}.pth")


def rl_games_action(x: Tensor, width: int, actions: int, scaled: bool = True) -> Tensor:
    """Clamps of Isaac Lab's wrapper and of the player around clamp((x - mean) / sqrt(var + 1e-5), 5) and network."""
    mean, variance = (value.float() for value in statistics(width))
    seen = ((x.clamp(-2.5, 2.5) - mean) / (variance + 1e-5).sqrt()).clamp(-5.0, 5.0)
    action = network(seen, weights(width, actions))
    return action.clamp(-1.0, 1.0) * 0.7 if scaled else action.clamp(-0.7, 0.7)


def write_settings(run: Path, agent: dict[str, Any], env: dict[str, Any] | None = None) -> None:
    (run / "params").mkdir(parents=True, exist_ok=True)
    for name, data in (("env", env or env_settings()), ("agent", agent)):
        (run / "params" / f"{name}.yaml").write_text(yaml.dump(data, sort_keys=False))
