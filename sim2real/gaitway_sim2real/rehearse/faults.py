"""The fault matrix: each trouble that the controller must notice, in each mode that moves the robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted, tour
from gaitway_onboard.control.controller import OPERATOR_STOP, ControllerConfig, Mode
from gaitway_onboard.interface import Array, DeployError, Signals
from gaitway_onboard.transports.open import Connection, open_robot
from gaitway_tasks.ground import LEVEL, Ground

from ..digital_twin.faults import Fault
from ..digital_twin.quirks import Quirks
from ..digital_twin.twin import side_of
from .newcomer import Newcomer
from .stage import Performance, Stage, hangs
from .verdict import FAULTS, Trial, TrialCheck

AFTER = {Mode.RAMP: 0.5, Mode.HOLD: 0.5, Mode.POLICY: 1.5, Mode.LOWER: 0.3}
"""Start of a fault, by mode, in the time of that mode [s]."""
CONFIG = ControllerConfig(hold=1.5)
DRIVEN = (Mode.RAMP, Mode.HOLD, Mode.POLICY, Mode.LOWER)
WALK = (Mode.POLICY,)
MOVING = (Mode.RAMP, Mode.POLICY)
"""Modes in which joints move, without which some faults do not show."""
FIRM = (Mode.RAMP, Mode.HOLD, Mode.POLICY)
"""Modes in which the robot stands on its stiffness."""
POLICY_PERIODS = 2
"""Policy periods within which damping must follow a detection."""
LONG = 4.0
"""Length of the policy's part [s], or longer where a fault may be noticed later."""
BRIEF = 0.2
"""Length of the policy's part [s], where the fault comes after it."""
STALL, SLOW = 0.08, 0.003
"""[s]"""


@dataclass(frozen=True)
class Trouble:
    """One row of the matrix."""

    name: str
    about: str
    causes: tuple[str, ...]
    """Causes that the controller may report: names of :data:`gaitway_onboard.safety.checks.TRIPS`, and the like.
    Without any, the controller must not be disturbed."""
    provoke: Callable[[Stage], object]
    within: float = 0.1
    """Longest time until its detection [s]."""
    modes: tuple[Mode, ...] = DRIVEN
    blind: bool = False
    """True if the controller can no longer know the robot's state: the torque of its damping is then not judged."""


LOADED = (
    Fault.FALL, Fault.POWER, Fault.MOTOR, Fault.WEAK, Fault.RUNAWAY, Fault.MOTOR_SIGN, Fault.MOTOR_STUCK, Fault.DEAF,
    Fault.HEARD_LATER, Fault.TORQUES_FROZEN, Fault.JOINT_DRIFT, Fault.IMU_CREEP, Fault.FLOOR,
)  # fmt: skip
"""Faults that show where legs carry the robot."""
OF_A_WALK = (
    Fault.GYRO_SIGN, Fault.GYRO_AXES, Fault.IMU_SIGN, Fault.HEARD_LATER, Fault.TORQUES_FROZEN, Fault.SPEEDS_SIGN,
    Fault.SPEEDS_DEGREES, Fault.DEAF,
)  # fmt: skip
"""Faults that show in a policy that moves the robot."""


def _wire(
    fault: Fault,
    about: str,
    *causes: str,
    within: float = 0.1,
    modes: tuple[Mode, ...] = DRIVEN,
    leg: bool = False,
    blind: bool = False,
) -> Trouble:
    """``leg`` is for a fault of a joint that carries the robot: the last of its first leg."""

    def provoke(stage: Stage) -> object:
        return stage.twin.inject(fault, joint=stage.bearing_joint if leg else None)

    return Trouble(fault.value, about, causes, provoke, within, modes, blind)


def _lose(stage: Stage, seconds: float) -> None:
    """Time passes for the robot while the controller is not called."""
    late = stage.bus.clock() + seconds
    stage.twin.advance(late)
    stage.bus.time = late


