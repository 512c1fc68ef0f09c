"""``make walk``: train until it is good, export, validate, train on if the verdict is FAIL, film; all in one folder.

    python -m gaitway.walk [--task velocity-flat-anymal-c-blind] [--out runs/walk] [--seed 0] [key=value ...]

Every step is a ``gaitway`` command, shown as it is run; settings are those of ``gaitway train``. What is done is not
done again: an interrupted walk goes on where it stopped. The exit code is 0 whatever the verdict, which is in
``bundle/validation.json``; another one means that a step could not be done.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .runs.folder import RunFolder

if TYPE_CHECKING:
    from gaitway_sim2real.validate import Verdict

TASK, PRESET = "velocity-flat-anymal-c-blind", "cpu"
FILM_SECONDS = 20
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
    return walk(options.out, options.seed, options.settings, task=options.task)


def gaitway(arguments: list[str]) -> int:
    """Run a ``gaitway`` command in a process of its own, which ends in order when this one is told to end.

    Ctrl-C reaches both; SIGTERM is passed on.
    """
    child = subprocess.Popen([sys.executable, "-m", "gaitway", *arguments])
    handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: child.terminate()}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code  # as a shell says that a signal ended it


def walk(out: Path, seed: int, settings: Sequence[str] = (), run: Run = gaitway, task: str = TASK) -> int:
    """Do what is not done yet; the last line says PASS, or what failed and what to do next."""
    train = train_command(out, seed, settings, task)
    if not (out / "run.json").exists():
        print(
            "A walk in four steps: train, export, validate, film. Training ends when two examinations in a row pass; "
            "its first seconds give the longest time that it takes here. After a FAIL it goes on within that time."
        )
    while True:
        if code := _say_and_run(train, run):
            return code
        for command, done in ((export_command(out), _is_exported), (validate_command(out), _is_validated)):
            # A verdict FAIL has exit code 1 and leaves validation.json: that is an answer, not an error.
            if not done(out) and (code := _say_and_run(command, run)) and not done(out):
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
        _say_and_run(film_command(out), run)
    _print_ending(out, seed, task, verdict)
    return 0


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


def _say_and_run(command: list[str], run: Run) -> int:
    print(f"$ gaitway {shlex.join(command)}", flush=True)
    return run(command)


def _is_exported(out: Path) -> bool:
    """True if the bundle is that of the newest checkpoint."""
    from gaitway_onboard.bundle.contract import Contract, is_bundle

    from .commands.common import digest

    newest = RunFolder.open(out).checkpoints()[-1]
    return is_bundle(out / "bundle") and Contract.load(out / "bundle").checkpoint_sha256 == digest(newest)


def _is_validated(out: Path) -> bool:
    """True if the bundle has a verdict of the current suite."""
    from gaitway_sim2real.validate import VerdictError
    from gaitway_sim2real.validate.scenarios import SUITE_VERSION

    try:
        verdict = _verdict(out)
    except VerdictError:
        return False
    return verdict.suite_version.startswith(SUITE_VERSION) and (out / "validation/report.html").exists()


def _verdict(out: Path) -> Verdict:
    from gaitway_sim2real.validate import Verdict

    return Verdict.load(out / "bundle" / "validation.json", policy=out / "bundle" / "policy.onnx")


def _print_ending(out: Path, seed: int, task: str, verdict: Verdict) -> None:
    record = RunFolder.open(out).record
    film = out / "videos" / "walk.mp4"
    print(f"\n{'A walking robot' if verdict.passed else 'A policy that failed'}, in {out}:")
    print(f"  video of the exported policy   {film if film.exists() else 'none: the reason is above'}")
    print(f"  validation report              {out}/validation/report.html")
    print(f"  bundle for a robot             {out}/bundle")
    print(f"  training record                {out}/run.json, {out}/metrics.jsonl, {out}/examinations.jsonl")
    print(f"Steer it in a browser: {Path(sys.executable).parent / 'gaitway'} play {out}")
    head = verdict.summary().splitlines()[0]
    if verdict.passed:
        print(f"{head}, after {record['steps']:,} steps")
        return
    worst, check = verdict.failures()[0]
    others = {result.title for result, _ in verdict.failures()} - {worst.title}
    more = f", and {len(others)} more" if others else ""
    of = "" if task == TASK else f"TASK={task} "
    another = out.with_name(f"{out.name.removesuffix(f'-seed{seed}')}-seed{seed + 1}")
    print(
        f"{head}, after {record['steps']:,} steps. Failed: {worst.title}, {check.sentence()}{more}. "
        f"Train another seed: make walk {of}SEED={seed + 1} RUN={another}"
    )


if __name__ == "__main__":
    sys.exit(main())
