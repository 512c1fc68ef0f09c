"""The state machine between a robot and its policy: pure, without threads and without a clock of its own.

::

    init -> passive -> ramp -> hold -> policy -> settle -> hold -> lower -> damp
    any of them, on any fault or stop,                                   -> damp

It is called once per period of the robot's commands with the newest signals, and says what to send. The loops around
it, in simulated time (:mod:`.loop`) and real time (:mod:`.runner`), do no more than read, call, and write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict, Unpack

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.hardware import Hardware

from ..bundle.contract import Contract
from ..estimation.estimator import Estimator
from ..flight.log import FlightLog
from ..interface import Array, Decision, Signals
from ..safety.checks import ALWAYS_FATAL, SafetyFilter
from ..safety.clamp import Command
from ..safety.fault import Fault
from ..safety.gains import standing_gains, walking_gains
from ..safety.limits import SafetyLimits
from ..safety.support import Support
from .commands import CommandSource, follow
from .executor import Executor

FINISHED, OPERATOR_STOP = "finished", "operator_stop"
REMIND = 30.0
"""Time between two lines that say what the robot waits for [s]."""


Pose = tuple[Array, Array, Array]
"""Targets [rad], kp and kd, (J,) each."""


class Mode(StrEnum):
    INIT = "init"  # damping: the signals do not make sense yet
    PASSIVE = "passive"  # damping: waits for the operator
    RAMP = "ramp"  # from the measured pose to the default pose
    HOLD = "hold"  # in the default pose; waits for the operator
    POLICY = "policy"
    SETTLE = "settle"  # the policy with the command of rest, before the end
    LOWER = "lower"  # the gains of the standing robot fade to damping
    DAMP = "damp"  # final


ABOUT = {
    Mode.PASSIVE: "ready, damped",
    Mode.RAMP: "standing up",
    Mode.HOLD: "in the default pose",
    Mode.POLICY: "the policy drives",
    Mode.SETTLE: "the policy stands until the robot is lowered",
    Mode.LOWER: "sinking",
}


class Request(StrEnum):
    """Request of an operator."""

    START = "start"  # from passive to standing up, from standing to the policy
    LOWER = "lower"  # end softly
    STOP = "stop"  # damp now


class ConfigError(UserError):
    """Durations that no controller can keep."""


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """Durations [s] and limits."""

    ready_timeout: float = 5.0
    """Longest time for which the signals may make no sense before anything moves [s]."""
    ramp: float = 2.0
    """Shortest ramp from the measured to the default pose [s], typically 1 to 5; ``ramp_speed`` may lengthen it."""
    ramp_speed: float = 1.5
    """Largest speed of a joint in the ramp [rad/s]; typically 0.5 to 2."""
    fade: float = 0.3
    """Time over which gains and targets blend from one mode to the next [s]; typically 0.1 to 0.5."""
    hold: float = 0.5
    """Shortest time in the default pose [s]."""
    settle: float = 1.0
    """Time of the policy at rest, once its command has come to rest, before the robot is lowered [s]."""
    lower: float = 2.0
    """Time over which the gains of a standing robot fade to damping [s]; typically 1 to 5."""
    damp: float = 0.5
    """Time of the damping commands after the end [s]; the loop sends them."""
    auto: bool = True
    """True goes on without an operator's start."""
    start: str = "an operator's start"
    """What the operator has to do to go on, as messages name it: "Enter", for example."""
    limits: SafetyLimits = field(default_factory=SafetyLimits)

    def __post_init__(self) -> None:
        for name in ("ramp", "ramp_speed", "fade", "lower", "damp"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)}: a time or speed above zero is needed")
        for name in ("ready_timeout", "hold", "settle"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)}: a time of at least zero is needed")


class Options(TypedDict, total=False):
    """Options of a :class:`Controller`; the loops pass them on."""

    config: ControllerConfig | None
    """Durations and limits."""
    hardware: Hardware | None
    """Tightens the limits."""
    estimator: Estimator | None
    """Estimator of inputs of the policy that no sensor gives."""
    support: Support | None
    """Where the legs say that up is, by :func:`~gaitway_onboard.safety.support.open_support`."""
    flight: FlightLog | None
    """Log of the flight; it stays open."""
    say: Callable[[str], None] | None
    """Callback for messages to the operator, such as the reason of a refused start."""


