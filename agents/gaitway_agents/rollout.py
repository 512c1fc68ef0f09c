"""Record what vector environments go through during a rollout."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .trainer import Ended, Episode, Observation, ended_in, episodes_of


@dataclass
class Lane:
    """The steps of one vector environment so far."""

    decisions: list[tuple[Observation, Tensor, tuple[Tensor, ...]]] = field(default_factory=list)
    """Observation, action and parameters of the action's distribution at each step."""
    outcomes: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    """Reward, terminated, truncated and valid of each step."""
    finals: list[tuple[int, Tensor, Observation]] = field(default_factory=list)
    """Step, environments and last observations of the episodes that were truncated, and maybe of others that ended."""
    ended: list[Ended] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = True
    """Whether all steps so far are valid."""
    memory: Observation = field(default_factory=dict)
    """What the policy remembers for the next step; nothing if it is feed-forward."""

    def add_outcome(
        self, reward: Tensor, terminated: Tensor, truncated: Tensor, info: dict[str, Any], *, steps: int
    ) -> None:
        """``steps`` counts those of the whole training, this one included.

        Where the environment gives ``info["final_rows"]``, nothing here waits for its device.
        """
        rows = info["final_rows"] if "final_rows" in info else truncated.nonzero().flatten()
        if len(rows):
            final = info["final_obs"] | self.memory
            self.finals.append((len(self.outcomes), rows, {k: v[rows] for k, v in final.items()}))
        self.complete &= "valid" not in info
        valid = info["valid"] if "valid" in info else torch.ones_like(terminated)
        if self.memory:
            goes_on = valid & ~(terminated | truncated)
            self.memory = {name: value * goes_on[:, None] for name, value in self.memory.items()}
        self.outcomes.append((reward, terminated, truncated, valid))
        self.ended += ended_in(info, steps)
        if "log" in info:
            self.log.append(info["log"])


@dataclass(frozen=True, kw_only=True)
class EnvRollout:
    """T steps of N environments: tensors are (T, N, ...)."""

    observations: Observation
    actions: Tensor
    distribution: tuple[Tensor, ...]
    """Parameters of the distributions that the actions were drawn from."""
    rewards: Tensor
    learnt_rewards: Tensor
    """What is learnt from: the rewards, or these scaled."""
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    """False where nothing happened: a step in which an environment only began its next episode."""
    finals: list[tuple[int, Tensor, Observation]]
    """Step, environments and last observations of the episodes that were truncated, and maybe of others that ended."""
    following: Observation
    """What was observed after the last step, (N, ...)."""
    episodes: list[Episode]
    log: dict[str, float]
    """Means of the scalars that the environments logged."""
    timing: dict[str, float]
    """Seconds spent on the "environment" and on the "policy"."""
    complete: bool = False
    """Whether all steps are known to be valid, which spares a GPU the question."""

    @property
    def all_valid(self) -> bool:
        return self.complete or bool(self.valid.all())

    def flat_observations(self) -> Observation:
        """Observations as (T * N, ...)."""
        return {name: value.flatten(0, 1) for name, value in self.observations.items()}

    def valid_observations(self) -> Observation:
        """Those of :meth:`flat_observations` in which something happened."""
        flat, valid = self.flat_observations(), self.valid.flatten()
        return flat if self.all_valid else {name: value[valid] for name, value in flat.items()}


def join(lanes: list[Lane], following: list[Observation], timing: dict[str, float]) -> EnvRollout:
    """The lanes' environments side by side; each lane has the observation that followed its last step."""

    def side_by_side(parts: list[list[Tensor]]) -> Tensor:
        stacked = [torch.stack(part) for part in parts]
        return stacked[0] if len(stacked) == 1 else torch.cat(stacked, 1)

    def outcome(i: int) -> Tensor:
        return side_by_side([[o[i] for o in lane.outcomes] for lane in lanes])

    sizes = [lane.outcomes[0][0].shape[0] for lane in lanes]
    offsets = [sum(sizes[:i]) for i in range(len(lanes))]
    observations, _, distribution = lanes[0].decisions[0]
    return EnvRollout(
        observations={
            name: side_by_side([[d[0][name] for d in lane.decisions] for lane in lanes]) for name in observations
        },
        actions=side_by_side([[d[1] for d in lane.decisions] for lane in lanes]),
        distribution=tuple(
            side_by_side([[d[2][i] for d in lane.decisions] for lane in lanes]) for i in range(len(distribution))
        ),
        rewards=outcome(0),
        learnt_rewards=outcome(0),
        terminated=outcome(1),
        truncated=outcome(2),
        valid=outcome(3),
        finals=[
            (t, rows + offset, final)
            for lane, offset in zip(lanes, offsets, strict=True)
            for t, rows, final in lane.finals
        ],
        following={name: torch.cat([lane[name] for lane in following]) for name in following[0]},
        episodes=episodes_of([part for lane in lanes for part in lane.ended]),
        timing=timing,
        complete=all(lane.complete for lane in lanes),
        log=_means([log for lane in lanes for log in lane.log]),
    )


def _means(logs: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of every entry, over the logs that have it. Tensors are copied to the host together."""
    entries: dict[str, list[Any]] = {}
    for log in logs:
        for name, value in log.items():
            entries.setdefault(name, []).append(value)
    tensors = {name: values for name, values in entries.items() if isinstance(values[0], Tensor)}
    means = {name: sum(values) / len(values) for name, values in entries.items() if name not in tensors}
    if tensors:
        columns = [torch.stack(values).double().mean() for values in tensors.values()]
        means |= zip(tensors, torch.stack(columns).tolist(), strict=True)
    return {name: means[name] for name in entries}


def rollout_state(rollout: EnvRollout) -> dict[str, Any]:
    """A rollout as tensors, numbers, mappings and lists, for a checkpoint."""
    fields = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(rollout)}
    return fields | {"episodes": [dataclasses.astuple(episode) for episode in rollout.episodes]}


def rollout_from_state(state: dict[str, Any]) -> EnvRollout:
    return EnvRollout(**state | {"episodes": [Episode(*episode) for episode in state["episodes"]]})
