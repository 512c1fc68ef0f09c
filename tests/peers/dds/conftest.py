"""A peer on Cyclone DDS 0.10.5. Collected only where that is installed; see dds.mk."""

from pathlib import Path

PYTHON = Path(__file__).parents[3] / ".venv-cyclone10" / "bin" / "python"

if not (PYTHON.parents[1] / ".stamp").exists():
    collect_ignore_glob = ["test_*.py"]
