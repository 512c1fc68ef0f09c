"""Imported policies against their sources' own runners: the largest differences of observation terms and joint targets.

    python benchmarks/import_runners.py --checkouts DIR [--only booster_gym ...] [--steps 240]

DIR holds checkouts by their repositories' names: mujoco_playground, booster_gym, humanoid-gym, unitree_rl_gym,
holosoma, FALCON, ASAP, OpenHomie, OpenWBT, legged_rl_lab. Their runners are executed as they are, with their
simulators, viewers and SDKs replaced by stand-ins that give both sides the same states; they load TorchScript with
torch.jit.load, which runs code of the archive. So point this only at checkouts that you trust. Commands change every
second, and rest in between.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gaitway_files.graphs import open_graph
from gaitway_sim2real.bundle.golden import Signals, plausible_signals
from gaitway_sim2real.imports import families
from gaitway_sim2real.imports.described_policy import DescribedPolicy
from gaitway_sim2real.imports.description import Description
from gaitway_sim2real.imports.graph import memory_of, open_network
from gaitway_sim2real.imports.policy import Observer
from runners.called import asap, booster_gym, falcon, holosoma, openhomie, openwbt
from runners.simulated import humanoid_gym, legged_rl_lab, playground, unitree_rl_gym
from runners.stands import Case, Steps

LIMIT = 1e-5
"""Of each number. Last actions are taken times the action's scale, in rad: they are the targets of the step before."""
PLAY = "mujoco_playground/experimental/sim2sim/onnx/{}_policy.onnx"
SCENE = "mujoco_playground/_src/locomotion/{}/xmls/scene_mjx_feetonly_flat_terrain.xml"
ASAP = (
    "sim2real/models/dec_loco/20250109_231507-noDR_rand_history_loco_stand_height_noise-decoupled_locomotion-g1_29dof/"
    "model_6600.onnx"
)
LOCO = "src/holosoma_inference/holosoma_inference/models/loco/{}/{}.onnx"
CASES = (
    *(Case("mujoco_playground", PLAY.format(name), SCENE.format(folder), playground, name)
      for name, folder in (("go1", "go1"), ("g1", "g1"), ("t1", "t1"), ("bh", "berkeley_humanoid"),
                           ("apollo", "apollo"))),
    Case("booster_gym", "deploy/models/T1.pt", "resources/T1/T1_serial.xml", booster_gym),
    Case("humanoid-gym", "logs/XBot_ppo/exported/policies/policy_example.pt", "resources/robots/XBot/mjcf/XBot-L.xml",
         humanoid_gym),
    *(Case("unitree_rl_gym", f"deploy/deploy_mujoco/configs/{name}.yaml", None, unitree_rl_gym)
      for name in ("g1", "h1")),
    *(Case("holosoma", LOCO.format("g1_29dof", f"{kind}_g1_29dof"), None, holosoma, "g1_29dof")
      for kind in ("ppo", "fastsac")),
    Case("FALCON", "sim2real/models/dec_loco/g1_29dof.onnx", None, falcon),
    Case("ASAP", ASAP, None, asap),
    Case("OpenHomie", "HomieDeploy/deploy.onnx", None, openhomie),
    Case("OpenWBT", "ckpts/loco.onnx", None, openwbt),
    Case("legged_rl_lab", "deploy/g1_deploy/exported_policy/g1_flat_1.onnx", None, legged_rl_lab),
)  # fmt: skip


def ours(policy: DescribedPolicy, signals: Signals) -> Steps:
    """Outputs of the bundle's graph on the same signals, and the observations from its first half."""
    d, joints = policy.robot.description, policy.robot.robot.joint_names
    network = open_network(policy.found.graph, d.network)
    observer = Observer(d, joints, memory_of(network)).eval()
    with tempfile.TemporaryDirectory() as folder:
        graph = policy.export(Path(folder) / "bundle") / "policy.onnx"
        session = open_graph(graph.read_bytes(), graph, own=True)
    state = np.zeros((1, sum(observer.widths)), np.float32)
    steps: Steps = []
    for k in range(len(signals["gyro"])):
        feed = {name: signals[name][k] for name in observer.input_widths if name != "state"} | {"state": state}
        with torch.no_grad():
            observation, *_ = observer(*(torch.from_numpy(feed[name]) for name in observer.input_widths))
        targets, state = session.run(["joint_pos_target", "next_state"], feed)
        steps.append((observation[0].numpy(), dict(zip(joints, targets[0].tolist(), strict=True))))
    return steps


