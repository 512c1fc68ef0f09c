"""Drawing tokens from logits, with random numbers that belong to a row and a position and to nothing else."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Sequence

import torch
from gaitway_agents.interfaces import Sampling
from torch import Tensor

GOLDEN = -7046029254386353131
"""0x9E3779B97F4A7C15 as a signed number: the increment of splitmix64 (Steele, Lea and Flood 2014)."""


def keys(prompts: Sequence[Sequence[int]], seed: int) -> Tensor:
    """A random number's key for each prompt, shape (B,), int64: equal prompts get different ones.

    It depends on the prompt, on how many equal ones came before it, and on the seed; not on any other prompt.
    """
    before: Counter[bytes] = Counter()
    found = []
    for prompt in prompts:
        text = array("q", prompt).tobytes()
        row = hashlib.blake2b(text + array("q", [seed, before[text]]).tobytes(), digest_size=8)
        before[text] += 1
        found.append(int.from_bytes(row.digest(), "little", signed=True))
    return torch.tensor(found, dtype=torch.int64)


def uniform(keys: Tensor, position: int) -> Tensor:
    """Numbers in [0, 1) for the keys (B,) at a position, shape (B,): the output function of splitmix64."""
    mixed = keys + (((position + 1) * GOLDEN + 2**63) % 2**64 - 2**63)
    mixed = (mixed ^ _shift(mixed, 30)) * -4658895280553007687
    mixed = (mixed ^ _shift(mixed, 27)) * -7723592293110705685
    return _shift(mixed ^ _shift(mixed, 31), 40).float() * 2.0**-24


def _shift(number: Tensor, bits: int) -> Tensor:
    """Shift to the right, as if there were no sign."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)


def draw(logits: Tensor, numbers: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """A token for each row of logits (B, V) by inversion at ``numbers`` (B,), and its log-probability, shape (B,) each.

    One number a row: drawing by Gumbel noise or ``torch.multinomial`` would need V of them.
    """
    if sampling.temperature == 0.0:
        log_probs = logits.float().log_softmax(-1)
        tokens = log_probs.argmax(-1)
    else:
        log_probs = (logits.float() / sampling.temperature).log_softmax(-1)
        tokens = _invert(log_probs.exp(), numbers, sampling)
    return tokens, log_probs.gather(1, tokens[:, None])[:, 0]


def _invert(probs: Tensor, numbers: Tensor, sampling: Sampling) -> Tensor:
    if sampling.top_p == 1.0 and not sampling.top_k:
        return _search(probs, numbers)
    if sampling.top_k:
        kept, order = probs.topk(min(sampling.top_k, probs.shape[1]))
    else:
        kept, order = probs.sort(descending=True)
    kept = kept / kept.sum(-1, keepdim=True)
    before = kept.cumsum(-1) - kept
    return order.gather(1, _search(kept.where(before < sampling.top_p, 0.0), numbers)[:, None])[:, 0]


def _search(probs: Tensor, numbers: Tensor) -> Tensor:
    """The first token whose cumulative probability exceeds its number; never one of probability 0."""
    heights = probs.cumsum(-1)
    found = torch.searchsorted(heights, (numbers * heights[:, -1])[:, None], right=True)[:, 0]
    last = torch.searchsorted(heights, heights[:, -1:].contiguous())[:, 0]
    return torch.minimum(found, last).clamp(max=probs.shape[1] - 1)
