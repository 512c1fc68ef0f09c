"""Sequences that begin alike are read once as far as they do: the prompt of a group of answers, or of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .attention import short_attention
from .sequences import checkpoints_activations

ARCHITECTURES = ("gpt2", "granite", "llama", "olmo2", "phi3", "qwen2", "qwen3", "smollm3")
"""Model types, as in a ``config.json``, whose caches have been checked to have gradients."""
WORTH = 0.75
"""Sequences are taken apart if no more than this share of their tokens is left: two passes and copied keys cost too.

Measured on one core with models of hidden size 128 and 256, forwards and backwards: at 0.75 it takes 0.8 of the time in
float32 and about as long in bfloat16; at 0.6, 0.65 and 0.8."""


@dataclass(frozen=True)
class Split:
    """Sequences (B, L) as U distinct prefixes and B suffixes; a suffix begins at the last token before the choices."""

    prefixes: Tensor
    """Tokens, shape (U, P), padded on the right."""
    starts: Tensor
    """Tokens of each sequence's prefix, shape (B,)."""
    owners: Tensor
    """Index of each sequence's prefix, shape (B,)."""
    columns: Tensor
    """Position in its sequence of each token of a suffix, shape (B, S); of padding, the sequence's last token."""
    seen: Tensor
    """False where a suffix is padded, shape (B, S)."""

    def take(self, values: Tensor) -> Tensor:
        """Values of the suffixes, shape (B, S), taken from ``values`` (B, L); 0 in their padding."""
        return values.gather(1, self.columns) * self.seen

    def put(self, values: Tensor, width: int) -> Tensor:
        """Values (B, S) of suffixes at their places in sequences (B, ``width``); 0 elsewhere."""
        # Padding has the column of the last token, so values are added rather than written.
        return values.new_zeros(len(values), width).scatter_add(1, self.columns, values * self.seen)


def can_share(model: nn.Module) -> bool:
    """True if the decoder of ``model`` can continue from cached states with gradients."""
    net: Any = model
    config = net.config.get_text_config()
    layers = getattr(config, "layer_types", None)
    full = set(layers) == {"full_attention"} if layers else getattr(config, "sliding_window", None) is None
    attention = config._attn_implementation in ("sdpa", "eager")
    return config.model_type in ARCHITECTURES and full and attention and not checkpoints_activations(model)


def parts_of(lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens of each sequence's prefix and of its suffix, shape (B,) each; one token if the mask keeps none."""
    some = mask.bool().any(1)
    starts = torch.where(some, (mask.bool().int().argmax(1) - 1).clamp(min=0), 0)
    return starts, torch.where(some, lengths - starts, 1)


def split(tokens: Tensor, lengths: Tensor, mask: Tensor) -> Split | None:
    """Take sequences apart before the first token that the mask (B, L) keeps; None if that is not worth it."""
    starts, sizes = parts_of(lengths, mask)
    prefix, suffix = int(starts.max()), int(sizes.max())
    most = WORTH * len(tokens) * int(lengths.max()) - len(tokens) * suffix
    if prefix == 0 or most < prefix:
        return None
    owners, first = groups(tokens, starts)
    if len(first) * prefix > most:
        return None
    at = torch.arange(suffix, device=tokens.device)
    columns = starts[:, None] + torch.minimum(at, sizes[:, None] - 1)
    return Split(tokens[first, :prefix], starts, owners, columns, at < sizes[:, None])


def shared_chunks(tokens: Tensor, lengths: Tensor, mask: Tensor, size: int) -> tuple[list[Tensor], int]:
    """Rows that begin alike together, in forward passes of at most ``size`` tokens, and the tokens of all passes.

    Rows are sequences, or K of them: tokens and mask (B, L) or (B, K, L), lengths (B,) or (B, K).
    """
    count = len(tokens)
    tokens, mask, lengths = tokens.flatten(0, -2), mask.flatten(0, -2), lengths.flatten()
    starts, sizes = parts_of(lengths, mask)
    owners, _ = groups(tokens, starts)
    widest = torch.zeros_like(sizes).scatter_reduce(0, owners, sizes, "amax")[owners]
    rows = list(zip(*(part.view(count, -1).tolist() for part in (owners, starts, sizes, widest)), strict=True))
    # Groups with long answers first, and in a group the longest.
    order = sorted(range(count), key=lambda i: (-max(rows[i][3]), rows[i][0], -max(rows[i][2])))
    parts: list[list[int]] = []
    total, known, prefix, suffix = 0, set[int](), 0, 0
    for row in order:
        own, start, length, _ = rows[row]
        wider = (known | set(own), max(prefix, *start), max(suffix, *length))
        held = len(parts[-1]) + 1 if parts else 0
        if not parts or len(wider[0]) * wider[1] + held * len(own) * wider[2] > size:
            total += len(known) * prefix + (held - 1) * len(own) * suffix if parts else 0
            parts.append([])
            wider = (set(own), max(start), max(length))
        parts[-1].append(row)
        known, prefix, suffix = wider
    total += len(known) * prefix + len(parts[-1]) * len(rows[0][0]) * suffix
    return [torch.tensor(part, device=tokens.device) for part in parts], total


def groups(tokens: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Grouping of sequences (B, L) by their first ``starts`` (B,) tokens: each sequence's group, and one row of each
    group."""
    at = torch.arange(max(1, int(starts.max())), device=tokens.device)
    prefixes = torch.where(at < starts[:, None], tokens[:, : len(at)], -1)
    distinct, owners = prefixes.unique(dim=0, return_inverse=True)
    first = torch.full((len(distinct),), len(tokens), device=tokens.device)
    rows = torch.arange(len(tokens), device=tokens.device)
    return owners, first.scatter_reduce(0, owners, rows, "amin")


def suffix_states(model: nn.Module, tokens: Tensor, parts: Split) -> Tensor:
    """Last hidden states (B, S, D) of suffixes, read after their prefixes; ``tokens`` (B, L) are whole sequences."""
    return both_states(model, tokens, parts)[1]


def both_states(model: nn.Module, tokens: Tensor, parts: Split) -> tuple[Tensor, Tensor]:
    """Last hidden states of the prefixes (U, P, D) and, read after them, of the suffixes (B, S, D)."""
    net: Any = model
    if net.training:
        net.train(False)
    decoder = net.get_decoder()
    read = torch.arange(parts.prefixes.shape[1], device=tokens.device) < parts.starts[:, None]
    with short_attention(tokens.device):
        before = decoder(input_ids=parts.prefixes, use_cache=True)
        cache = before.past_key_values
        cache.batch_select_indices(parts.owners)
        states: Tensor = decoder(
            input_ids=parts.take(tokens),
            attention_mask=torch.cat((read, torch.ones_like(parts.seen)), 1).long(),
            position_ids=parts.columns,
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
    return before.last_hidden_state, states
