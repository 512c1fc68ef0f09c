"""Wall time, CPU time and peak memory of each stage of ``make walk``, after installation and downloads.

    python benchmarks/walk_resources.py [--steps N] [--out DIR]

The stages are the ``gaitway`` commands that it runs for a run folder that does not exist yet. Memory is
the resident set of a stage's whole process tree, sampled ten times a second, or its highest single process if greater.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
INTERVAL = 0.1  # [s]


@dataclass(frozen=True)
class Usage:
    wall: float
    cpu: float
    peak: float
    """[GiB]"""
    code: int


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="train this many environment steps instead of the preset's")
    parser.add_argument("--out", type=Path, help="keep the run folder, which must not exist yet, here")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'stage':12}{'wall [s]':>10}{'CPU [s]':>10}{'peak [GiB]':>12}   exit code")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.out or Path(temporary) / "walk").absolute()
        total = []
        for command in stages(folder):
            if command[3] == "train" and options.steps:
                command = [*command, f"total_steps={options.steps}"]
            usage = measure(command)
            total.append(usage)
            print(f"{command[3]:12}{usage.wall:10.1f}{usage.cpu:10.1f}{usage.peak:12.2f}   {usage.code}", flush=True)
    wall, cpu, peak = sum(u.wall for u in total), sum(u.cpu for u in total), max(u.peak for u in total)
    print(f"{'make walk':12}{wall:10.1f}{cpu:10.1f}{peak:12.2f}   {max(u.code for u in total)}")


def stages(folder: Path) -> list[list[str]]:
    """The gaitway commands of ``make walk`` whose first verdict is PASS, in order."""
    from gaitway.walk import export_command, film_command, train_command, validate_command

    given = (
        train_command(folder, 0),
        *(command(folder) for command in (export_command, validate_command, film_command)),
    )
    return [[sys.executable, "-m", "gaitway", *arguments] for arguments in given]


def measure(command: list[str]) -> Usage:
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    tree = psutil.Process(process.pid)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, resident(tree))
        time.sleep(INTERVAL)
    process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it once more
    return Usage(
        wall=time.perf_counter() - start,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=max(peak, usage.ru_maxrss * 1024) / 2**30,
        code=process.returncode,
    )


def resident(tree: psutil.Process) -> int:
    total = 0
    try:
        for process in (tree, *tree.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:  # ended between being listed and being asked
        pass
    return total


if __name__ == "__main__":
    main()
