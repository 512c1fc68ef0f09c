"""The script for ten minutes of a GPU at toy size: a speed and a training to its examination, in MuJoCo Warp."""

import json
import re
import subprocess
import sys

from tree import ROOT
from warp_worlds import ON_CPU


@ON_CPU
def test_a_dry_run_measures_speed_and_trains(tmp_path):
    command = [sys.executable, "benchmarks/gpu.py", str(tmp_path), "--dry-run", "--only", "speed 1024", "walk ANYmal"]
    subprocess.run(command, cwd=ROOT, check=True)
    rows = json.loads((tmp_path / "dry-run/parts.json").read_text())
    told = rows["speed 1024"]["lines"][0]
    assert re.fullmatch(r"\S+ steps/s in training, \S+ steps/s of the environment alone", told)
    assert rows["walk ANYmal C"]["done"] and rows["walk ANYmal C"]["lines"][0].startswith("no PASS after 512 steps")
