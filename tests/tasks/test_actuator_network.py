"""Networks as drives: files, what they refuse, and the torque that a batch of robots gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from gaitway_tasks.actuator_network import (
    LSTMNetwork,
    MLPNetwork,
    NetworkDescription,
    NetworkDrives,
    NetworkError,
    check_network,
    read_network,
    save_network,
)
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.robots import ANYMAL_C, GO2
from torch import nn

GAINS = {name: (law.stiffness, law.damping) for name, law in zip(GO2.joint_names, GO2.joint_actuators, strict=True)}
MLP = NetworkDescription(
    kind="mlp", robot="go2", period=0.005, gains=GAINS, input_idx=(0, 2), pos_scale=2.0, vel_scale=0.1, torque_scale=5.0
)
LSTM = NetworkDescription(kind="lstm", robot="go2", period=0.005, gains=GAINS)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return save_network(MLPNetwork(2), MLP, tmp_path / "drive.pt")


@pytest.fixture
def lstm(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return save_network(LSTMNetwork((2.0, 0.1, 30.0)), LSTM, tmp_path / "drive.pt")


def test_the_file_says_what_it_is_and_plain_torchscript_reads_it(mlp: Path) -> None:
    network, description = read_network(mlp)
    assert description == MLP
    x = torch.randn(7, 4)
    torch.testing.assert_close(torch.jit.load(str(mlp))(x), network(x))


def test_a_perceptron_reads_its_history_newest_first(mlp: Path) -> None:
    drives, network = NetworkDrives(mlp, GO2, 0.005, 3), torch.jit.load(str(mlp))
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

    class PD(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 25.0 * x[:, :1] - 0.5 * x[:, 1:]

    description = dataclasses.replace(MLP, input_idx=(0,), pos_scale=1.0, vel_scale=1.0, torque_scale=1.0)
    drives = NetworkDrives(save_network(PD(), description, tmp_path / "pd.pt"), GO2, 0.005, 64)
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
    (tmp_path / "empty.pt").write_bytes(b"no zip")
    with pytest.raises(NetworkError, match="is no actuator network"):
        read_network(tmp_path / "empty.pt")
    torch.jit.script(MLPNetwork(2)).save(str(tmp_path / "bare.pt"))
    with pytest.raises(NetworkError, match=r"has no gaitway\.json inside"):
        read_network(tmp_path / "bare.pt")
