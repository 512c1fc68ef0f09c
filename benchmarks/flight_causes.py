"""Flights of twins with a planted fault: which cause does ``gaitway diagnose --flight`` name?

    python benchmarks/flight_causes.py [--set report|tune] [--jobs 2] [--kinds payload,delay] [--out runs/flight_causes]

Each flight is one of a Go2 with the bundle that comes with Gaitway, in simulated time, through the real controller and
its checks. The diagnosing code gets the file and the bundle. Thresholds were tuned on the set ``tune`` alone; the table
of the documentation is that of ``report``, which has other sizes, joints, seeds and commands. Started again, the script
goes on where it stopped. It writes OUT/SET.jsonl and prints the confusion table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.control.commands import scripted
from gaitway_sim2real.diagnose.simulated import fly
from gaitway_sim2real.digital_twin.faults import Fault
from gaitway_sim2real.digital_twin.quirks import SENSORS, Quirks
from gaitway_sim2real.digital_twin.sensors import Reading, rotated
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.hardware import HARDWARE
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

BUNDLE = Path(__file__).parents[1] / "gaitway/demo/bundles/go2"
HARD = HARDWARE["unitree-go2"]
BASE_MASS = 6.921  # [kg], of go2.xml
SECONDS = 6.0
TAKES_OVER = 2.5  # [s] of the twin's time, when faults of a moment start: the policy has just begun


@dataclass(frozen=True)
class Plant:
    """A fault of a twin; ``cause`` is the right answer, "none" of a clean flight."""

    kind: str
    size: Any
    cause: str
    quirks: Callable[[Quirks], Quirks] = lambda q: q
    alter: Callable[[Twin], None] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind} {self.size}"


def joints(**values: float) -> Callable[[Quirks], Quirks]:
    """The same hidden parameters for all joints."""
    found = {name: JointParameters(**values) for name in GO2.joint_names}
    return lambda q: replace(q, parameters=RobotParameters(robot="go2", joints=found))


def one_joint(joint: str, **values: float) -> Callable[[Quirks], Quirks]:
    parameters = RobotParameters(robot="go2", joints={joint: JointParameters(**values)})
    return lambda q: replace(q, parameters=parameters)


def payload(mass: float) -> Callable[[Quirks], Quirks]:
    return lambda q: replace(q, parameters=RobotParameters(robot="go2", base_mass=BASE_MASS + mass))


def slippery(friction: float) -> Callable[[Twin], None]:
    def alter(twin: Twin) -> None:
        twin.body.model.geom_friction[:, 0] = friction

    return alter


def biased_encoder(joint: str, offset: float) -> Callable[[Twin], None]:
    def alter(twin: Twin) -> None:
        twin.drives.encoder_bias[twin.joint_names.index(joint)] = offset

    return alter


def reading(change: Callable[[Twin, Reading], None]) -> Callable[[Twin], None]:
    """Change every reading of the sensors before it is sent."""

    def alter(twin: Twin) -> None:
        read = twin.sensors.read

        def changed(tick: int, dt: float) -> Reading:
            found = read(tick, dt)
            change(twin, found)
            return found

        twin.sensors.read = changed

    return alter


def crooked_imu(angles: tuple[float, float, float]) -> Callable[[Twin], None]:
    """The IMU is turned by a rotation vector [rad] against the base."""

    def change(twin: Twin, found: Reading) -> None:
        x, y, z = angles
        matrix = np.eye(3) - np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])  # of the inverse, to first order
        u, _, v = np.linalg.svd(matrix)
        found.quat_wxyz = rotated(found.quat_wxyz, np.array(angles))
        found.gyro, found.accelerometer = u @ v @ found.gyro, u @ v @ found.accelerometer

    return reading(change)


def gyro_bias(bias: tuple[float, float, float]) -> Callable[[Twin], None]:
    def change(twin: Twin, found: Reading) -> None:
        found.gyro = found.gyro + np.array(bias)

    return reading(change)


def fast_clock(rate: float) -> Callable[[Twin], None]:
    def alter(twin: Twin) -> None:
        start = twin.time
        twin.faults.clock = lambda now: start + rate * (now - start)

    return alter


def swapped_commands(first: str, second: str) -> Callable[[Twin], None]:
    """Two motors get each other's targets, once the policy drives."""

    def alter(twin: Twin) -> None:
        decode, order = twin.side.decode, np.arange(len(twin.joint_names))
        i, j = twin.joint_names.index(first), twin.joint_names.index(second)
        order[[i, j]] = j, i

        def changed(payload: bytes) -> Any:
            command = decode(payload)
            if command is None or twin.time < TAKES_OVER:
                return command
            return replace(command, q=command.q[order])

        twin.side.decode = changed

    return alter


def fault(name: Fault, joint: str | None) -> Callable[[Twin], None]:
    return lambda twin: twin.inject(name, after=TAKES_OVER, joint=joint) and None


def leg(joint: str) -> str:
    return f"{joint}_joint"


