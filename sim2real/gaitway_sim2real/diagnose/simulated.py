"""A flight of the digital twin in simulated time: what a robot of the bundle would have recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandSource
from gaitway_onboard.control.controller import ControllerConfig
from gaitway_onboard.control.loop import run_loop
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.interface import DeployError
from gaitway_onboard.safety.support import Support, open_support
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_tasks.robots import ROBOTS

from ..digital_twin.quirks import Quirks
from ..digital_twin.twin import Twin

BRISK = ControllerConfig(ramp=1.0, hold=0.5, settle=0.3, lower=0.3, damp=0.1)


def fly(
    out: Path,
    bundle: Path,
    hardware: Hardware,
    command: CommandSource,
    seconds: float,
    *,
    quirks: Quirks,
    seed: int = 0,
    alter: Callable[[Twin], None] | None = None,
) -> None:
    """Record ``seconds`` of policy, or less if a check trips, as ``out`` (.mcap); ``alter`` may change the twin first.

    Commands are limited as on a robot. A trip ends the flight as it would end the robot's.
    """
    bus = MemoryBus("controller", drives=True)
    twin = Twin(
        ROBOTS[hardware.robot], bus.join("robot"), hardware=hardware, quirks=quirks, seed=seed, standing=True,
        hung=False, own_controller=False, model=bundle / "robot.xml",
    )  # fmt: skip
    bus.attach(twin.advance)
    if alter is not None:
        alter(twin)
    robot = open_robot(hardware, Connection(bus=bus, own_controller=False))
    policy = OnboardPolicy(bundle, hardware.joint_names)
    support = open_support(bundle, hardware.joint_names)
    log = open_flight(out, hardware.joint_names, {"hardware": hardware.name}, realtime=False, bundle=bundle)
    with contextlib.closing(log), contextlib.suppress(DeployError):
        robot.connect()
        robot.take_over()
        run_loop(
            robot, policy, command, seconds, config=BRISK, hardware=hardware, flight=log,
            estimator=open_estimator(bundle, hardware.joint_names, robot.period, hardware.feet),
            support=support if isinstance(support, Support) else None,
        )  # fmt: skip
