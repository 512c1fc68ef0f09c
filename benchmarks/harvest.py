"""A plain simulator of what Huang and Ontanon (2022) measured masks on: a worker that brings resources home.

As in Gym-microRTS, an action names a cell, what its unit shall do, and a direction for each of these: 4 x 4 maps have
4 x 4 x 4 x 4 x 4 x 4 actions, 10 x 10 maps six times as many, of which a handful do something. Worker, base and
resource stand as on the maps of their ``MicrortsMining`` tasks, as near to each other on a large map as on a small
one. Harvesting and bringing home give a reward of 1 each, and all actions take one step. Importing the module
registers ``Harvest-4x4-v0`` and ``Harvest-10x10-v0``; ``masks=False`` leaves out the observation ``action_mask``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 200
"""Length of an episode."""
BEST = STEPS // 2
"""The largest return: a step to the resource, a harvest, and then every second step is one to and fro."""
NOTHING, MOVE, HARVEST, BRING = range(4)
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))
FREE, BASE, RESOURCE = range(3)


class Harvest(gymnasium.Env[Any, Any]):
    """One worker on ``size`` x ``size`` cells, between its base and the resource in the corner."""

    def __init__(self, size: int, masks: bool = True):
        self.size, self.masks = size, masks
        self.action_space = spaces.MultiDiscrete([size * size, 4, 4, 4, 4])
        planes = spaces.Box(0.0, 1.0, (4 * size * size,), np.float32)
        flags = spaces.MultiBinary(int(self.action_space.nvec.sum()))
        self.observation_space = spaces.Dict({"policy": planes} | ({"action_mask": flags} if masks else {}))
        self.cells = np.full((size, size), FREE)
        self.cells[0, 0], self.cells[1, 2] = RESOURCE, BASE

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.worker, self.carries, self.age = (1, 1), False, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        cell, kind, *ways = (int(part) for part in action)
        self.age += 1
        reward = 0.0
        if divmod(cell, self.size) == self.worker and kind != NOTHING:
            way = ways[kind - 1]
            if self._possible(kind)[way]:
                if kind == MOVE:
                    self.worker = self._beside(way)
                else:
                    self.carries, reward = kind == HARVEST, 1.0
        return self._seen(), reward, False, self.age >= STEPS, {}

    def _beside(self, way: int) -> tuple[int, int]:
        (row, column), (down, right) = self.worker, DIRECTIONS[way]
        return row + down, column + right

    def _possible(self, kind: int) -> list[bool]:
        """Directions in which the worker can do this."""
        wanted = {MOVE: FREE, HARVEST: RESOURCE, BRING: BASE}[kind]
        able = kind == MOVE or self.carries == (kind == BRING)
        return [able and self._is(self._beside(way), wanted) for way in range(4)]

    def _is(self, cell: tuple[int, int], wanted: int) -> bool:
        return all(0 <= part < self.size for part in cell) and self.cells[cell] == wanted

    def _seen(self) -> dict[str, np.ndarray]:
        planes = np.zeros((4, self.size, self.size), np.float32)
        planes[0][self.worker] = 1.0
        planes[1][self.worker] = self.carries
        planes[2], planes[3] = self.cells == BASE, self.cells == RESOURCE
        seen = {"policy": planes.ravel()}
        if self.masks:
            cells = np.zeros((self.size, self.size), np.int8)
            cells[self.worker] = 1
            possible = [self._possible(kind) for kind in (MOVE, HARVEST, BRING)]
            kinds = [True, *map(any, possible)]
            # A choice with nothing to choose is a choice of the first.
            ways = [way if any(way) else [True, False, False, False] for way in possible]
            seen["action_mask"] = np.concatenate([cells.ravel(), kinds, *ways]).astype(np.int8)
        return seen


for _size in (4, 10):
    gymnasium.register(f"Harvest-{_size}x{_size}-v0", f"{__name__}:Harvest", kwargs={"size": _size})
