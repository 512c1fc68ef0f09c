"""Replay buffer: transitions of environments, kept for many updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..core.batch import map_tensors
from ..trainer import Observation
from .columns import COLUMNS, Column, make_column

ROWS = ("actions", "rewards", "terminated", "ended", "valid")
COUNTERS = ("cursor", "filled", "wrapped", "_invalid", "_ever_invalid")


@dataclass(frozen=True, kw_only=True)
class Transitions:
    """Transitions over up to n steps; tensors are (B, ...)."""

    observations: Observation
    actions: Tensor
    returns: Tensor
    """Discounted sum of the rewards on the way, without the value of the next state."""
    discounts: Tensor
    """Factor of the value of ``next_observations``: gamma to the number of steps, 0 where the episode terminated."""
    next_observations: Observation
    rows: Tensor
    """Rows of the buffer that hold them."""
    weights: Tensor | None = None
    """Importance weights of prioritised sampling; None if all are 1."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> Transitions:
        return map_tensors(self, lambda value: value[part])


class ReplayBuffer:
    """A ring of the last ``capacity`` transitions of ``num_envs`` environments, drawn from uniformly.

    A slot holds one transition of every environment: environment e of slot t is row ``t * num_envs + e``. Draws have
    random numbers of their own. With ``n_step`` > 1 rewards are summed when a transition is drawn; the sum stops at
    the end of an episode and at the newest transition, and ``discounts`` tells after how many steps. Where an episode
    was truncated its value goes on from the true final observation, where it terminated nothing follows.
    """

    def __init__(self, capacity: int, num_envs: int, *, gamma: float, n_step: int = 1, seed: int = 0):
        self.num_envs, self.slots, self.gamma, self.n_step = num_envs, capacity // num_envs, gamma, n_step
        if self.slots <= n_step:
            raise UserError(
                f"buffer_size {capacity}: {num_envs} environments need at least {(n_step + 1) * num_envs} to hold "
                f"{n_step + 1} steps of each"
            )
        self.generator = torch.Generator().manual_seed(seed)
        rows = self.slots * num_envs
        self.rewards = torch.zeros(rows)
        self.terminated = torch.zeros(rows, dtype=torch.bool)
        self.ended = torch.zeros(rows, dtype=torch.bool)
        self.valid = torch.ones(rows, dtype=torch.bool)
        self.columns: dict[str, Column] = {}
        self.actions = torch.empty(0)
        self.cursor, self.filled, self.wrapped = 0, 0, False
        self._fresh = torch.ones(num_envs, dtype=torch.bool)
        self._powers = gamma ** torch.arange(n_step + 1)
        self._invalid, self._ever_invalid = 0, False

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self.filled * self.num_envs - self._invalid

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self.columns.values())
        return columns + sum(x.nbytes for x in (self.actions, self.rewards, self.terminated, self.ended, self.valid))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        observations: Observation,
        actions: Tensor,
        rewards: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        next_observations: Observation,
        valid: Tensor | None = None,
    ) -> None:
        """One step of every environment, (N, ...). ``next_observations`` are the true ones, before any reset.

        Rows that are not ``valid`` are never drawn.
        """
        if not self.columns:
            self._allocate(observations, actions, next_observations)
        slot, first = self.cursor, self.cursor * self.num_envs
        place = slice(first, first + self.num_envs)
        if self.filled == self.slots:
            self._forget_oldest()
        ended = terminated | truncated
        if valid is not None:
            ended = ended | ~valid
            self._cut_before(slot, ~valid)
            self.valid[place] = valid
            self._invalid += int((~valid).sum())
            self._ever_invalid = True
        elif self._ever_invalid:
            self.valid[place] = True
        self.actions[place] = actions
        self.rewards[place] = rewards
        self.terminated[place] = terminated
        self.ended[place] = ended
        for name, column in self.columns.items():
            column.put(slot, observations[name], next_observations[name], self._fresh)
        self._fresh = ended
        self.cursor = (slot + 1) % self.slots
        self.wrapped = self.wrapped or self.cursor == 0
        self.filled += 1
        for column in self.columns.values():
            while column.has_lost(self._oldest()):
                self._forget_oldest()

    def _cut_before(self, slot: int, envs: Tensor) -> None:
        """Sums over n steps of ``envs`` (N,) must not reach into ``slot``."""
        first = (slot - 1) % self.slots * self.num_envs
        self.ended[first : first + self.num_envs] |= envs

    def _oldest(self) -> int:
        return (self.cursor - self.filled) % self.slots

    def _forget_oldest(self) -> int:
        """Returns the slot that is no longer there."""
        slot = self._oldest()
        if self._invalid:
            rows = slice(slot * self.num_envs, (slot + 1) * self.num_envs)
            self._invalid -= int((~self.valid[rows]).sum())
        self.filled -= 1
        return slot

    def _allocate(self, observations: Observation, actions: Tensor, next_observations: Observation) -> None:
        rows = self.slots * self.num_envs
        self.actions = actions.new_zeros(rows, *actions.shape[1:])
        self.columns = {
            name: make_column(value, next_observations[name], self.slots) for name, value in observations.items()
        }

    # ---- reading -----------------------------------------------------------------------------------------------------

    def sample(self, count: int) -> Transitions:
        """``count`` transitions drawn with replacement."""
        if not len(self):
            raise UserError("nothing to draw: the replay buffer is empty")
        return self._read(self._draw(count))

    def _draw(self, count: int) -> Tensor:
        size = self.slots * self.num_envs
        rows = self._draw_any(count, size)
        if self._invalid:
            while not bool((valid := self.valid[rows]).all()):
                rows = torch.where(valid, rows, self._draw_any(count, size))
        return rows

    def _draw_any(self, count: int, size: int) -> Tensor:
        rows = torch.randint(self.filled * self.num_envs, (count,), generator=self.generator)
        if self.filled == self.slots or not (oldest := self._oldest()):
            return rows
        return (rows + oldest * self.num_envs) % size

    def _read(self, rows: Tensor, weights: Tensor | None = None) -> Transitions:
        if self.n_step == 1:
            returns, ends = self.rewards[rows], rows
            discounts = self.gamma * (~self.terminated[rows])
        else:
            returns, discounts, ends = self._windows(rows)
        return Transitions(
            observations={name: column.get(rows) for name, column in self.columns.items()},
            actions=self.actions[rows],
            returns=returns,
            discounts=discounts,
            next_observations={name: column.get_next(ends) for name, column in self.columns.items()},
            rows=rows,
            weights=weights,
        )

    def _windows(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns, discounts and last rows of the n steps from ``rows`` on, or of as many as there are."""
        n, size = self.n_step, self.slots * self.num_envs
        steps = (rows[:, None] + torch.arange(n) * self.num_envs) % size
        newest = (self.cursor - 1) % self.slots
        stops = self.ended[steps] | (steps // self.num_envs == newest)
        inside = torch.ones_like(stops)
        inside[:, 1:] = ~stops[:, :-1].cummax(1).values
        length = inside.sum(1)
        ends = steps.gather(1, length[:, None] - 1)[:, 0]
        returns = (self.rewards[steps] * self._powers[:n] * inside).sum(1)
        return returns, self._powers[length] * ~self.terminated[ends], ends

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        used = (self.slots if self.wrapped else self.cursor) * self.num_envs
        return {
            **{name: getattr(self, name)[:used].clone() for name in ROWS},
            "columns": {
                name: {"kind": column.kind, **column.state_dict(used)} for name, column in self.columns.items()
            },
            "fresh": self._fresh.clone(),
            "generator": self.generator.get_state(),
            **{name: getattr(self, name) for name in COUNTERS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        size = self.slots * self.num_envs
        self.actions = state["actions"].new_zeros(size, *state["actions"].shape[1:])
        for name in ROWS:
            getattr(self, name)[: len(state[name])] = state[name]
        self.columns = {name: COLUMNS[part["kind"]].load(part, size) for name, part in state["columns"].items()}
        self._fresh = state["fresh"].clone()
        self.generator.set_state(state["generator"])
        for name in COUNTERS:
            setattr(self, name, state[name])
