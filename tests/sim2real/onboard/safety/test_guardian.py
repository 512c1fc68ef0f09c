"""The guardian as a process, over DDS and over UDP, beside a controller that is killed, frozen, or ends well."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import SafeStop
from gaitway_onboard.safety.guardian import Guardian, GuardianError
from gaitway_onboard.wire.bus import Topic

pytest.importorskip("cyclonedds")

from gaitway_onboard.transports.unitree_frames import COMMANDS
from gaitway_onboard.wire import crc
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.layouts import layout_of
from tree import IMPORTABLE

from ..transports.udp_robot import UdpHandRobot

SCRIPT = Path(__file__).with_name("guarded_controller.py")
COMMAND = COMMANDS["unitree_go"]
TOPIC = Topic("rt/lowcmd", COMMAND.name, reliable=False, depth=512)
PATIENCE = 60.0
"""For anything that must happen, on however busy a machine [s]."""


def stop(interface: str, domain: int) -> SafeStop:
    """A message that is nothing, for guardians that never send it."""
    where = {"interface": interface, "domain": domain, "topic": TOPIC.name, "type": TOPIC.type, "reliable": False}
    return SafeStop(sender="gaitway_onboard.wire.dds:StopOnTopic", settings={**where, "payload": ""})


class Ear:
    """Every command on the wire: when it came, and whether it has stiffness."""

    def __init__(self, channel: str, number: int):
        self.channel, self.number = channel, number
        """Where the controller is to find the robot: "dds" and a domain, or "udp" and a port."""
        self.frames: list[tuple[float, bool]] = []

    def take(self) -> None:
        """Append what came to :attr:`frames`."""

    def listen(self, until: Callable[[], bool], patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while True:
            self.take()
            if until():
                return
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain, hearing {len(self.frames)} commands")
            time.sleep(0.005)

    def after_the_last_stiff(self) -> list[float]:
        last = max(index for index, (_, stiff) in enumerate(self.frames) if stiff)
        return [stamp for stamp, _ in self.frames[last + 1 :]]


class DdsEar(Ear):
    def __init__(self, bus: DdsBus, domain: int):
        super().__init__("dds", domain)
        self.subscriber = bus.subscriber(TOPIC)

    def take(self) -> None:
        for stamp, payload in self.subscriber.take_all():
            message = layout_of(COMMAND).read(payload)
            assert crc.check(message)
            self.frames.append((stamp, bool(np.any(message["motor_cmd.kp"]))))


@contextlib.contextmanager
def controller(bundle: Path, ear: Ear, seconds: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A controller whose policy drives, and the pid of its guardian."""
    environment = os.environ | {"PYTHONPATH": IMPORTABLE}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(bundle), ear.channel, str(ear.number), str(seconds)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        guardian = int(process.stdout.readline().split()[1])
        assert process.stdout.readline() == "policy\n"
        yield process, guardian
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


@pytest.fixture
def ear(request: pytest.FixtureRequest, exported: Path) -> Iterator[Ear]:
    if request.param == "udp":
        robot = UdpHandRobot(Contract.load(exported).default_joint_pos)
        ear = Ear("udp", robot.port)
        ear.frames = robot.frames
        yield ear
        robot.close()
    else:
        domain = request.getfixturevalue("dds_domain")
        bus = DdsBus("lo", domain, sender_times=True)
        yield DdsEar(bus, domain)
        bus.close()


