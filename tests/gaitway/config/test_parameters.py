"""``gaitway train --parameters``: learn on the very robot that was identified, and command it as its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle import measured
from gaitway_tasks.actuator_network import MLPNetwork, NetworkDescription, save_network
from gaitway_tasks.identified import longest_delay
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.robots.parameters_file import save_parameters

from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.sources import export_run

TASK = "velocity-flat-go2-blind"
SMALL = [
    "evaluation_episodes=0",
    "num_envs=8",
    "agent.num_steps=8",
    "total_steps=128",
    "num_threads=1",
    "agent.optimizer.minibatches=2",
]
FOUND = RobotParameters(
    robot="go2",
    joints={name: JointParameters(stiffness_scale=0.9, strength=0.95, armature=0.02) for name in GO2.joint_names},
    delay=0.008,
    base_mass=7.4,
    std={"delay": 0.0005},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return save_parameters(FOUND, tmp_path / "params.yaml")


def train(*arguments: object) -> int:
    return main(["train", TASK, "--quiet", *SMALL, *map(str, arguments)])


@pytest.mark.slow
def test_a_run_knows_its_robot_and_its_bundle_commands_the_kind(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "SECONDS", 0.4)  # of a walk, which calibrates the policy's commands
    monkeypatch.setattr(measured, "RAMP", 0.2)
    out = tmp_path / "run"
    assert train("--parameters", file, "--out", out) == 0
    config = RunFolder.open(out).config()
    assert config.robot_task.robot.parameters == FOUND
    assert longest_delay(config.robot_task) == pytest.approx(0.009)
    contract = Contract.load(export_run(out, tmp_path / "bundle"))
    assert contract.per_joint("stiffness") == tuple(law.stiffness for law in GO2.joint_actuators)
    assert train("--parameters", file, "--out", out, "--resume", "total_steps=192") == 0
    assert RunFolder.open(out).record["steps"] >= 192


def test_a_run_goes_on_with_the_robot_that_it_began_with(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train("--out", out) == 0
    assert train("--parameters", file, "--out", out, "--resume", "total_steps=192") == 2
    assert f"was not started with --parameters {file}" in capsys.readouterr().err


def test_a_network_beside_the_file_drives_the_robot(tmp_path: Path) -> None:
    torch.manual_seed(0)
    description = NetworkDescription(kind="mlp", robot="go2", period=0.005, input_idx=(0, 1), torque_scale=5.0)
    save_network(MLPNetwork(2), description, tmp_path / "drives.npz")
    file = save_parameters(RobotParameters(robot="go2", actuator_network="drives.npz"), tmp_path / "params.yaml")
    assert train("--parameters", file, "--preset", "none", "--out", tmp_path / "run") == 0  # its step is the network's
    found = RunFolder.open(tmp_path / "run").config().robot_task.robot.parameters
    assert found is not None and found.actuator_network == str(tmp_path / "drives.npz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["velocity-flat-anymal-c-blind", "--parameters", "{file}"], "is of the robot 'go2', not of 'anymal-c'"),
        (["cartpole", "--parameters", "{file}"], "no robot's task"),
        ([TASK, "--parameters", "{folder}/none.yaml"], "no parameter file at"),
    ],
)
def test_mistakes_end_before_anything_starts(
    arguments: list[str], message: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [text.format(file=file, folder=tmp_path) for text in arguments]
    assert main(["train", *filled, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
