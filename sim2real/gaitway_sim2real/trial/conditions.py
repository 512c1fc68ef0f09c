"""Conditions of each robot in a scenario: every random draw, by seed and name of the scenario."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .commands import PERIOD, Commands, Told
from .scenario import Range, Scenario
from .stressors import Stressor


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions of N robots over T control steps: every random draw of a scenario but those of its stressors."""

    command: np.ndarray  # (T, N, D), the numbers of the contract's command
    push: np.ndarray  # (T, N, 2) velocity step before control step t, world frame [m/s]; mostly zero
    friction: np.ndarray  # (N,)
    payload: np.ndarray  # (N,) [kg]
    strength: np.ndarray  # (N,)
    delay: np.ndarray  # (N,) [s]
    yaw: np.ndarray  # (N,) initial heading [rad]
    joint_offset: np.ndarray  # (N, J) initial joint positions minus the default pose [rad]
    velocity: np.ndarray  # (N, 2) initial horizontal velocity [m/s]
    objects: np.ndarray | None = None
    """Way of each of K objects from its place at the start [m], (N, K, 3); None if there are none."""
    way: float = math.inf
    """Distance from the start along x or y [m] at which a robot has crossed the ground and is taken away."""
    guarded: bool = False
    """True if the controller's safety filter is between policy and drives."""
    stressors: tuple[Stressor, ...] = ()
    seed: tuple[int, ...] = ()  # of the draws of stressors

    @classmethod
    def side_by_side(cls, parts: Sequence[Conditions]) -> Conditions:
        """Conditions of equal length as those of one batch of robots; those with stressors are alone."""
        assert len(parts) == 1 or not any(part.stressors for part in parts)
        names = [field.name for field in fields(cls) if isinstance(getattr(parts[0], field.name), np.ndarray)]
        joined: dict[str, Any] = {
            n: np.concatenate([getattr(p, n) for p in parts], int(n in ("command", "push"))) for n in names
        }
        return replace(parts[0], **joined)


def draw(
    scenario: Scenario,
    told: Told,
    joints: int,
    kinds: Mapping[str, Commands],
    seed: int,
) -> Conditions:
    """Draw a scenario's conditions: its commands, one of the ``kinds``, for what the policy can be ``told``.

    The name enters the seed, so that scenarios do not depend on each other, unless they share their ``draws``.
    """
    entropy = (seed, zlib.crc32((scenario.draws or scenario.name).encode()))
    rng = np.random.default_rng(entropy)
    kind = kinds[scenario.commands]
    n, steps = scenario.envs, told.steps(scenario.seconds)

    def uniform(limits: Range) -> np.ndarray:
        return rng.uniform(*limits, size=n)

    return Conditions(
        command=kind.draw(scenario, told, rng),
        push=_pushes(scenario, steps, told.steps(PERIOD), rng),
        friction=uniform(scenario.friction),
        payload=uniform(scenario.payload),
        strength=uniform(scenario.strength),
        delay=uniform(scenario.delay),
        yaw=rng.uniform(-math.pi, math.pi, n),
        joint_offset=rng.uniform(-0.05, 0.05, (n, joints)),
        velocity=rng.uniform(-0.1, 0.1, (n, 2)),
        objects=_objects(told, n, entropy),
        way=scenario.way,
        guarded=scenario.guarded,
        stressors=(*kind.stressors, *scenario.stressors),
        seed=entropy,
    )


def _objects(told: Told, n: int, entropy: tuple[int, ...]) -> np.ndarray | None:
    """Ways of objects from their places [m], (n, K, 3), from random numbers of their own."""
    if not len(told.spread):
        return None
    rng = np.random.default_rng((*entropy, zlib.crc32(b"objects")))
    return rng.uniform(told.spread[..., 0], told.spread[..., 1], (n, *told.spread.shape[:2]))


def _pushes(scenario: Scenario, steps: int, period: int, rng: np.random.Generator) -> np.ndarray:
    """One push per whole ``period``, or in the first, 40 to 60 % into it, so that each has time to show its end."""
    n = scenario.envs
    push = np.zeros((steps, n, 2))
    if scenario.push:
        for start in range(0, min(steps, period if scenario.push_once else steps) - period + 1, period):
            when = start + rng.integers(round(0.4 * period), round(0.6 * period) + 1, n)
            angle = rng.uniform(-math.pi, math.pi, n)
            push[when, np.arange(n)] = scenario.push * np.stack([np.cos(angle), np.sin(angle)], 1)
    return push
