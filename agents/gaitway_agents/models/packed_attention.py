"""Attention among sequences that lie in one line without padding, and that share what they begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .prefixes import Split

UNEVEN = 2
"""Places for sequences, to every sequence, up to which those with the same prefix make one block."""


@dataclass(frozen=True)
class Packing:
    """N tokens in one line: those of U prefixes, then those of the sequences or, after a prefix, of their suffixes.

    Padded, prefixes have shape (U, P) and suffixes (V, K, S): V blocks of at most K with the same prefix.
    """

    tokens: Tensor
    """Shape (N,)."""
    positions: Tensor
    """Position of each token in its whole sequence, shape (N,)."""
    prefix: Tensor
    """Place in line of each token of padded prefixes, shape (U, P); any place in their padding."""
    suffix: Tensor
    """The same of padded suffixes, shape (V, K, S)."""
    owners: Tensor | None
    """Prefix of each block, shape (V,); None where the blocks are one for each prefix, in order."""
    of_prefix: Tensor
    """Places in padded prefixes, flattened, of the first tokens in line."""
    of_suffix: Tensor
    """Places in padded suffixes, flattened, of the other tokens in line."""
    read: Tensor
    """True where a prefix is not padded, shape (U, P)."""
    rows: Tensor
    """Place in line of each token of the sequences, or of their suffixes, in their own order, shape (B, S)."""


def pack(tokens: Tensor, lengths: Tensor, parts: Split | None) -> Packing:
    """Packing of sequences (B, L), padded on the right, or of their ``parts``."""
    count, device = len(tokens), tokens.device
    if parts is None:
        width = int(lengths.max())
        columns = torch.arange(width, device=device).expand(count, -1)
        seen, tokens = columns < lengths[:, None], tokens[:, :width]
        prefixes, read = tokens[:, :0], seen[:, :0]
        owners = torch.arange(count, device=device)
    else:
        columns, seen, prefixes, owners = parts.columns, parts.seen, parts.prefixes, parts.owners
        ends = torch.zeros(len(prefixes), dtype=torch.long, device=device).scatter(0, owners, parts.starts)
        read = torch.arange(prefixes.shape[1], device=device) < ends[:, None]
        tokens = tokens.gather(1, columns)
    # The k-th sequence of each prefix; or a block for each, where prefixes with many would pad those with few.
    order = owners.argsort(stable=True)
    counts = owners.bincount(minlength=len(prefixes))
    most, alone = int(counts.max()), torch.arange(count, device=device)
    slots = torch.empty_like(owners)
    slots[order] = alone - (counts.cumsum(0) - counts)[owners[order]]
    uneven = most * len(prefixes) > UNEVEN * count
    blocks, slots = (alone, torch.zeros_like(slots)) if uneven else (owners, slots)
    shape = (count, 1, seen.shape[1]) if uneven else (len(prefixes), most, seen.shape[1])
    there = torch.zeros(shape, dtype=torch.bool, device=device)
    there[blocks, slots] = seen
    values = torch.zeros((2, *shape), dtype=torch.long, device=device)
    values[0, blocks, slots], values[1, blocks, slots] = tokens, columns
    first = int(read.sum())
    suffix = (there.flatten().cumsum(0) - 1).clamp(min=0).view(shape) + first
    at = torch.arange(prefixes.shape[1], device=device).expand_as(prefixes)
    return Packing(
        tokens=torch.cat((prefixes[read], values[0][there])),
        positions=torch.cat((at[read], values[1][there])),
        prefix=(read.flatten().cumsum(0) - 1).clamp(min=0).view(read.shape),
        suffix=suffix,
        owners=owners if uneven else None,
        of_prefix=read.flatten().nonzero()[:, 0],
        of_suffix=there.flatten().nonzero()[:, 0],
        read=read,
        rows=suffix[blocks, slots],
    )


@dataclass(frozen=True)
class Heads:
    """What the attention of all layers shares."""

    queries: int
    keys: int
    size: int
    cos: Tensor
    """Rotary embedding at the packed positions, shape (N, 1, size)."""
    sin: Tensor
    """The same, with the sign of the half that it is multiplied with."""
    bias: tuple[Tensor, Tensor]
    """-inf where prefixes (1, G P, P) and suffixes (V KV K, G S, P + S) must not look, for G queries of each key."""

    @property
    def scale(self) -> float:
        return float(self.size**-0.5)

    @property
    def group(self) -> int:
        """Queries of each key."""
        return self.queries // self.keys


def heads_of(packing: Packing, queries: int, keys: int, cos: Tensor, sin: Tensor) -> Heads:
    """``cos`` and ``sin``, shape (N, size), decide the type of everything."""
    (_, width), (blocks, most, suffix) = packing.prefix.shape, packing.suffix.shape
    group, size = queries // keys, cos.shape[1]
    sign = torch.ones(size, dtype=sin.dtype, device=sin.device)
    sign[: size // 2] = -1.0

    def masked(seen: Tensor) -> Tensor:
        return torch.zeros(seen.shape, dtype=cos.dtype, device=cos.device).masked_fill_(~seen, float("-inf"))

    before = torch.ones(width, width, dtype=torch.bool, device=cos.device).tril()
    after = torch.ones(suffix, suffix, dtype=torch.bool, device=cos.device).tril()
    read = packing.read if packing.owners is None else packing.read[packing.owners]
    both = torch.cat((read[:, None].expand(-1, suffix, -1), after.expand(blocks, -1, -1)), 2)
    wide = masked(both)[:, None, None, None].expand(-1, keys, most, group, -1, -1)
    bias = masked(before).repeat(group, 1)[None], wide.reshape(-1, group * suffix, width + suffix)
    return Heads(queries, keys, size, cos[:, None], (sin * sign)[:, None], bias)


def attention(qkv: Tensor, packing: Packing, heads: Heads) -> Tensor:
    """What attention gives, shape (N, queries * size), for queries, keys and values (N, (queries + 2 keys) * size)."""
    found: Tensor = _Attention.apply(qkv, packing, heads)
    return found


class _Attention(torch.autograd.Function):
    """Rotary embedding and softmax attention with every score in memory: few, as sequences here are short."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, packing: Packing, heads: Heads) -> Tensor:
        turned = qkv.view(len(qkv), -1, heads.size).clone()
        both = turned[:, : heads.queries + heads.keys]
        rolled = both.roll(heads.size // 2, -1)
        both.mul_(heads.cos).addcmul_(rolled, heads.sin)
        found, kept = [], []
        prefix = _padded(turned, packing.prefix, heads)
        if packing.prefix.shape[1]:
            chances = _chances(prefix[0], prefix[1].flatten(0, 1), heads.bias[0], heads.scale)
            found.append(_in_line(chances @ prefix[2].flatten(0, 1), packing.prefix.shape, packing.of_prefix, heads))
            kept.append(chances)
        queries, keys, values = _suffix(turned, packing, heads, prefix)
        chances = _chances(queries, keys, heads.bias[1], heads.scale)
        found.append(_in_line(chances @ values, packing.suffix.shape, packing.of_suffix, heads))
        ctx.save_for_backward(turned, chances, *kept)
        ctx.packing, ctx.heads = packing, heads
        return torch.cat(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        packing, heads = ctx.packing, ctx.heads
        turned, chances, *kept = ctx.saved_tensors
        (prefixes, width), (blocks, most, length) = packing.prefix.shape, packing.suffix.shape
        prefix = _padded(turned, packing.prefix, heads)
        first = len(packing.of_prefix)
        found = []
        queries, keys, values = _suffix(turned, packing, heads, prefix)
        outer = _spread(grad[first:], packing.suffix.shape, packing.of_suffix, heads)
        dq, dk, dv = _backward(queries, keys, values, chances, outer, heads.scale)
        shape = (blocks, heads.keys, most, width + length, heads.size)
        (pk, dk), (pv, dv) = (part.view(shape).split((width, length), 3) for part in (dk, dv))
        parts = dq.view(blocks, heads.keys, most, -1, length, heads.size), dk, dv
        found.append(_joined(parts, (0, 2, 4, 1, 3, 5), (0, 2, 3, 1, 4), packing.of_suffix, heads))
        if width:
            outer = _spread(grad[:first], packing.prefix.shape, packing.of_prefix, heads)
            dq, dk, dv = _backward(
                prefix[0], prefix[1].flatten(0, 1), prefix[2].flatten(0, 1), kept[0], outer, heads.scale
            )
            own = torch.arange(prefixes, device=grad.device) if packing.owners is None else packing.owners
            dk, dv = (a.view(prefixes, heads.keys, width, -1) for a in (dk, dv))
            dk, dv = dk.index_add_(0, own, pk.sum(2)), dv.index_add_(0, own, pv.sum(2))
            parts = dq.view(prefixes, heads.keys, -1, width, heads.size), dk, dv
            found.insert(0, _joined(parts, (0, 3, 1, 2, 4), (0, 2, 1, 3), packing.of_prefix, heads))
        whole = torch.cat(found)
        both = whole[:, : heads.queries + heads.keys]
        rolled = (both * heads.sin).roll(heads.size // 2, -1)
        both.mul_(heads.cos).add_(rolled)
        return whole.flatten(1), None, None


def _padded(turned: Tensor, places: Tensor, heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (R KV, G T, size), keys and values (R, KV, T, size) of padded rows (R, T)."""
    rows, width = places.shape
    found = turned[places.flatten()].view(rows, width, turned.shape[1], heads.size)
    queries, keys, values = found.split((heads.queries, heads.keys, heads.keys), 2)
    queries = queries.view(rows, width, heads.keys, heads.group, heads.size).permute(0, 2, 3, 1, 4)
    queries = queries.reshape(rows * heads.keys, heads.group * width, heads.size)
    return queries, keys.transpose(1, 2).contiguous(), values.transpose(1, 2).contiguous()


def _suffix(
    turned: Tensor, packing: Packing, heads: Heads, prefix: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (V KV K, G S, size), and keys and values (V KV K, P + S, size) with those of the prefix."""
    blocks, most, length = packing.suffix.shape
    found = turned[packing.suffix.flatten()].view(blocks, most, length, -1, heads.size)
    queries, keys, values = found.split((heads.queries, heads.keys, heads.keys), 3)
    queries = queries.view(blocks, most, length, heads.keys, -1, heads.size).permute(0, 3, 1, 4, 2, 5)
    queries = queries.reshape(blocks * heads.keys * most, -1, heads.size)

    def whole(own: Tensor, shared: Tensor) -> Tensor:
        shared = shared if packing.owners is None else shared[packing.owners]
        both = shared[:, :, None].expand(-1, -1, most, -1, -1), own.permute(0, 3, 1, 2, 4)
        return torch.cat(both, 3).flatten(0, 2)

    return queries, whole(keys, prefix[1]), whole(values, prefix[2])


def _chances(queries: Tensor, keys: Tensor, bias: Tensor, scale: float) -> Tensor:
    bias = bias.expand(len(queries), -1, -1)
    return torch.baddbmm(bias, queries, keys.transpose(1, 2), alpha=scale).softmax(-1)


def _backward(
    queries: Tensor, keys: Tensor, values: Tensor, chances: Tensor, outer: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    scores = torch._softmax_backward_data(outer @ values.transpose(1, 2), chances, -1, chances.dtype)
    return (scores @ keys).mul_(scale), (scores.transpose(1, 2) @ queries).mul_(scale), chances.transpose(1, 2) @ outer


def _in_line(found: Tensor, shape: torch.Size, places: Tensor, heads: Heads) -> Tensor:
    """Rows (n, queries * size) at the places of padded results."""
    rows, width = shape[:-1].numel(), shape[-1]
    if len(shape) == 3:
        found = found.view(shape[0], heads.keys, shape[1], -1, width, heads.size).permute(0, 2, 4, 1, 3, 5)
    else:
        found = found.view(rows, heads.keys, -1, width, heads.size).permute(0, 3, 1, 2, 4)
    return found.reshape(rows * width, -1)[places]


def _spread(grad: Tensor, shape: torch.Size, places: Tensor, heads: Heads) -> Tensor:
    """The reverse of :func:`_in_line`; 0 in the padding."""
    width = shape[-1]
    whole = grad.new_zeros(shape.numel(), grad.shape[1]).index_copy_(0, places, grad)
    if len(shape) == 3:
        whole = whole.view(*shape, heads.keys, -1, heads.size).permute(0, 3, 1, 4, 2, 5)
    else:
        whole = whole.view(*shape, heads.keys, -1, heads.size).permute(0, 2, 3, 1, 4)
    return whole.reshape(-1, heads.queries // heads.keys * width, heads.size)


def _joined(
    parts: tuple[Tensor, Tensor, Tensor], queries: tuple[int, ...], keys: tuple[int, ...], places: Tensor, heads: Heads
) -> Tensor:
    """Gradients (n, queries + 2 keys, size) at the places of padded ones."""
    flat = [parts[0].permute(queries).reshape(-1, heads.queries * heads.size)]
    flat += [part.permute(keys).reshape(-1, heads.keys * heads.size) for part in parts[1:]]
    return torch.cat([part[places] for part in flat], 1).view(len(places), -1, heads.size)
