"""False trips: how often the checks stop a robot that does what it is told, over an hour of walking on the twin.

    python benchmarks/false_trips.py BUNDLE [--robot unitree-go2] [--minutes 60] [--out false_trips.json] [--jobs 2]

The hour has six equal parts, all with noisy sensors, 1 % of the messages lost and the others up to 5 ms late, both
ways: nothing else; a push of 0.5 m/s every 8 s; 5 kg more; 5 kg less; a slope of 0.1 rad; all of it at once, with 5 kg
more. Each part repeats the tour of the trained commands. A trip is false if the robot stood upright then; one of a
robot that fell is counted as a fall. After either the part goes on with another seed. Parts that ``--out`` has already
are not run again.

``--robot anymal-c`` and other robots without hardware of their own are driven over the Go2's wire, with the effort and
speed of their actuators: the checks read the same messages, and no such product exists.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.children import worker_pool
from gaitway_files.hardware import Hardware
from gaitway_files.writing import write_text
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.control.loop import Period
from gaitway_sim2real.hardware import HARDWARE, hardware_of
from gaitway_sim2real.rehearse.nominal import laps
from gaitway_sim2real.rehearse.stage import Stage
from gaitway_sim2real.rehearse.suite import Settings

FALLEN = 0.7
"""Tilt against the vertical at which a robot is falling [rad]."""
PUSH_EVERY, PUSH = 8.0, 0.5
"""[s], [m/s]"""
PARTS = {
    "level": {},
    "pushes": {"push": PUSH},
    "5 kg more": {"mass": 5.0},
    "5 kg less": {"mass": -5.0},
    "slope of 0.1 rad": {"slope": 0.1},
    "all at once": {"push": PUSH, "mass": 5.0, "slope": 0.1},
}
STRETCH = 300.0
"""Of one drive [s]; a part is several."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--robot", default="unitree-go2")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("false_trips.json"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    seconds = 60.0 * options.minutes / len(PARTS)
    missing = [name for name in PARTS if name not in found]
    with worker_pool(max(1, min(options.jobs, len(missing)))) as pool:
        futures = {pool.submit(walk, options.bundle, options.robot, name, seconds): name for name in missing}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            write_text(options.out, json.dumps(found, indent=1))
            print(line(futures[future], found[futures[future]]), flush=True)
    print(f"\n{options.robot}, {options.bundle}")
    for name in PARTS:
        print(line(name, found[name]))
    sys.exit(1 if any(part["false trips"] for part in found.values()) else 0)


def line(name: str, part: dict) -> str:
    trips = "; ".join(part["false trips"]) or "none"
    return (
        f"{name:18} {part['walked [s]'] / 60:5.1f} min, {part['distance [m]']:5.0f} m, falls {len(part['falls'])}, "
        f"false trips: {trips}"
    )


def walk(bundle: Path, robot: str, name: str, seconds: float) -> dict:
    """One part, in stretches with seeds of their own, until it has lasted ``seconds``."""
    part = {"walked [s]": 0.0, "distance [m]": 0.0, "false trips": [], "falls": [], "drives": 0}
    hardware = hardware_for(robot, bundle)
    started = time.process_time()
    while part["walked [s]"] < seconds - 1.0 and part["drives"] < 40:
        part["drives"] += 1
        drive(part, bundle, hardware, seed=100 * list(PARTS).index(name) + part["drives"],
              seconds=min(STRETCH, seconds - part["walked [s]"]), **PARTS[name])  # fmt: skip
    part["CPU [s]"] = round(time.process_time() - started)
    return part


def drive(
    part: dict, bundle: Path, hardware: Hardware, *, seed: int, seconds: float, push=0.0, mass=0.0, slope=0.0
) -> None:
    stage = Stage(bundle, hardware, quirks=Settings().quirks, seed=seed)
    body, random = stage.twin.body, np.random.default_rng(seed)
    load(body, mass)
    tilt_ground(body, slope)
    track = {"walked": 0.0, "last": None, "distance": 0.0, "tilt": 0.0, "push": PUSH_EVERY}

    def look(period: Period) -> None:
        truth = stage.twin.truth()
        track["tilt"] = max(0.9 * track["tilt"], truth.tilt)
        if period.mode is not Mode.POLICY:
            return
        track["walked"] += stage.robot.period
        if track["last"] is not None:
            track["distance"] += math.dist(truth.base_pos[:2], track["last"])
        track["last"] = truth.base_pos[:2].copy()
        if push and track["walked"] >= track["push"]:
            track["push"] += PUSH_EVERY
            heading = random.uniform(-math.pi, math.pi)
            body.push([push * math.cos(heading), push * math.sin(heading), 0.0])

    contract = stage.policy.contract
    performance = stage.perform(scripted(laps(contract, seconds)), seconds, on_period=look)
    part["walked [s]"] += track["walked"]
    part["distance [m]"] += track["distance"]
    report = performance.report
    if report is None or not report.ok:
        said = f"{performance.outcome} (after {track['walked']:.1f} s, seed {seed})"
        part["falls" if track["tilt"] > FALLEN else "false trips"].append(said)


def load(body, kilograms: float) -> None:
    """More or less mass at the base's centre; inertia in proportion."""
    model, base = body.model, body.plant.base_body
    before = float(model.body_mass[base])
    model.body_mass[base] += kilograms
    model.body_inertia[base] *= (before + kilograms) / before
    mujoco.mj_setConst(model, mujoco.MjData(model))


def tilt_ground(body, slope: float) -> None:
    """A plane that falls towards +x, under a robot that is put down onto it."""
    if slope:
        model = body.model
        model.geom_sameframe[model.geom("ground").id] = 0  # else its orientation is taken for its body's
        model.geom_quat[model.geom("ground").id] = [math.cos(slope / 2), 0.0, math.sin(slope / 2), 0.0]
        body.data.qpos[body.plant.base_qpos + 2] += 0.5 * math.sin(slope)


def hardware_for(robot: str, bundle: Path) -> Hardware:
    if robot in HARDWARE:
        return hardware_of(robot)
    contract = Contract.load(bundle)
    go2, names = HARDWARE["unitree-go2"], contract.joint_names
    effort, speed = (
        dict(zip(names, contract.per_joint(key), strict=True)) for key in ("effort_limit", "velocity_limit")
    )
    return Hardware(
        name=f"{robot} on the Go2's wire", robot=robot, family="unitree_go", motors=names,
        enable=dict.fromkeys(names, 1),
        effort_limit=effort, velocity_limit=speed, max_stiffness=dict.fromkeys(names, 500.0),
        max_damping=dict.fromkeys(names, 50.0),
        damping=dict(zip(names, contract.per_joint("damping"), strict=True)), feet=contract.foot_bodies,
        stand_down=go2.stand_down,
    )  # fmt: skip


if __name__ == "__main__":
    main()
