"""Tinker's losses by name, made of the optimiser's own, and the batch that they read.

A loss is the sum over all tokens of all data, never a mean. Source: tinker-docs.thinkingmachines.ai/tinker/losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.likelihood import NegativeLogLikelihood
from gaitway_agents.core.losses import Loss, PolicyLoss, PolicyLossConfig
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.surrogates import CISPO, ClippedSurrogate, ImportanceSampling, Surrogate
from gaitway_files.errors import UserError
from torch import Tensor

from ..errors import nearest
from .messages import Array, Datum, Settings

TARGETS = "target_tokens"
CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
"""Bounds of the ratio, and their defaults."""
NO_DEFAULT = math.nan
MOST_TARGETS = 256
"""Most targets of one token."""
MOST_CELLS = 2**25
"""Most numbers of a tensor with the targets of all data, padding included."""


@dataclass(frozen=True, kw_only=True)
class DRO(Surrogate):
    """- (A log p - beta / 2 (log p - log q)²): direct reward optimisation (Richemond et al. 2024)."""

    beta: float

    def __call__(self, ratio: Tensor, log_ratio: Tensor, new: Evaluation, batch: Batch) -> Tensor:
        return -(batch.advantages * new.log_probs - 0.5 * self.beta * log_ratio.square())


@dataclass(frozen=True)
class Kind:
    """A loss of Tinker's: the tensors that it reads beside the targets, its settings, and its maker."""

    make: Callable[[Mapping[str, float]], Loss]
    inputs: tuple[str, ...] = ("logprobs", "advantages")
    settings: Mapping[str, float] = field(default_factory=dict)
    """Settings and their defaults; NaN has none."""
    factor: str | None = "advantages"
    """Tensor that multiplies the loss of each token; where it is 0 nothing is learnt."""


def _policy(surrogate: Any) -> Loss:
    return PolicyLoss(PolicyLossConfig(surrogate=surrogate, entropy_coefficient=0.0))


def _clipping(settings: Mapping[str, float]) -> dict[str, Any]:
    low, high = settings["clip_low_threshold"], settings["clip_high_threshold"]
    if not 0.0 <= low < 1.0 < high:
        raise UserError(
            f"clip_low_threshold {low:g}, clip_high_threshold {high:g}: they bound the ratio itself, "
            "0 <= low < 1 < high, such as 0.8 and 1.2"
        )
    return {"clip": 1.0 - low, "clip_high": high - 1.0}


KINDS: dict[str, Kind] = {
    "cross_entropy": Kind(lambda s: NegativeLogLikelihood(), inputs=("weights",), factor="weights"),
    "importance_sampling": Kind(lambda s: _policy(ImportanceSampling())),
    "ppo": Kind(lambda s: _policy(ClippedSurrogate(**_clipping(s))), settings=CLIP),
    "cispo": Kind(lambda s: _policy(CISPO(**_clipping(s))), settings=CLIP),
    "gspo": Kind(
        lambda s: _policy(ClippedSurrogate(ratio="sequence_token", **_clipping(s))),
        inputs=("logprobs", "advantages", "sequence_ratio_mask"),
        settings=dict.fromkeys(CLIP, NO_DEFAULT),
    ),
    "dro": Kind(lambda s: _policy(DRO(beta=s["beta"])), settings={"beta": NO_DEFAULT}, factor=None),
}


def loss_of(name: str, given: Settings) -> Loss:
    """The loss of a name and its settings. Raises UserError for unknown or missing ones."""
    kind = _kind(name)
    if unknown := sorted(set(given) - set(kind.settings)):
        known = ", ".join(kind.settings) or "none"
        raise UserError(f"loss_fn_config {unknown[0]!r}: {name!r} has no such setting; it has {known}")
    settings: dict[str, float] = {}
    for key, default in kind.settings.items():
        value = given.get(key, default)
        if isinstance(value, str) or (math.isnan(value) and key in given) or math.isinf(value):
            raise UserError(f"loss_fn_config {key} {value!r}: must be a finite number")
        if math.isnan(value):
            raise UserError(f"loss_fn {name!r} needs loss_fn_config {{'{key}': number}}: this server has no default")
        settings[key] = value
    return kind.make(settings)


def _kind(name: str) -> Kind:
    if name in KINDS:
        return KINDS[name]
    near = nearest(name, KINDS, 0.6)
    hint = f"did you mean {near!r}? " if near else ""
    if name == "stable_reinforce":
        hint = "it needs records of the sampler that this server does not keep. "
    raise UserError(f"loss_fn {name!r}: {hint}use one of {', '.join(map(repr, KINDS))}")


