"""The on-board half computes what was exported, and refuses everything else."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_onboard.bundle.policy import OnboardPolicy, SignalError
from gaitway_onboard.interface import Signals
from onnx import numpy_helper

Golden = dict[str, np.ndarray]


def signals_at(golden: Golden, step: int, order: np.ndarray | slice = slice(None), **changes: Any) -> Signals:
    values = {
        "joint_pos": golden["joint_pos"][step][order],
        "joint_vel": golden["joint_vel"][step][order],
        "imu_quat_wxyz": golden["imu_quat_wxyz"][step],
        "gyro": golden["gyro"][step],
        "stamp": 0.0,
    }
    return Signals(**{**values, **changes})


def test_steps_reproduce_the_recording_in_any_joint_order(bundle: Path, golden: Golden) -> None:
    order = np.random.default_rng(0).permutation(12)
    names = Contract.load(bundle).joint_names
    policy = OnboardPolicy(bundle, [names[i] for i in order])
    for step in range(len(golden["state"])):
        if golden["reset"][step]:
            policy.reset()
        targets = policy.step(signals_at(golden, step, order), golden["command"][step])
        np.testing.assert_allclose(targets, golden["joint_pos_target"][step][order], atol=1e-6)
        np.testing.assert_allclose(policy.action, golden["action"][step], atol=1e-6)


def test_returned_targets_are_not_overwritten_by_the_next_step(bundle: Path, golden: Golden) -> None:
    policy = OnboardPolicy(bundle)
    first = policy.step(signals_at(golden, 0), golden["command"][0])
    kept = first.copy()
    policy.step(signals_at(golden, 5), golden["command"][5])
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"LF_HAA": "left_front_hip"}, "lacks LF_HAA.*does not know left_front_hip"),
        ({"LF_HAA": None}, "lacks LF_HAA"),
        ({"LF_HAA": "LF_HFE"}, "lacks LF_HAA.*LF_HFE twice"),
    ],
)
def test_unknown_missing_and_double_joints_are_refused_by_name(
    bundle: Path, rename: dict[str, str | None], message: str
) -> None:
    names = [rename.get(name, name) for name in Contract.load(bundle).joint_names]
    with pytest.raises(BundleError, match=message):
        OnboardPolicy(bundle, [name for name in names if name is not None])


def test_an_extra_joint_is_refused(bundle: Path) -> None:
    with pytest.raises(BundleError, match="does not know gripper"):
        OnboardPolicy(bundle, [*Contract.load(bundle).joint_names, "gripper"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_pos": np.zeros(11)}, r"joint_pos has shape \(11,\), expected \(12,\)"),
        ({"joint_pos": np.zeros(1)}, r"joint_pos has shape \(1,\)"),
        ({"gyro": np.zeros((1, 3))}, r"gyro has shape \(1, 3\), expected \(3,\)"),
        ({"joint_vel": np.array([0.0] * 5 + [np.nan] + [0.0] * 6)}, r"joint_vel\[5\] \(LH_KFE\) = nan"),
        ({"gyro": np.array([0.0, np.inf, 0.0])}, r"gyro\[1\] = inf"),
        ({"joint_vel": np.full(12, -1e20)}, r"joint_vel\[0\] \(LF_HAA\) = -1e\+20"),
        ({"imu_quat_wxyz": np.zeros(4)}, "not a unit quaternion"),
        ({"imu_quat_wxyz": np.array([2.0, 0.0, 0.0, 0.0])}, "not a unit quaternion"),
    ],
)
def test_bad_signals_are_refused_and_leave_the_state_alone(
    bundle: Path, golden: Golden, changes: dict[str, np.ndarray], message: str
) -> None:
    policy = OnboardPolicy(bundle)
    for step in range(3):
        policy.step(signals_at(golden, step), golden["command"][step])
    with pytest.raises(SignalError, match=message):
        policy.step(signals_at(golden, 3, **changes), golden["command"][3])
    targets = policy.step(signals_at(golden, 3), golden["command"][3])
    np.testing.assert_allclose(targets, golden["joint_pos_target"][3], atol=1e-6)


def test_a_bad_command_is_refused(bundle: Path, golden: Golden) -> None:
    policy = OnboardPolicy(bundle)
    with pytest.raises(SignalError, match=r"command\[2\] = nan"):
        policy.step(signals_at(golden, 0), (0.0, 0.0, float("nan")))
    with pytest.raises(SignalError, match=r"command has shape \(2,\)"):
        policy.step(signals_at(golden, 0), (0.0, 0.0))


def edit_graph(bundle: Path, edit: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(bundle / "policy.onnx")
    edit(model)
    (bundle / "policy.onnx").write_bytes(model.SerializeToString())


def scale_largest_weight(factor: float) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        tensor = max(model.graph.initializer, key=lambda item: len(item.raw_data))
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))

    return edit


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1.001, r"does not reproduce golden\.npz.*differs by .* at step \d+"),
        (float("nan"), "differs by nan at step 0"),
        (None, "is no ONNX graph"),
    ],
)
def test_another_policy_behind_good_hashes_is_refused(
    bundle: Path, reseal: Callable[..., None], factor: float | None, message: str
) -> None:
    if factor is None:
        (bundle / "policy.onnx").write_bytes(b"not a graph")
    else:
        edit_graph(bundle, scale_largest_weight(factor))
    reseal(bundle)
    with pytest.raises(BundleError, match=message):
        OnboardPolicy(bundle)


def test_nan_outputs_name_the_joint(bundle: Path, golden: Golden) -> None:
    policy = OnboardPolicy(bundle)

    class NanSession:
        """Stands where the graph is after the replay; a real one produces NaN only for inputs refused before it."""

        def run_with_iobinding(self, binding: object) -> None:
            policy._outputs["joint_pos_target"][7] = np.nan

    policy._session = NanSession()
    with pytest.raises(SignalError, match=r"put out joint_pos_target\[7\] \(RF_HFE\) = nan"):
        policy.step(signals_at(golden, 0), golden["command"][0])


@pytest.mark.parametrize("harm", ["missing key", "short row", "no steps", "not a zip"])
def test_a_broken_recording_is_refused(bundle: Path, golden: Golden, reseal: Callable[..., None], harm: str) -> None:
    arrays = dict(golden)
    if harm == "missing key":
        del arrays["gyro"]
    elif harm == "short row":
        arrays["gyro"] = arrays["gyro"][:, :2]
    elif harm == "no steps":
        arrays = {name: value[:0] for name, value in arrays.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    (bundle / "golden.npz").write_bytes(b"PK nonsense" if harm == "not a zip" else buffer.getvalue())
    reseal(bundle)
    with pytest.raises(BundleError, match=r"golden\.npz"):
        OnboardPolicy(bundle)


def test_a_graph_with_other_inputs_is_refused(bundle: Path, reseal: Callable[..., None]) -> None:
    def rename(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.input[:] = ["joint_position" if name == "joint_pos" else name for name in node.input]
        model.graph.input[0].name = "joint_position"

    edit_graph(bundle, rename)
    reseal(bundle)
    with pytest.raises(BundleError, match="joint_position"):
        OnboardPolicy(bundle)


def test_the_onboard_half_imports_only_its_three_packages(bundle: Path) -> None:
    code = (
        "import sys; from gaitway_onboard.control.loop import run_loop; "
        "from gaitway_onboard.bundle.policy import OnboardPolicy; import pathlib; "
        f"OnboardPolicy({str(bundle)!r}); "
        "bad = {'torch', 'mujoco', 'onnx', 'gymnasium', 'gaitway_tasks', 'jsonschema'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(bad)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
