"""``make walk``: train until it is good, export, validate, train on if the verdict is FAIL, film; all in one folder.

    python -m gaitway.walk [--task velocity-flat-anymal-c-blind] [--out runs/walk] [--seed 0] [key=value ...]

Every step is a ``gaitway`` command, shown as it is run; settings are those of ``gaitway train``. What is done is not
done again: an interrupted walk goes on where it stopped. The exit code is 0 whatever the verdict, which is in
``bundle/validation.json``; another one means that a step could not be done.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.writing import open_to_append

from .runs.choice import settle
from .runs.folder import EXAMINATIONS, RunFolder
from .runs.judgements import policies_judged
from .runs.rows import read_rows
from .terminal import guarded, work_on
from .training.interrupt import STOPS
from .training.progress import about

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict

TASK, PRESET = "velocity-flat-anymal-c-blind", "cpu"
FILM_SECONDS = 20
STAGES = "stages.jsonl"
"""File of a walk with a row for each stage: its name, wall and CPU time [s], exit code."""
EXPORT, VALIDATE, FILM = 0.12, 1.05, 0.22
"""Time of a stage, in that of a trial of the suite in training."""
Run = Callable[[list[str]], int]
"""Runs a ``gaitway`` command with these arguments; returns its exit code."""


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m gaitway.walk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default=TASK, help=f"task with a preset {PRESET!r} (default {TASK})")
    parser.add_argument("--out", type=Path, default=Path("runs/walk"), help="run folder (default runs/walk)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    with guarded():
        work_on()
        return walk(options.out, options.seed, options.settings, task=options.task)


def gaitway(arguments: list[str]) -> int:
    """Run a ``gaitway`` command in a process of its own, which ends in order when this one is told to end.

    Ctrl-C reaches both; other signals are passed on.
    """
    child = subprocess.Popen([sys.executable, "-m", "gaitway", *arguments])
    heard = [number for number in STOPS if signal.getsignal(number) != signal.SIG_IGN]

    def pass_on(number: int, frame: object) -> None:
        if number != signal.SIGINT:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code  # as a shell says that a signal ended it


def walk(out: Path, seed: int, settings: Sequence[str] = (), run: Run = gaitway, task: str = TASK) -> int:
    """Do what is not done yet; the last line says PASS, or what failed and what to do next."""
    train, stages = train_command(out, seed, settings, task), Stages(out, run)
    while True:
        if code := stages.train(train):
            return code
        for stage, done in ((stages.export, _is_exported), (stages.validate, _is_validated)):
            # A verdict FAIL has exit code 1 and leaves validation.json: that is an answer, not an error.
            if not done(out) and (code := stage()) and not done(out):
                return code
        verdict, record = _verdict(out), RunFolder.open(out).record
        if verdict.passed or record["steps"] >= record["total_steps"]:
            break
        print(
            f"FAIL after {record['steps']:,} steps: training goes on, to {record['total_steps']:,} at most", flush=True
        )
        # The next examination decides; it comes as soon as the interval is full, which is no exact number of updates.
        train = [*train_command(out, seed, settings, task), f"least_steps={record['steps'] + 1}"]
    film = out / "videos" / "walk.mp4"
    if not film.exists() or film.stat().st_mtime < (out / "bundle" / "contract.yaml").stat().st_mtime:
        stages.film()
    _print_ending(out, seed, task, verdict)
    return 0


class Stages:
    """The commands of a walk in ``out``: each says what it will do and how long, and then what came out."""

    def __init__(self, out: Path, run: Run):
        self.out, self.run = out, run

    def train(self, command: list[str]) -> int:
        code = self._do(
            command,
            "Train: until a policy passes an examination and then the whole suite of validation; the first seconds "
            "tell how long that takes here",
        )
        if not code:
            run, rows = RunFolder.open(self.out), _rows(self.out)
            steps = f"{chosen_steps(run):,} steps, of {run.record['steps']:,}"
            tried = sum("suite" in row for row in rows)
            print(f"policy of {steps}; {len(rows)} examined, {tried} tried on the suite", flush=True)
        return code

    def export(self) -> int:
        return self._do(export_command(self.out), f"Export: the policy as a folder for a robot{self._about(EXPORT)}")

    def validate(self) -> int:
        what = f"Validate: the verdict, on other draws than training has seen{self._about(VALIDATE)}"
        return self._do(validate_command(self.out), what)

    def film(self) -> int:
        what = f"Film: {FILM_SECONDS} s of the bundle on a simulated robot{self._about(FILM)}"
        return self._do(film_command(self.out), what)

    def _about(self, share: float) -> str:
        """Words about the time of a stage, which takes ``share`` of that of the newest trial."""
        tried = [row["suite"]["wall_s"] for row in _rows(self.out) if "wall_s" in row.get("suite", {})]
        return f"; {about(share * tried[-1])}" if tried else ""

    def _do(self, command: list[str], what: str) -> int:
        print(f"\n{what}\n$ gaitway {shlex.join(command)}", flush=True)
        began, cpu = time.monotonic(), os.times()
        code = self.run(command)
        wall, now = time.monotonic() - began, os.times()
        spent = sum(now[2:4]) - sum(cpu[2:4])
        print(f"{command[0]} took {wall:.0f} s, {spent:.0f} s of CPU time", flush=True)
        if self.out.is_dir():
            with open_to_append(self.out / STAGES) as file:
                row = {"stage": command[0], "wall_s": round(wall, 1), "cpu_s": round(spent, 1), "exit_code": code}
                file.write(f"{json.dumps(row)}\n".encode())
        return code


def train_command(out: Path, seed: int, settings: Sequence[str] = (), task: str = TASK) -> list[str]:
    start = ["train", task, "--preset", PRESET, "--until", "good", "--seed", str(seed)]
    return [*start, "--out", str(out), "--resume", *settings]


def export_command(out: Path) -> list[str]:
    return ["export", str(out), "--out", str(out / "bundle")]


def validate_command(out: Path) -> list[str]:
    return ["validate", str(out / "bundle"), "--report", str(out / "validation")]


def film_command(out: Path) -> list[str]:
    film = str(out / "videos" / "walk.mp4")
    return ["run", str(out / "bundle"), "--sim", "--seconds", str(FILM_SECONDS), "--video", film]


def chosen_steps(run: RunFolder) -> int:
    """Steps of the checkpoint that a run exports."""
    return settle(run) or max(run.kept())


def _rows(out: Path) -> list[dict[str, Any]]:
    """Rows of the examinations so far."""
    path = out / EXAMINATIONS
    return read_rows(path) if path.exists() else []


def _is_exported(out: Path) -> bool:
    """True if the bundle is that of the checkpoint that the run chose."""
    from gaitway_onboard.bundle.contract import Contract, is_bundle

    from .sources import digest

    run = RunFolder.open(out)
    wanted = run.kept()[chosen_steps(run)]
    return is_bundle(out / "bundle") and Contract.load(out / "bundle").checkpoint_sha256 == digest(wanted)


def _is_validated(out: Path) -> bool:
    """True if the bundle has a verdict of the current suite."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.trial import VerdictError
    from gaitway_sim2real.trial.suites import suite_of

    try:
        verdict = _verdict(out)
    except VerdictError:
        return False
    return (
        verdict.suite_version.startswith(suite_of(Contract.load(out / "bundle")).version)
        and (out / "validation/report.html").exists()
    )


