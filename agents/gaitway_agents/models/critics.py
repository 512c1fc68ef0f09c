"""Critics for returns of any scale: tricks of DreamerV3 (Hafner et al. 2023), in PPO after Sullivan et al. (2023)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated

import torch
from gaitway_files.ranges import Checked, one_of
from torch import Tensor, nn

from ..core.objective import value_loss

LIMIT = 20.0
"""Symlog values stay within +- this, so returns within +-4.9e8."""
BINS = 255
EMA_RATE = 0.98


@dataclass(frozen=True, kw_only=True)
class DreamerTricks(Checked):
    """Each trick by itself; all are off. ``ActorCriticConfig.unimix`` is one more."""

    symlog_observations: bool = False
    """Squash observed vectors by symlog, before they are normalised."""
    critic: Annotated[str, one_of("squared", "symlog", "two_hot")] = "squared"
    """Learn returns by "squared" error, their symlog by squared error ("symlog") or by classification ("two_hot")."""
    critic_zero_init: bool = False
    """True starts the critic's last layer, and so all values, at zero."""
    critic_ema: bool = False
    """True draws the critic to a moving average of its network as strongly as to the returns."""
    percentile_scaling: bool = False
    """Divide advantages by the range of returns where that exceeds 1."""

    @property
    def own_value_losses(self) -> bool:
        """True if the critic's loss is not the squared error of its values."""
        return self.critic != "squared" or self.critic_ema


def symlog(x: Tensor) -> Tensor:
    """The logarithm of the magnitude, with the sign kept and close to ``x`` near zero."""
    return x.sign() * x.abs().log1p()


def symexp(x: Tensor) -> Tensor:
    """The inverse of :func:`symlog`."""
    return x.sign() * x.abs().expm1()


class Squared(nn.Module):
    """The critic's output is the value."""

    num_outputs = 1

    def values(self, outputs: Tensor) -> Tensor:
        """Values (...) from the network's outputs (..., ``num_outputs``)."""
        return outputs.squeeze(-1)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses (...) of outputs (..., ``num_outputs``) against target values (...)."""
        return value_loss(outputs.squeeze(-1), targets)


class Symlog(Squared):
    """The critic's output is the symlog of the value."""

    def values(self, outputs: Tensor) -> Tensor:
        return symexp(outputs.squeeze(-1).clamp(-LIMIT, LIMIT))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return value_loss(outputs.squeeze(-1), symlog(targets))


class TwoHot(Squared):
    """The critic's outputs are logits of a distribution over bins of symlog value, whose mean is the value's symlog."""

    num_outputs = BINS
    bins: Tensor

    def __init__(self) -> None:
        super().__init__()
        half = torch.linspace(0.0, LIMIT, BINS // 2 + 1)
        self.register_buffer("bins", torch.cat((-half.flip(0), half[1:])), persistent=False)

    def values(self, outputs: Tensor) -> Tensor:
        # A sum and not a matrix product, which autocast would do in reduced precision.
        return symexp((outputs.softmax(-1) * self.bins).sum(-1))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy to the two-hot distributions of the targets."""
        return -(two_hot(symlog(targets), self.bins) * outputs.log_softmax(-1)).sum(-1)


VALUE_HEADS = {"squared": Squared, "symlog": Symlog, "two_hot": TwoHot}


def two_hot(x: Tensor, bins: Tensor) -> Tensor:
    """Distributions (..., B) over ``bins`` (B,), ascending, with mean ``x`` (...) and weight on its neighbours only.

    Values beyond the bins go to the outermost one.
    """
    x = x.clamp(bins[0], bins[-1])
    below = (torch.searchsorted(bins, x.contiguous(), right=True) - 1).clamp(max=len(bins) - 2)
    low, high = bins[below], bins[below + 1]
    pair, weight = torch.stack((below, below + 1), -1), (x - low) / (high - low)
    hot = torch.zeros(*x.shape, len(bins), dtype=x.dtype, device=x.device)
    return hot.scatter(-1, pair, torch.stack((1.0 - weight, weight), -1))


def frozen_copy(network: nn.Module) -> nn.Module:
    """A copy whose parameters are buffers: saved with the model, and none of an optimiser's business."""
    frozen = copy.deepcopy(network)
    for module in frozen.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            delattr(module, name)
            module.register_buffer(name, parameter.detach())
    return frozen


@torch.no_grad()
def update_average(average: nn.Module, network: nn.Module) -> None:
    """Move a frozen copy towards ``network``: its exponential moving average."""
    for slow, fast in zip(average.buffers(), network.parameters(), strict=True):
        slow.lerp_(fast, 1.0 - EMA_RATE)
