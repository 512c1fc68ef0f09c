"""A twin and a controller alone on a bus in simulated time, watched by an audit: all but processes is tried here.

What drives the twin is what drives a robot: the transport, the controller, its checks and clamps, at the hardware's
own rate. Only the bus is memory, and time passes when the controller sleeps; so every run is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandSource
from gaitway_onboard.control.controller import Controller, ControllerConfig
from gaitway_onboard.control.devices import RemoteOperator
from gaitway_onboard.control.executor import InlineExecutor
from gaitway_onboard.control.loop import LoopReport, Period, run_loop
from gaitway_onboard.estimation.estimator import Estimator
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_onboard.interface import Array, Signals
from gaitway_onboard.safety.support import Support, open_support
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.robots import ROBOTS
from numpy.typing import NDArray

from ..digital_twin.quirks import Quirks
from ..digital_twin.twin import Twin
from .audit import Audit
from .depth_map import DepthMap
from .witness import Witness


@dataclass(frozen=True, kw_only=True)
class Performance:
    """Record of a performance on a stage."""

    report: LoopReport | None
    """None if an exception ended it."""
    error: str
    """The exception, in words; "" without one."""
    witness: Witness
    audit: Audit

    @property
    def trips(self) -> int:
        return int(self.report is None or not self.report.ok)

    @property
    def outcome(self) -> str:
        if self.report is None:
            return f"exception: {self.error}"
        return self.report.reason if self.report.ok else f"{self.report.cause}: {self.report.reason}"


def hangs(hardware: Hardware) -> bool:
    """True if it is rehearsed on a stand."""
    return ROBOTS[hardware.robot].hangs


def _ancestors(model: Any, body: str) -> set[int]:
    """Bodies that carry this one, itself included."""
    found, number = set(), int(model.body(body).id)
    while number:
        found.add(number)
        number = int(model.body_parentid[number])
    return found


class Player(OnboardPolicy):
    """The bundle's policy, between whose output and the controller something can be put while it runs."""

    twist: Callable[[Array], Array] | None = None
    """Transformation of the targets [rad], (J,), robot's order."""

    def step(self, signals: Signals, command: Sequence[float] | Array) -> NDArray[Any]:
        targets = super().step(signals, command)
        return targets if self.twist is None else self.twist(targets.astype(np.float64))


class Absent(InlineExecutor):
    """Computes at once, until the policy is said to have hung."""

    hung = False

    def submit(self, signals: Signals, command: tuple[float, ...], now: float) -> bool:
        return not self.hung and super().submit(signals, command, now)


class Stage:
    """One twin, one controller; for one performance."""

    def __init__(
        self,
        bundle: Path,
        hardware: Hardware,
        *,
        quirks: Quirks | None = None,
        seed: int = 0,
        model: Path | None = None,
        ground: Ground = LEVEL,
    ):
        """``model`` is another MJCF of the robot, which starts at the origin of ``ground``."""
        self.bundle, self.hardware = Path(bundle), hardware
        self.bus = MemoryBus("controller", drives=True)
        self.twin = Twin(
            ROBOTS[hardware.robot],
            self.bus.join("robot"),
            hardware=hardware,
            quirks=quirks or Quirks(),
            seed=seed,
            model=model,
            hung=hangs(hardware),
            ground=ground,
        )
        self.bus.attach(self.twin.advance)
        contract = Contract.load(bundle)
        effort = dict(zip(contract.joint_names, contract.per_joint("effort_limit"), strict=True))
        self.audit = Audit(self.bus.join("audit"), hardware, np.array([effort[name] for name in hardware.joint_names]))
        self.bus.attach(self.audit.collect)
        self.robot = open_robot(hardware, Connection(bus=self.bus))
        self.policy = Player(bundle, hardware.joint_names)
        self.executor = Absent(self.policy)
        self.estimator: Estimator | None = open_estimator(
            bundle, hardware.joint_names, self.robot.period, hardware.feet
        )
        support = open_support(bundle, hardware.joint_names)
        self.support = support if isinstance(support, Support) else None
        if contract.height_scan is not None:
            self.estimator = DepthMap(self.twin, contract, self.estimator, seed)
        self.witness = Witness()
        self.controller: Controller | None = None
        """None before :meth:`perform`."""

    @property
    def bearing_joint(self) -> str:
        """The knee of the first leg: the last joint above its foot, or above an ankle."""
        body = self.twin.body
        names, model = self.twin.joint_names, body.model
        above = [name for name in names if model.joint(name).bodyid[0] in _ancestors(model, body.foot_names[0])]
        knees = [name for name in above if "ankle" not in name]
        return knees[-1]

    def carry(self, carried: bool) -> None:
        """Hang the robot up where it is, or let it down on its feet, unless that is what it does."""
        body = self.twin.body
        if body.hung and not carried:
            body.let_down()
        elif carried and not body.hung:
            body.hung = True

    def perform(
        self,
        command: CommandSource,
        seconds: float,
        *,
        config: ControllerConfig | None = None,
        on_period: Callable[[Period], None] = lambda period: None,
    ) -> Performance:
        """Connect, take over, stand up, ``seconds`` of policy, lie down. The operator holds the transmitter."""
        report, error = None, ""
        operator = RemoteOperator(self.policy.contract)

        def start(controller: Controller) -> None:
            self.controller = controller

        def look(period: Period) -> None:
            if self.controller is not None and (request := operator.poll(period.signals, period.time)) is not None:
                self.controller.request(request)
            on_period(period)

        try:
            self.robot.connect()
            self.robot.take_over()
            report = run_loop(
                self.robot, self.policy, command, seconds,
                config=config, hardware=self.hardware, flight=self.witness, on_period=look, on_start=start,
                executor=self.executor, estimator=self.estimator, support=self.support,
            )  # fmt: skip
        except Exception as found:  # what a robot would live through is the question here
            error = f"{type(found).__name__}: {found}"
        self.audit.collect()
        return Performance(report=report, error=error, witness=self.witness, audit=self.audit)
