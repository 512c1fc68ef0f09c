"""Public policies side by side: imported, walked through five commands, judged by the suite, on one page.

    python benchmarks/test_house.py --checkouts DIR [--out runs/test_house] [--only NAME ...] [--without-suite]

DIR holds checkouts of the repositories by their names (DIR/unitree_rl_gym, DIR/rl_sar, ...); what is not there is left
out and said. Nothing of them comes with Gaitway. Started again, the script goes on where it stopped. It writes
OUT/test_house.md, OUT/test_house.html and a bundle with its report for each policy.

The five commands are those under which these policies are usually shown: 0.5, 1.0 and -0.5 m/s ahead, 0.5 m/s sideways,
0.8 rad/s of turning, or what the policy's ranges have of them; four robots each, 10 s, of which the first 2 s are left
out. Errors are the mean distance of the velocity from the command, sway included, as others publish them. Suite and
limits are those of ``gaitway validate``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

COMMANDS = {
    "vx 0.5": (0.5, 0, 0),
    "vx 1": (1, 0, 0),
    "vx -0.5": (-0.5, 0, 0),
    "vy 0.5": (0, 0.5, 0),
    "yaw 0.8": (0, 0, 0.8),
}
ROBOTS, SECONDS, RAMP = 4, 10.0, 2.0
GAIT = ["policy", "swing [s]", "steps/s and foot", "clearance [cm]", "slip [m/s]"]
SUITE = ["policy", "verdict", "required scenarios passed", "fails most by", "suite"]
ABOUT = "Mean distance of the velocity from the command [m/s, rad/s]; in brackets, robots of 4 that fell."
RESULT, STRIP = "figures.json", "stride.json"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One published policy: where it lies in the checkouts, and the model that it walks on; None is Gaitway's own."""

    robot: str
    source: str
    model: str | None = None
    options: tuple[str, ...] = ()


