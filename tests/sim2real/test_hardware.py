"""Robots by the name that --robot takes, those of other packages included."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gaitway_files.trust import TrustError, trust
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_sim2real.hardware import HARDWARE, hardware_of
from gaitway_tasks.robots import GO2

ROBOT = """
import dataclasses
from types import SimpleNamespace
from gaitway_tasks.robots import GO2

def open_robot(hardware, connection):
    return SimpleNamespace(wire=hardware.wire, limits=hardware.joint_limits["FL_hip_joint"], safe_stop=None)

family = f"{__name__}:open_robot"
OURS = GO2.replace(name="my-go2", hardware=dataclasses.replace(GO2.hardware, name="can-go2", robot="my-go2",
                   family=family, wire="can0"))
BARE = GO2.replace(name="bare", hardware=None)
"""


def test_our_robots_have_their_limits():
    found = HARDWARE["unitree-go2"]
    assert found.joint_limits == dict(zip(GO2.joint_names, GO2.joint_limits, strict=True))
    assert GO2.hardware is not None and found.effort_limit == GO2.hardware.effort_limit


def test_a_robot_and_its_transport_may_be_another_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "robot_elsewhere.py").write_text(ROBOT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(TrustError, match="robot_elsewhere"):
        hardware_of("robot_elsewhere:OURS")
    trust("robot_elsewhere")
    found = hardware_of("robot_elsewhere:OURS")
    assert found.name == "can-go2" and found.robot == "my-go2"
    robot: Any = open_robot(found, Connection())
    assert (robot.wire, robot.limits) == ("can0", GO2.joint_limits[GO2.joint_names.index("FL_hip_joint")])
    with pytest.raises(DeployError, match="robot_elsewhere:BARE has no hardware"):
        hardware_of("robot_elsewhere:BARE")
