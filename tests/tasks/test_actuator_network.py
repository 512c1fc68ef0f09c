"""Networks as drives: files, what they refuse, and the torque that a batch of robots gets."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_tasks.actuator_network import (
    LSTMNetwork,
    MLPNetwork,
    NetworkDescription,
    NetworkDrives,
    NetworkError,
    check_network,
    convert_torchscript,
    read_network,
    save_network,
    write_torchscript,
)
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.robots import ANYMAL_C, GO2
from memory_taken import watched

GAINS = {name: (law.stiffness, law.damping) for name, law in zip(GO2.joint_names, GO2.joint_actuators, strict=True)}
MLP = NetworkDescription(
    kind="mlp", robot="go2", period=0.005, gains=GAINS, input_idx=(0, 2), pos_scale=2.0, vel_scale=0.1, torque_scale=5.0
)
LSTM = NetworkDescription(kind="lstm", robot="go2", period=0.005, gains=GAINS)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return save_network(MLPNetwork(2), MLP, tmp_path / "drive.npz")


@pytest.fixture
def lstm(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return save_network(LSTMNetwork((2.0, 0.1, 30.0)), LSTM, tmp_path / "drive.npz")


@pytest.mark.parametrize(("name", "described"), [("mlp", MLP), ("lstm", LSTM)])
def test_a_file_holds_numbers_and_says_what_they_are(
    name: str, described: NetworkDescription, request, tmp_path
) -> None:
    path = request.getfixturevalue(name)
    network, description = read_network(path)
    assert description == described
    again = save_network(network, description, tmp_path / "again.npz")
    assert again.read_bytes() == path.read_bytes()
    with np.load(path, allow_pickle=False) as arrays:
        assert {array.dtype.kind for array in map(arrays.get, arrays)} <= set("ifU")
    script = torch.jit.load(str(write_torchscript(network, tmp_path / "drive.pt")))  # what Isaac Lab does
    given = (
        (torch.randn(7, 4),) if name == "mlp" else (torch.randn(7, 5, 2), (torch.zeros(2, 7, 8), torch.zeros(2, 7, 8)))
    )
    torch.testing.assert_close(script(*given), network(*given))


def test_a_perceptron_reads_its_history_newest_first(mlp: Path) -> None:
    drives, network = NetworkDrives(mlp, GO2, 0.005, 3), read_network(mlp)[0]
    told = [(0.1 * torch.randn(3, 12), 3.0 * torch.randn(3, 12)) for _ in range(4)]
    for error, vel in told:
        torque = drives.torque(error, vel)
    (e0, v0), (e2, v2) = told[3], told[1]
    x = torch.stack((2.0 * e0, 2.0 * e2, 0.1 * v0, 0.1 * v2), -1).view(-1, 4)
    with torch.inference_mode():
        expected = 5.0 * network(x).view(3, 12)
    assert expected.abs().max() < 20.0  # inside the motor's limits, so that the clip leaves it alone
    torch.testing.assert_close(torque, expected, rtol=1e-5, atol=1e-5)


def test_an_lstm_remembers_until_it_is_reset(lstm: Path) -> None:
    drives = NetworkDrives(lstm, GO2, 0.005, 2)
    error, vel = torch.full((2, 12), 0.1), torch.zeros(2, 12)
    first = drives.torque(error, vel)
    second = drives.torque(error, vel)
    assert (first - second).abs().max() > 1e-4
    drives.reset(torch.tensor([1]))
    third = drives.torque(error, vel)
    torch.testing.assert_close(third[1], first[1])
    assert (third[0] - first[0]).abs().max() > 1e-4


@pytest.mark.parametrize("kind", ["mlp", "lstm"])
def test_a_stored_state_goes_on_as_it_was(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    drives, other = NetworkDrives(path, GO2, 0.005, 2), NetworkDrives(path, GO2, 0.005, 2)
    drives.strength[:] = 0.8
    told = [(0.1 * torch.randn(2, 12), torch.randn(2, 12)) for _ in range(6)]
    for error, vel in told[:3]:
        drives.torque(error, vel)
    other.load_state_dict(drives.state_dict())
    for error, vel in told[3:]:
        torch.testing.assert_close(drives.torque(error, vel), other.torque(error, vel))


def test_torque_stays_within_the_motor_and_scales_with_its_strength(tmp_path: Path) -> None:
    """A network that is the PD law itself is the DC motor of the robot, clip and all."""

    law = MLPNetwork(1, hidden=())
    law.load_state_dict({"layers.0.weight": torch.tensor([[25.0, -0.5]]), "layers.0.bias": torch.zeros(1)})
    description = dataclasses.replace(MLP, input_idx=(0,), pos_scale=1.0, vel_scale=1.0, torque_scale=1.0)
    drives = NetworkDrives(save_network(law, description, tmp_path / "pd.npz"), GO2, 0.005, 64)
    error, vel = 2.0 * torch.randn(64, 12), 15.0 * torch.randn(64, 12)
    expected = dc_motor_torque(GO2.joint_actuators[0], error, torch.zeros(64, 12), vel)
    torch.testing.assert_close(drives.torque(error, vel), expected)
    drives.strength[:] = 0.5
    torch.testing.assert_close(drives.torque(error, vel), 0.5 * expected)


def test_what_a_network_was_not_trained_for_is_refused(mlp: Path, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="of the robot 'go2', not of 'anymal-c'"):
        check_network(MLP, ANYMAL_C, 0.005, mlp)
    with pytest.raises(NetworkError, match=r"set task\.timing\.physics_dt=0\.005"):
        check_network(MLP, GO2, 0.01, mlp)
    soft = dataclasses.replace(MLP, gains={**GAINS, "FL_hip_joint": (20.0, 0.5)})
    with pytest.raises(NetworkError, match=r"learnt FL_hip_joint with kp 20 and kd 0\.5, and the task commands 25"):
        check_network(soft, GO2, 0.005, mlp)
    with pytest.raises(NetworkError, match="kind 'gru'"):
        dataclasses.replace(MLP, kind="gru")
    (tmp_path / "empty.npz").write_bytes(b"no zip")
    with pytest.raises(NetworkError, match=r"empty\.npz: "):
        read_network(tmp_path / "empty.npz")


@pytest.mark.hostile("untrusted files")
def test_torchscript_is_code_and_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.jit.script(MLPNetwork(2)).save(str(tmp_path / "net.pt"))
    monkeypatch.setattr(torch.jit, "load", None)
    with pytest.raises(NetworkError, match=r"net\.pt is TorchScript.*not run.*convert_torchscript\(old, new\)"):
        read_network(tmp_path / "net.pt")


def test_an_older_file_of_ones_own_is_converted(mlp: Path, tmp_path: Path) -> None:
    network, _ = read_network(mlp)
    facts = {name: value for name, value in dataclasses.asdict(MLP).items() if name != "activation"}
    torch.jit.script(network).save(str(tmp_path / "old.pt"), _extra_files={"gaitway.json": json.dumps(facts)})
    new = convert_torchscript(tmp_path / "old.pt", tmp_path / "new.npz")
    assert new.read_bytes() == mlp.read_bytes()
    torch.jit.script(network).save(str(tmp_path / "other.pt"))
    with pytest.raises(NetworkError, match=r"no gaitway\.json inside"):
        convert_torchscript(tmp_path / "other.pt", new)


def changed(**facts):
    return lambda arrays: arrays | {"description": np.array(json.dumps(json.loads(str(arrays["description"])) | facts))}


def with_arrays(**new):
    return lambda arrays: {k: v for k, v in (arrays | new).items() if v is not None}


BAD = {
    "no version": (with_arrays(gaitway_actuator_network=None), "is no actuator network"),
    "a later version": (with_arrays(gaitway_actuator_network=np.array(2)), "format 2"),
    "no description": (with_arrays(description=None), "is no actuator network"),
    "not JSON": (with_arrays(description=np.array("{")), "JSON"),
    "more facts": (changed(code="x"), "must have exactly"),
    "an activation of torch": (changed(activation="Softmax"), "activation 'Softmax': known are"),
    "a kind": (changed(kind="gru"), "kind 'gru'"),
    "a text for a number": (changed(period="x"), "period of its description"),
    "no period": (changed(period=0.0), "must be positive"),
    "an endless history": (changed(input_idx=[0, 10**9]), "periods from 0 to"),
    "a negative history": (changed(input_idx=[-1, 0]), "periods from 0 to"),
    "a broken history": (changed(input_idx=[0.5]), "whole numbers"),
    "gains": (changed(gains={"FL_hip_joint": [1.0]}), "kp, kd"),
    "the other kind": (changed(kind="lstm"), "has 0 layers"),
    "a longer history": (changed(input_idx=[0, 1, 2]), r"'layers.0.weight' is \(32, 4\), not \(32, 6\)"),
    "a weight of the wrong shape": (with_arrays(**{"layers.2.bias": np.zeros(3, np.float32)}), "not"),
    "a weight less": (with_arrays(**{"layers.4.bias": None}), "'layers.4.bias' is missing"),
    "a weight more": (with_arrays(extra=np.zeros(3, np.float32)), "none such"),
    "a hole": (with_arrays(**{"layers.2.weight": None}), "in a row"),
    "an object": (with_arrays(**{"layers.0.bias": np.array([None] * 32)}), "plain numbers"),
    "not finite": (with_arrays(**{"layers.0.bias": np.full(32, np.nan, np.float32)}), "finite"),
    "doubles": (with_arrays(**{"layers.0.bias": np.zeros(32)}), "32 bits"),
    "huge": (
        with_arrays(**{f"layers.{2 * n}.weight": np.zeros((1, 5000), np.float32) for n in range(3)}),
        "up to 4096",
    ),
}


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_its_declaration_is_refused(mlp: Path, tmp_path: Path, case: str) -> None:
    change, message = BAD[case]
    with np.load(mlp) as arrays:
        np.savez(tmp_path / "bad.npz", **change(dict(arrays)))
    with pytest.raises(NetworkError, match=message):
        read_network(tmp_path / "bad.npz")


@pytest.mark.hostile("untrusted files")
def test_a_claimed_size_takes_no_memory(lstm: Path, tmp_path: Path) -> None:
    """16 layers of 4096 units would have eight gigabytes."""
    with np.load(lstm) as arrays:
        claimed = {**arrays, **{f"lstm.weight_hh_l{n}": np.zeros((1, 4096), np.float32) for n in range(16)}}
    np.savez(tmp_path / "bad.npz", **claimed)
    with watched() as taken, pytest.raises(NetworkError, match="no lstm as declared"):
        read_network(tmp_path / "bad.npz")
    assert taken() < 500_000_000
