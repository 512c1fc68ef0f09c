"""Records of a training besides its metrics: finished episodes, and evaluations of the policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.core import distributed

from ..runs.folder import EPISODES, RunFolder
from ..runs.rows import read_rows
from .tracking import tracking_errors

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig

RECENT = 100
"""Episodes whose mean return is shown while training."""
EVALUATION_SEED = 10_000
"""Evaluations play in environments seeded this much above the run's own seed."""


class Every:
    """Says once for each ``interval`` of steps that it has gone by; 0 never does."""

    def __init__(self, interval: int, steps: int = 0):
        self.interval, self.steps = interval, steps

    def is_due(self, steps: int) -> bool:
        if not self.interval or steps // self.interval <= self.steps // self.interval:
            return False
        self.steps = steps
        return True


class Evaluator(ABC):
    """Records what a training is like beside its metrics, and evaluates what was learnt when the configuration asks."""

    def __init__(self, config: TrainConfig, run: RunFolder, trainer: Any):
        self.config, self.run, self.trainer = config, run, trainer
        self.every = Every(config.evaluation_interval)

    def begin(self) -> None:
        """The trainer is where this part of the training starts."""
        self.every.steps = self.trainer.steps

    def is_due(self) -> bool:
        """True once for each ``evaluation_interval`` that has passed."""
        return self.every.is_due(self.trainer.steps)

    @abstractmethod
    def watch(self, wall: float) -> dict[str, float]:
        """After an iteration, ``wall`` seconds into the training; returns further metrics of it."""

    @abstractmethod
    def finish(self, wall: float) -> None:
        """After the last iteration."""

    def close(self) -> None:  # noqa: B027
        """After the training, however it ended: end the processes that only it needs."""


class EpisodeEvaluator(Evaluator):
    """The evaluator of agents in environments: their episodes, and those they play for it."""

    def __init__(self, config: TrainConfig, run: RunFolder, trainer: Trainer):
        super().__init__(config, run, trainer)
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.envs: dict[int, VectorEnv] = {}

    def begin(self) -> None:
        super().begin()
        path = self.run.path / EPISODES
        earlier = read_rows(path)[-RECENT:] if path.exists() else []
        self.recent.extend((row["return"], row["length"]) for row in earlier if {"return", "length"} <= row.keys())

    def watch(self, wall: float) -> dict[str, float]:
        """Record the episodes of an iteration; returns the mean return and length of recent ones, tracking errors."""
        episodes = self.trainer.pop_episodes()
        self.run.append_episodes(
            [{"steps": e.steps, "wall_s": wall, "return": e.ret, "length": e.length} for e in episodes]
        )
        self.recent.extend((e.ret, e.length) for e in episodes)
        if self.is_due():
            self._evaluate(-(-self.config.evaluation_episodes // 10), wall)
        metrics = tracking_errors(self.trainer.env)
        if not self.recent:
            return metrics
        returns, lengths = zip(*self.recent, strict=True)
        return metrics | {
            "episodes/return": sum(returns) / len(returns),
            "episodes/length": sum(lengths) / len(lengths),
        }

    def finish(self, wall: float) -> None:
        if self.config.evaluation_episodes:
            row = self._evaluate(self.config.evaluation_episodes, wall)
            returns = torch.tensor(row["returns"], dtype=torch.float64)
            print(
                f"evaluation: return {returns.mean():.2f} +- {returns.std(unbiased=False):.2f} "
                f"over {len(returns)} deterministic episodes{_robot_words(row)}"
            )

    @distributed.alone()
    def _evaluate(self, episodes: int, wall: float) -> dict[str, Any]:
        """Play deterministic episodes; the row about them that ``evaluations.jsonl`` got. Says which had to be cut."""
        seed = self.config.seed + EVALUATION_SEED
        domain = self.config.environments
        size = min(episodes, domain.evaluation_envs)
        if size not in self.envs:
            self.envs[size] = domain.make_env(domain.evaluated(self.config), size, seed)
        row = {"steps": self.trainer.steps, "wall_s": wall}
        row |= played(self.config, self.trainer, self.envs[size], episodes, seed)
        self.run.append_evaluation(row)
        if "cut" in row:
            print(f"evaluation: {_cut_words(self.config, row)}")
        return row


def played(config: TrainConfig, trainer: Trainer, env: VectorEnv, episodes: int, seed: int) -> dict[str, Any]:
    """``episodes`` deterministic episodes in ``env``, started with ``seed``: what a row of ``evaluations.jsonl`` says.

    That is ``returns`` and ``lengths``, and of a robot ``falls`` and ``tracking``. Where some had not ended when their
    steps were up, ``cut`` are their places in these lists.
    """
    from gaitway_agents.trainer import LONGEST, evaluate

    measures = config.environments.measures(env)
    longest = config.environments.time_limit(config.task) or LONGEST
    ended = evaluate(trainer, env, episodes, seed, measures, longest)
    row = {
        "deterministic": True,
        "seed": seed,
        "returns": [e.ret for e in ended],
        "lengths": [e.length for e in ended],
    }
    if cut := [place for place, episode in enumerate(ended) if episode.cut]:
        row["cut"] = cut
    return row | ({} if measures is None else measures.summary())


def _cut_words(config: TrainConfig, row: dict[str, Any]) -> str:
    """Text about episodes that had not ended."""
    cut, longest = row["cut"], row["lengths"][row["cut"][0]]
    plays = config.environments
    remedy = plays.unlimited if plays.time_limit(config.task) is None else "the time limit has not ended them"
    return (
        f"episode {cut[0] + 1} has not ended after {longest:,} steps, {len(cut)} of {len(row['returns'])} were cut "
        f"there: {remedy}"
    )


def _robot_words(row: dict[str, Any]) -> str:
    """Text about a robot's evaluation besides returns."""
    if "falls" not in row:
        return ""
    units = {"linear": "m/s", "yaw": "rad/s"}
    errors = [
        f"{' and '.join(f'{value:.3f} {units.get(measure, measure)}' for measure, value in found.items())} off {name}"
        for name, found in row["tracking"].items()
        if found
    ]
    return ", ".join(["", f"{row['falls']} falls", *errors])
