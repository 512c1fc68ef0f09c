"""Parameters, gradients and moments in parts, by torch's ``fully_shard``: a layer is put together while it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from gaitway_files.errors import UserError
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from . import distributed
from .offload import MOMENTS
from .parts import local
from .store import Groups, Settings, adam_of


class FullySharded:
    """A process has a part of each parameter, of its gradient and of Adam's moments (ZeRO-3, torch's FSDP2).

    With N processes a parameter takes 16 / N bytes, and a layer that computes its weights. The policy says with
    ``layers()`` which modules are put together one at a time, and reads its parameters in its method ``read`` alone,
    with its modules, where it is told that it is ``in_parts``.
    """

    def __init__(self, policy: Any, groups: Groups, config: Settings):
        for parameter in policy.parameters():
            distributed.from_first_(parameter.data)
        shard_(policy, config)
        self.policy = policy
        found: list[list[nn.Parameter]] = policy.parameter_groups()
        self._groups = found if len(groups) == len(found) else [[p for group in found for p in group]]
        self._parameters = [parameter for group in self._groups for parameter in group]
        self.inner = adam_of(config, self._parameters)

    def zero(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def reduce(self, *sums: Tensor) -> None:
        for each in sums:  # gradients were reduced as they came
            distributed.mean_(each)

    def clip(self, max_norm: float, *, look: bool = False) -> Tensor:
        own = [[local(p.grad) for p in group if p.grad is not None] for group in self._groups]
        squares = torch.stack([torch.stack([part.square().sum() for part in parts]).sum() for parts in own])
        norms = distributed.sum_(squares).sqrt()
        for parts, norm in zip(own, norms, strict=True):
            if not look or not norm + 1e-6 < max_norm:
                torch._foreach_mul_(parts, (max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norms[0] if len(norms) == 1 else norms.norm()

    def step(self, learning_rate: float) -> None:
        self.inner.param_groups[0]["lr"] = learning_rate
        self.inner.step()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def parts(self) -> dict[str, Any]:
        named = {name: p for name, p in self.policy.named_parameters() if p.requires_grad}
        for parameter in named.values():
            if not (state := self.inner.state[parameter]):  # before the first step
                state["step"] = torch.tensor(0.0, device=parameter.device)
                state.update({name: torch.zeros_like(parameter.data) for name in MOMENTS})
        found = {f"parameters.{name}": parameter.data for name, parameter in named.items()}
        for moment in (*MOMENTS, "step"):
            found |= {f"{moment}.{name}": self.inner.state[parameter][moment] for name, parameter in named.items()}
        return found

    def take_parts(self, parts: Mapping[str, Any]) -> None:
        """Nothing: these are the very tensors."""


def shard_(policy: Any, config: Settings) -> None:
    """Give every process its part of the parameters of ``policy``; of adapters' models those too that never learn."""
    if not hasattr(policy, "layers"):
        raise UserError(
            f"optimizer.store 'fsdp' with {type(policy).__name__}, which is no language model: use 'flat' or 'sharded'"
        )
    device = next(policy.parameters()).device
    if not dist.is_initialized():  # one process; fully_shard wants a group of it
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    low = config.precision == "bfloat16"
    settings: dict[str, Any] = {
        "mesh": init_device_mesh(device.type, (distributed.size(),)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if low else None,
            reduce_dtype=torch.float32 if low else None,
            cast_forward_inputs=False,
        ),
        "offload_policy": CPUOffloadPolicy(pin_memory=device.type == "cuda") if config.offload else OffloadPolicy(),
    }
    policy.in_parts = True
    for layer in policy.layers():
        fully_shard(layer, **settings)
    fully_shard(policy, **settings)
    register_fsdp_forward_method(policy, "read")
