"""Grounds of another package: nothing of ours names them."""

from dataclasses import dataclass
from typing import Any

import torch
from gaitway_tasks.ground import LEVEL, Ground
from mujoco import mjtGeom


@dataclass(frozen=True, kw_only=True)
class Step(Ground):
    """Level ground with a step across the way, between ``start`` and ``end`` [m] along x."""

    start: float = 0.7
    end: float = 1.3
    rise: float = 0.2
    friction: float = 1.0

    def height(self, xy):
        return self.rise * ((xy[..., 0] > self.start) & (xy[..., 0] < self.end))

    def build(self, spec):
        pos, size = [(self.start + self.end) / 2, 0.0, 0.0], [(self.end - self.start) / 2, 50.0, self.rise]
        return [*LEVEL.build(spec), spec.worldbody.add_geom(type=mjtGeom.mjGEOM_BOX, pos=pos, size=size)]


@dataclass(frozen=True, kw_only=True)
class Terraces(Ground):
    """Three terraces along x, ``rise`` [m] above one another: the rows of a curriculum."""

    rise: float = 0.1

    def height(self, xy):
        return self.rise * (xy[..., 0] / 8.0).round().clip(0.0, 2.0)

    def build(self, spec):
        boxes = [([8.0 * row, 0.0, 0.0], [4.0, 50.0, max(self.rise * row, 1e-3)]) for row in (1, 2)]
        added = [spec.worldbody.add_geom(type=mjtGeom.mjGEOM_BOX, pos=pos, size=size) for pos, size in boxes]
        return [*LEVEL.build(spec), *added]

    def under(self, world):
        return Climb(self, world.num_envs)


class Climb(Ground):
    """Terraces with the one that each environment stands on."""

    tile_size = 8.0

    def __init__(self, terraces: Terraces, num_envs: int):
        self.terraces, self.level = terraces, torch.zeros(num_envs, dtype=torch.int64)

    def height(self, xy):
        return self.terraces.height(xy)

    def build(self, spec):
        raise AssertionError("the terraces are built")

    def origin(self, env_ids, offset=0.0):
        middle = torch.stack((8.0 * self.level[env_ids], 0.0 * env_ids), 1)
        return self.terraces.origin(env_ids, middle + offset)

    def move(self, env_ids, up, down):
        self.level[env_ids] = (self.level[env_ids] + up.long() - down.long()).clamp(0, 2)

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level.clone()}

    def load_state_dict(self, state):
        self.level.copy_(state["level"])