def _verdict(out: Path) -> Verdict:
    from gaitway_sim2real.trial import Verdict

    return Verdict.load(out / "bundle" / "validation.json", policy=out / "bundle" / "policy.onnx")


def _print_ending(out: Path, seed: int, task: str, verdict: Verdict) -> None:
    film = out / "videos" / "walk.mp4"
    print(f"\n{'A walking robot' if verdict.passed else 'A policy that failed'}, in {out}:")
    print(f"  video of the exported policy   {film if film.exists() else 'none: the reason is above'}")
    print(f"  validation report              {out}/validation/report.html")
    print(f"  bundle for a robot             {out}/bundle")
    print(f"  training record                {out}/run.json, {out}/metrics.jsonl, {out}/examinations.jsonl")
    print(f"Steer it in a browser: {Path(sys.executable).parent / 'gaitway'} play {out}")
    steps, number = chosen_steps(RunFolder.open(out)), policies_judged(out)
    head = verdict.summary().splitlines()[0]
    head += f", after {steps:,} steps, policy {number} of this run to be judged"
    if verdict.passed:
        print(head)
        return
    worst, check = verdict.failures()[0]
    others = {result.title for result, _ in verdict.failures()} - {worst.title}
    more = f", and {len(others)} more" if others else ""
    of = "" if task == TASK else f"TASK={task} "
    another = out.with_name(f"{out.name.removesuffix(f'-seed{seed}')}-seed{seed + 1}")
    print(
        f"{head}. Failed: {worst.title}, {check.sentence()}{more}. "
        f"Train another seed: make walk {of}SEED={seed + 1} RUN={another}"
    )


if __name__ == "__main__":
    sys.exit(main())
