"""Weights of models of transformers as files and engines have them: peft's adapters merged, four bits unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


class MergedWeights:
    """Names and tensors of the ``state_dict`` of ``model`` as it was before peft wrapped it, its LoRA merged.

    May be gone through several times. A tensor is merged when its turn comes, and not kept.
    """

    def __init__(self, model: Any):
        self.model = model

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        net: Any = self.model
        base: Any = net.get_base_model() if hasattr(net, "get_base_model") else net
        adapted: dict[str, Any] = {name: module for name, module in base.named_modules() if _is_lora(module)}
        packed = packed_weights(base)
        scales = tuple(f"{name}." for name in packed)
        for name, tensor in base.state_dict().items():
            if scales and name.startswith(scales):
                continue
            if name in packed:
                tensor = unpacked(packed[name])
            owner, _, rest = name.rpartition(".base_layer.")
            if owner in adapted:
                yield f"{owner}.{rest}", _merged(adapted[owner], tensor) if rest == "weight" else tensor
            elif not any(name.startswith(f"{prefix}.") for prefix in adapted):
                yield name, tensor


def packed_weights(model: Any) -> dict[str, Any]:
    """Weights that bitsandbytes keeps in four bits, by name; names that begin with one and a dot are its scales."""
    return {name: p for name, p in model.named_parameters() if getattr(p, "quant_state", None) is not None}


def unpacked(weight: Any) -> Tensor:
    """A weight of :func:`packed_weights` as the tensor that it stands for."""
    from bitsandbytes.functional import dequantize_4bit

    found: Tensor = dequantize_4bit(weight.data, weight.quant_state)
    return found


def _is_lora(module: Any) -> bool:
    return hasattr(module, "get_delta_weight") and hasattr(module, "base_layer")


def _merged(layer: Any, weight: Tensor) -> Tensor:
    total = weight.float()
    for adapter in layer.active_adapters:
        total = total + layer.get_delta_weight(adapter).float()
    return total.to(weight.dtype)
