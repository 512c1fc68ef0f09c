"""A lean decoder for Llama's family of architectures: few operations a token, and one block of memory for its cache.

The layers are those of Llama (Touvron et al. 2023) as transformers names them. What it saves over the module's own
``forward`` is work around the matrix products: on models of a few million parameters that is most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gaitway_files.adapters import packed_weights
from torch import Tensor, nn
from torch.nn import functional as F

from .decoder import Past, check_complete

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
ROPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that do not depend on the length of the text."""
PROMPT_TOKENS = 2**14
"""Tokens of prompts that are read at a time."""
ROWS = 16
"""Batches shrink by multiples of this: matrix products set themselves up anew for every new size."""


def understood(model: nn.Module) -> bool:
    """True if :class:`LlamaDecoder` computes the same as ``model``."""
    config: Any = getattr(model, "config", None)
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        getattr(config, "model_type", None) in FAMILY
        and type(model).__name__.endswith("ForCausalLM")
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in ROPES
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        and not (config.model_type == "mistral" and config.sliding_window)
    )


@dataclass
class _Layer:
    """Weights of a layer; (weight, bias) of linear maps, those with the same input joined."""

    attention_norm: Tensor
    qkv: tuple[Tensor, Tensor | None]
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: tuple[Tensor, Tensor | None]
    feed_norm: Tensor
    gate_up: tuple[Tensor, Tensor | None]
    down: tuple[Tensor, Tensor | None]


