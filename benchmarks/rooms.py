"""Rooms of the house that a reader walks through: files that a piece of work enters, climbs and ways back.

    python benchmarks/rooms.py

A **room** is a file of the product that a call enters from another file. A **climb** is a call from a package into one
above it, by the floors of ``docs/design.md``: a callback, or a family's own method. A **return** is a call into a room
that was left before. Three pieces of work are traced: an iteration of PPO on ANYmal C (observation to loss and back), a
checkpoint to a robot (export, and a second of ``gaitway run``), and one scenario from bundle to verdict. What runs
while a module is imported does not count. The numbers are of a tracer, not of time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {
    "gaitway_files": 0, "gaitway_tasks": 1, "gaitway_agents": 2, "gaitway_onboard": 2, "gaitway_sim2real": 3,
    "gaitway_velocity": 4, "gaitway": 5,
}  # fmt: skip
EXTENSION = 2
SMALL = ["num_envs=4", "agent.num_steps=8", "total_steps=64", "agent.optimizer.minibatches=1", "evaluation_episodes=0",
         "num_threads=1", "processes=1"]  # fmt: skip
TASK = "velocity-flat-anymal-c-blind"


class Walk:
    """Calls of Python functions between files of the product, in this thread."""

    def __init__(self) -> None:
        self.rooms: list[str] = []
        self.climbs: list[tuple[str, str]] = []
        self.returns = 0
        self._stack: list[str] = []
        self._importing = 0

    def __enter__(self) -> Walk:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return"):
            return
        if frame.f_code.co_name == "<module>":
            self._importing += 1 if event == "call" else -1
        if self._importing or not file.startswith(str(ROOT)) or "/.venv" in file or "/benchmarks/" in file:
            return
        room = str(Path(file).relative_to(ROOT))
        if event == "return":
            if self._stack and self._stack[-1] == room:
                self._stack.pop()
            return
        last = self._stack[-1] if self._stack else None
        if room != last:
            if room not in self.rooms:
                self.rooms.append(room)
            elif room not in self._stack:
                self.returns += 1
            if last is not None and floor(room) > floor(last):
                self.climbs.append((last, room))
        self._stack.append(room)


def floor(room: str) -> int:
    """Floor of a file's package."""
    parts = Path(room).parts
    package = parts[0] if parts[0] == "gaitway" else parts[1]
    return FLOORS.get(package, EXTENSION)


def iteration(folder: Path) -> Callable[[], Any]:
    """An iteration of PPO, of a learner that has begun."""
    from gaitway.train_config import resolve

    config = resolve(TASK, preset="cpu", overrides=SMALL)
    trainer = config.environments.trainer(config)
    trainer.iterate()
    return trainer.iterate


def deployment(folder: Path) -> Callable[[], Any]:
    """A checkpoint to the motors of a simulated robot."""
    from gaitway.cli import main

    assert main(["train", TASK, "--preset", "cpu", "--out", str(folder / "run"), "--quiet", *SMALL]) == 0

    def work() -> None:
        main(["export", str(folder / "run"), "--out", str(folder / "bundle")])
        main(["run", str(folder / "bundle"), "--seconds", "1"])

    return work


def verdict(folder: Path) -> Callable[[], Any]:
    """A bundle to its verdict, with one scenario."""
    from dataclasses import replace

    from gaitway_sim2real.trial import validate_bundle
    from gaitway_velocity.scenarios import SCENARIOS

    from gaitway.demo import BUNDLES

    (gait,) = (scenario for scenario in SCENARIOS if scenario.name == "gait_turning")
    short = replace(gait, envs=2, seconds=4.0)
    return lambda: validate_bundle(BUNDLES / "anymal-c", scenarios=[short], processes=1)


WORK = {
    "observation to loss and back": iteration, "checkpoint to robot": deployment, "validate to verdict": verdict,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also list rooms and climbs")
    options = parser.parse_args()
    print("| work | rooms | climbs | returns |\n|---|---|---|---|")
    for name, prepare in WORK.items():
        quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with tempfile.TemporaryDirectory() as temporary, quiet[0], quiet[1]:
            work = prepare(Path(temporary))
            with Walk() as walk:
                work()
        print(f"| {name} | {len(walk.rooms)} | {len(set(walk.climbs))} | {walk.returns} |", flush=True)
        if options.list:
            print("\n".join(f"    {room}" for room in walk.rooms))
            print("\n".join(f"    climb {a} -> {b}" for a, b in dict.fromkeys(walk.climbs)))


if __name__ == "__main__":
    main()
