"""Weights of models of transformers as files and engines have them: peft's adapters merged, four bits unpacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class MergedWeights:
    """Names and tensors of the ``state_dict`` of ``model`` as it was before peft wrapped it, its LoRA merged.

    May be gone through several times. A tensor is merged when its turn comes, and not kept.
    """

    def __init__(self, model: Any):
        self.model = model

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return self._weights(_merged)

    def base(self) -> Iterator[tuple[str, Tensor]]:
        """The same names with the weights under the adapters."""
        return self._weights(lambda layer, weight: weight)

    @torch.no_grad()
    def factors(self) -> dict[str, Tensor]:
        """What adapters add to the weight ``name`` (M, N): ``name.left`` (M, R) times ``name.right`` (R, N).

        Empty without adapters, and where they are no plain LoRA of linear layers.
        """
        found = {}
        for name, layer in _adapted(_unwrapped(self.model)).items():
            plain = [a for a in layer.active_adapters if a in layer.lora_A and a not in layer.lora_variant]
            if len(plain) < len(layer.active_adapters) or not isinstance(layer.get_base_layer(), nn.Linear):
                return {}
            found[f"{name}.weight.left"] = torch.cat(
                [layer.lora_B[a].weight.float() * layer.scaling[a] for a in plain], 1
            )
            found[f"{name}.weight.right"] = torch.cat([layer.lora_A[a].weight.float() for a in plain])
        return found

    @torch.no_grad()
    def _weights(self, weight_of: Callable[[Any, Tensor], Tensor]) -> Iterator[tuple[str, Tensor]]:
        base = _unwrapped(self.model)
        adapted = _adapted(base)
        packed = packed_weights(base)
        scales = tuple(f"{name}." for name in packed)
        for name, tensor in base.state_dict().items():
            if hasattr(tensor, "full_tensor"):  # of which every process has a part, and all of them ask
                tensor = tensor.full_tensor()
            if scales and name.startswith(scales):
                continue
            if name in packed:
                tensor = unpacked(packed[name])
            owner, _, rest = name.rpartition(".base_layer.")
            if owner in adapted:
                yield f"{owner}.{rest}", weight_of(adapted[owner], tensor) if rest == "weight" else tensor
            elif not any(name.startswith(f"{prefix}.") for prefix in adapted):
                yield name, tensor


def with_factors(base: Mapping[str, Tensor], factors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The weights ``base`` with their ``factors`` of :meth:`MergedWeights.factors`, computed one at a time."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name, weight in base.items():
        if f"{name}.left" in factors:
            added = factors[f"{name}.left"].to(device) @ factors[f"{name}.right"].to(device)
            yield name, (weight.to(device).float() + added).to(weight.dtype)
        else:
            yield name, weight


def packed_weights(model: Any) -> dict[str, Any]:
    """Weights that bitsandbytes keeps in four bits, by name; names that begin with one and a dot are its scales."""
    return {name: p for name, p in model.named_parameters() if getattr(p, "quant_state", None) is not None}


def unmergeable(model: Any) -> list[str]:
    """Layers with adapters on weights that are packed otherwise than :func:`packed_weights`, and cannot be merged."""
    base = _unwrapped(model)
    packed = {id(weight) for weight in packed_weights(base).values()}
    weights = {name: getattr(layer.get_base_layer(), "weight", None) for name, layer in _adapted(base).items()}
    return [n for n, w in weights.items() if w is None or not (w.is_floating_point() or id(w) in packed)]


def unpacked(weight: Any) -> Tensor:
    """A weight of :func:`packed_weights` as the tensor that it stands for."""
    from bitsandbytes.functional import dequantize_4bit

    found: Tensor = dequantize_4bit(weight.data, weight.quant_state)
    return found


def _unwrapped(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _adapted(base: Any) -> dict[str, Any]:
    """Layers with adapters by name."""
    return {
        name: module
        for name, module in base.named_modules()
        if hasattr(module, "get_delta_weight") and hasattr(module, "base_layer")
    }


def _merged(layer: Any, weight: Tensor) -> Tensor:
    total: Tensor = weight
    for adapter in layer.active_adapters:
        # In the memory of what is added: a layer's weights are large.
        total = layer.get_delta_weight(adapter).float().add_(total)
    return total.to(weight.dtype)