class LlamaDecoder:
    """A copy of ``model``'s weights in ``dtype``, for those :func:`understood`.

    ``weights`` are others by the same names, as of a model with adapters, whose layers keep their own weights inside.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, weights: Iterable[tuple[str, Tensor]] | None = None):
        base: Any = model
        config = base.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps, self.rotary = config.rms_norm_eps, base.model.rotary_emb
        self.dtype = dtype
        self._places: dict[str, Tensor] = {}
        own = dict(model.state_dict())
        # Of weights in four bits, which others come in place of, only the shapes matter.
        own |= {name: torch.empty(p.quant_state.shape, device="meta") for name, p in packed_weights(model).items()}
        own = {name.replace(".base_layer.", "."): tensor for name, tensor in own.items()}
        self.device = own["model.embed_tokens.weight"].device
        self.embedding = self._join(own, "model.embed_tokens.weight")
        tied = own["lm_head.weight"].data_ptr() == own["model.embed_tokens.weight"].data_ptr()
        self.head = self.embedding if tied else self._join(own, "lm_head.weight")
        self.norm = self._join(own, "model.norm.weight")
        self.layers = [self._layer(own, f"model.layers.{i}.") for i in range(config.num_hidden_layers)]
        self.load(own.items() if weights is None else weights)

    def _layer(self, own: Mapping[str, Tensor], at: str) -> _Layer:
        def linear(*names: str) -> tuple[Tensor, Tensor | None]:
            weight = self._join(own, *(f"{at}{name}.weight" for name in names))
            biased = f"{at}{names[0]}.bias" in own
            return weight, self._join(own, *(f"{at}{name}.bias" for name in names)) if biased else None

        def norm(name: str) -> Tensor | None:
            return self._join(own, f"{at}{name}.weight") if f"{at}{name}.weight" in own else None

        first, second = norm("input_layernorm"), norm("post_attention_layernorm")
        assert first is not None and second is not None
        return _Layer(
            attention_norm=first,
            qkv=linear("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            query_norm=norm("self_attn.q_norm"),
            key_norm=norm("self_attn.k_norm"),
            out=linear("self_attn.o_proj"),
            feed_norm=second,
            gate_up=linear("mlp.gate_proj", "mlp.up_proj"),
            down=linear("mlp.down_proj"),
        )

    def _join(self, own: Mapping[str, Tensor], *names: str) -> Tensor:
        """Memory for the named tensors, one below the other, and a note of where each belongs."""
        rows = [own[name].shape[0] for name in names]
        joined = torch.empty((sum(rows), *own[names[0]].shape[1:]), dtype=self.dtype, device=self.device)
        self._places |= dict(zip(names, joined.split(rows), strict=True))
        return joined

    def load(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        left = dict(self._places)
        with torch.no_grad():
            for name, tensor in parameters:
                if name in self._places:
                    self._places[name].copy_(tensor)
                    left.pop(name, None)
        check_complete(left)

    def start(self, tokens: Tensor, lengths: Tensor, counts: Tensor, room: int, past: Past) -> LlamaSession:
        return LlamaSession(self, tokens, lengths, counts, room, past)

    def logits(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return F.linear(self.read(tokens, lengths, [None] * len(tokens))[0], self.head)

    def read(self, tokens: Tensor, lengths: Tensor, past: Past) -> tuple[Tensor, Tensor]:
        """Last states (U, N, D) of sequences padded on the left, and the cache (layers, 2, U, KV, S, size) of them.

        As many of the last tokens are read, N, as the sequence of which the least is known in ``past`` needs.
        """
        rows, width = tokens.shape
        begins = (width - lengths).tolist()
        known = min(begin + (0 if its is None else its.shape[3]) for begin, its in zip(begins, past, strict=True))
        cache = torch.empty(
            (len(self.layers), 2, rows, self.kv_heads, width, self.size), dtype=self.dtype, device=self.device
        )
        for row, (begin, its) in enumerate(zip(begins, past, strict=True) if known else ()):
            cache[:, :, row, :, : min(begin, known)] = 0.0  # not read, and 0 times what memory held may be NaN
            if its is not None and begin < known:
                cache[:, :, row, :, begin:known] = its[:, :, :, : known - begin]
        cos, sin = self.turns(width)
        mask = None
        if known or max(begins):
            column = torch.arange(width, device=tokens.device)
            before = width - lengths
            mask = (column <= column[known:, None]) & (column >= before[:, None, None])
            mask = (mask | (column == column[known:, None]))[:, None]
            place = (column[known:] - before[:, None]).clamp(min=0)
            cos, sin = cos[place][:, None], sin[place][:, None]

        def attend(index: int, queries: Tensor, keys_values: Tensor) -> Tensor:
            cache[index, :, :, :, known:] = keys_values.unflatten(1, (2, -1)).transpose(0, 1)
            keys, values = cache[index]
            return F.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
            )

        return self._forward(tokens[:, known:], cos, sin, attend), cache

    def turns(self, width: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the rotary embedding at the first positions, shape (width, size) each."""
        positions = torch.arange(width, device=self.device)[None]
        cos, sin = self.rotary(self.embedding[:1], positions)
        # Half of a rotated pair is taken with the other sign: into the sine with it, and there is no negation later.
        sign = torch.ones(self.size, dtype=sin.dtype, device=self.device)
        sign[: self.size // 2] = -1.0
        return cos[0], sin[0] * sign

    def _forward(self, tokens: Tensor, cos: Tensor, sin: Tensor, attend: Any) -> Tensor:
        """Last states, shape (B, S, D), of tokens (B, S).

        ``attend(layer, queries, keys_values)`` returns what attention gives for queries (B, heads, S, size), given
        keys and values of the same tokens as (B, 2 KV, S, size).
        """
        rows, width = tokens.shape
        both = self.heads + self.kv_heads
        states = F.embedding(tokens, self.embedding)
        for index, layer in enumerate(self.layers):
            joined = F.linear(self._norm(states, layer.attention_norm), *layer.qkv)
            joined = joined.view(rows, width, -1, self.size).transpose(1, 2)
            turned = joined[:, :both]
            if layer.query_norm is not None and layer.key_norm is not None:
                queries = F.rms_norm(turned[:, : self.heads], (self.size,), layer.query_norm, self.eps)
                keys = F.rms_norm(turned[:, self.heads :], (self.size,), layer.key_norm, self.eps)
                turned = torch.cat([queries, keys], 1)
            turned = turned * cos + turned.roll(self.size // 2, -1) * sin
            keys_values = torch.cat([turned[:, self.heads :], joined[:, both:]], 1)
            found = attend(index, turned[:, : self.heads], keys_values)
            states = states + F.linear(found.transpose(1, 2).reshape(rows, width, -1), *layer.out)
            gate, up = F.linear(self._norm(states, layer.feed_norm), *layer.gate_up).chunk(2, -1)
            states = states + F.linear(F.silu(gate) * up, *layer.down)
        return self._norm(states, self.norm)

    def _norm(self, states: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(states, (states.shape[-1],), weight, self.eps)


class LlamaSession:
    """Rows 0 .. n of one preallocated cache; a row that is done has its place taken by one from the end."""

    def __init__(self, decoder: LlamaDecoder, tokens: Tensor, lengths: Tensor, counts: Tensor, room: int, past: Past):
        self.decoder = decoder
        self.width = tokens.shape[1]
        total = int(counts.sum())
        self.cache = torch.empty(
            (len(decoder.layers), 2, total, decoder.kv_heads, self.width + room, decoder.size),
            dtype=decoder.dtype,
            device=tokens.device,
        )
        self.cos, self.sin = decoder.turns(self.width + room)
        owner = torch.arange(len(counts), device=tokens.device).repeat_interleave(counts)
        step = max(1, PROMPT_TOKENS // self.width)
        last = []
        for first in range(0, len(tokens), step):
            part = slice(first, first + step)
            states, cache = decoder.read(tokens[part], lengths[part], past[part])
            mine = ((owner >= first) & (owner < first + step)).nonzero()[:, 0]
            self.cache[:, :, mine[0] : mine[-1] + 1, :, : self.width] = cache[:, :, owner[mine] - first]
            last.append(states[:, -1])
        self.logits = F.linear(torch.cat(last), decoder.head)[owner]
        self.before = (self.width - lengths)[owner]
        self.mask: Tensor | None = None
        if int(lengths.min()) < self.width:
            column = torch.arange(self.width + room, device=tokens.device)
            self.mask = torch.zeros(total, 1, 1, self.width + room, dtype=decoder.dtype, device=tokens.device)
            self.mask.masked_fill_((column < self.before[:, None])[:, None, None], float("-inf"))

    def step(self, tokens: Tensor) -> None:
        at, end, count = self.width, self.width + 1, len(tokens)
        cos, sin = self.cos[at], self.sin[at]
        mask = None
        if self.mask is not None:
            place = at - self.before[:count]
            cos, sin = self.cos[place][:, None, None], self.sin[place][:, None, None]
            mask = self.mask[:count, :, :, :end]

        def attend(index: int, queries: Tensor, keys_values: Tensor) -> Tensor:
            mine = self.cache[index, :, :count]
            mine[:, :, :, at] = keys_values.unflatten(1, (2, -1)).transpose(0, 1)[..., 0, :]
            keys, values = mine[..., :end, :]
            return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)

        states = self.decoder._forward(tokens[:, None], cos, sin, attend)
        self.logits = F.linear(states[:, 0], self.decoder.head)
        self.width = end

    def keep(self, alive: Tensor) -> Tensor:
        count = len(alive)
        left = min(-(-int(alive.sum()) // ROWS) * ROWS, count)
        rows = torch.arange(left, device=alive.device)
        holes = (~alive[:left]).nonzero()[:, 0]
        movers = alive[left:].nonzero()[:, 0] + left
        holes = holes[: len(movers)]
        rows[holes] = movers
        self.cache[:, :, holes, :, : self.width] = self.cache[:, :, movers, :, : self.width]
        self.before, self.logits = self.before[rows], self.logits[rows]
        if self.mask is not None:
            self.mask = self.mask[rows]
        return rows

    def past(self, row: int) -> Tensor:
        """Keys and values of what a row has read, shape (layers, 2, KV, length, size)."""
        return self.cache[:, :, row, :, int(self.before[row]) : self.width].clone()