def _slow(stage: Stage) -> None:
    read = stage.robot.read

    def slowly() -> Signals:
        _lose(stage, SLOW)
        return read()

    stage.robot.read = slowly  # type: ignore[method-assign]


def _raise(targets: Array) -> Array:
    raise RuntimeError("the policy's code is broken")


def _hang(stage: Stage) -> None:
    stage.executor.hung = True


def _second_deploy(stage: Stage) -> Newcomer:
    def drive(bus: Newcomer) -> None:
        robot = open_robot(stage.hardware, Connection(bus=bus))
        robot.connect()
        robot.take_over()

    newcomer = Newcomer(stage.bus, drive)
    stage.bus.attach(newcomer.look)
    return newcomer


def _output(name: str, about: str, change: Callable[[Array], Array], *causes: str) -> Trouble:
    """``change`` makes of the policy's targets what it puts out instead."""

    def provoke(stage: Stage) -> None:
        stage.policy.twist = change

    return Trouble(name, about, causes or ("policy_output",), provoke, modes=WALK)


def _broken(*args: object) -> Any:
    raise OSError("the network is down")


def _no_reading(stage: Stage) -> None:
    stage.robot.read = _broken  # type: ignore[method-assign]


def _no_writing(stage: Stage) -> None:
    stage.robot.write = _broken  # type: ignore[method-assign,assignment]


def _commander(stage: Stage) -> None:
    """A second program lets the robot go limp, again and again."""
    ear = stage.audit.ear
    commands, frame = stage.bus.join("commander").publisher(ear.commands), ear.limp()
    stage.bus.attach(lambda deadline: commands.send(frame))


def _now_and_then(fault: Fault, seconds: float) -> Callable[[Stage], None]:
    def provoke(stage: Stage) -> None:
        for number in range(3):
            stage.twin.inject(fault, after=0.1 + 0.4 * number, duration=seconds)

    return provoke