G1, GYM = "G1", "unitree_rl_gym/resources/robots"
HOLOSOMA = "holosoma/src/holosoma_inference/holosoma_inference/models/loco"
T1 = "holosoma/src/holosoma/holosoma/data/robots/t1/t1_29dof.xml"
PLAYGROUND = "mujoco_playground/mujoco_playground/experimental/sim2sim/onnx"
ASAP = "20250109_231507-noDR_rand_history_loco_stand_height_noise-decoupled_locomotion-g1_29dof"
XMLS = "mujoco_playground/mujoco_playground/_src/locomotion"
POLICIES = {
    "unitree_rl_lab-g1": Policy(robot=G1, source="unitree_rl_lab/deploy/robots/g1/config/policy/velocity/v0"),
    "unitree_rl_mjlab-g1": Policy(robot=G1, source="unitree_rl_mjlab/deploy/robots/g1/config/policy/velocity/v0"),
    "holosoma-g1-ppo": Policy(robot=G1, source=f"{HOLOSOMA}/g1_29dof/ppo_g1_29dof.onnx"),
    "holosoma-g1-fastsac": Policy(robot=G1, source=f"{HOLOSOMA}/g1_29dof/fastsac_g1_29dof.onnx"),
    "rl_sar-g1": Policy(robot=G1, source="rl_sar/policy/g1/robomimic/locomotion"),
    "unitree_rl_gym-g1-held": Policy(robot=G1, source="unitree_rl_gym/deploy/deploy_mujoco/configs/g1.yaml"),
    "falcon-g1": Policy(robot=G1, source="FALCON/sim2real/models/dec_loco/g1_29dof.onnx"),
    "asap-g1": Policy(robot=G1, source=f"ASAP/sim2real/models/dec_loco/{ASAP}/model_6600.onnx"),
    "openhomie-g1": Policy(robot=G1, source="OpenHomie/HomieDeploy/deploy.onnx"),
    "openwbt-g1": Policy(robot=G1, source="OpenWBT/ckpts/loco.onnx"),
    "legged_rl_lab-g1": Policy(robot=G1, source="legged_rl_lab/deploy/g1_deploy/exported_policy/g1_flat_1.onnx"),
    "unitree_rl_gym-h1": Policy(
        robot="H1", source="unitree_rl_gym/deploy/deploy_mujoco/configs/h1.yaml", model=f"{GYM}/h1/h1.xml"
    ),
    "unitree_rl_gym-h1-ours": Policy(robot="H1", source="unitree_rl_gym/deploy/deploy_mujoco/configs/h1.yaml"),
    "unitree_rl_gym-h1_2": Policy(
        robot="H1-2", source="unitree_rl_gym/deploy/deploy_mujoco/configs/h1_2.yaml",
        model=f"{GYM}/h1_2/h1_2_12dof.xml",
    ),
    "holosoma-t1-ppo": Policy(robot="T1", source=f"{HOLOSOMA}/t1_29dof/ppo_t1_29dof.onnx", model=T1),
    "holosoma-t1-fastsac": Policy(robot="T1", source=f"{HOLOSOMA}/t1_29dof/fastsac_t1_29dof.onnx", model=T1),
    "rl_sar-go2": Policy(robot="Go2", source="rl_sar/policy/go2/robot_lab"),
    "rl_sar-go2-himloco": Policy(robot="Go2", source="rl_sar/policy/go2/himloco"),
    "rl_sar-b2": Policy(
        robot="B2", source="rl_sar/policy/b2/robot_lab", model="unitree_mujoco/unitree_robots/b2/b2.xml"
    ),
    "playground-go1": Policy(robot="Go1", source=f"{PLAYGROUND}/go1_policy.onnx"),
    "playground-g1": Policy(robot=G1, source=f"{PLAYGROUND}/g1_policy.onnx"),
    "playground-t1": Policy(
        robot="T1", source=f"{PLAYGROUND}/t1_policy.onnx", model=f"{XMLS}/t1/xmls/t1_mjx_feetonly.xml"
    ),
    "playground-bh": Policy(
        robot="Berkeley", source=f"{PLAYGROUND}/bh_policy.onnx",
        model=f"{XMLS}/berkeley_humanoid/xmls/berkeley_humanoid_mjx_feetonly.xml",
    ),
    "booster_gym-t1": Policy(
        robot="T1", source="booster_gym/deploy/models/T1.pt", model="booster_gym/resources/T1/T1_locomotion.xml"
    ),
    "lite3": Policy(
        robot="Lite3", source="Lite3_rl_deploy/policy/ppo/policy.onnx",
        model="deep_robotics_model/Lite3/Lite3_mjcf/mjcf/Lite3.xml",
    ),
    "xbot": Policy(
        robot="XBot-L", source="humanoid-gym/logs/XBot_ppo/exported/policies/policy_example.pt",
        model="humanoid-gym/resources/robots/XBot/mjcf/XBot-L.xml",
    ),
}  # fmt: skip


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/test_house"))
    parser.add_argument("--only", nargs="*", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--without-suite", action="store_true", help="the five commands alone")
    options = parser.parse_args()
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    missing = {}
    for name in options.only:
        reason = judged(name, POLICIES[name], options.checkouts, options.out / name, suite=not options.without_suite)
        if reason:
            missing[name] = reason
            print(f"{name}: {reason}")
        write_table(options.out, missing)
    print(f"\n{(options.out / 'test_house.md').read_text()}")


def judged(name: str, policy: Policy, checkouts: Path, folder: Path, *, suite: bool) -> str:
    """Import, five commands and suite of a policy, each unless it was done before; returns why there is no result."""
    bundle = folder / "bundle"
    if not (bundle / "contract.yaml").exists():
        if not (source := checkouts / policy.source).exists():
            return f"{policy.source} is not there"
        model = ["--model", checkouts / policy.model] if policy.model else []
        done = gaitway("import", source, "--out", bundle, *model, *policy.options)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "import.txt").write_text(done.stdout + done.stderr)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the import failed"
    if not (folder / RESULT).exists():
        (folder / RESULT).write_text(json.dumps(five_commands(bundle), indent=1))
        (folder / STRIP).write_text(json.dumps(stride(bundle)))
        print(f"{name}: walked", flush=True)
    if suite and not (bundle / "validation.json").exists():
        done = gaitway("validate", bundle, "--report", folder / "report")
        (folder / "validate.txt").write_text(done.stdout + done.stderr)
        if done.returncode not in (0, 1):
            return done.stderr.strip().splitlines()[-1]
        print(f"{name}: judged", flush=True)
    return ""


