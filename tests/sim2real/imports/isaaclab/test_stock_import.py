"""Isaac Lab's own velocity tasks, imported: the same signals by name give the same joint targets by name.

The runs and what their policies answer come from Isaac Lab 2.3.2 and rsl_rl 3.0.1 themselves; they are written by
``make test-isaaclab`` (``tests/peers/isaaclab/test_stock_runs.py``).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_sim2real.imports.isaaclab.importer import read_run
from tree import ROOT

RUNS = ROOT / ".venv-isaaclab" / "stock_runs"
ROBOTS = ("Anymal-B", "Anymal-C", "Anymal-D", "Unitree-Go1", "Unitree-Go2", "Unitree-A1", "H1", "G1")
FLAT = [f"Isaac-Velocity-Flat-{robot}-v0" for robot in ROBOTS]
ROUGH = [f"Isaac-Velocity-Rough-{robot}-v0" for robot in ROBOTS]
TOLERANCE = 1e-5

pytestmark = pytest.mark.skipif(
    not RUNS.is_dir(), reason="no runs of Isaac Lab's own tasks here: make test-isaaclab writes them"
)


def reference(name: str) -> dict[str, np.ndarray]:
    with np.load(RUNS / name / "reference.npz") as data:
        return dict(data)


def by_name(values: np.ndarray, names: np.ndarray, wanted: tuple[str, ...]) -> np.ndarray:
    """Columns of ``values`` (..., J), which are ``names``, in the order of ``wanted``."""
    assert set(names) == set(wanted)
    return values[..., [list(names).index(name) for name in wanted]]


def error_of(
    step, inputs: tuple[str, ...], joints: tuple[str, ...], state_dim: int, seen: dict[str, np.ndarray]
) -> float:
    """Largest difference of joint targets [rad] over a sequence; ``step`` maps inputs to target and next state."""
    names = seen["joint_names"]
    state, worst = np.zeros((seen["gyro"].shape[1], state_dim), np.float32), 0.0
    for k in range(len(seen["gyro"])):
        feed = {
            name: by_name(seen[name][k], names, joints) if name in ("joint_pos", "joint_vel") else seen[name][k]
            for name in inputs
            if name != "state"
        }
        target, state = step({**feed, "state": state})
        worst = max(worst, float(np.abs(target - by_name(seen["target"][k], names, joints)).max()))
    return worst


def error_of_module(run, seen: dict[str, np.ndarray]) -> float:
    policy = SignalPolicy(run.task, run.actor).eval()

    def step(feed):
        with torch.inference_mode():
            target, _, state = policy(*(torch.from_numpy(feed[name]) for name in policy.input_widths))
        return target.numpy(), state.numpy()

    return error_of(step, tuple(policy.input_widths), run.task.robot.joint_names, policy.state_dim, seen)


def error_of_bundle(bundle: Path, seen: dict[str, np.ndarray]) -> float:
    contract, session = Contract.load(bundle), ort.InferenceSession(bundle / "policy.onnx")

    def step(feed):
        return session.run(["joint_pos_target", "next_state"], feed)

    return error_of(step, contract.input_names, contract.joint_names, contract.state_dim, seen)


@pytest.mark.parametrize("name", ["Isaac-Velocity-Flat-Unitree-Go2-v0", "recurrent", "edited"])
def test_the_bundle_answers_as_isaac_lab_did(name, tmp_path):
    run = read_run(RUNS / name)
    bundle = run.export(tmp_path / "bundle")
    assert error_of_bundle(bundle, reference(name)) <= TOLERANCE
    assert Contract.load(bundle).estimated == ("base_lin_vel",)


@pytest.mark.parametrize("name", [*FLAT, *ROUGH, "reordered"])
def test_the_module_answers_as_isaac_lab_did(name):
    run = read_run(RUNS / name)
    assert ("height_scan" in run.estimated) == ("Rough" in name)
    seen = reference(name)
    assert error_of_module(run, seen) <= TOLERANCE
    if name in FLAT:
        assert run.estimated == ("root_lin_vel_b",)
        assert run.learner == "rsl_rl 3.x" and run.iteration == 300
        assert run.joint_order == "physx (sim.physx)"
        assert run.task.robot.joint_names == tuple(seen["joint_names"])
        assert sum(run.observation.widths.values()) == seen["observation"].shape[2]
        assert run.task.timing.step_dt == pytest.approx(0.02)


@pytest.mark.parametrize("name", ["Isaac-Velocity-Flat-Anymal-C-v0", "Isaac-Velocity-Flat-G1-v0", "reordered"])
def test_the_comparison_notices_a_wrong_joint_order(name):
    assert error_of_module(read_run(RUNS / name, joint_order="newton"), reference(name)) > 100 * TOLERANCE


def test_variants_are_what_they_are_meant_to_be():
    """Each of the edited runs goes through the parts that no stock task needs."""
    recurrent, edited, reordered = (read_run(RUNS / name) for name in ("recurrent", "edited", "reordered"))
    assert recurrent.actor.memory_size == 2 * 2 * 48
    assert recurrent.task.observations["policy"].history_length == 3
    assert recurrent.task.actions.raw_clip == 0.03
    assert len(edited.action_order) == 12 and edited.task.robot.num_joints == 37
    assert edited.observation.widths["joint_vel"] == 3 * 4 and edited.observation.widths["projected_gravity"] == 3 * 2
    assert edited.task.actions.clip is not None
    assert reordered.joint_order == "IO_descriptors.yaml"
