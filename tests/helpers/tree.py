"""Where the checkout lies."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
IMPORTABLE = os.pathsep.join([str(TESTS), str(TESTS / "helpers")])
"""``PYTHONPATH`` of a process that imports what tests import."""
