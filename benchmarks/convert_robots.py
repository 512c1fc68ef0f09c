"""Conversions of other people's robots: each either has the mass that its file tells, or is refused by name.

    python benchmarks/convert_robots.py FOLDER [--out FOLDER]

FOLDER holds URDFs, at any depth, with their meshes; the table of docs/convert.md is of the wheel of example-robot-data:
pip download --no-deps example-robot-data, then python -m zipfile -e FILE.whl FOLDER. Each is written as MJCF and as
USD. A mass is compared with the sum of the file's <mass> elements. Exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from gaitway_files.errors import UserError

from gaitway.backends.table import backend

FORMATS = {"MJCF": ("mujoco", ".xml"), "USD": ("isaaclab", ".usda")}
REASONS = {
    r"MuJoCo reads \.stl": "collision mesh of another kind",
    "principal moments": "inertia that no body has",
    "moves and has no mass": "moving link without mass",
    "<mimic>": "mimic",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="where to keep what is written")
    options = parser.parse_args()
    found = {name: Counter() for name in FORMATS}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(options.folder.rglob("*.urdf")):
            for name in FORMATS:
                result = tried(path, name, options.out or Path(folder))
                print(f"{path.name:40} {name:5} {result}", flush=True)
                kind = next((kind for words, kind in REASONS.items() if re.search(words, result)), result)
                found[name]["another refusal" if kind.startswith("refused") else kind.partition(":")[0]] += 1
    for name, results in found.items():
        print(f"\n{name}, {sum(results.values())} URDFs")
        for kind, count in results.most_common():
            print(f"  {count:3} {kind}")
    sys.exit(1 if any(results["another mass"] for results in found.values()) else 0)


def tried(path: Path, name: str, folder: Path) -> str:
    """How the conversion of a URDF ended, in one line."""
    world, suffix = FORMATS[name]
    told = sum(float(mass.get("value", 0)) for mass in ElementTree.parse(path).iterfind("link/inertial/mass"))
    try:
        line = next(iter(backend(world).convert(path, folder / f"{path.stem}{suffix}", None)))
    except UserError as error:
        return f"refused: {error}"
    mass = float(line.rsplit(", ", 1)[1].split()[0])
    return "same mass" if abs(mass - told) <= 1e-5 * told else f"another mass: {mass:g} kg, the file tells {told:g} kg"


if __name__ == "__main__":
    main()