def plants(which: str) -> list[Plant]:
    """Twelve kinds and more, three sizes each, and clean flights."""
    tune = which == "tune"

    def pick(tuned: tuple[Any, ...], reported: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuned if tune else reported

    found = [Plant("clean", seed, "none") for seed in range(8 if tune else 30)]
    found += [
        Plant("clean, bare sensors", seed, "none", lambda q: replace(Quirks())) for seed in range(2 if tune else 4)
    ]
    found += [
        Plant("clean, lossy wire", seed, "none", lambda q: replace(
            q, loss=0.01, jitter=0.003, command_loss=0.01, command_jitter=0.003))
        for seed in range(4 if tune else 16)
    ]  # fmt: skip
    for mass in pick((1.5, 3.0, 5.0), (2.0, 4.0, 6.0)):
        found.append(Plant("payload [kg]", mass, "payload", payload(mass)))
    for mu in pick((0.15, 0.22, 0.3), (0.12, 0.18, 0.25)):
        found.append(Plant("ground friction", mu, "ground_friction", alter=slippery(mu)))
    for dry in pick((0.7, 1.2, 1.8), (0.6, 1.0, 1.5)):
        found.append(Plant("joint friction [N m]", dry, "joint_friction", joints(friction=dry)))
    for late in pick((0.008, 0.013, 0.02), (0.006, 0.01, 0.016)):
        found.append(Plant("state delay [s]", late, "delay", lambda q, late=late: replace(q, latency=late)))
        found.append(Plant("command delay [s]", late, "delay", lambda q, late=late: replace(q, command_latency=late)))
    for scale in pick((0.6, 0.8, 1.3), (0.7, 0.85, 1.5)):
        found.append(Plant("stiffness", scale, "gains", joints(stiffness_scale=scale)))
    for scale in pick((0.4, 1.6, 3.0), (0.5, 1.4, 2.5)):
        found.append(Plant("damping", scale, "gains", joints(damping_scale=scale)))
    for scale in pick((0.6, 0.75, 0.85), (0.65, 0.8, 0.88)):
        found.append(Plant("strength of all motors", scale, "motor_strength", joints(strength=scale)))
    for joint, scale in pick(
        (("FL_calf", 0.5), ("RR_thigh", 0.7), ("FR_hip", 0.6)), (("RL_calf", 0.6), ("FR_thigh", 0.75), ("RR_hip", 0.5))
    ):
        found.append(
            Plant("strength of one motor", (joint, scale), "motor_strength", one_joint(leg(joint), strength=scale))
        )
    for armature in pick((0.025, 0.045, 0.08), (0.03, 0.05, 0.07)):
        found.append(Plant("armature [kg m^2]", armature, "armature", joints(armature=armature)))
    for joint, offset in pick(
        (("FL_calf", 0.06), ("RR_thigh", -0.1), ("FR_hip", 0.15)),
        (("RL_calf", -0.08), ("FR_thigh", 0.05), ("RR_hip", 0.12)),
    ):
        found.append(
            Plant("encoder zero [rad]", (joint, offset), "encoder_offset", alter=biased_encoder(leg(joint), offset))
        )
    for angles in pick(
        ((0.05, 0.0, 0.0), (0.0, 0.1, 0.0), (-0.1, 0.08, 0.0)),
        ((-0.06, 0.0, 0.0), (0.0, -0.08, 0.0), (0.05, 0.12, 0.0)),
    ):
        found.append(Plant("IMU mounting [rad]", angles, "imu_mounting", alter=crooked_imu(angles)))
    for bias in pick(
        ((0.05, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, -0.2)), ((0.0, -0.06, 0.0), (0.0, 0.0, 0.12), (0.25, 0.0, 0.0))
    ):
        found.append(Plant("gyro bias [rad/s]", bias, "gyro_bias", alter=gyro_bias(bias)))
    for pair in pick(
        (("FL_hip", "FR_hip"), ("RL_thigh", "RR_thigh"), ("FL_thigh", "FL_calf")),
        (("RL_hip", "RR_hip"), ("FR_thigh", "FL_thigh"), ("RL_calf", "RR_calf")),
    ):
        found.append(Plant("command order", pair, "joint_order", alter=swapped_commands(*map(leg, pair))))
    for joint in pick(("FL_hip", "RR_thigh", "FR_calf"), ("RL_hip", "FR_thigh", "RR_calf")):
        found.append(Plant("motor sign", joint, "sign", alter=fault(Fault.MOTOR_SIGN, leg(joint))))
        found.append(Plant("encoder sign", joint, "sign", alter=fault(Fault.JOINT_SIGN, leg(joint))))
        found.append(Plant("dead motor", joint, "dead_motor", alter=fault(Fault.MOTOR, leg(joint))))
        found.append(Plant("stuck motor", joint, "stuck_motor", alter=fault(Fault.MOTOR_STUCK, leg(joint))))
    for rate in pick((0.95, 1.02, 1.06), (0.97, 1.04, 1.2)):
        found.append(Plant("clock rate", rate, "clock", alter=fast_clock(rate)))
    for factor in pick((4.0, 6.0, 10.0), (5.0, 8.0, 12.0)):
        found.append(Plant("sensor noise", factor, "noise", lambda q, f=factor: replace(
            q, encoder_noise=f * q.encoder_noise, velocity_noise=f * q.velocity_noise, gyro_noise=f * q.gyro_noise,
        )))  # fmt: skip
    for loss in pick((0.06, 0.1, 0.2), (0.05, 0.12, 0.18)):
        found.append(Plant("lost states", loss, "lost_states", lambda q, loss=loss: replace(q, loss=loss)))
    return found


def script(which: str, seed: int) -> list[tuple[float, tuple[float, ...]]]:
    """Commands of a flight: all go forward, turn and step aside, each set and seed in its own way."""
    rng = np.random.default_rng([seed, which == "tune"])
    vx, vy, yaw = rng.uniform(0.3, 0.7), rng.uniform(-0.4, 0.4), rng.uniform(-0.6, 0.6)
    return [(0.0, (vx, 0.0, 0.0)), (2.0, (vx, 0.0, yaw)), (3.5, (0.3, vy, 0.0)), (5.0, (0.0, 0.0, 0.0))]


def record(which: str, plant: Plant, out: Path) -> None:
    seed = zlib.crc32(f"{which} {plant.name}".encode())
    fly(
        out, BUNDLE, HARD, scripted(script(which, seed)), SECONDS,
        quirks=plant.quirks(SENSORS), seed=seed, alter=plant.alter,
    )  # fmt: skip


def trial(which: str, number: int, keep: Path | None, simulate: bool) -> dict[str, Any]:
    """Fly and diagnose one."""
    from gaitway_sim2real.diagnose.flight import diagnose_flight

    plant, begin = plants(which)[number], time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = (keep or Path(folder)) / f"{which}-{number}.mcap"
        if not path.exists():
            record(which, plant, path)
        flown = time.process_time()
        try:
            found = diagnose_flight(BUNDLE, path, simulate=simulate)
            causes, levels = list(found.causes), [finding.level for finding in found.findings]
            verdict, text = found.verdict, found.summary()
        except ValueError as error:
            causes, levels, verdict, text = [], [], "refused", str(error)
    named = causes or ["none" if verdict == "no fault" else verdict]
    return {
        "number": number, "kind": plant.kind, "size": str(plant.size), "cause": plant.cause, "named": named,
        "levels": levels, "right": named == [plant.cause], "text": text,
        "cpu": [round(flown - begin, 1), round(time.process_time() - flown, 1)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="report", choices=("report", "tune"), dest="which")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default="", help="only kinds that contain one of these words, with commas between")
    parser.add_argument("--out", type=Path, default=Path("runs/flight_causes"))
    parser.add_argument("--keep", action="store_true", help="keep the flights in OUT, and use those that are there")
    parser.add_argument("--no-simulation", action="store_true", help="without counterfactuals, in a file of its own")
    options = parser.parse_args()
    simulate = not options.no_simulation
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{options.which}{'' if simulate else '-read'}.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    words = [word for word in options.kinds.split(",") if word]
    done, wanted = {row["number"] for row in rows}, plants(options.which)
    todo = [
        n for n, plant in enumerate(wanted)
        if n not in done and (not words or any(word in plant.kind for word in words))
    ]  # fmt: skip
    todo.sort(key=lambda n: 37 * n % len(wanted))  # a run that is cut short has some of every kind
    with ProcessPoolExecutor(options.jobs) as pool, file.open("a", encoding="utf-8") as out:
        futures = [pool.submit(trial, options.which, n, options.out if options.keep else None, simulate) for n in todo]
        for future in as_completed(futures):
            row = future.result()
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
            print("ok   " if row["right"] else "WRONG", row["kind"], row["size"], "->", *row["named"], *row["levels"],
                  row["cpu"], flush=True)  # fmt: skip
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Confusion table: one row a kind, what was named and how often."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["number"]):
        kinds[row["kind"]].append(row)
    lines = ["| planted | sizes | named | right | evidence |", "|---|---|---|---|---|"]
    for kind, found in kinds.items():
        named = Counter(" + ".join(row["named"]) for row in found)
        levels = Counter(level for row in found for level in row["levels"])
        sizes = f"{len(found)} seeds" if found[0]["cause"] == "none" else ", ".join(row["size"] for row in found)
        what, evidence = (", ".join(f"{n} {c}" for n, c in counts.items()) for counts in (named, levels))
        right = f"{sum(row['right'] for row in found)} of {len(found)}"
        lines.append(f"| {kind} | {sizes} | {what} | {right} | {evidence} |")
    faults, clean = ([r for r in rows if (r["cause"] == "none") == none] for none in (False, True))
    alarms = sum(row["named"] != ["none"] for row in clean)
    rightly = sum(row["right"] for row in faults)
    cpu = np.mean([row["cpu"] for row in rows], axis=0) if rows else np.zeros(2)
    lines.append(
        f"\nnamed rightly {rightly} of {len(faults)} ({rightly / max(1, len(faults)):.1%}); false alarms {alarms} of "
        f"{len(clean)}; CPU {cpu[0]:.1f} s to fly, {cpu[1]:.1f} s to diagnose"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