STUCK = ("frozen_sensor", "joint_inconsistent", "not_following")
WEAKER = ("not_following", "tilt")
FALLING = (*WEAKER, "joint_velocity", "joint_limit", "imu_inconsistent")
OBEYS_ANOTHER = ("taken_back", "not_following")
LATE = ("loop_overrun", "state_age")
"""Causes that the controller may report for troubles that look alike to it."""

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
    _wire(Fault.FALL, "The robot is tipped over.", *FALLING, within=1.0),
    _wire(Fault.JOINT_NAN, "An encoder says NaN.", "not_finite"),
    _wire(Fault.JOINT_RANGE, "An encoder reads beyond the end of its joint.", "joint_limit"),
    _wire(Fault.JOINT_JUMP, "An encoder slips, within its joint's range.", "joint_jump"),
    _wire(Fault.JOINT_SPEED, "A joint seems to turn faster than its motor can.", "joint_velocity"),
    _wire(Fault.TEMPERATURE, "A motor is too hot.", "temperature"),
    _wire(Fault.BATTERY, "The battery is nearly empty.", "battery"),
    _wire(Fault.LOST, "A motor counts lost messages with every state.", "motor_lost"),
    _wire(Fault.WRITER, "A second program offers commands.", "second_writer", within=0.6),
    _wire(Fault.TAKEN, "An app switches the robot's own controller on again.", *OBEYS_ANOTHER, within=0.2),
    _wire(Fault.GYRO_SIGN, "The gyroscope's signs are wrong.", "imu_inconsistent", within=1.0, modes=WALK),
    _wire(Fault.GYRO_OFF, "The gyroscope is off by 50 rad/s.", "imu_inconsistent"),
    _wire(Fault.IMU_SIGN, "The IMU's orientation is conjugated.", "imu_inconsistent", within=1.0, modes=WALK),
    _wire(Fault.IMU_DRIFT, "The IMU's orientation drifts, by 0.1 rad/s.", "imu_inconsistent", within=5.0, modes=FIRM),
    _wire(Fault.IMU_FROZEN, "The IMU repeats itself, in states that do not.", "frozen_sensor", within=0.2),
    _wire(Fault.JOINT_FROZEN, "A joint repeats itself, in states that do not.", *STUCK, within=0.2),
    _wire(Fault.ENCODERS_FROZEN, "The positions of all joints repeat themselves.", *STUCK, within=0.2),
    _wire(Fault.SENSORS_FROZEN, "All sensors repeat themselves; the clock goes on.", *STUCK, within=0.2),
    _wire(Fault.SPEEDS_ZERO, "All joints say that they stand still.", *STUCK, within=0.2),
    _wire(Fault.LATER, "States take longer and longer, by 9 % of the time.", "state_age", within=0.5),
    _wire(Fault.POWER, "All motors lose their power, as by a switch.", *WEAKER, within=0.5),
    _wire(Fault.MOTOR, "A knee's motor gives no torque.", *WEAKER, within=0.5, leg=True),
    Trouble("second-deploy", "A second deployment, on another computer, wants to drive the robot.", (), _second_deploy),
    _wire(Fault.STOP, "The operator presses the stop buttons of the transmitter.", OPERATOR_STOP),
    Trouble("stall", f"The control loop is not run for {1e3 * STALL:g} ms.", LATE, lambda stage: _lose(stage, STALL)),
    Trouble("policy-late", "The policy gives no answer any more.", ("policy_overrun",), _hang, 0.12, WALK),
    _output("exception", "The policy raises an exception.", _raise, "exception"),
    _output("policy-nan", "The policy puts out NaN.", lambda out: np.nan * out),
    _wire(Fault.GYRO_NAN, "The gyroscope says NaN.", "imu"),
    _wire(Fault.GYRO_ZERO, "The gyroscope says that nothing turns.", "frozen_sensor", "imu_inconsistent"),
    _wire(Fault.GYRO_FROZEN, "The gyroscope alone repeats itself.", "frozen_sensor", "imu_inconsistent"),
    _wire(  # within 2 s, since a calm gait rolls and pitches little
        Fault.GYRO_AXES, "The gyroscope's x and y are taken for each other.", "imu_inconsistent", within=2.0, modes=WALK
    ),
    _wire(Fault.IMU_ORDER, "The orientation comes as (x, y, z, w).", "imu_inconsistent", "tilt"),
    _wire(Fault.IMU_NORM, "The quaternion is twice as long as it should be.", "imu"),
    _wire(Fault.IMU_SLIP, "The IMU's mounting gives way, by 0.4 rad.", "imu_inconsistent"),
    _wire(Fault.IMU_CREEP, "The IMU's mounting creeps, by 0.1 rad/s.", "imu_inconsistent", within=7.0, modes=WALK),
    _wire(Fault.ACCELEROMETER_ZERO, "The accelerometer is dead.", "imu"),
    _wire(Fault.FLOOR, "The floor vanishes.", "falling", "not_following", within=0.5, modes=FIRM),
    _wire(Fault.ACCELEROMETER_SIGN, "The accelerometer's signs are wrong.", "imu_inconsistent", within=1.0),
    _wire(Fault.JOINT_INF, "An encoder says infinity.", "not_finite"),
    _wire(Fault.JOINT_SPEED_NAN, "The speed of a joint is NaN.", "not_finite"),
    _wire(Fault.JOINT_TORQUE_NAN, "The torque that a drive reports is NaN.", "not_finite"),
    _wire(Fault.JOINT_SIGN, "A knee's encoder counts the wrong way round.", "joint_jump", "joint_limit", leg=True),
    _wire(
        Fault.JOINT_DRIFT, "A knee's encoder drifts, by 0.5 rad/s.", *STUCK, "joint_limit", within=1.0, modes=FIRM,
        leg=True,
    ),
    _wire(Fault.JOINT_FLICKER, "An encoder goes to and fro, by 0.4 rad.", "joint_jump", "joint_inconsistent"),
    _wire(Fault.SPEEDS_SIGN, "All speeds have the wrong sign.", *STUCK, within=1.0, modes=MOVING),
    _wire(Fault.SPEEDS_DEGREES, "All speeds are in degrees.", "joint_velocity", *STUCK, within=1.0),
    _wire(Fault.TORQUES_FROZEN, "The torques that drives report repeat themselves.", *STUCK, within=0.5, modes=WALK),
    _wire(Fault.CLOCK_SLOW, "The robot's clock runs half as fast.", "state_age", "clock"),
    _wire(Fault.CLOCK_STANDS, "The robot's clock stands, in states that go on.", "frozen_tick"),
    _wire(Fault.CLOCK_JUMP, "The robot's clock jumps ahead by 10 s.", "clock"),
    _wire(Fault.RESTART, "The robot's clock begins anew.", "tick_back", "clock", blind=True),
    _wire(Fault.SPARSE, "Only one state in 40 ms comes.", "state_age"),
    _wire(Fault.CORRUPT, "Every tenth state has a wrong checksum.", "checksum", within=0.5),
    _wire(Fault.CUT, "States come cut in half.", "state_age"),
    _wire(Fault.DEAF, "The robot hears no commands any more.", *WEAKER, within=0.5, modes=MOVING),
    _wire(Fault.HEARD_LATER, "Commands take longer and longer.", *WEAKER, within=2.0, modes=WALK),
    _wire(Fault.WEAK, "All drives give a third of their torque.", *WEAKER, within=0.5, modes=FIRM),
    _wire(Fault.RUNAWAY, "A knee's motor gives all that it can.", *WEAKER, "joint_velocity", leg=True),
    _wire(Fault.MOTOR_SIGN, "A knee's motor turns the wrong way round.", "not_following", "joint_velocity", leg=True),
    _wire(
        Fault.MOTOR_STUCK, "A knee's motor goes on with the torque that it has.", "not_following", within=0.5,
        modes=MOVING, leg=True,
    ),
    _wire(Fault.SELECT, "The operator presses the other stop button.", OPERATOR_STOP),
    Trouble("slow-loop", f"Every turn of the control loop takes {1e3 * SLOW:g} ms more.", LATE, _slow),
    Trouble("no-reading", "Reading raises an error.", ("exception",), _no_reading, blind=True),
    Trouble("no-writing", "Writing raises an error.", ("exception",), _no_writing, blind=True),
    _output("policy-infinite", "The policy puts out infinity.", lambda out: np.full(len(out), np.inf)),
    _output("policy-far", "The policy wants a joint 20 rad away.", lambda out: out + 20.0 * np.eye(len(out))[0]),
    _output("policy-width", "The policy puts out a target too few.", lambda out: out[1:], "exception", "policy_output"),
    Trouble("commander", "A second program sends commands.", ("second_writer",), _commander, 0.6),
    Trouble("hiccup", "Three times, no state comes for 6 ms.", (), _now_and_then(Fault.SILENCE, 0.006)),
    Trouble("bad-states", "Three times, two states have a wrong checksum.", (), _now_and_then(Fault.CHECKSUM, 0.004)),
)  # fmt: skip