def spans(d: Description) -> dict[str, list[int]]:
    """Places of each term in the observation."""
    places: dict[str, list[int]] = {}
    start = 0
    for term in d.observation:
        width, frames = d.width(term), len(d.ages(term))
        if d.history.by == "step":
            at = [f * d.frame_dim + start + i for f in range(frames) for i in range(width)]
            start += width
        else:
            at = [start + i for i in range(width * frames)]
            start += width * frames
        places.setdefault(term.term, []).extend(at)
    return places


def compare(case: Case, checkouts: Path, steps: int) -> bool:
    """Print one case; whether all differences are within the limit."""
    checkout = checkouts / case.checkout
    model = None if case.model is None else checkout / case.model
    family, path = families.find(checkout / case.policy)
    with tempfile.TemporaryDirectory() as folder:
        if model is not None and b"sensornoise" in model.read_bytes():  # an attribute that MuJoCo no longer knows
            copy = shutil.copytree(model.parent.parent, Path(folder) / "robot") / model.parent.name / model.name
            copy.write_bytes(model.read_bytes().replace(b'sensornoise="enable"', b""))
            model = copy
        policy = family.reader().load(path, families.Options(model=model))
    assert isinstance(policy, DescribedPolicy)
    d, robot = policy.robot.description, policy.robot.robot
    ranges = np.array(list(d.command.ranges.values()))
    signals = plausible_signals(
        np.array(robot.default_joint_pos), ranges, steps=steps, batch=1, step_dt=d.control_dt, seed=1,
        estimated={"base_lin_vel": 3},
    )  # fmt: skip
    signals["command"][np.arange(steps) * d.control_dt % 3.3 >= 1.9] = 0.0  # long enough to slow down and rest
    mine = ours(policy, signals)
    theirs = case.run(checkout, case, signals, robot.joint_names, d)
    assert len(mine) == len(theirs) == steps
    seen = [np.stack([step[0] for step in side]) for side in (mine, theirs)]
    gaps = np.abs(seen[0] - seen[1])
    if actions := spans(d).get("last_action"):
        raw = float(gaps[:, actions].max())
        gaps[:, actions] *= np.tile(d.action.scale, len(actions) // len(d.action.scale))
    gap = gaps.max(0)
    shown = {term: float(gap[places].max()) for term, places in spans(d).items()}
    moved = [name for name in d.joints if name in theirs[0][1]]
    targets = [max(abs(a[1][name] - b[1][name]) for name in moved) for a, b in zip(mine, theirs, strict=True)]
    shown["targets"] = max(targets)
    good = max(shown.values()) <= LIMIT
    print(f"{case.checkout} {Path(case.policy).stem}: {'equal' if good else 'DIFFERENT'}, {steps} steps")
    for term, value in shown.items():
        print(f"    {term:20} {value:.1e}" + (f"  (raw {raw:.1e})" if term == "last_action" else ""))
    if not good:
        rows = gaps.max(1)
        print(f"    steps of observations above {LIMIT:g}: {np.flatnonzero(rows > LIMIT)[:20].tolist()}")
        print(f"    steps of targets above {LIMIT:g}: {np.flatnonzero(np.array(targets) > LIMIT)[:20].tolist()}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--steps", type=int, default=240)
    options = parser.parse_args()
    torch.set_num_threads(1)
    good = True
    for case in CASES:
        if not (options.checkouts / case.checkout).is_dir():
            print(f"{case.checkout}: no such checkout, left out")
        elif not options.only or case.checkout in options.only:
            good &= compare(case, options.checkouts, options.steps)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
