"""The search for the smallest failing case: CMA-ES to the falls, then back towards the model.

Each attempt starts from candidates of its own at the ends of the bounds. Those that do not fall are compared by how
near they come to it, those that fall by their size. The smallest of them is then shrunk: disturbances are dropped, and
the others scaled down, as long as three of four copies fall. It counts if as many of :data:`.case.COPIES` others do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract, sha256
from gaitway_onboard.rotation import quat_apply

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.robots import MAX_TILT, MIN_HEIGHT
from ..population.twin import Kind
from ..population.walk import walk
from ..trial.suites import suite_of
from .case import COPIES, FAILS, Case, CaseError, Outcome, play
from .space import SECONDS, Knots, Space

STREAM = 1
"""Of the search's random numbers."""
BATCH = 32
"""Most robots of a batch."""
SHRUNK = 4
"""Copies of each candidate while a case shrinks; the search itself has one."""
FAR, HALVINGS = 3.0, 3
"""Factor on uniform shares of first candidates, most of which are then at their bounds, and how often their ways back
to the model are halved."""
SPREAD, POPULATION, GENERATIONS, PATIENCE, ROUNDS = 0.2, 16, 15, 6, 5
"""First standard deviation of the candidates around a point; candidates of a generation; most generations, those
without progress that end them, and most rounds of search and shrinking in an attempt."""
PROGRESS = 0.02
"""Least share by which a smaller case is progress."""
LEAST, MOST = 0.3, 1.3
"""Ends of the factors that a case is scaled by."""
ROOM = 1.25
"""Factor on a case of which several disturbances are dropped, each of which does little."""
GROWS, GROWTH = 4, 1.04
"""Times that a case grows by a factor if other copies do not fall."""
KEPT = 3
"""Cases that a search gives at most, each of an attempt of its own."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """End of a search: whichever comes first."""

    seconds: float = np.inf
    runs: int = 2**31
    """Robots that were simulated, copies included; a search with the same seed that ends by it finds the same."""
    stopped: Callable[[], object] = bool


@dataclass
class Search:
    """What a search found."""

    bounds: dict[str, str]
    runs: int = 0
    seconds: float = 0.0
    cases: list[tuple[Case, Outcome]] = field(default_factory=list)
    """Cases with what became of their robots, the smallest first."""

    def words(self) -> str:
        """The result in words."""
        if not self.cases:
            return f"no failing case found in {self.runs:,} runs"
        case = self.cases[0][0]
        return f"smallest failing case found in {self.runs:,} runs, of size {case.size:.2f}: {case.says}"


class Over(Exception):
    """The budget is spent."""


Show = Callable[[Search, float], None]
"""Gets what was found so far, and the time left [s]."""


def search(
    bundle: Path, budget: Budget, *, seed: int = 0, threads: int = 0, show: Show = lambda found, left: None
) -> Search:
    """Search for the smallest cases in which the policy of ``bundle`` falls.

    Raises as :func:`knots_of`.

    >>> found = search(Path("runs/walk/bundle"), Budget(seconds=600.0))
    """
    contract = Contract.load(bundle)
    knots = knots_of(contract)
    space = Space(Kind(bundle, contract), knots)
    hunt = Hunt(space, BatchedPolicy(bundle / "policy.onnx", contract, 1), bundle, budget, seed, threads, show)
    try:
        for attempt in range(budget.runs):
            hunt.attempt(attempt)
    except Over:
        pass
    found = hunt.found
    found.cases = sorted(found.cases, key=lambda pair: pair[0].size)[:KEPT]
    return found


def knots_of(contract: Contract) -> Knots:
    """Commands that are searched. Raises :class:`CaseError` for a fixed base, and a suite that has none to search."""
    knots: Knots | None = suite_of(contract).knots
    if contract.fixed_base or knots is None:
        why = "its base is fixed" if contract.fixed_base else f"it follows {', '.join(contract.command_names)}"
        raise CaseError(f"--falsify is for robots that walk, and of {contract.task} {why}: leave it out")
    return knots


class Hunt:
    """The steps of a search. Points are arrays (D,) of a :class:`.Space`."""

    def __init__(
        self, space: Space, policy: BatchedPolicy, bundle: Path, budget: Budget, seed: int, threads: int, show: Show
    ) -> None:
        self.space, self.policy, self.bundle, self.budget = space, policy, bundle, budget
        self.seed, self.threads, self.show = seed, threads, show
        self.began, self.found = time.monotonic(), Search(bounds=dict(space.bounds()))

    def attempt(self, number: int) -> None:
        """One search from new candidates, and the smallest case that it leads to."""
        rng, here = np.random.default_rng((self.seed, number)), len(self.found.cases)
        far = FAR * rng.uniform(-1.0, 1.0, (BATCH, self.space.dim))
        points = [self.space.tidy(x) for x in far]
        falls, margin = self.fell(points)
        if falls.any():
            best = self.nearest([x for x, fell in zip(points, falls, strict=True) if fell])
        else:
            best = self.evolve(points[int(margin.argmin())], rng)
        for _ in range(ROUNDS):
            if best is None or (x := self.scaled(best)) is None:
                return
            x = self.keep(x, here)
            for _ in range(2):
                x = self.dropped(x)
                x = self.keep(self.scaled(x, x), here)
            best, size = self.evolve(x, rng), self.space.size(x)
            if best is not None and self.space.size(best) > (1.0 - PROGRESS) * size:
                return

    def nearest(self, points: Sequence[np.ndarray]) -> np.ndarray | None:
        """The smallest case on the ways from the model to points that fell, each halved a few times."""
        low, high = np.zeros(len(points)), np.ones(len(points))
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            falls, _ = self.fell([self.times(x, factor) for x, factor in zip(points, middle, strict=True)])
            low, high = np.where(falls, low, middle), np.where(falls, middle, high)
        found = [self.space.tidy(self.times(x, factor)) for x, factor in zip(points, high, strict=True)]
        return min(found, key=self.space.size)

    def evolve(self, start: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        """The smallest candidate that fell, of those that differ from ``start`` where it is not 0; None without one."""
        import cma

        free = np.flatnonzero(start)
        strategy = cma.CMAEvolutionStrategy(
            start[free].tolist(), SPREAD,
            {"popsize": POPULATION, "seed": int(rng.integers(1, 2**31)), "bounds": [-1.0, 1.0], "CMA_diagonal": True,
             "verbose": -9},
        )  # fmt: skip
        best, least, waited = None, np.inf, 0
        for _ in range(GENERATIONS):
            asked, points = strategy.ask(), []
            for x in asked:
                points.append(start.copy())
                points[-1][free] = x
            points = [self.space.tidy(x) for x in points]
            falls, margin = self.fell(points)
            sizes = np.array([self.space.size(x) for x in points])
            costs = np.where(falls == 1.0, sizes, 10.0 * (1.0 + margin) + 0.1 * sizes)
            strategy.tell(asked, costs.tolist())
            waited = 0 if costs.min() < (1.0 - PROGRESS) * least else waited + 1
            if costs.min() < least:
                least, best = float(costs.min()), points[int(costs.argmin())]
            if waited >= PATIENCE:
                break
        return best if least < 10.0 else None

    def dropped(self, x: np.ndarray) -> np.ndarray:
        """The case without as many disturbances and commands as can be dropped together."""
        groups = [group for group in self.space.groups if x[group].any()]
        falls, _ = self.fell([self.without(x, [group]) for group in groups])
        spare = [group for group, share in zip(groups, falls, strict=True) if share == 1.0]
        spare.sort(key=lambda group: (group[0] >= self.space.disturbances, float(np.linalg.norm(x[group]))))
        while spare:
            counts = np.unique(np.linspace(1, len(spare), BATCH // SHRUNK).round().astype(int))
            points = [self.without(self.times(x, ROOM), spare[:count]) for count in counts]
            falls, _ = self.fell(points, SHRUNK)
            if not (good := np.flatnonzero(falls >= FAILS)).size:
                spare = spare[1:]
                continue
            return points[good[-1]]
        return x

    def without(self, x: np.ndarray, groups: Sequence[list[int]]) -> np.ndarray:
        rest = x.copy()
        rest[[i for group in groups for i in group]] = 0.0
        return self.space.tidy(rest)

    def scaled(self, x: np.ndarray, best: Any = None) -> Any:
        """The case with all disturbances scaled by the least factor at which copies fall, or else ``best``."""
        low, high = LEAST, MOST
        for _ in range(2):
            factors = np.linspace(low, high, BATCH // SHRUNK)
            points = [self.space.tidy(self.times(x, factor)) for factor in factors]
            falls, _ = self.fell(points, SHRUNK)
            if not (good := np.flatnonzero(falls >= FAILS)).size:
                return best
            first = int(good[0])
            best, low, high = points[first], float(factors[max(first - 1, 0)]), float(factors[first])
        return best

    def times(self, x: np.ndarray, factor: float) -> np.ndarray:
        return np.concatenate([factor * x[: self.space.disturbances], x[self.space.disturbances :]])

    def keep(self, x: np.ndarray, place: int) -> np.ndarray:
        """Note a case at ``place`` if other copies fall too, somewhat larger if need be, and smaller than before.

        Returns it without what comes after the falls.
        """
        for grown in range(GROWS):
            x = self.space.tidy(self.times(x, GROWTH if grown else 1.0))
            case, outcome = self.tried(x)
            if outcome.failed and (late := self.space.after(x, outcome.last_fall)):
                x = self.without(x, late)
                case, outcome = self.tried(x)
            if outcome.failed:
                break
        else:
            return x
        known = self.found.cases[place:]
        if not known or case.size < known[0][0].size:
            happened: dict[str, Any] = {
                "cause": outcome.cause,
                "falls": outcome.falls,
                "falls_after": outcome.falls_after,
            }
            told = replace(case, says=self.space.says(x, outcome), **happened)
            self.found.cases[place:] = [(told, outcome)]
        return x

    def tried(self, x: np.ndarray) -> tuple[Case, Outcome]:
        """The case of a point, and what becomes of its copies."""
        self.spend(COPIES)
        case = self.case(x)
        return case, play(case, self.space.kind, self.policy.fresh(COPIES), threads=self.threads)

    def case(self, x: np.ndarray) -> Case:
        """A case that has not been run."""
        contract, space = self.space.contract, self.space
        return Case(
            task=contract.task, robot=contract.robot, joint_names=contract.joint_names,
            policy_sha256=contract.files["policy.onnx"],
            contract_sha256=sha256((self.bundle / CONTRACT_FILE).read_bytes()),
            seconds=SECONDS, seed=self.seed, command=space.command(x), blows=space.blows(x), twin=space.twin(x),
            size=space.size(x), shares=space.shares(x), says="", cause="", falls_after=0.0, falls=0,
        )  # fmt: skip

    def fell(self, points: Sequence[np.ndarray], copies: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Share of the copies of each point that fell, and how far they stayed from it, 0 to 1, (P,) each."""
        falls, margin = [], []
        for first in range(0, len(points), BATCH // copies):
            some = [x for x in points[first : first + BATCH // copies] for _ in range(copies)]
            self.spend(len(some))
            cases = [self.case(x) for x in some]
            dt, kind = self.space.contract.control_dt, self.space.kind
            found = walk(
                kind, self.policy.fresh(len(some)), [case.twin for case in cases],
                np.stack([case.told(dt) for case in cases], 1), [case.blows for case in cases], (self.seed, STREAM),
                numbers=list(range(copies)) * (len(some) // copies), yaw=np.zeros(len(some)), threads=self.threads,
                keep_qpos=True,
            )  # fmt: skip
            falls.append(found.fell.reshape(-1, copies).mean(1))
            margin.append(_margin(Outcome(walk=found, plant=kind.plant)).reshape(-1, copies).mean(1))
        return np.concatenate(falls), np.concatenate(margin)

    def spend(self, robots: int) -> None:
        """Count robots to come. Raises :class:`Over` where the budget does not have them."""
        found, budget = self.found, self.budget
        found.seconds = time.monotonic() - self.began
        if budget.stopped() or found.seconds >= budget.seconds or found.runs + robots > budget.runs:
            raise Over
        found.runs += robots
        self.show(found, budget.seconds - found.seconds)


def _margin(outcome: Outcome) -> np.ndarray:
    """How far each robot stayed from a fall by tilt or height, as a share of what is allowed; 0 of one that fell."""
    walk, plant = outcome.walk, outcome.plant
    assert walk.qpos is not None
    quat = plant.frame.orientation(plant.base_pose(walk.qpos)[..., 3:].astype(float))
    upright = (quat_apply(quat, np.array([0.0, 0.0, 1.0]))[..., 2] - np.cos(MAX_TILT)) / (1.0 - np.cos(MAX_TILT))
    height = (walk.base_pos[..., 2] / plant.start_height - MIN_HEIGHT) / (1.0 - MIN_HEIGHT)
    least = np.where(walk.alive, np.minimum(upright, height), 1.0).min(0)
    return np.where(walk.fell, 0.0, np.clip(least, 0.0, 1.0))
