"""``gaitway twin``: what it refuses, and one that is really served over the loopback interface."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from gaitway_files.errors import UserError

from gaitway.cli import main
from gaitway.commands.twin import _fault


def test_faults_are_read():
    assert _fault("20:silence") == (20.0, "silence", None)
    assert _fault("0.5:joint-nan:FL_calf_joint") == (0.5, "joint-nan", "FL_calf_joint")
    for text in ("silence", "soon:silence", "3:", "-1:silence", "nan:silence"):
        with pytest.raises(UserError, match="seconds:name"):
            _fault(text)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["unitree-go9"], "known are unitree-g1-23dof, unitree-g1, unitree-go2"),
        (["ros2"], "--config"),
        (["unitree-go2", "--config", "ros2.yaml"], "unitree-go2 is known"),
        (["unitree-go2", "--quirk", "latncy=1"], "no quirk 'latncy'"),
        (["unitree-go2", "--quirk", "dead_motor=knee"], "FL_calf_joint"),
        (["unitree-go2", "--fault", "3:earthquake"], "no fault 'earthquake'"),
        (["unitree-go2", "--fault", "3:fall", "--hung"], "cannot fall"),
        (["unitree-go2", "--seconds", "-1"], "--seconds -1: must be above 0"),
        (["unitree-go2", "--interface", "wire7"], "no network interface 'wire7'"),
        (["unitree-go2", "--model", "nothing.xml"], "no MJCF file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, named, capsys, dds_domain):
    assert main(["twin", "--domain", str(dds_domain), *words]) == 2
    said = capsys.readouterr().err
    assert named in said and said.count("\n") == 1


def test_a_go2_is_served_until_it_is_stopped(dds_domain):
    from gaitway_onboard.transports.open import Connection
    from gaitway_onboard.transports.unitree import UnitreeRobot
    from gaitway_onboard.wire.dds import DdsBus
    from gaitway_tasks.robots import GO2

    words = ["unitree-go2", "--domain", str(dds_domain), "--seconds", "50", "--no-own-controller", "--hung"]
    command = [sys.executable, "-m", "gaitway", "twin", *words, "--fault", "0.01:temperature:FL_calf_joint"]
    bus = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            greeting = [process.stdout.readline() for _ in range(5)]
            assert "hung on a stand, on interface lo" in greeting[0] and "rt/lowstate at 500 Hz" in greeting[1]
            assert f"gaitway deploy BUNDLE --robot unitree-go2 --interface lo --domain {dds_domain}" in greeting[3]
            assert "waits    for commands, for 50 s" in greeting[4]
            bus = DdsBus("lo", dds_domain)
            robot = UnitreeRobot(GO2.hardware, Connection(bus=bus, own_controller=False))
            robot.connect(timeout=20.0)
            robot.take_over()
            joint = robot.joint_names.index("FL_calf_joint")
            before = robot.read().joint_pos
            wanted, until = before.copy(), bus.clock() + 20.0
            wanted[joint] -= 0.3
            while abs(robot.read().joint_pos[joint] - wanted[joint]) > 0.05 and bus.clock() < until:
                robot.write(wanted, np.full(12, 40.0), np.full(12, 1.0))
                robot.sleep_until(bus.clock() + 0.005)
            signals = robot.read()
            assert signals.joint_pos[joint] == pytest.approx(wanted[joint], abs=0.1)
            assert signals.health.motor_temperature[joint] > 80.0 and signals.health.corrupt == 0
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=120)[0]
        finally:
            if bus is not None:
                bus.close()
            process.kill()
    assert process.returncode == 0
    assert "fault temperature at FL_calf_joint" in said and "commands arrive" in said
    assert "obeyed " in said and "served " in said