def possible(trouble: Trouble, hardware: Hardware, contract: Contract, mode: Mode = Mode.POLICY) -> bool:
    """True if it can happen to this robot, as it is rehearsed, and shows in ``mode``."""
    if mode is Mode.POLICY and trouble.name in OF_A_WALK:
        return not hangs(hardware) and bool(np.any(contract.command_ranges))
    if trouble.name in LOADED:
        return not hangs(hardware)
    return trouble.name not in list(Fault) or Fault(trouble.name) in side_of(hardware).faults_of(hardware)


def rehearse_fault(
    bundle: Path,
    hardware: Hardware,
    trouble: Trouble,
    mode: Mode,
    *,
    quirks: Quirks,
    seed: int = 0,
    model: Path | None = None,
    ground: Ground = LEVEL,
) -> Trial:
    """Stand up and walk until ``mode`` has lasted a while, then see what becomes of ``trouble``."""
    stage = Stage(bundle, hardware, quirks=quirks, seed=seed, model=model, ground=ground)
    cue = _Cue(stage, trouble, mode)
    stage.bus.attach(cue.look)
    contract = stage.policy.contract
    seconds = BRIEF if mode is Mode.LOWER else max(LONG, AFTER[mode] + trouble.within)
    script = scripted(tour(contract.command_ranges, 2.0 * seconds))
    performance = stage.perform(script, seconds, config=CONFIG)
    outcome = performance.outcome
    facts: dict[str, float] = {}
    if isinstance(cue.provoked, Newcomer):
        cue.provoked.leave()
        outcome += f"; the second: {cue.provoked.error or 'was not refused'}"
    if trouble.causes:
        facts, checks = _damped(trouble, cue.time, performance, contract.control_dt)
    else:
        checks = _undisturbed(cue.provoked, performance)
    return Trial(
        group=FAULTS,
        name=trouble.name,
        mode=mode.value,
        about=trouble.about,
        outcome=outcome,
        checks=checks,
        facts=facts,
    )


