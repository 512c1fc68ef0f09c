"""Sequences of tokens in transformers' decoders: without padding masks, dropout or, nearly, padding."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..core.batch import Batch
from .attention import short_attention


def hidden_states(model: nn.Module, tokens: Tensor, lengths: Tensor, *, dropout: bool = False) -> Tensor:
    """Last hidden states (B, L, D) of the decoder of ``model``, a model of transformers; anything beyond a length.

    Causal attention lets no token see what follows it, so padding on the right needs no mask, and attention takes
    the fast kernels that have none. Flash attention gets the rows in one line, without their padding.
    """
    net: Any = model
    # transformers checkpoints activations in training mode only, which is also the mode that has no cache of keys.
    training = dropout or (torch.is_grad_enabled() and checkpoints_activations(model))
    if net.training != training:
        net.train(training)
    decoder = net.get_decoder()
    if str(net.config._attn_implementation).startswith("flash_attention"):
        return packed_states(decoder, tokens, lengths)
    # What is computed anew in the backward pass is so without this context, and has to be the same; and passes with
    # and without a gradient have to agree.
    anew = dropout or checkpoints_activations(model)
    with nullcontext() if anew else short_attention(tokens.device):
        states: Tensor = decoder(input_ids=tokens, use_cache=False).last_hidden_state
    return states


def checkpoints_activations(model: nn.Module) -> bool:
    """True if a transformer recomputes activations in the backward pass."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def packed_states(decoder: nn.Module, tokens: Tensor, lengths: Tensor) -> Tensor:
    """States of all sequences in one row, one behind the other: positions that begin anew separate them."""
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    seen = positions < lengths[:, None]
    packed: Tensor = decoder(
        input_ids=tokens[seen][None], position_ids=positions[seen][None], use_cache=False
    ).last_hidden_state[0]
    return packed.new_zeros(*tokens.shape, packed.shape[-1]).masked_scatter(seen[:, :, None], packed)


def token_chunks(batch: Batch, size: int) -> list[Tensor]:
    """The rows of each forward pass: rows of similar length together, of at most ``size`` tokens with padding.

    The longest come first, so that memory that does not suffice is found out at once. A row longer than ``size`` has
    a pass to itself. ``observations["lengths"]`` has shape (B,), or (B, K) for rows of K sequences.
    """
    lengths = batch.observations["lengths"]
    per_row = lengths[0].numel()
    longest = lengths.flatten(1).amax(1) if lengths.dim() > 1 else lengths
    longest, order = longest.sort(descending=True, stable=True)
    parts, start = [], 0
    widths = longest.tolist()
    while start < len(widths):
        count = max(1, size // (widths[start] * per_row))
        parts.append(order[start : start + count])
        start += count
    return parts


def without_dropout(model: nn.Module) -> None:
    """Set every probability of dropout in ``model`` to 0, whatever mode it is in."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)
