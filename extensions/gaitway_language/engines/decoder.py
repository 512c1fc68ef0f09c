"""Decoding with a model of transformers: prompts are read once, then continued a token at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

Past = Sequence[Tensor | None]
"""Keys and values of the beginnings of prompts, where they are known."""


class ModuleDecoder:
    """Any causal LM of transformers, through its own ``forward`` and a cache of transformers."""

    def __init__(self, model: nn.Module):
        self.model: Any = model

    def load(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Take new weights, named as in the model's ``state_dict``, one at a time."""
        own = self.model.state_dict()
        # Tied weights have several names and are complete with one.
        left = {name: tensor.data_ptr() for name, tensor in own.items()}
        with torch.no_grad():
            for name, tensor in parameters:
                if name in own:
                    own[name].copy_(tensor)
                    left = {other: at for other, at in left.items() if at != own[name].data_ptr()}
        check_complete(left)

    def start(self, tokens: Tensor, lengths: Tensor, counts: Tensor, room: int, past: Past) -> ModuleSession:
        """Read prompts (U, S), padded on the left, and continue the u-th ``counts[u]`` times, ``room`` tokens each.

        Where there is a ``past`` of the beginning of a prompt, only what follows needs to be read.
        """
        return ModuleSession(self.model, tokens, lengths, counts)

    def logits(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits of every next token of sequences (B, L) padded on the left, shape (B, L, V)."""
        found: Tensor = self.model(tokens, **_places(tokens.shape[1], lengths), use_cache=False).logits
        return found


class ModuleSession:
    """A batch of B sequences under way; rows leave it when they are done. ``logits`` (B, V) are of the next token."""

    def __init__(self, model: Any, tokens: Tensor, lengths: Tensor, counts: Tensor):
        from transformers import DynamicCache  # here: a training without texts asks this package for free memory

        self.model = model
        self.cache = DynamicCache(config=model.config)
        self.width, self.lengths = tokens.shape[1], lengths.repeat_interleave(counts)
        output = model(
            tokens, **_places(self.width, lengths), past_key_values=self.cache, use_cache=True, logits_to_keep=1
        )
        rows = torch.arange(len(counts), device=tokens.device).repeat_interleave(counts)
        self.cache.batch_select_indices(rows)
        self.logits: Tensor = output.logits[rows, -1]

    def step(self, tokens: Tensor) -> None:
        """Append a token to each row, shape (B,)."""
        self.width += 1
        self.lengths = self.lengths + 1
        places = _places(self.width, self.lengths)
        places["position_ids"] = places["position_ids"][:, -1:]
        output = self.model(tokens[:, None], **places, past_key_values=self.cache, use_cache=True)
        self.logits = output.logits[:, -1]

    def keep(self, alive: Tensor) -> Tensor:
        """Drop the rows where ``alive`` (B,) is False; return which of the old rows the new ones were, shape (B',)."""
        rows = alive.nonzero()[:, 0]
        self.cache.batch_select_indices(rows)
        self.lengths, self.logits = self.lengths[rows], self.logits[rows]
        return rows

    def past(self, row: int) -> None:
        """No keys and values of what a row has read: caches of transformers have many forms."""


def _places(width: int, lengths: Tensor) -> dict[str, Tensor]:
    """Attention mask and positions, shape (B, L) each, of sequences padded on the left to a width."""
    positions = torch.arange(width, device=lengths.device) - (width - lengths)[:, None]
    return {"attention_mask": (positions >= 0).long(), "position_ids": positions.clamp(min=0)}


def check_complete(left: Iterable[str]) -> None:
    """ValueError for weights of which some were not given: the model is then part old, part new."""
    if missing := list(left):
        raise UserError(
            f"new weights without {', '.join(missing[:3])}{' ...' * (len(missing) > 3)}: give all of the model's "
            "state_dict, with adapters merged into the weights under them"
        )
