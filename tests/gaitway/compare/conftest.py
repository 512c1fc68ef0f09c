"""Run folders as trainings leave them, with learning curves drawn from a model instead of a simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
import yaml

from gaitway.cli import main
from gaitway.runs.folder import RUN_FORMAT, RunFolder, provenance

STEPS = 10_000
EPISODE = 20  # steps
SPEED = 500.0  # steps/s


class MakeRun(Protocol):
    def __call__(self, path: Path, **kwargs: Any) -> RunFolder: ...


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    here = {"git": provenance.git_state(), "versions": provenance.versions(), "machine": provenance.machine()}

    def make(
        path: Path,
        *,
        task: str = "hopper",
        agent: str = "ppo",
        seed: int = 0,
        level: float = 100.0,
        noise: float = 5.0,
        steps: int = STEPS,
        status: str = "finished",
        episodes: bool = True,
        evaluations: int = 3,
        config: dict[str, Any] | None = None,
        **record: Any,
    ) -> RunFolder:
        """A run that learns towards ``level``; its last 100 episodes scatter around 0.98 of it."""
        (path / "checkpoints").mkdir(parents=True)
        run = RunFolder(path, {"gaitway_run": RUN_FORMAT, "world": "gymnasium", "iterations": 20, **here})
        settings = {"algorithm": agent, "seed": seed, "agent": {"learning_rate": 3e-4, "hidden": [64, 64]}}
        (path / "config.yaml").write_text(yaml.safe_dump(settings | (config or {})))
        rng = np.random.default_rng([seed, *task.encode(), *agent.encode()])
        own = level + noise * rng.standard_normal()
        ends = np.arange(EPISODE, steps + 1, EPISODE)
        returns = own * (1.0 - np.exp(-4.0 * ends / steps)) + noise * rng.standard_normal(len(ends))
        if episodes:
            rows = [
                {"steps": int(s), "wall_s": s / SPEED, "return": float(r), "length": EPISODE}
                for s, r in zip(ends, returns, strict=True)
            ]
            run.append_episodes(rows)
        for iteration in range(1, 21):
            at = iteration * steps // 20
            reward = float(own / 1000 * (1.0 - np.exp(-4.0 * iteration / 20)))
            run.append_metrics(
                {"iteration": iteration, "steps": at, "wall_s": at / SPEED, "rollout/reward": reward, "learn/kl": 0.01}
            )
        for number in range(1, evaluations + 1):
            at = number * steps // evaluations
            row = {"steps": at, "wall_s": at / SPEED, "deterministic": True, "seed": 1000 + seed}
            row |= {"returns": [own * at / steps + offset for offset in (-1.0, 0.0, 1.0)], "lengths": [EPISODE] * 3}
            run.append_evaluation(row)
        run.update(
            **{
                "task": task, "algorithm": agent, "preset": None, "seed": seed, "status": status, "steps": steps,
                "total_steps": steps, "wall_time_s": steps / SPEED,
                "time_s": {"environment": 0.5 * steps / SPEED, "learning": 0.5 * steps / SPEED},
            } | record
        )  # fmt: skip
        return run

    return make


@pytest.fixture(scope="session")
def three_by_two(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents, two tasks, three seeds; ppo is the better one on both."""
    root = tmp_path_factory.mktemp("runs")
    for task, scale in (("hopper", 100.0), ("walker2d", 1000.0)):
        for agent, share in (("ppo", 1.0), ("vpg", 0.6)):
            for seed in range(3):
                config = {"agent": {"learning_rate": 3e-4 if agent == "ppo" else 1e-3, "hidden": [64, 64]}}
                make_run(
                    root / f"{task}-{agent}" / f"seed{seed}",
                    task=task,
                    agent=agent,
                    seed=seed,
                    level=scale * share,
                    noise=0.02 * scale,
                    config=config,
                )
    return root


@pytest.fixture(scope="session")
def versions(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training, unchanged and broken, four seeds each."""
    root = tmp_path_factory.mktemp("versions")
    for name, level, first in (("old", 100.0, 0), ("same", 100.0, 10), ("broken", 40.0, 20), ("better", 200.0, 30)):
        for seed in range(first, first + 4):
            make_run(root / name / str(seed), seed=seed, level=level)
    return root


@pytest.fixture
def ours(capsys: pytest.CaptureFixture[str]) -> Callable[[list[Any]], tuple[int, str, str]]:
    """Exit code and the two streams of ``gaitway compare``."""

    def run(argv: list[Any]) -> tuple[int, str, str]:
        code = main(["compare", *(str(word) for word in argv)])
        return code, *capsys.readouterr()

    return run
