"""Robots by name, and the real bus where there is no robot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from gaitway_onboard.interface import DeployError
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_onboard.transports.unitree_frames import STATES
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.hardware import HARDWARE, hardware_of


def test_names():
    assert {"unitree-go2", "unitree-h1", "unitree-g1", "unitree-g1-23dof"} == set(HARDWARE)
    assert all(hardware_of(name).name == name for name in HARDWARE)
    with pytest.raises(DeployError, match=r"unknown robot 'unitree-b2': known are .*unitree-h1"):
        hardware_of("unitree-b2")
    h1 = HARDWARE["unitree-h1"]
    assert open_robot(h1, Connection(bus=MemoryBus())).joint_names == h1.joint_names


def test_a_transport_is_a_row_of_the_table_or_a_function_by_name():
    go2 = HARDWARE["unitree-go2"]
    with pytest.raises(DeployError, match=r"unknown transport 'ethercat': known are unitree_go, .*, or module:name"):
        open_robot(dataclasses.replace(go2, family="ethercat"), Connection())
    with pytest.raises(DeployError, match=r"'nothing_here:open' is not a function"):
        open_robot(dataclasses.replace(go2, family="nothing_here:open"), Connection())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"motors": (*HARDWARE["unitree-go2"].motors, None)}, "21 motors, and unitree_go has room for 20"),
        ({"enable": {}}, "unitree-go2: unitree_go needs enable"),
    ],
)
def test_a_robot_that_its_messages_cannot_carry(changes, message):
    with pytest.raises(DeployError, match=message):
        open_robot(dataclasses.replace(HARDWARE["unitree-go2"], **changes), Connection(bus=MemoryBus()))


def test_options_that_do_not_belong_together():
    with pytest.raises(DeployError, match="--config describes robots on ROS 2"):
        hardware_of("unitree-go2", Path("robot.yaml"))
    with pytest.raises(DeployError, match=r"described by a file: --config"):
        hardware_of("ros2")


def test_the_robot_that_is_meant_is_passed_on():
    connection = Connection(bus=MemoryBus(), robot_ids=["192.168.123.161"])
    assert open_robot(HARDWARE["unitree-go2"], connection).robot_ids == ["192.168.123.161"]


def test_a_wrong_interface_is_refused_with_those_there_are():
    pytest.importorskip("cyclonedds")
    with pytest.raises(DeployError, match=r"no network interface 'eth77': this computer has .*lo"):
        open_robot(HARDWARE["unitree-go2"], Connection(interface="eth77"))


def test_nobody_on_the_wire(dds_domain):
    pytest.importorskip("cyclonedds")
    robot = open_robot(HARDWARE["unitree-go2"], Connection(interface="lo", domain=dds_domain))
    try:
        with pytest.raises(DeployError, match=rf"no program offers rt/lowstate on interface lo, domain {dds_domain}:"):
            robot.connect(timeout=0.3)
    finally:
        robot.close()


def test_other_firmware_on_the_wire(dds_domain):
    pytest.importorskip("cyclonedds")
    from gaitway_onboard.wire.dds import DdsBus

    other = DdsBus("lo", dds_domain)
    robot = open_robot(HARDWARE["unitree-go2"], Connection(interface="lo", domain=dds_domain))
    try:
        other.publisher(Topic("rt/lowstate", STATES["unitree_hg"].name))
        with pytest.raises(
            DeployError, match=r"carries unitree_hg::msg::dds_::LowState_, and unitree-go2 speaks unitree"
        ):
            robot.connect(timeout=1.0)
    finally:
        robot.close()
        other.close()
