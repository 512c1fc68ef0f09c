"""One sequence with everything that a loss needs to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..core.batch import Batch
from .sequences import pad

Numbers = float | Sequence[float] | Tensor
"""One for every token of a sequence, (L,), or the same for all of them."""


@dataclass(frozen=True, kw_only=True)
class Datum:
    """A sequence of L tokens. Entry t of every other field belongs to token t as chosen after the tokens before it."""

    tokens: Sequence[int] | Tensor
    """Prompt first."""
    mask: Numbers
    """1 for tokens to be learnt from, 0 for prompts and what tools wrote."""
    advantages: Numbers | None = None
    log_probs: Numbers | None = None
    """Log-probabilities under the policy, or by the engine, that chose the tokens."""
    reference: Numbers | None = None
    """Log-probabilities under the policy to stay close to."""
    weights: Numbers | None = None
    """Factors of the tokens' losses, in a policy gradient of the surrogate; a loss of your own may use them."""
    values: Numbers | None = None
    """Values that a critic predicted."""
    returns: Numbers | None = None
    """Values that the critic is to learn."""


@dataclass(frozen=True)
class Sample:
    """A sampled continuation of a prompt."""

    prompt: Sequence[int]
    tokens: Sequence[int]
    log_probs: Sequence[float]
    """The engine's log-probability of each sampled token."""
    finished: bool
    """Ended by a stop token rather than at the limit of its length."""

    def datum(self, **others: Numbers) -> Datum:
        """Datum of the sampled tokens; ``others`` are its further fields, for all L tokens."""
        before = [0.0] * len(self.prompt)
        return Datum(
            tokens=[*self.prompt, *self.tokens],
            mask=before + [1.0] * len(self.tokens),
            log_probs=before + list(self.log_probs),
            **others,
        )


OPTIONAL = tuple(field.name for field in fields(Datum) if field.name not in ("tokens", "mask"))


def batch_of(data: Sequence[Datum], vocabulary: int, device: torch.device) -> Batch:
    """``data`` as one batch, padded on the right; ``observations["row"]`` are their numbers.

    A field that no datum has is None, or NaN where a batch must have it. Raises ``ValueError`` with the number of the
    datum that is wrong.
    """
    if not data:
        raise UserError("no data: give at least one datum")
    sequences = [_sequence(datum, number, vocabulary) for number, datum in enumerate(data)]
    tokens, lengths, mask = pad(sequences, device)
    found: dict[str, Tensor] = {}
    for name in OPTIONAL:
        given = [getattr(datum, name) is not None for datum in data]
        if not any(given):
            continue
        if not all(given):
            raise UserError(f"datum {given.index(False)} has no {name}, but others have: give it to all or none")
        rows = [
            _numbers(getattr(datum, name), len(own), name, number) * kept
            for number, (datum, (own, kept)) in enumerate(zip(data, sequences, strict=True))
        ]
        found[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
    missing = torch.full_like(mask, float("nan"))
    batch = Batch(
        observations={"lengths": lengths, "row": torch.arange(len(data), device=device)},
        actions=tokens,
        log_probs=missing,
        advantages=missing,
        mask=mask,
    )
    return batch.replace(**found)


def _sequence(datum: Datum, number: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    tokens = torch.as_tensor(datum.tokens, dtype=torch.long)
    if tokens.dim() != 1 or len(tokens) < 2:
        raise UserError(f"datum {number}: tokens of shape {tuple(tokens.shape)}, give a sequence of at least 2")
    if int(tokens.min()) < 0 or int(tokens.max()) >= vocabulary:
        wrong = int(tokens[(tokens < 0) | (tokens >= vocabulary)][0])
        raise UserError(f"datum {number}: token {wrong} is not in the model's vocabulary of {vocabulary}")
    mask = _numbers(datum.mask, len(tokens), "mask", number)
    if not ((mask == 0.0) | (mask == 1.0)).all():
        raise UserError(f"datum {number}: mask holds other values than 0 and 1; weigh tokens by weights")
    if mask[0]:
        raise UserError(f"datum {number}: mask 1 at the first token, which follows nothing: set it 0")
    if not mask.any():
        raise UserError(f"datum {number}: mask is 0 everywhere, so that there is nothing to learn")
    return tokens, mask


def _numbers(value: Numbers, length: int, name: str, number: int) -> Tensor:
    found = torch.as_tensor(value, dtype=torch.get_default_dtype())
    if found.dim() == 0:
        found = found.expand(length)
    if found.shape != (length,):
        raise UserError(f"datum {number}: {name} of shape {tuple(found.shape)} for {length} tokens")
    if not torch.isfinite(found).all():
        raise UserError(f"datum {number}: {name} holds a value that is not a finite number")
    return found
