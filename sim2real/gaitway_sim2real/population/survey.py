"""A policy among twins: those of given numbers, each on the tour that its family of tasks draws for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..bundle.batched_policy import BatchedPolicy
from . import population
from .twin import Kind
from .walk import Blow, Walk, walk


class Tour(Protocol):
    """What one twin is told and what hits it."""

    @property
    def command(self) -> np.ndarray:
        """(T, D)"""
        ...

    @property
    def blows(self) -> Sequence[Blow]: ...


@dataclass(frozen=True, kw_only=True)
class Tours:
    """The tours of a family of tasks."""

    draw: Callable[[Contract, float, int, int], Tour]
    """Tour for a contract, a standing height [m], the number of a twin and a seed."""
    survived: Callable[[Walk], np.ndarray]
    """Twins that fulfilled their tour, (N,) bool."""
    tracking: Mapping[str, float] = field(default_factory=dict)
    """Errors among the suite's metrics that tell two policies apart which survive alike, and the difference that
    matters, in the metric's unit."""


def survey(
    bundle: Path,
    tours: Tours,
    numbers: Sequence[int],
    *,
    seed: int = population.SEED,
    threads: int = 0,
    kind: Kind | None = None,
) -> Walk:
    """Walk the twins ``numbers`` under the policy of a bundle: the same robots for every policy of that robot.

    Results of a twin do not depend on who is beside, nor on ``threads``, of which 0 uses all cores. ``kind`` is the
    bundle's robot, if it is there already.
    """
    kind = kind or Kind(bundle, Contract.load(bundle))
    contract, height = kind.contract, kind.plant.stand_height
    twins = [population.twin(kind, number, seed) for number in numbers]
    drawn = [tours.draw(contract, height, number, seed) for number in numbers]
    command = np.stack([tour.command for tour in drawn], 1)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, len(twins))
    blows = [tour.blows for tour in drawn]
    return walk(kind, policy, twins, command, blows, (seed,), numbers=numbers, threads=threads)
