"""Trainings without learning, which take milliseconds: processes that fill run folders as ``gaitway train`` does.

As a program it is such a training (``train FOLDER key=value ...``), or a sweep of them (``sweep FOLDER TRIALS``).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS, TOTAL = 10, 1000
METRIC = "rollout/reward"


def train(folder: Path, settings: dict[str, str]) -> int:
    """A training whose reward grows to ``-(x - 0.3)^2``, less ``seed`` hundredths; it fails above ``fails``."""
    x, seed = float(settings["agent.gamma"]), int(settings.get("seed", 0))
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "run.json"
    steps = json.loads(record.read_text())["steps"] if record.exists() else 0
    with (folder / "starts").open("a") as file:
        file.write(f"{steps}\n")

    def write(status: str) -> None:
        partial = record.with_name(".run.json")
        partial.write_text(json.dumps({"status": status, "steps": steps, "error": "ValueError: too large"}))
        partial.rename(record)

    write("running")
    while steps < TOTAL and not stopped:
        if x > float(settings.get("fails", 2.0)):
            write("failed")
            return 1
        steps += TOTAL // ROWS
        row = {"steps": steps, "wall_s": 0.0, METRIC: (-1.0 - (x - 0.3) ** 2 - 0.01 * seed) * TOTAL / steps}
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        write("running")
        time.sleep(float(settings.get("pause", 0.0)))
    write("interrupted" if stopped else "finished")
    return 143 if stopped else 0


class Pretended:
    """A place whose jobs are such trainings."""

    def __init__(self, **settings: Any):
        self.settings = [f"{key}={value}" for key, value in settings.items()]
        self.started: list[str] = []

    def start(self, job: Any) -> subprocess.Popen[bytes]:
        from gaitway_files.children import ending_with_us

        self.started.append(job.folder.name)
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-S", __file__, "train", str(job.folder), f"seed={job.seed}"]
        command = ending_with_us([*command, *self.settings, *job.settings], signal.SIGTERM)
        return subprocess.Popen(command, start_new_session=True)


def plan(**changes: Any) -> Any:
    """A search for the best ``agent.gamma``, which is 0.3; the settings as they are have 0.5."""
    from gaitway.sweep.metric import Metric
    from gaitway.sweep.plan import Plan
    from gaitway.sweep.space import Range

    given = {
        "task": "cartpole", "agent": "ppo", "options": (), "settings": (), "threads": (), "seed": 0, "prune": "none",
        "space": (Range(key="agent.gamma", low=0.0, high=1.0),), "metric": Metric(METRIC, False),
        "total_steps": TOTAL, "begun": {"agent.gamma": 0.5},
    }  # fmt: skip
    return Plan(**given | changes)


def sweep(folder: Path, trials: int, place: Any = None, **given: Any) -> int:
    """A sweep of such trainings; the exit code."""
    from gaitway.sweep.loop import run_sweep

    sizes = {"workers": 1, "confirm": 0, "seeds": 1, "command": "gaitway sweep", "plan": plan()} | given
    searched = sizes.pop("plan")
    return run_sweep(searched, folder, trials=trials, place=place or Pretended(), **sizes)


if __name__ == "__main__":
    out = Path(sys.argv[2])
    if sys.argv[1] == "train":
        sys.exit(train(out, dict(word.split("=", 1) for word in sys.argv[3:])))
    sys.exit(sweep(out, int(sys.argv[3]), Pretended(pause=0.1), workers=2))