def batch_of(
    data: Sequence[Datum], loss: str, *, vocabulary: int, positions: int | None, device: torch.device
) -> Batch:
    """Data as a batch for ``loss``: tensors (B, L), or (B, L, K) where a token has several targets.

    ``observations`` has "lengths" (B,), "targets", and the mask "learnt" of what has a gradient. Raises UserError that
    names the datum.
    """
    kind = _kind(loss)
    if not data:
        raise UserError("forward_backward without data: give at least one datum")
    for row, datum in enumerate(data):
        _check(datum, f"datum {row}", kind, loss, vocabulary, positions)
    targets = [datum.inputs[TARGETS] for datum in data]
    width = max(len(datum.tokens) for datum in data)
    wide = max((t.shape[1] for t in targets if t.ndim == 2), default=0)

    if len(data) * width * max(wide, 1) > MOST_CELLS:
        raise UserError(
            f"{len(data)} data, padded to {width} tokens with {max(wide, 1)} targets each, are more than {MOST_CELLS} "
            "targets: send fewer at once, or data of similar length"
        )

    def stacked(arrays: Sequence[Array], dtype: torch.dtype, deep: bool = True) -> Tensor:
        shape = (len(data), width, wide) if wide and deep else (len(data), width)
        filled = torch.zeros(shape, dtype=dtype)
        for row, array in enumerate(arrays):
            values = torch.from_numpy(np.array(array)).to(dtype)
            if wide and deep and values.dim() == 1:
                values = values[:, None]
            place = (row, slice(len(values)))
            if values.dim() == 2:
                filled[(*place, slice(values.shape[1]))] = values
            else:
                filled[place] = values
        return filled.to(device)

    real = torch.get_default_dtype()
    none = torch.zeros((), device=device).expand(len(data))

    def of(name: str) -> Tensor:
        if name not in kind.inputs:
            return none
        return stacked([d.inputs.get(name, np.ones(d.inputs[TARGETS].shape)) for d in data], real)

    ones = [np.ones(t.shape) for t in targets]
    mask = "sequence_ratio_mask"
    used = [d.inputs[mask] != 0 for d in data] if mask in kind.inputs else ones
    factors = ones if kind.factor is None else [d.inputs.get(kind.factor, o) for d, o in zip(data, ones, strict=True)]
    return Batch(
        observations={
            "lengths": torch.tensor([len(d.tokens) for d in data], device=device),
            "targets": stacked(targets, torch.int64),
            "learnt": stacked([factor != 0 for factor in factors], torch.bool),
        },
        actions=stacked([d.tokens for d in data], torch.int64, deep=False),
        log_probs=of("logprobs"),
        advantages=of("advantages"),
        mask=stacked(used, real),
        weights=of("weights") if "weights" in kind.inputs else None,
    )


def _check(datum: Datum, what: str, kind: Kind, loss: str, vocabulary: int, positions: int | None) -> None:
    tokens, count = datum.tokens, len(datum.tokens)
    if not count:
        raise UserError(f"{what}: model_input has no tokens")
    if positions is not None and count > positions:
        raise UserError(f"{what}: model_input has {count} tokens, and the model sees {positions} at most; shorten it")
    needed = [TARGETS, *(name for name in kind.inputs if name != "weights")]
    if missing := [name for name in needed if name not in datum.inputs]:
        raise UserError(f"{what}: loss_fn_inputs lacks {', '.join(missing)}, which {loss!r} needs")
    if unknown := sorted(set(datum.inputs) - {TARGETS, *kind.inputs}):
        raise UserError(f"{what}: loss_fn_inputs has {unknown[0]!r}, which {loss!r} does not read; leave it out")
    targets = datum.inputs[TARGETS]
    if targets.ndim not in (1, 2) or len(targets) != count:
        raise UserError(f"{what}: target_tokens has shape {targets.shape} for {count} input tokens; give one for each")
    if targets.ndim == 2 and loss != "cross_entropy":
        raise UserError(f"{what}: target_tokens has shape {targets.shape}; only 'cross_entropy' takes several a token")
    if targets.ndim == 2 and not 1 <= targets.shape[1] <= MOST_TARGETS:
        raise UserError(f"{what}: {targets.shape[1]} targets a token; 1 to {MOST_TARGETS} are possible")
    for name, ids in (("model_input", tokens), (TARGETS, targets)):
        if ids.dtype.kind != "i" or not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
            raise UserError(
                f"{what}: {name} has a number that is no token of the model's {vocabulary}; use its tokeniser"
            )
    for name in kind.inputs:
        values = datum.inputs.get(name)
        if values is None:
            continue
        if values.shape != targets.shape:
            raise UserError(f"{what}: {name} has shape {values.shape} and target_tokens {targets.shape}; give the same")
        if not bool(np.isfinite(values).all()):
            raise UserError(f"{what}: {name} has a number that is not finite")
    if "sequence_ratio_mask" in kind.inputs:
        outside = datum.inputs["sequence_ratio_mask"] == 0
        if bool((datum.inputs["advantages"][outside] != 0).any()):
            raise UserError(f"{what}: advantages must be 0 where sequence_ratio_mask is 0")
