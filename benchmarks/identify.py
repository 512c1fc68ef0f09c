"""Identification of the digital twin with hidden parameters: what docs/identify.md says of its accuracy.

    python benchmarks/identify.py --seeds 201 202 203 204 205 --json identify.json

Each seed hides gains, strength, friction, armature and delay of a hung Go2 twin, every joint with numbers of its own.
The twin is driven over its wire by the transport and the controller of a deployment, with a noisy, lossy and jittered
wire, for 60 s of excitation; the flight's file is all that identification gets. The twin's physics takes steps of
0.5 ms: its integrator adds half a step times the damping to every inertia, at 2 ms a tenth of a small armature.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from gaitway_onboard.control.loop import run_loop
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.transports.open import Connection
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.hardware import hardware_of
from gaitway_sim2real.identify.drive_log import read_drive_logs
from gaitway_sim2real.identify.excitation import Excitation
from gaitway_sim2real.identify.hung_model import KINDS
from gaitway_sim2real.identify.identify import Identification, identify
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

RANGES = {
    "stiffness_scale": (0.8, 1.2),
    "damping_scale": (0.8, 1.2),
    "strength": (0.8, 1.1),
    "armature": (0.006, 0.02),
    "friction": (0.1, 0.5),
    "viscous": (0.05, 0.3),
}
DELAY = (0.0, 0.03)
WIRE = {
    "encoder_noise": 1e-4,
    "velocity_noise": 0.02,
    "torque_noise": 0.05,
    "gyro_noise": 0.01,
    "orientation_noise": 0.002,
    "jitter": 0.0005,
    "command_jitter": 0.0005,
    "loss": 0.005,
    "command_loss": 0.005,
}
MAX_DELAY_ERROR, MAX_ERROR = 0.002, 0.10
TIMESTEP = 0.0005


def hide(seed: int) -> RobotParameters:
    rng = np.random.default_rng(seed)
    joints = {
        name: JointParameters(**{kind: float(rng.uniform(*RANGES[kind])) for kind in KINDS}) for name in GO2.joint_names
    }
    return RobotParameters(robot=GO2.name, joints=joints, delay=float(rng.uniform(*DELAY)))


def fly(truth: RobotParameters, seed: int, seconds: float, path: Path) -> None:
    """An excitation of a twin that hides ``truth``, recorded to ``path``."""
    bus = MemoryBus("computer")
    twin = Twin(
        GO2, bus.join("robot"), quirks=Quirks(parameters=truth, **WIRE), seed=seed, hung=True, timestep=TIMESTEP
    )
    bus.attach(twin.advance)
    robot = UnitreeRobot(hardware_of("unitree-go2"), Connection(bus=bus))
    robot.connect()
    robot.take_over()
    flight = open_flight(path, robot.joint_names, {"robot": GO2.name, "hardware": GO2.hardware.name}, realtime=False)
    motion = Excitation(GO2, robot.joint_names, seconds=seconds, seed=seed)
    report = run_loop(robot, motion, lambda now: (0.0, 0.0, 0.0), seconds, hardware=robot.hardware, flight=flight)
    flight.close()
    if not report.ok:
        raise RuntimeError(f"the excitation tripped: {report.reason}")


def judge(truth: RobotParameters, found: Identification) -> dict[str, float]:
    """Largest error of each kind, relative, and that of the delay [s]."""
    result = {"delay": abs(found.parameters.delay - truth.delay)}
    for kind in KINDS:
        pairs = [
            (getattr(found.parameters.joints[name], kind), getattr(truth.joints[name], kind))
            for name in GO2.joint_names
        ]
        result[kind] = max(abs(guess / real - 1.0) for guess, real in pairs)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[201, 202, 203, 204, 205])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for seed in args.seeds:
        truth = hide(seed)
        with tempfile.TemporaryDirectory() as folder:
            path, started = Path(folder) / "flight.mcap", time.process_time()
            fly(truth, seed, args.seconds, path)
            flown = time.process_time() - started
            found = identify(read_drive_logs(path, GO2), GO2, threads=1)
        errors = judge(truth, found)
        good = errors["delay"] <= MAX_DELAY_ERROR and all(errors[kind] <= MAX_ERROR for kind in KINDS)
        rows.append(
            {
                "seed": seed,
                "passed": good,
                "true_delay_ms": 1e3 * truth.delay,
                "errors": errors,
                **{
                    f"{name}_{when}": float(np.sqrt((getattr(getattr(found, when), name) ** 2).mean()))
                    for name in ("step_pos", "step_vel", "roll_pos", "roll_vel")
                    for when in ("before", "after")
                },
                "missed": found.missed,
                "not_told": found.weak,
                "identify_cpu_s": found.cpu_seconds,
                "fly_cpu_s": flown,
            }
        )
        parts = ", ".join(f"{kind} {100 * errors[kind]:.1f} %" for kind in KINDS)
        row = rows[-1]
        print(
            f"set {seed}: {'pass' if good else 'FAIL'}; delay {1e3 * truth.delay:.1f} ms, off by "
            f"{1e3 * errors['delay']:.2f} ms; largest errors: {parts}; 20 ms ahead "
            f"{1e3 * row['step_pos_before']:.2f} -> {1e3 * row['step_pos_after']:.3f} mrad, 1 s "
            f"{1e3 * row['roll_pos_before']:.1f} -> {1e3 * row['roll_pos_after']:.2f} mrad; "
            f"{found.cpu_seconds:.0f} CPU-s to identify",
            flush=True,
        )
        if args.json is not None:
            args.json.write_text(json.dumps(rows, indent=1))
    passed = sum(row["passed"] for row in rows)
    print(f"{passed} of {len(rows)} sets within {1e3 * MAX_DELAY_ERROR:g} ms and {MAX_ERROR:.0%}")


if __name__ == "__main__":
    main()
