"""What is recorded of a training besides its metrics: episodes that ended, and evaluations of what was learnt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..runs.folder import EPISODES, RunFolder
from ..runs.rows import read_rows
from .tracking import RobotMeasures, tracking_errors

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from gymnasium.vector import VectorEnv

    from ..config.train_config import TrainConfig

    MakeEnv = Callable[[TrainConfig, int, int], VectorEnv]
    """Configuration, number of environments and seed to environments."""

RECENT = 100
"""Episodes whose mean return is shown while training."""
EVALUATION_SEED = 10_000
"""Evaluations play in environments seeded this much above the run's own seed."""
EVALUATION_ENVS, EVALUATION_ROBOTS = 16, 64
"""Most environments that an evaluation plays in."""


class Examiner(Protocol):
    """Keeps account of a training and examines what it has learnt, as the configuration asks."""

    def begin(self) -> None:
        """The trainer is where this part of the training starts."""
        ...

    def watch(self, wall: float) -> dict[str, float]:
        """After an iteration, ``wall`` seconds into the training; returns further metrics of it."""
        ...

    def final_exam(self, wall: float) -> None:
        """After the last."""
        ...


class EpisodeEvaluator:
    """The examiner of agents in environments: their episodes, and those they play for it."""

    def __init__(self, config: TrainConfig, run: RunFolder, trainer: Trainer, make_env: MakeEnv):
        self.config, self.run, self.trainer, self.make_env = config, run, trainer, make_env
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.envs: dict[int, VectorEnv] = {}
        self.examined = 0

    def begin(self) -> None:
        path = self.run.path / EPISODES
        earlier = read_rows(path)[-RECENT:] if path.exists() else []
        self.recent.extend((row["return"], row["length"]) for row in earlier if {"return", "length"} <= row.keys())
        self.examined = self.trainer.steps

    def watch(self, wall: float) -> dict[str, float]:
        """Record the episodes of an iteration; returns the mean return and length of recent ones, tracking errors."""
        episodes = self.trainer.pop_episodes()
        self.run.append_episodes(
            [{"steps": e.steps, "wall_s": wall, "return": e.ret, "length": e.length} for e in episodes]
        )
        self.recent.extend((e.ret, e.length) for e in episodes)
        interval = self.config.evaluation_interval
        if interval and self.trainer.steps // interval > self.examined // interval:
            self.examined = self.trainer.steps
            self._examine(-(-self.config.evaluation_episodes // 10), wall)
        metrics = tracking_errors(self.trainer.envs)
        if not self.recent:
            return metrics
        returns, lengths = zip(*self.recent, strict=True)
        return metrics | {
            "episodes/return": sum(returns) / len(returns),
            "episodes/length": sum(lengths) / len(lengths),
        }

    def final_exam(self, wall: float) -> None:
        if self.config.evaluation_episodes:
            row = self._examine(self.config.evaluation_episodes, wall)
            returns = torch.tensor(row["returns"], dtype=torch.float64)
            print(
                f"evaluation: return {returns.mean():.2f} +- {returns.std(unbiased=False):.2f} "
                f"over {len(returns)} deterministic episodes{_robot_words(row)}"
            )

    def _examine(self, episodes: int, wall: float) -> dict[str, Any]:
        """Play deterministic episodes; the row about them that ``evaluations.jsonl`` got."""
        from gaitway_agents.trainer import evaluate

        seed = self.config.seed + EVALUATION_SEED
        of_robot = self.config.physics is not None
        size = min(episodes, EVALUATION_ROBOTS if of_robot else EVALUATION_ENVS)
        if size not in self.envs:
            self.envs[size] = self.make_env(self.config, size, seed)
        measures = RobotMeasures(self.envs[size]) if of_robot else None
        played = evaluate(self.trainer, self.envs[size], episodes, seed, measures)
        row = {
            "steps": self.trainer.steps,
            "wall_s": wall,
            "deterministic": True,
            "seed": seed,
            "returns": [e.ret for e in played],
            "lengths": [e.length for e in played],
        }
        row |= {} if measures is None else measures.summary()
        self.run.append_evaluation(row)
        return row


def _robot_words(row: dict[str, Any]) -> str:
    """What the row of a robot's evaluation says beyond returns."""
    if "falls" not in row:
        return ""
    errors = [f"{e['linear']:.3f} m/s and {e['yaw']:.3f} rad/s off {name}" for name, e in row["tracking"].items()]
    return ", ".join(["", f"{row['falls']} falls", *errors])
