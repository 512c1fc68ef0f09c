"""The fault matrix: each trouble that the controller must notice, in each mode that moves the robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted, tour
from gaitway_onboard.control.controller import OPERATOR_STOP, Controller, ControllerConfig, Mode
from gaitway_onboard.hardware import Hardware
from gaitway_onboard.interface import Array, DeployError
from gaitway_onboard.transports.unitree import UnitreeRobot

from ..digital_twin.faults import Fault
from ..digital_twin.quirks import Quirks
from .newcomer import Newcomer
from .stage import Performance, Stage, hangs
from .verdict import FAULTS, Trial, TrialCheck

AFTER = {Mode.RAMP: 0.5, Mode.HOLD: 0.5, Mode.POLICY: 1.5}
"""When a fault begins, in the time of its mode [s]."""
CONFIG = ControllerConfig(hold=1.5)
DRIVEN = (Mode.RAMP, Mode.HOLD, Mode.POLICY)
POLICY_PERIODS = 2
"""Within which damping must follow a detection."""
LONG = 4.0
"""Of policy [s]: more than any fault needs."""
STALL = 0.08
"""[s]"""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One row of the matrix."""

    name: str
    about: str
    causes: tuple[str, ...]
    """What the controller may call it: names of :data:`gaitway_onboard.safety.limits.TRIPS`, and the like. Without
    any, the controller must not be disturbed."""
    provoke: Callable[[Stage], object]
    within: float = 0.1
    """How soon it must be detected [s]."""
    modes: tuple[Mode, ...] = DRIVEN


def _wire(
    fault: Fault, about: str, *causes: str, within: float = 0.1, modes: tuple[Mode, ...] = DRIVEN, leg: bool = False
) -> Trouble:
    """``leg`` is for a fault of a joint that carries the robot: the last of its first leg."""

    def provoke(stage: Stage) -> object:
        return stage.twin.inject(fault, joint=stage.bearing_joint if leg else None)

    return Trouble(name=fault.value, about=about, causes=causes, within=within, provoke=provoke, modes=modes)


def _stall(stage: Stage) -> None:
    """Time passes for the robot while the controller is not called."""
    late = stage.bus.clock() + STALL
    stage.twin.advance(late)
    stage.bus.time = late


def _raise(stage: Stage) -> None:
    def twist(targets: Array) -> Array:
        raise RuntimeError("the policy's code is broken")

    stage.policy.twist = twist


def _hang(stage: Stage) -> None:
    stage.executor.hung = True


def _second_deploy(stage: Stage) -> Newcomer:
    def drive(bus: Newcomer) -> None:
        robot = UnitreeRobot(stage.hardware, bus)
        robot.connect()
        robot.take_over()

    newcomer = Newcomer(stage.bus, drive)
    stage.bus.attach(newcomer.look)
    return newcomer


def _spoil(stage: Stage) -> None:
    stage.policy.twist = lambda targets: np.full(len(targets), np.nan)


STUCK = ("frozen_sensor", "joint_inconsistent", "not_following")

