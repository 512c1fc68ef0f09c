"""Compare the page that drives a robot with Python: ``python docs/tools/check_drive.py [SITE]`` after ``make site``.

Node.js runs the page's robot.js, with its WebAssembly packages, and Python the lockstep simulation with the on-board
policy. Exit code 1 if in 200 control steps the base is more than 1 mm or a joint more than 0.01 rad elsewhere. Two
versions of MuJoCo differ by a part of that; with one and the same, differences are below 1e-6.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from browser_robot import BUNDLE, ROOT
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.safety.gains import walking_gains
from gaitway_sim2real.lockstep.robot import LockstepRobot

STEPS = 200
BASE, JOINT = 1e-3, 1e-2
"""Largest differences [m], [rad]."""
COMMAND = (0.6, 0.2, 0.3)
PAGE = """
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
const folder = pathToFileURL(process.argv[1] + "/drive/");
const { load } = await import(new URL("robot.js", folder));
const robot = await load((name) => readFile(new URL(name, folder)));
const rows = [];
for (let i = 0; i < STEPS; i++) {
  await robot.step(COMMAND);
  rows.push([...robot.data.qpos]);
}
console.log(JSON.stringify(rows));
"""


def in_the_page(site: Path) -> np.ndarray:
    """Positions after each step, (STEPS, nq)."""
    script = PAGE.replace("STEPS", str(STEPS)).replace("COMMAND", json.dumps(COMMAND))
    asked = ["node", "--input-type=module", "--eval", script, str(site.resolve())]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"node could not run {site}/drive: was the site built with its scripts?\n{done.stderr[-1000:]}"
        )
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def in_python() -> np.ndarray:
    """The same from the simulation of ``gaitway run --sim``."""
    robot = LockstepRobot(BUNDLE)
    policy = OnboardPolicy(BUNDLE, robot.joint_names)
    gains, rows = walking_gains(policy.contract, robot.joint_names), []
    for step in range(1, STEPS + 1):
        robot.write(policy.step(robot.read(), COMMAND), *gains)
        robot.sleep_until(step * policy.contract.control_dt)
        rows.append(robot.data.qpos.copy())
    return np.array(rows)


def main() -> None:
    page = in_the_page(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
    python = in_python()
    away = np.abs(page - python)
    base, joint = away[:, :3].max(), away[:, 7:].max()
    print(f"{STEPS} steps, {page[-1, 0]:.2f} m ahead: base at most {base:.1e} m away, joints {joint:.1e} rad")
    raise SystemExit(int(not (base <= BASE and joint <= JOINT)))


if __name__ == "__main__":
    main()
