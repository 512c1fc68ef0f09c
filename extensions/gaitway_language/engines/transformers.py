"""Generation in this process, with no other library than torch and transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from gaitway_agents.interfaces import PADDING, Completion, Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from torch import Tensor, nn

from .decoder import ModuleDecoder, ModuleSession
from .draw import draw, keys, uniform
from .limits import check_prompts
from .llama import LlamaDecoder, LlamaSession, understood
from .merged import merged

UNDECIDED = -1
"""Stands for a token that is still to be drawn."""
LOGITS = 2**22
"""Logits that are in memory at a time when sequences are scored."""


class TransformersEngine:
    """Continues prompts with ``model``, a causal LM of transformers.

    It has a copy of the weights in ``dtype`` (None: the model's) that changes with ``update`` only. ``copied=False``
    uses the model itself: no memory, always its newest weights, and so not for generation beside learning.
    Each distinct prompt is read once, however often it is to be continued, and sequences that have ended leave the
    batch of at most ``batch_size``. What is drawn for a prompt does not depend on the others. ``asynchronous`` has
    dialogues go on one by one, by :meth:`converse`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        dtype: torch.dtype | None = None,
        batch_size: int = 256,
        copied: bool = True,
        asynchronous: bool = False,
    ):
        if not copied and dtype is not None:
            raise UserError(f"copied=False, dtype={dtype}: the model's own weights keep their dtype; leave dtype out")
        base: Any = model
        self.batch_size, self.copied, self.asynchronous = batch_size, copied, asynchronous
        self.vocabulary = int(base.get_input_embeddings().num_embeddings)
        self.positions: int | None = getattr(base.config, "max_position_embeddings", None)
        self.device = next(model.parameters()).device
        self._live = None if copied else model
        self._kept: dict[tuple[int, ...], Tensor] = {}
        """Keys and values of the last call's sequences, if the next one goes on from them."""
        self.layers = int(base.config.get_text_config().num_hidden_layers)
        self.dtype: torch.dtype = dtype or base.dtype
        self.decoder = self._decoder(model)

    def _decoder(self, model: Any) -> ModuleDecoder | LlamaDecoder:
        if not self.copied:
            return ModuleDecoder(model)
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        if understood(plain):
            return LlamaDecoder(plain, self.dtype, MergedWeights(model))
        own: Any = merged(model, copied=True).to(self.dtype).eval().requires_grad_(False)
        if str(own.config._attn_implementation).startswith("flash_attention"):
            own.set_attn_implementation("sdpa")  # in any dtype, and for a token at a time no slower
        return ModuleDecoder(own)

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """One completion for each prompt; ValueError for one that is empty, too long or not of this vocabulary."""
        limits = sampling.limits_of(prompts)
        check_prompts(prompts, limits, vocabulary=self.vocabulary, positions=self.positions)
        random = keys(prompts, sampling.seed)
        past, self._kept = self._kept, {}
        found: dict[int, Completion] = {}
        with self._evaluating():
            for rows in self._batches(prompts):
                part, room = [prompts[i] for i in rows], [limits[i] for i in rows]
                found |= zip(rows, self._batch(part, room, random[rows], sampling, past), strict=True)
        return [found[i] for i in range(len(prompts))]

    @torch.inference_mode()
    def converse(self, prompts: Sequence[Sequence[int]], sampling: Sampling, replies: Any) -> None:
        """Continue prompts by ``sampling.max_tokens``, replies to their answers included; errors as of ``generate``.

        ``replies`` is :class:`gaitway_language.dialogue.Replies`. A reply takes the place of draws in its row, so
        that no answer waits for another to end; all wait while environments reply. Draws do not depend on timing.
        """
        check_prompts(
            prompts, [sampling.max_tokens] * len(prompts), vocabulary=self.vocabulary, positions=self.positions
        )
        random = keys(prompts, sampling.seed)
        self._kept = {}
        with self._evaluating():
            for rows in self._batches(prompts):
                self._converse(rows, [prompts[i] for i in rows], random[rows], sampling, replies)

    def _batches(self, prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Indices of prompts, those that are equal beside each other and those of about the same length together."""
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), tuple(prompts[i])))
        for first in range(0, len(order), self.batch_size):
            yield order[first : first + self.batch_size]

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Context without dropout, where the engine's model is the one that learns."""
        training = self._live is not None and self._live.training
        if self._live is not None:
            self._live.eval()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.train(training)

    def _batch(
        self,
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        random: Tensor,
        sampling: Sampling,
        past: Mapping[tuple[int, ...], Tensor],
    ) -> list[Completion]:
        device, longest = self.device, max(limits)
        session = self._start(prompts, longest, past)
        stops = torch.tensor(sampling.stop_tokens, dtype=torch.int64, device=device)
        rows, random = torch.arange(len(prompts), device=device), random.to(device)
        alive = torch.ones(len(prompts), dtype=torch.bool, device=device)
        drawn = torch.full((longest, len(prompts)), PADDING, device=device)
        log_probs = torch.zeros((longest, len(prompts)), device=device)
        room, full = torch.tensor(limits, device=device), set(limits)
        read: dict[int, Tensor | None] = {}
        # Asking a GPU whether rows have ended waits for it: there, not at every token.
        patience = 1 if device.type == "cpu" else 8
        for position in range(longest):
            chosen, said = draw(session.logits, uniform(random, position), sampling)
            drawn[position, rows], log_probs[position, rows] = chosen, said
            alive &= ~torch.isin(chosen, stops)
            if position + 1 == longest:
                break
            if position + 1 in full:
                alive &= room[rows] > position + 1
            if (position % patience == 0 or position + 1 in full) and not bool(alive.all()):
                if not bool(alive.any()):
                    break
                if sampling.continued:
                    read |= {int(rows[i]): session.past(int(i)) for i in (~alive).nonzero()[:, 0]}
                kept = session.keep(alive)
                rows, random, alive, chosen = rows[kept], random[kept], alive[kept], chosen[kept]
            session.step(chosen)
        _check_finite(log_probs)
        found = _completions(drawn.T.cpu(), log_probs.T.cpu(), stops.cpu(), limits)
        if sampling.continued:
            read |= {int(row): session.past(i) for i, row in enumerate(rows)}
            for row, its in read.items():
                if its is not None:
                    sequence = (*prompts[row], *found[row].tokens)
                    self._kept[sequence] = its[:, :, :, : len(sequence) - 1]
        return found

    def _start(
        self, prompts: Sequence[Sequence[int]], room: int, past: Mapping[tuple[int, ...], Tensor]
    ) -> ModuleSession | LlamaSession:
        """Prompts that have been read, each distinct one once; equal ones are neighbours."""
        distinct = Counter(map(tuple, prompts))
        counts = torch.tensor(list(distinct.values()), device=self.device)
        tokens, lengths = padded(list(distinct), self.device)
        return self.decoder.start(tokens, lengths, counts, room, [_beginning(p, past) for p in distinct])

    def _converse(
        self,
        indices: Sequence[int],
        prompts: Sequence[Sequence[int]],
        random: Tensor,
        sampling: Sampling,
        replies: Any,
    ) -> None:
        device, longest, count = self.device, sampling.max_tokens, len(prompts)
        session = self._start(prompts, longest, {})
        stops = torch.tensor(sampling.stop_tokens, dtype=torch.int64, device=device)
        rows, random = torch.arange(count, device=device), random.to(device)
        alive = torch.ones(count, dtype=torch.bool, device=device)
        tokens = torch.full((longest, count), UNDECIDED, device=device)
        log_probs = torch.zeros((longest, count), device=device)
        begun = [0] * count
        for position in range(longest):
            chosen, said = draw(session.logits, uniform(random, position), sampling)
            given = tokens[position, rows]
            own = given == UNDECIDED
            chosen = torch.where(own, chosen, given)
            tokens[position, rows], log_probs[position, rows] = chosen, said
            finished = own & torch.isin(chosen, stops)
            ended = {
                int(rows[at]): at for at in (alive & (finished | (position + 1 == longest))).nonzero()[:, 0].tolist()
            }
            if ended:
                _check_finite(said)
                for row, at in ended.items():
                    answer = slice(begun[row], position + 1)
                    replies.send(
                        indices[row],
                        Completion(tokens[answer, row].tolist(), log_probs[answer, row].tolist(), bool(finished[at])),
                    )
                came: dict[int, list[int]] = {}
                while replies:
                    came |= replies.come(wait=True)
                for row, at in ended.items():
                    reply = came.get(indices[row], [])
                    alive[at] = bool(reply)
                    begun[row] = position + 1 + len(reply)
                    tokens[position + 1 : begun[row], row] = torch.tensor(reply, dtype=torch.int64, device=device)
                if not bool(alive.any()):
                    return
                if not bool(alive.all()):
                    kept = session.keep(alive)
                    rows, random, alive, chosen = rows[kept], random[kept], alive[kept], chosen[kept]
            session.step(chosen)

    @torch.inference_mode()
    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability at temperature 1 of every token but the first, by the weights that ``generate`` uses."""
        check_prompts(sequences, [0] * len(sequences), vocabulary=self.vocabulary, positions=self.positions)
        found = []
        step = max(1, LOGITS // (max(map(len, sequences), default=1) * self.vocabulary))
        with self._evaluating():
            for first in range(0, len(sequences), step):
                part = sequences[first : first + step]
                tokens, lengths = padded(part, self.device)
                said = self.decoder.logits(tokens, lengths)[:, :-1].float().log_softmax(-1)
                chosen = said.gather(2, tokens[:, 1:, None])[..., 0].cpu()
                found += [row[len(row) - len(s) + 1 :].tolist() for row, s in zip(chosen, part, strict=True)]
        return found

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Copy new weights; of the model itself (``copied=False``) there is nothing to copy."""
        self._kept = {}
        if self.copied:
            self.decoder.load(parameters)

    def close(self) -> None:
        """Nothing to give back."""


def _check_finite(log_probs: Tensor) -> None:
    if not bool(log_probs.isfinite().all()):
        raise FloatingPointError(
            "the model's logits are not finite: its training has diverged, or dtype cannot hold its activations"
        )


def padded(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Sequences as one tensor (B, L), padded on the left, and their lengths (B,)."""
    width = max(map(len, sequences))
    rows = [[PADDING] * (width - len(sequence)) + list(sequence) for sequence in sequences]
    return torch.tensor(rows, device=device), torch.tensor([len(s) for s in sequences], device=device)


def _beginning(prompt: tuple[int, ...], past: Mapping[tuple[int, ...], Tensor]) -> Tensor | None:
    """The past of the longest sequence that a prompt begins with."""
    lengths = sorted({len(sequence) for sequence in past}, reverse=True)
    return next((past[prompt[:length]] for length in lengths if prompt[:length] in past), None)


def _completions(drawn: Tensor, log_probs: Tensor, stops: Tensor, limits: Sequence[int]) -> list[Completion]:
    """Each row of tokens (B, T) up to its limit, or up to and with its first stop token."""
    room = torch.tensor(limits)
    ends = torch.isin(drawn, stops) & (torch.arange(drawn.shape[1]) < room[:, None])
    finished = ends.any(1).tolist()
    lengths = torch.where(ends.any(1), ends.int().argmax(1) + 1, room).tolist()
    return [
        Completion(tokens=tokens[:length], log_probs=said[:length], finished=done)
        for tokens, said, length, done in zip(drawn.tolist(), log_probs.tolist(), lengths, finished, strict=True)
    ]
