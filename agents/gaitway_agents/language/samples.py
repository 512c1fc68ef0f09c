"""Sampled sequences as a learner handles them: on its device, joined, and some of them left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from ..core.batch import map_tensors
from ..core.group_advantage import has_signal
from ..interfaces import TokenRollout


@dataclass(frozen=True)
class Samples:
    """The tensors of one or more rollouts, as :class:`gaitway_agents.interfaces.TokenRollout` describes them."""

    tokens: Tensor
    lengths: Tensor
    mask: Tensor
    log_probs: Tensor
    groups: Tensor
    finished: Tensor
    rewards: Tensor
    turn_rewards: Tensor
    staleness: Tensor
    """Updates since the weights that drew each token, shape (B, L)."""
    parts: Mapping[str, Tensor]
    timing: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, rollout: TokenRollout, device: torch.device, version: int) -> Self:
        """``version`` is the number of the newest weights, as ``rollout`` counts them."""
        found = {name: getattr(rollout, name).to(device) for name in TENSORS}
        parts = {name: part.to(device) for name, part in rollout.parts.items()}
        earned = rollout.turn_rewards
        found["turn_rewards"] = torch.zeros_like(found["log_probs"]) if earned is None else earned.to(device)
        versions = rollout.versions
        found["staleness"] = (
            torch.full_like(found["tokens"], version - rollout.version)
            if versions is None
            else version - versions.to(device)
        )
        return cls(**found, parts=parts, timing=rollout.timing, facts=rollout.facts)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sizes(self) -> Tensor:
        """Tokens that the policy chose in each sequence, shape (B,)."""
        return self.mask.sum(1)

    def rows(self, index: Tensor) -> Samples:
        """The sequences at ``index``."""
        return map_tensors(self, lambda value: value[index])


TENSORS = ("tokens", "lengths", "mask", "log_probs", "groups", "finished", "rewards")


def join(samples: Sequence[Samples]) -> Samples:
    """All sequences in order; the group numbers of later ones are shifted."""
    if len(samples) == 1:
        return samples[0]
    width = max(part.tokens.shape[1] for part in samples)
    found: dict[str, Tensor] = {}
    for name in ("tokens", "mask", "log_probs", "turn_rewards", "staleness"):
        found[name] = torch.cat([_widen(getattr(part, name), width) for part in samples])
    for name in ("lengths", "finished", "rewards"):
        found[name] = torch.cat([getattr(part, name) for part in samples])
    groups, count = [], 0
    for part in samples:
        groups.append(part.groups + count)
        count += int(part.groups.max()) + 1 if len(part) else 0
    parts = {name: torch.cat([part.parts[name] for part in samples]) for name in samples[0].parts}
    timing: dict[str, float] = {}
    for name, seconds in (item for part in samples for item in part.timing.items()):
        timing[name] = timing.get(name, 0.0) + seconds
    facts = {name: value for part in samples for name, value in part.facts.items()}
    return Samples(**found, groups=torch.cat(groups), parts=parts, timing=timing, facts=facts)


def _staleness(samples: Samples) -> dict[str, float]:
    """Staleness of the tokens that the policy chose: the largest, the mean, and answers with more than one."""
    chosen = samples.mask.bool()
    newest = samples.staleness.where(chosen, torch.iinfo(torch.int64).max).amin(1)
    oldest = samples.staleness.where(chosen, -1).amax(1)
    return {
        "rollout/staleness": float(oldest.max()),
        "rollout/staleness_mean": float(samples.staleness[chosen].float().mean()),
        "rollout/mixed_versions": float((oldest > newest).float().mean()),
    }


def _widen(value: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(value, (0, width - value.shape[1]))


def statistics_of(samples: Samples) -> dict[str, float]:
    """Statistics of sampled sequences, for the log."""
    found = {
        "rollout/reward": float(samples.rewards.mean()),
        "rollout/length": float(samples.sizes.mean()),
        "rollout/finished": float(samples.finished.float().mean()),
        **_staleness(samples),
        "learn/used_groups": float(has_signal(samples.rewards, samples.groups).float().mean()),
    }
    for name, part in samples.parts.items():
        if not (silent := part.isnan()).all():  # a reward may have no opinion on some answers, or on all
            found[f"rollout/reward/{name}"] = float(part[~silent].float().mean())
    seconds = samples.timing.get("generation", 0.0)
    if seconds:
        found["rollout/tokens_per_s"] = float(samples.mask.sum()) / seconds
    return found | dict(samples.facts) | {f"time/{name}": value for name, value in samples.timing.items()}