TROUBLES = (
    _wire(Fault.SILENCE, "No state comes any more, as when a cable is pulled.", "state_age"),
    _wire(Fault.FROZEN, "States keep coming, always the same one.", "frozen_tick"),
    _wire(Fault.REWIND, "The robot repeats its states of two seconds ago.", "tick_back"),
    _wire(Fault.REPLAY, "A second program repeats the robot's old states, seals and all.", "second_state_writer"),
    _wire(Fault.SECOND_ROBOT, "Another robot comes onto the same topics, and stands.", "second_state_writer"),
    _wire(Fault.CLOCK, "The robot's clock runs half as fast again.", "clock", within=0.6),
    _wire(Fault.CHECKSUM, "States come with a wrong checksum.", "checksum", "state_age"),
    _wire(Fault.IMU_NAN, "The IMU says NaN.", "imu"),
    _wire(Fault.IMU_ZERO, "The IMU's quaternion is all zero.", "imu"),
    _wire(Fault.TILT, "The IMU says that the robot lies on its side.", "tilt"),
    _wire(
        Fault.FALL,
        "The robot is tipped over.",
        "tilt",
        "joint_velocity",
        "joint_limit",
        "not_following",
        "imu_inconsistent",
        within=1.0,
    ),
    _wire(Fault.JOINT_NAN, "An encoder says NaN.", "not_finite"),
    _wire(Fault.JOINT_RANGE, "An encoder reads beyond the end of its joint.", "joint_limit"),
    _wire(Fault.JOINT_JUMP, "An encoder slips, within its joint's range.", "joint_jump"),
    _wire(Fault.JOINT_SPEED, "A joint seems to turn faster than its motor can.", "joint_velocity"),
    _wire(Fault.TEMPERATURE, "A motor is too hot.", "temperature"),
    _wire(Fault.BATTERY, "The battery is nearly empty.", "battery"),
    _wire(Fault.LOST, "A motor counts lost messages with every state.", "motor_lost"),
    _wire(Fault.WRITER, "A second program offers commands.", "second_writer", within=0.6),
    _wire(
        Fault.TAKEN, "An app switches the robot's own controller on again.", "taken_back", "not_following", within=0.2
    ),
    _wire(Fault.GYRO_SIGN, "The gyroscope's signs are wrong.", "imu_inconsistent", within=1.0, modes=(Mode.POLICY,)),
    _wire(Fault.GYRO_OFF, "The gyroscope is off by 50 rad/s.", "imu_inconsistent"),
    _wire(Fault.IMU_SIGN, "The IMU's orientation is conjugated.", "imu_inconsistent", within=1.0, modes=(Mode.POLICY,)),
    _wire(Fault.IMU_DRIFT, "The IMU's orientation tips over, by 0.1 rad/s.", "imu_inconsistent", within=5.0),
    _wire(Fault.IMU_FROZEN, "The IMU repeats itself, in states that do not.", "frozen_sensor", within=0.2),
    _wire(Fault.JOINT_FROZEN, "A joint repeats itself, in states that do not.", *STUCK, within=0.2),
    _wire(Fault.ENCODERS_FROZEN, "The positions of all joints repeat themselves.", *STUCK, within=0.2),
    _wire(Fault.SENSORS_FROZEN, "All sensors repeat themselves; the clock goes on.", *STUCK, within=0.2),
    _wire(Fault.SPEEDS_ZERO, "All joints say that they stand still.", *STUCK, within=0.2),
    _wire(Fault.LATER, "States take longer and longer, by 9 % of the time.", "state_age", within=0.5),
    _wire(Fault.POWER, "All motors lose their power, as by a switch.", "not_following", "tilt", within=0.5),
    _wire(Fault.MOTOR, "A knee's motor gives no torque.", "not_following", "tilt", within=0.5, leg=True),
    Trouble(
        name="second-deploy",
        about="A second deployment, on another computer, wants to drive the robot.",
        causes=(),
        provoke=_second_deploy,
    ),
    _wire(Fault.STOP, "The operator presses the stop buttons of the transmitter.", OPERATOR_STOP),
    Trouble(
        name="stall",
        about=f"The control loop is not run for {1e3 * STALL:g} ms.",
        causes=("loop_overrun", "state_age"),
        provoke=_stall,
    ),
    Trouble(
        name="policy-late",
        about="The policy gives no answer any more.",
        causes=("policy_overrun",),
        provoke=_hang,
        within=0.12,
        modes=(Mode.POLICY,),
    ),
    Trouble(
        name="exception",
        about="The policy raises an exception.",
        causes=("exception",),
        provoke=_raise,
        modes=(Mode.POLICY,),
    ),
    Trouble(
        name="policy-nan",
        about="The policy puts out NaN.",
        causes=("policy_output",),
        provoke=_spoil,
        modes=(Mode.POLICY,),
    ),
)


def possible(trouble: Trouble, hardware: Hardware, contract: Contract) -> bool:
    """Whether it can happen to this robot, as it is rehearsed, and shows."""
    if trouble.name in (Fault.FALL, Fault.POWER, Fault.MOTOR):
        return not hangs(hardware)
    if trouble.name in (Fault.GYRO_SIGN, Fault.IMU_SIGN):  # of a base that turns
        return not hangs(hardware) and bool(np.any(contract.command_ranges))
    return trouble.name != Fault.LOST or hardware.family != "unitree_hg"  # whose motors tell of no lost messages


