"""Lean forward and backward passes of Llama's family on CPUs, for learning.

The layers are those of Llama (Touvron et al. 2023) as transformers names them. Products in bfloat16 are so fast on CPUs
that have them that what lies between decides: few operations, no padding, and little kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .packed_attention import attention, heads_of, pack
from .prefixes import Split

FAMILY = ("llama", "qwen2")
ROPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that do not depend on the length of the text."""
LONGEST = 512
"""Tokens of a sequence up to which all scores of attention are in memory."""


def lean(model: nn.Module) -> bool:
    """True if :func:`lean_states` computes the same as the decoder of ``model``, one that ``can_share``."""
    net: Any = model
    if hasattr(net, "get_base_model"):
        net = net.get_base_model()
    config = net.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILY
        and type(net).__name__.endswith("ForCausalLM")
        and next(model.parameters()).device.type == "cpu"
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in ROPES
        and all(_plain(part) for layer in net.model.layers for part in _linear(layer))
    )


def _plain(part: Any) -> bool:
    """True if a part is a linear map, or one with an adapter that adds a product of two to its weights."""
    if type(part) is nn.Linear:
        return True
    active: Any = getattr(part, "active_adapters", ())
    return (
        type(getattr(part, "base_layer", None)) is nn.Linear
        and len(active) == 1
        and not part.merged
        and active[0] in part.lora_A
        and not part.lora_bias[active[0]]
        and active[0] not in part.lora_variant
        and getattr(part.lora_dropout[active[0]], "p", 0.0) == 0.0
    )


def _weight(part: Any, dtype: torch.dtype) -> Tensor:
    """Weights of a part, with those of its adapter in ``dtype``: W + s B A."""
    if type(part) is nn.Linear:
        return part.weight
    base: Tensor = part.base_layer.weight
    if part.disable_adapters:
        return base
    name = part.active_adapters[0]
    left, right = part.lora_B[name].weight, part.lora_A[name].weight
    return torch.addmm(base.to(left.dtype), left, right, alpha=part.scaling[name]).to(dtype)


def _linear(layer: Any) -> list[Any]:
    own, mlp = layer.self_attn, layer.mlp
    return [own.q_proj, own.k_proj, own.v_proj, own.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def lean_states(model: nn.Module, tokens: Tensor, lengths: Tensor, parts: Split | None) -> Tensor:
    """Last hidden states (B, S, D) of sequences (B, L), or of the suffixes of their ``parts``; anything in padding.

    Products are in autocast's type where that is on, and the sum over the layers in float32 at least.
    """
    net: Any = model
    decoder, config = net.get_decoder(), net.config
    low = torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", enabled=False):
        packing = pack(tokens, lengths, parts)
        embedded = decoder.embed_tokens(packing.tokens)
        dtype = torch.get_autocast_dtype("cpu") if low else embedded.dtype
        states = embedded.to(torch.promote_types(embedded.dtype, torch.float32))
        cos, sin = decoder.rotary_emb(states, packing.positions[None])
        heads = heads_of(
            packing, config.num_attention_heads, config.num_key_value_heads, cos[0].to(dtype), sin[0].to(dtype)
        )
        eps = config.rms_norm_eps
        for layer in decoder.layers:
            own, mlp = layer.self_attn, layer.mlp
            qkv = _joined(states, layer.input_layernorm.weight, eps, dtype, own.q_proj, own.k_proj, own.v_proj)
            found = attention(qkv, packing, heads)
            states = _AddLinear.apply(states, found, _weight(own.o_proj, dtype))
            gate_up = _joined(states, layer.post_attention_layernorm.weight, eps, dtype, mlp.gate_proj, mlp.up_proj)
            states = _AddGated.apply(states, gate_up, _weight(mlp.down_proj, dtype))
        rows = states[packing.rows.flatten()]
        states = F.rms_norm(rows, (rows.shape[-1],), decoder.norm.weight.to(rows.dtype), eps)
        return states.view(*packing.rows.shape, -1)


def _joined(states: Tensor, scale: Tensor, eps: float, dtype: torch.dtype, *linear: Any) -> Tensor:
    biases: list[Tensor] = [part.bias for part in linear if part.bias is not None]
    found: Tensor = _NormLinear.apply(states, scale, eps, dtype, *(_weight(part, dtype) for part in linear))
    return found + torch.cat(biases).to(dtype) if biases else found


class _NormLinear(torch.autograd.Function):
    """Linear maps of normalised states (N, D), one beside the other, in a type of their own."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, scale: Tensor, eps: float, dtype: torch.dtype, *weights: Tensor) -> Tensor:
        # x / sqrt(mean x^2 + eps)
        inverse = (torch.linalg.vector_norm(states, dim=-1, keepdim=True).square() / states.shape[1] + eps).rsqrt()
        ctx.save_for_backward(states, inverse, scale, *weights)
        return F.linear((states * inverse).mul_(scale).to(dtype), _beside(weights, dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, inverse, scale, *weights = ctx.saved_tensors
        normal = states * inverse
        slopes = (grad.t() @ (normal * scale).to(grad.dtype)).to(weights[0].dtype).split(list(map(len, weights)))
        outer = (grad @ _beside(weights, grad.dtype)).to(normal.dtype)
        scales = (outer * normal).sum(0)
        outer = outer.mul_(scale)
        mean = torch.linalg.vecdot(outer, normal)[:, None] / normal.shape[1]
        return outer.sub_(normal.mul_(mean)).mul_(inverse), scales, None, None, *slopes


class _AddLinear(torch.autograd.Function):
    """States (N, D) and a linear map of inputs (N, I) in the type of the inputs."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return states + F.linear(inputs, weight.to(inputs.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        low = grad.to(inputs.dtype)
        return grad, low @ weight.to(low.dtype), (low.t() @ inputs).to(weight.dtype)


class _AddGated(torch.autograd.Function):
    """States (N, D) and a linear map of silu(gate) * up, from gate and up (N, 2 I)."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, gate_up: Tensor, weight: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, -1)
        ctx.save_for_backward(gate_up, weight)
        return states + F.linear(F.silu(gate).mul_(up), weight.to(gate_up.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gate_up, weight = ctx.saved_tensors
        gate, up = gate_up.chunk(2, -1)
        low = grad.to(gate_up.dtype)
        inner, open_ = low @ weight.to(low.dtype), F.silu(gate)
        both = torch.empty_like(gate_up)
        torch.mul(inner, open_, out=both[:, gate.shape[1] :])
        both[:, : gate.shape[1]] = torch.ops.aten.silu_backward(inner.mul_(up), gate)
        return grad, both, (low.t() @ open_.mul_(up)).to(weight.dtype)


def _beside(weights: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Weights of maps of the same inputs as those of one map; a copy that is made anew wherever it is needed."""
    whole = weights[0].new_empty(sum(map(len, weights)), weights[0].shape[1], dtype=dtype)
    for part, weight in zip(whole.split(list(map(len, weights))), weights, strict=True):
        part.copy_(weight)
    return whole