class Controller:
    """``step(signals, now)`` says what to send. One instance drives one robot, once."""

    def __init__(
        self,
        contract: Contract,
        joint_names: tuple[str, ...],
        executor: Executor,
        command: CommandSource,
        seconds: float,
        *,
        period: float,
        **options: Unpack[Options],
    ):
        """``seconds`` of policy, which may be ``inf``; ``period`` between two calls of :meth:`step` [s]."""
        self.config, hardware = options.get("config") or ControllerConfig(), options.get("hardware")
        self.contract, self.joint_names, self.executor = contract, joint_names, executor
        self.source, self.seconds, self.period = command, seconds, period
        self.estimator, self.log = options.get("estimator"), options.get("flight") or FlightLog()
        self._say = options.get("say") or (lambda text: None)
        self.safety = SafetyFilter(contract, joint_names, self.config.limits, hardware, options.get("support"))
        self.standing = standing_gains(contract, joint_names, hardware)
        self.walking = walking_gains(contract, joint_names)
        damping = self.walking[1] if hardware is None else np.array([hardware.damping[name] for name in joint_names])
        self.loose: tuple[Array, Array] = np.zeros(len(joint_names)), damping
        """Gains of damping."""

        self.mode, self.since = Mode.INIT, math.nan
        self.command = contract.still
        """Command of the newest policy period, by :attr:`.Contract.command_names`."""
        self.cause: str | None = None
        """Name of the fault or stop that ended it; None while it runs."""
        self.reason = "finished"
        self.failed = False
        """True if a fault ended it."""
        self.policy_overruns = self.clamped = 0
        """Periods of POLICY without a result in time, and with a clamped command."""
        self.compute_us: list[float] = []
        """From signals to the policy's targets, for each period of POLICY."""
        self._request: Request | None = None
        self._why = ""
        self._stop: tuple[str, str] | None = None
        self._blame: tuple[str, str] | None = None
        self._newest: Signals | None = None
        start: Pose = (self.safety.default, *self.loose)
        self._start: Pose = start
        self._asked: Pose = start
        self._sent: Pose = start
        self._move, self._to_rest = self.config.fade, 0.0
        self._goal, self._next, self._begun = self.safety.default, math.nan, math.nan
        self._ending = self._clamped_now = False
        self._late, self._remind = 0, math.inf

    @property
    def ended(self) -> bool:
        return self.mode is Mode.DAMP

    def request(self, request: Request, why: str = "asked for by the operator") -> None:
        """Take note of a wish; the next :meth:`step` heeds it, or nothing does."""
        if request is Request.STOP:
            self.stop(OPERATOR_STOP, "stopped by the operator")
        else:
            self._request, self._why = request, why

    def stop(self, cause: str, reason: str) -> None:
        """Damp from the next :meth:`step` on. May be called at any time, by a signal handler too."""
        self._stop = cause, reason

    def note(self, kind: str, text: str, now: float) -> None:
        """Tell the operator and the flight log."""
        self.log.event(now, kind, text)
        self._say(text)

    def abandon(self, cause: str, reason: str, now: float) -> None:
        """Lower the robot for a fault that leaves time for it; the end counts as failed. Only the first call counts."""
        if self._blame is not None or self.failed:
            return
        self._blame = cause, reason
        self.note("fault", f"{cause}: {reason}", now)
        if self.ended:
            (self.cause, self.reason), self.failed = self._blame, True

    def end(self, cause: str, reason: str, now: float, *, failed: bool) -> None:
        """Damp from now on, for this reason. Only the first call counts."""
        if self._blame is not None and not failed:
            (cause, reason), failed = self._blame, True
        if not self.ended:
            self._enter(Mode.DAMP, now)
            self.cause, self.reason, self.failed = cause, reason, failed
            self.log.event(now, "trip" if failed else "stop", f"{cause}: {reason}")

    def step(self, signals: Signals, now: float) -> Command | None:
        """Command to send in this period; None stands for the robot's own damping."""
        if math.isnan(self.since):
            self.since = now
        if self._stop is not None:
            self.end(*self._stop, now, failed=False)
        fault = None if self.ended else self.safety.fault(signals, now)
        if self._newest is None or signals.stamp != self._newest.stamp:
            if self.estimator is not None and fault is None and not self.ended:
                self.estimator.update(signals)
            self.log.state(signals)
        elif self.estimator is not None:
            for name in self.estimator.provides:
                setattr(signals, name, getattr(self._newest, name))
        self._newest = signals
        if fault is not None:
            self._judge(fault, now)
        elif not self.ended:
            self._advance(signals, now)
        self._request = None  # what cannot be heeded now is not heeded later, when nobody expects it
        command = self._command(signals, now)
        self.safety.sent(command)
        return command

    def _judge(self, fault: Fault, now: float) -> None:
        """A fault before anything moves may still go away."""
        if self.mode not in (Mode.INIT, Mode.PASSIVE) or fault.name in ALWAYS_FATAL:
            self.end(fault.name, fault.text, now, failed=True)
        elif self._request is Request.LOWER:
            self.end(FINISHED, self._why, now, failed=False)
        elif self.mode is Mode.PASSIVE:
            self._say(f"not ready any more: {fault.text}; waits up to {self.config.ready_timeout:g} s for it to end")
            self._enter(Mode.INIT, now)
        elif now - self.since > self.config.ready_timeout:
            self.end(fault.name, f"the robot did not become ready: {fault.text}", now, failed=True)
        if self._request is Request.START and not self.ended:
            self._say(f"not started: {fault.text}")

    def _waits(self) -> bool:
        """True if only an operator can end this mode."""
        return not self.config.auto and self.mode in (Mode.PASSIVE, Mode.HOLD) and not self._ending

    def _advance(self, signals: Signals, now: float) -> None:
        """Change mode if it is time, and compute what the mode asks for."""
        config, start = self.config, self._request is Request.START or self.config.auto
        done = now - self.since + 1e-9
        if self.mode is Mode.INIT:
            self._enter(Mode.PASSIVE, now)
        if (self._blame is not None or self._request is Request.LOWER) and not self._ending:
            self._lower(now, self._why)
        elif self.mode is Mode.PASSIVE and start:
            self._sent = (np.array(signals.joint_pos, float), *self.loose)
            self._enter(Mode.RAMP, now, at_least=config.ramp)
        elif self.mode is Mode.RAMP and done >= self._move:
            self._enter(Mode.HOLD, now)
            if self.estimator is not None:
                self.estimator.reset()
        elif self.mode is Mode.HOLD and done >= max(config.hold, self._move):
            if self._ending:
                self._enter(Mode.LOWER, now)
            elif start:
                self._hand_over(signals, now)
        elif self.mode is Mode.POLICY and done > self.seconds - 0.5 * self.period:
            self._lower(now, "finished")
        elif self.mode is Mode.SETTLE and done >= config.settle + self._to_rest:
            self._enter(Mode.HOLD, now)
        elif self.mode is Mode.LOWER and done >= config.lower:
            self.end(FINISHED, self.reason, now, failed=False)
        if self._waits() and now >= self._remind:
            self._remind = now + REMIND
            self._say(f"{self.mode}: still waits for {config.start}")
        self._ask(signals, now)

    def _lower(self, now: float, reason: str) -> None:
        """Begin the soft end, wherever the robot is."""
        if self.mode is Mode.PASSIVE:
            self.end(FINISHED, reason, now, failed=False)
        else:
            self.reason, self._ending = reason, True
            self._enter(Mode.SETTLE if self.mode is Mode.POLICY else Mode.LOWER, now)

    def _hand_over(self, signals: Signals, now: float) -> None:
        if (unready := self.safety.not_ready(signals)) is None:
            self.executor.reset()
            self._goal, self._next, self._begun, self._late = self.safety.default, now, now, 0
            self._enter(Mode.POLICY, now)
        elif self.config.auto:
            self.end(unready.name, unready.text, now, failed=True)
        else:
            self._say(f"not started: {unready.text}")

    def _enter(self, mode: Mode, now: float, at_least: float = 0.0) -> None:
        """Change mode: its targets and gains are reached from those of the last one, smoothly, in ``_move`` seconds."""
        if self.mode is Mode.POLICY:
            self._close_period()
        if mode is not Mode.SETTLE:  # which goes on as POLICY did
            self._start = self._sent
            far = float(np.abs(self.safety.default - self._sent[0]).max())
            # A smooth step is at its fastest 1.5 times as fast as its mean.
            self._move = max(at_least, self.config.fade, 1.5 * far / self.config.ramp_speed)
        if mode is Mode.SETTLE:
            self._to_rest = self.contract.time_to_rest(self.command)
        if mode is not Mode.POLICY:
            self.command = self.contract.still
        self.mode, self.since = mode, now
        self.log.event(now, "mode", mode.value)
        if mode in ABOUT:
            self._remind = now + REMIND
            self._say(f"{mode}: {ABOUT[mode]}{f'; waits for {self.config.start}' if self._waits() else ''}")

    def _ask(self, signals: Signals, now: float) -> None:
        """Set the joint targets and gains of this mode, before any clamp."""
        elapsed, fade = now - self.since, self.config.fade
        if self.mode in (Mode.RAMP, Mode.HOLD):
            # At the end feet stand where the policy put them, and stiffness would drag them over the ground.
            gains = self.walking if self._ending else self.standing
            self._blend(elapsed / self._move, elapsed / fade, self.safety.default, gains)
        elif self.mode in (Mode.POLICY, Mode.SETTLE):
            self._run_policy(signals, now)
            share = (now - self._begun) / fade
            self._blend(share, share, self._goal, self.walking)
        elif self.mode is Mode.LOWER:
            self._blend(0.0, elapsed / self.config.lower, self._start[0], self.loose)

    def _blend(self, moved: float, changed: float, targets: Array, gains: tuple[Array, Array]) -> None:
        """Go on from the mode's start: shares of the way that targets and gains have gone, in time."""
        moved, changed = _smooth(moved), _smooth(changed)
        pose, stiffness, damping = self._start
        self._asked = (
            targets if moved == 1.0 else pose + moved * (targets - pose),
            gains[0] if changed == 1.0 else stiffness + changed * (gains[0] - stiffness),
            gains[1] if changed == 1.0 else damping + changed * (gains[1] - damping),
        )

    def _run_policy(self, signals: Signals, now: float) -> None:
        """Fetch what the policy decided, and let it decide anew when its period has come."""
        self._fetch(now)
        if self.ended or now < self._next - 0.5 * self.period:
            return
        if self.mode is Mode.POLICY:
            self._close_period()
            self.command = follow(self.source(now - self._begun), self.command, self.contract)
        self._next += self.contract.control_dt
        if self._next <= now:  # periods were missed altogether: the policy knows no shorter ones
            self._next = now + self.contract.control_dt
        if self.executor.submit(signals, self.command, now):
            self._fetch(now)
            return
        self.policy_overruns += 1
        self._late += 1
        if self._late > self.config.limits.max_policy_overruns:
            late = f"the policy has had no result for {self._late} periods of {1e3 * self.contract.control_dt:g} ms"
            self.end("policy_overrun", late, now, failed=True)

    def _fetch(self, now: float) -> None:
        if (decision := self.executor.poll()) is None:
            return
        late, self._late = self._late > 0, 0
        fault = self._refuse(decision)
        self.log.policy(decision, late)
        if self.mode is Mode.POLICY:
            self.compute_us.append(decision.compute_us)
        if fault is not None:
            self.end(fault.name, fault.text, now, failed=True)
            return
        self._goal, cut = self.safety.limit_rate(decision.targets.astype(float), self._goal)
        self._clamped_now |= cut

    def _refuse(self, decision: Decision) -> Fault | None:
        if decision.refused is not None:
            return Fault("policy_output", decision.refused)
        return self.safety.nonsense(decision.targets)

    def _close_period(self) -> None:
        """A policy period is over: was any of its commands clamped?"""
        self.clamped += self._clamped_now
        self._clamped_now = False

    def _command(self, signals: Signals, now: float) -> Command | None:
        """Clamp and log what was asked for; damping is lowered only where its torque would be too large."""
        if self.mode in (Mode.INIT, Mode.PASSIVE, Mode.DAMP):
            return self._damping(signals, now)
        targets, stiffness, damping = self._asked
        command = self.safety.clamp.command(targets, signals.joint_pos, signals.joint_vel, stiffness, damping)
        if command.clamped and self.mode is Mode.POLICY:
            if self.clamped == 0 and not self._clamped_now:
                self.log.event(now, "clamp", self._worst(command))
            self._clamped_now = True
        self._sent = (command.targets.astype(float), command.stiffness.astype(float), command.damping.astype(float))
        self.log.frame(now, self.mode, command.targets, command.stiffness, command.damping, targets)
        return command

    def _damping(self, signals: Signals, now: float) -> Command | None:
        known = np.isfinite(signals.joint_pos) & np.isfinite(signals.joint_vel)
        pos, vel = (np.where(known, each, 0.0) for each in (signals.joint_pos, signals.joint_vel))
        command = self.safety.clamp.damp(pos, vel, self.loose[1])
        self.log.frame(now, self.mode, command.targets, command.stiffness, command.damping, command.targets)
        return command if command.clamped else None

    def _worst(self, command: Command) -> str:
        change = command.targets - self._asked[0]
        worst = int(np.abs(change).argmax())
        return f"the target of {self.joint_names[worst]} was moved by {change[worst]:+.3f} rad"


def _smooth(share: float) -> float:
    """Curve from 0 to 1 with no speed at either end: 3 s^2 - 2 s^3."""
    share = min(1.0, max(0.0, share))
    return share * share * (3.0 - 2.0 * share)