def rehearse_fault(
    bundle: Path,
    hardware: Hardware,
    trouble: Trouble,
    mode: Mode,
    *,
    quirks: Quirks,
    seed: int = 0,
    model: Path | None = None,
) -> Trial:
    """Stand up and walk until ``mode`` has lasted a while, then see what becomes of ``trouble``."""
    stage = Stage(bundle, hardware, quirks=quirks, seed=seed, model=model)
    cue = _Cue(stage, trouble, mode)
    stage.bus.attach(cue.look)
    contract = stage.policy.contract
    script = scripted(tour(contract.command_ranges, 2.0 * LONG))
    performance = stage.perform(script, LONG, config=CONFIG, on_start=cue.meet)
    if isinstance(cue.provoked, Newcomer):
        cue.provoked.leave()
    if not trouble.causes:
        return _judge_undisturbed(trouble, mode, cue.provoked, performance)
    return _judge(trouble, mode, cue.time, performance, contract)


class _Cue:
    """Provokes a trouble once, when its mode has lasted long enough."""

    def __init__(self, stage: Stage, trouble: Trouble, mode: Mode):
        self.stage, self.trouble, self.mode = stage, trouble, mode
        self.time = math.nan
        self.provoked: object = None
        """What the trouble says of itself."""
        self._controller: Controller | None = None

    def meet(self, controller: Controller) -> None:
        self._controller = controller

    def look(self, deadline: float) -> None:
        controller, now = self._controller, self.stage.bus.clock()
        if controller is None or controller.mode is not self.mode or not math.isnan(self.time):
            return
        if now - controller.since >= AFTER[self.mode]:
            self.time = now
            self.provoked = self.trouble.provoke(self.stage)


def _judge_undisturbed(trouble: Trouble, mode: Mode, newcomer: object, performance: Performance) -> Trial:
    """The newcomer is refused before it says anything, and the first goes on to its end."""
    report, audit = performance.report, performance.audit
    error = newcomer.error if isinstance(newcomer, Newcomer) else None
    return Trial(
        group=FAULTS,
        name=trouble.name,
        mode=mode.value,
        about=trouble.about,
        outcome=f"{performance.outcome}; the second: {error or 'was not refused'}",
        checks=(
            TrialCheck(title="newcomer refused", value=float(isinstance(error, DeployError)), limit=1, at_least=True),
            TrialCheck(title="writers of commands", value=len(audit.commanders), limit=1),
            TrialCheck(title="trips", value=0.0 if report is not None and report.ok else 1.0, limit=0),
            *audit.checks(),
        ),
    )


def _judge(trouble: Trouble, mode: Mode, provoked: float, performance: Performance, contract: Contract) -> Trial:
    witness, audit = performance.witness, performance.audit
    event = witness.first("trip") or witness.first("stop")
    detected = event.time if event is not None and math.isfinite(event.time) else math.nan
    frames = [frame for frame in audit.frames if frame.time >= detected]
    last_stiff = max((frame.time for frame in frames if frame.stiff), default=detected)
    after = [frame for frame in frames if frame.time > last_stiff or not frame.stiff]
    period = contract.control_dt
    cause = event.text.partition(":")[0] if event is not None else ""
    checks = (
        TrialCheck(title="reason named", value=float(cause in trouble.causes), limit=1, at_least=True),
        TrialCheck(title="detected after", value=1e3 * (detected - provoked), limit=1e3 * trouble.within, unit="ms"),
        TrialCheck(
            title="from detection to the last frame with stiffness",
            value=1e3 * (last_stiff - detected),
            limit=1e3 * POLICY_PERIODS * period,
            unit="ms",
        ),
        TrialCheck(
            title="damping at the end",
            value=after[-1].time - after[0].time if after else 0.0,
            limit=CONFIG.damp - 2.0 * period,
            unit="s",
            at_least=True,
        ),
        *audit.checks(),
    )
    return Trial(
        group=FAULTS,
        name=trouble.name,
        mode=mode.value,
        about=trouble.about,
        outcome=performance.outcome,
        checks=checks,
        facts={"detected after [ms]": 1e3 * (detected - provoked)},
    )