def gone(pid: int) -> bool:
    """A process that nobody has waited for yet counts as gone."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("ear", ["dds", "udp"], indirect=True)
def test_kill_9_leaves_the_robot_damped(exported: Path, ear: Ear, capfd: Any) -> None:
    with controller(exported, ear, 1e6) as (process, guardian):
        ear.listen(lambda: sum(stiff for _, stiff in ear.frames) > 50)
        process.kill()
        process.wait()
        ear.listen(lambda: gone(guardian))  # it ends by itself
        ear.listen(lambda: True)
    damping = ear.after_the_last_stiff()
    assert damping[-1] - damping[0] >= 0.5 and len(damping) > 50
    told = capfd.readouterr().err
    assert "guardian: controller died: damping\nguardian: the robot has received it" in told


@pytest.mark.parametrize("ear", ["dds"], indirect=True)
def test_a_frozen_controller_loses_the_robot_for_good(exported: Path, ear: Ear) -> None:
    with controller(exported, ear, 1e6) as (process, guardian):
        process.send_signal(signal.SIGSTOP)
        frozen = time.monotonic()
        ear.listen(lambda: time.monotonic() - frozen > 0.8 and not ear.frames[-1][1])
        damped = len(ear.frames)
        time.sleep(1.0)  # longer than the guardian's own time: it goes on as long as the controller hangs
        ear.listen(lambda: len(ear.frames) > damped + 50)
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 1
        ear.listen(lambda: gone(guardian))
        assert process.stdout is not None and process.stdout.read() == "hung\n"  # and no second writer was seen
    # A command that was just being sent when the process was frozen still goes out, once.
    assert sum(stiff for _, stiff in ear.frames[damped:]) <= 1
    assert not ear.frames[-1][1]


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("ear", ["udp"], indirect=True)
def test_a_robot_whose_guardian_is_killed_is_lowered(exported: Path, ear: Ear) -> None:
    with controller(exported, ear, 1e6) as (process, guardian):
        ear.listen(lambda: sum(stiff for _, stiff in ear.frames) > 50)
        os.kill(guardian, signal.SIGKILL)
        killed = time.monotonic()
        assert process.wait(PATIENCE) == 1
        assert process.stdout is not None and process.stdout.read() == "guardian\n"
        ear.listen(lambda: True)
    damping = ear.after_the_last_stiff()
    lowering = damping[0] - killed  # settle, hold and lower of the script's controller
    assert 0.3 < lowering < 5.0 and damping[-1] - damping[0] >= 0.45


@pytest.mark.hostile("deployment")
def test_a_guardian_that_cannot_act_says_so(dds_domain: int) -> None:
    guardian = Guardian(stop("lo", dds_domain))
    guardian.arm()
    deadline = time.monotonic() + PATIENCE

    def wait_for(trouble: str | None) -> None:
        while guardian.trouble != trouble:
            guardian.beat()
            assert time.monotonic() < deadline, guardian.trouble
            time.sleep(0.01)

    wait_for(None)
    os.kill(guardian.pid, signal.SIGSTOP)
    wait_for("the guardian process has stood still for 1 s")
    os.kill(guardian.pid, signal.SIGCONT)
    wait_for(None)
    os.kill(guardian.pid, signal.SIGKILL)
    wait_for("the guardian process has ended with code -9")
    guardian.close()


@pytest.mark.parametrize(("ear", "number"), [("udp", None), ("dds", signal.SIGTERM)], indirect=["ear"])
def test_a_controller_that_ends_well_needs_no_guardian(exported: Path, ear: Ear, number: int | None) -> None:
    with controller(exported, ear, 0.5 if number is None else 1e6) as (process, guardian):
        if number is not None:
            os.kill(guardian, number)  # as at a shutdown, when everyone is told: it stays until the controller ends
            process.send_signal(number)
        ear.listen(lambda: process.poll() is not None)
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ("finished\n" if number is None else "sigterm\n")
        assert gone(guardian)
        ear.listen(lambda: True)
    damping = ear.after_the_last_stiff()
    assert damping[-1] - damping[0] >= 0.45  # 0.5 s, less the first period


@pytest.mark.hostile("untrusted files")
def test_a_guardian_that_cannot_start_is_an_error_and_runs_no_module_of_the_current_folder(
    hostile_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(hostile_folder)
    with pytest.raises(GuardianError, match="did not start"):
        Guardian(stop("no-such-interface", 0))
    assert "guardian: no network interface 'no-such-interface'" in capfd.readouterr().err
    assert not (hostile_folder / "ran").exists()
