"""The benchmark for machines with a GPU, at a size for a CPU: its table is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks/isaaclab_scale.py"


@pytest.mark.slow
def test_the_table_is_complete(physics):
    words = ["--device", "cpu", "--physics", physics, "--num-envs", "4", "--iterations", "1", "--asset", "mjcf"]
    done = subprocess.run([sys.executable, SCRIPT, *words, "--preset", "cpu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    row = done.stdout.splitlines()[-1]
    found = re.fullmatch(rf"{physics} +4 +([\d,]+) +(\d+)% +(\d+)% +(\d+\.\d\d)", row)
    assert found, row
    steps, environment, learning, waits = (float(number.replace(",", "")) for number in found.groups())
    assert steps > 0 and 0 < environment + learning <= 100 and waits < 10