def gaitway(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gaitway.cli", *map(str, words)], capture_output=True, text=True)


def five_commands(bundle: Path) -> dict[str, Any]:
    """Falls, errors and gait for each command that the policy's ranges have, means over robots that stood."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
    from gaitway_sim2real.mujoco.plant import build_plant
    from gaitway_sim2real.trial.conditions import Conditions
    from gaitway_sim2real.trial.simulate import simulate
    from gaitway_velocity.gait import gait_metrics
    from gaitway_velocity.steady import steady_metrics

    contract = Contract.load(bundle)
    low, high = np.array(contract.command_ranges).T
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", gait=True)
    rng, found = np.random.default_rng(0), {}
    for name, wanted in COMMANDS.items():
        command = np.clip(np.array(wanted, float), low, high)
        if np.abs(command).max() < 0.1:
            continue
        steps = round(SECONDS / contract.control_dt)
        conditions = Conditions(
            command=np.tile(command, (steps, ROBOTS, 1)), push=np.zeros((steps, ROBOTS, 2)),
            friction=np.full(ROBOTS, 0.8), payload=np.zeros(ROBOTS), strength=np.ones(ROBOTS), delay=np.zeros(ROBOTS),
            yaw=rng.uniform(-np.pi, np.pi, ROBOTS), joint_offset=np.zeros((ROBOTS, contract.num_joints)),
            velocity=np.zeros((ROBOTS, 2)),
        )  # fmt: skip
        rec = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, ROBOTS), conditions)
        assert rec.feet is not None
        steady, gait = steady_metrics(rec), gait_metrics(rec, rec.feet)
        stood = rec.alive.all(0)
        turning = name.startswith("yaw")
        found[name] = {
            "command": command.tolist(),
            "falls": int((~stood).sum()),
            "error": mean(held_error(rec, turning), stood),
            "bias": mean(steady["yaw_vel_bias" if turning else "lin_vel_bias"], stood),
            **{key: mean(gait[key], stood) for key in ("swing_time", "step_rate", "clearance", "slip")},
        }
    return {"feet": list(plant.foot_names), "height": plant.stand_height, "mass": plant.mass, "commands": found}


def held_error(rec: Any, turning: bool) -> np.ndarray:
    """Mean distance of each robot's velocity from its command, moment by moment, after the ramp, (N,)."""
    after = slice(round(RAMP / rec.control_dt), None)
    if turning:
        return np.asarray(np.abs(rec.ang_vel[after, :, 2] - rec.command[after, :, 2]).mean(0))
    return np.asarray(np.linalg.norm(rec.lin_vel[after, :, :2] - rec.command[after, :, :2], axis=-1).mean(0))


def stride(bundle: Path) -> list[tuple[str, str]]:
    """Captions and pictures (base64 of JPEG) of one stride; empty where nothing can be rendered or the robot fell."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
    from gaitway_sim2real.mujoco.camera import RenderingError
    from gaitway_sim2real.mujoco.plant import build_plant
    from gaitway_sim2real.trial.video import film_strip
    from gaitway_velocity.suite import SUITE as VELOCITY

    contract, model = Contract.load(bundle), bundle / "robot.xml"
    plant = build_plant(contract, model, model, gait=True)
    shown = VELOCITY.showcase(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 1))
    try:
        return [
            (text, b64encode(jpeg).decode())
            for text, jpeg in film_strip(shown, VELOCITY.strip(shown), contract, model, model)
        ]
    except RenderingError as error:
        print(error)
        return []


def mean(values: np.ndarray, stood: np.ndarray) -> float | None:
    known = values[stood & np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def write_table(out: Path, missing: Mapping[str, str]) -> None:
    """Write the results so far, as Markdown and as a page."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.pages.model import NUMBER, Head, Report, Section, Table, heading
    from gaitway_sim2real.trial.plots import pictures

    rows, gaits, verdicts, failures, strips = [], [], [], [], []
    for name, policy in POLICIES.items():
        folder = out / name
        if not (folder / RESULT).exists():
            continue
        contract = Contract.load(folder / "bundle")
        found = json.loads((folder / RESULT).read_text())
        origin = contract.origin or {}
        walks = found["commands"]
        rows.append([name, policy.robot, "its own" if policy.model else "Gaitway's", origin.get("licence", ""),
                     *(shown(walks.get(command)) for command in COMMANDS)])  # fmt: skip
        if walk := walks.get("vx 0.5"):
            gaits.append([name, *(number(walk[key], scale) for key, scale in
                                  (("swing_time", 1), ("step_rate", 1), ("clearance", 100), ("slip", 1)))])  # fmt: skip
        if shots := json.loads((folder / STRIP).read_text()):
            strips += [
                heading(name),
                *pictures("One stride, walking forward", [(text, b64decode(jpeg)) for text, jpeg in shots]),
            ]
        if (path := folder / "bundle/validation.json").exists():
            verdict = json.loads(path.read_text())
            judged = [s for s in verdict["scenarios"] if s["required"]]
            failed = [s for s in judged if not s["passed"]]
            passed = f"{len(judged) - len(failed)} of {len(judged)}"
            level = verdict.get("level", "")
            verdicts.append(
                [
                    name,
                    verdict["verdict"] + f", {level}" * bool(level),
                    passed,
                    reasons(failed),
                    verdict["suite_version"],
                ]
            )
            failures.append((name, [s["name"] for s in failed]))
    head = Head("Test house", "Public policies, side by side", f"{len(rows)} policies, {len(verdicts)} judged")
    columns, kinds = ["policy", "robot", "model", "licence", *COMMANDS], ["", "", "", "", *[NUMBER] * len(COMMANDS)]
    report = Report(
        "Public policies, side by side",
        head,
        Section("Five commands", ABOUT, Table(columns, rows, kinds)),
        Section("Gait at vx 0.5", Table(GAIT, gaits)),
        Section("One stride", *strips),
        Section("Suite", Table(SUITE, verdicts, ["", "", NUMBER, "", ""])),
        Section("Failed scenarios", {name: ", ".join(failed) for name, failed in failures if failed}),
        Section("Not judged", dict(missing)),
    )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "test_house.md").write_text(report.markdown())
    (out / "test_house.html").write_text(report.html())


def reasons(failed: Sequence[Mapping[str, Any]]) -> str:
    """The three measures that most of these scenarios failed by, with how many."""
    from gaitway_velocity.metrics import METRICS

    count = Counter(check["metric"] for scenario in failed for check in scenario["checks"] if not check["passed"])
    return ", ".join(f"{METRICS[name].title.lower()} ({number})" for name, number in count.most_common(3))


def shown(walk: Mapping[str, Any] | None) -> str:
    if walk is None:
        return "not in its ranges"
    fell = f" ({walk['falls']} fell)" if walk["falls"] else ""
    return ("-" if walk["error"] is None else f"{walk['error']:.2f}") + fell


def number(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{value * scale:.2f}"


if __name__ == "__main__":
    main()
