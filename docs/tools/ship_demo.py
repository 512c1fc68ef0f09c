"""Make a run's bundle the one that ``gaitway demo`` shows.

    python docs/tools/ship_demo.py runs/walk
    python docs/tools/ship_demo.py runs/dance --name dance

The bundle must have passed validation. made.yaml, beside it, says which commands made it.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path

from gaitway_files.writing import write_text
from gaitway_files.yaml_files import dump_yaml
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.bundle.verdict import VERDICT_FILE, read_verdict

from gaitway.demo import BUNDLES, MADE_FILE, about
from gaitway.runs.folder import RunFolder

OUT = "runs/walk"


def ship(run: Path, name: str | None = None) -> Path:
    """Copy the bundle of a run, with the commands that made it; returns its new folder, ``name`` or the robot's."""
    bundle = run / "bundle"
    files = verify_files(bundle)
    verdict = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")
    if verdict["verdict"] != "PASS":
        raise SystemExit(f"{bundle} has the verdict {verdict['verdict']}: only a policy that passed is shown")
    record = RunFolder.open(run).record
    made = {
        "commands": [
            shlex.join(command_of(record["command"])),
            f"gaitway export {OUT} --out {OUT}/bundle",
            f"gaitway validate {OUT}/bundle",
        ],
        "steps": record["steps"],
        "cpu_seconds": record["cpu_time_s"],
        "machine": f"{record['machine']['processor']}, {record['machine']['cores']} cores",
        "commit": record["git"]["commit"],
        "versions": record["versions"],
    }
    target = BUNDLES / (name or Contract.load(bundle).robot)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in (*files, "contract.yaml", VERDICT_FILE):
        shutil.copyfile(bundle / name, target / name)
    write_text(target / MADE_FILE, dump_yaml(made))
    return target


def command_of(words: list[str]) -> list[str]:
    """The command line of the training, with the run folder that the pages use."""
    words = ["gaitway", *words[1:]]
    kept = [word for word in words if word not in ("--resume", "--quiet")]
    if "--out" in kept:
        kept[kept.index("--out") + 1] = OUT
    return kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder with bundle/ and its validation.json")
    parser.add_argument("--name", help="name of the bundle (default: its robot's)")
    options = parser.parse_args()
    print(about(ship(options.run, options.name)))
