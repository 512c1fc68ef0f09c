"""A robot whose transport is none of ours and no DDS is deployed as any other: survey, guardian, controller, end."""

from __future__ import annotations

from pathlib import Path

import pytest
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.deployment import drive, survey
from gaitway_onboard.interface import DeployError
from gaitway_onboard.safety.checks import SafetyFilter
from gaitway_onboard.safety.limits import SafetyLimits
from gaitway_onboard.transports.open import Connection, open_robot
from light_realtime import light_realtime  # noqa: F401
from tree import IMPORTABLE

from ..onboard_robots import WavePolicy
from .udp_robot import UdpHandRobot, UdpRobot

PATIENT = SafetyLimits(max_state_age=0.5, max_stall=1.0, max_overruns=2000, max_policy_overruns=50, max_silence=0.5)


def hardware(contract: Contract, port: int) -> Hardware:
    def every(value: float) -> dict[str, float]:
        return dict.fromkeys(contract.joint_names, value)

    return Hardware(
        name="udp",
        robot=contract.robot,
        family=f"{UdpRobot.__module__}:open_robot",
        wire=port,
        motors=contract.joint_names[::-1],
        effort_limit=every(80.0),
        velocity_limit=every(20.0),
        max_stiffness=every(20.0),
        max_damping=every(20.0),
        damping=every(20.0),
    )


@pytest.mark.usefixtures("light_realtime")
def test_it_is_deployed(exported: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)  # where the guardian process finds the transport
    contract = Contract.load(exported)
    end = UdpHandRobot(contract.default_joint_pos[::-1])
    told: list[str] = []
    try:
        facts = hardware(contract, end.port)
        robot = open_robot(facts, Connection(say=told.append))
        robot.connect(timeout=10.0)
        seen = survey(robot, SafetyFilter(contract, robot.joint_names, PATIENT, facts), 0.1)
        assert seen.fault is None and 0.0 <= seen.oldest < 0.5
        assert end.frames == []  # nothing is commanded before it is taken over
        config = ControllerConfig(ramp=0.2, fade=0.1, hold=0.1, settle=0.1, lower=0.2, damp=0.1, limits=PATIENT)
        still = (0.0, 0.0, 0.0)
        policy = WavePolicy(contract, tamper=lambda targets: targets[::-1])  # a policy answers in the robot's order
        report = drive(robot, policy, lambda time: still, 0.3, config=config, hardware=facts, say=told.append)
        robot.close()
    finally:
        end.close()
    assert report.ok and report.cause == "finished", report.reason
    assert report.policy_periods > 5
    assert any(stiff for _, stiff in end.frames) and not end.frames[-1][1]
    assert not [line for line in told if "no guardian" in line] and "guardian:" not in capfd.readouterr().err


def test_nobody_answers(exported: Path) -> None:
    end = UdpHandRobot((0.0,))
    end.close()
    robot = open_robot(hardware(Contract.load(exported), end.port), Connection())
    with pytest.raises(DeployError, match=f"no robot answers on UDP port {end.port}"):
        robot.connect(timeout=0.1)
    robot.close()