class _Cue:
    """Provokes a trouble once, when its mode has lasted long enough."""

    def __init__(self, stage: Stage, trouble: Trouble, mode: Mode):
        self.stage, self.trouble, self.mode = stage, trouble, mode
        self.time = math.nan
        self.provoked: object = None
        """What the trouble says of itself."""

    def look(self, deadline: float) -> None:
        controller, now = self.stage.controller, self.stage.bus.clock()
        if controller is None or controller.mode is not self.mode or not math.isnan(self.time):
            return
        if now - controller.since >= AFTER[self.mode]:
            self.time = now
            self.provoked = self.trouble.provoke(self.stage)


def _undisturbed(newcomer: object, performance: Performance) -> tuple[TrialCheck, ...]:
    """The robot is driven on to the end; a newcomer is refused before it says anything."""
    refused = [isinstance(newcomer.error, DeployError)] if isinstance(newcomer, Newcomer) else []
    return (
        *(TrialCheck.holds("newcomer refused", told) for told in refused),
        TrialCheck("writers of commands", len(performance.audit.commanders), 1),
        TrialCheck("trips", performance.trips, 0),
        *performance.audit.checks(),
    )


def _damped(
    trouble: Trouble, provoked: float, performance: Performance, period: float
) -> tuple[dict[str, float], tuple[TrialCheck, ...]]:
    """The trouble is named in time, and the robot is damped from then on; ``period`` is the policy's [s]."""
    witness, audit = performance.witness, performance.audit
    event = witness.first("trip") or witness.first("stop")
    detected = event.time if event is not None and math.isfinite(event.time) else math.nan
    frames = [frame for frame in audit.frames if frame.time >= detected]
    last_stiff = max((frame.time for frame in frames if frame.stiff), default=detected)
    after = [frame for frame in frames if frame.time > last_stiff or not frame.stiff]
    lasted = after[-1].time - after[0].time if after else 0.0
    cause = event.text.partition(":")[0] if event is not None else ""
    late, stiff = 1e3 * (detected - provoked), 1e3 * (last_stiff - detected)
    return {"detected after [ms]": late}, (
        TrialCheck.holds("reason named", cause in trouble.causes),
        TrialCheck("detected after", late, 1e3 * trouble.within, "ms"),
        TrialCheck("from detection to the last frame with stiffness", stiff, 1e3 * POLICY_PERIODS * period, "ms"),
        TrialCheck("damping at the end", lasted, CONFIG.damp - 2.0 * period, "s", at_least=True),
        *audit.checks(stiff=trouble.blind),
    )
