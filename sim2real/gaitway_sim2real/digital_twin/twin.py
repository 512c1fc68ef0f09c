"""The digital twin: body, drives, sensors and the robot's end of the wire, stepped together."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import BUTTONS, Remote, load_function
from gaitway_onboard.transports.open import transport_of
from gaitway_onboard.wire.bus import Bus
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.robots import ROBOTS, Robot

from ..hardware import hardware_from, hardware_of
from ..mujoco.body import Body, Truth
from .command import Counters
from .drives import Drives, drive_limits
from .faults import STOP_BUTTONS, TILT, Fault, FaultBoard, FaultError, Injection
from .link import Link
from .quirks import Quirks
from .sensors import Reading, Sensors
from .side import Send, Side

TIMESTEP = 0.002  # [s]
EPSILON = 1e-9  # [s], rounding of deadlines
SERVICE_PERIOD = 0.01  # [s] between two looks for requests
PAST = 2.0  # [s] of states that can be repeated
OTHER_CLOCK = 5000  # [ms] by which the clock of a second robot is ahead
TIP_TORQUE = 2.5  # of a tipped robot, by its weight and the height of its base


class TwinError(UserError):
    """A twin that cannot be built, with the reason and the fix."""


def side_of(hardware: Hardware) -> type[Side]:
    """The robot's end of its transport."""
    row = transport_of(hardware)
    if not row.twin:
        raise TwinError(f"the transport {row.robot!r} of {hardware.name} has no twin: its row must name one")
    side: type[Side] = cast(Any, load_function(row.twin))
    return side


class Twin:
    """A robot on a bus. The caller lets time pass with :meth:`advance`; nothing here sleeps.

    In memory, with simulated time::

        computer = MemoryBus()
        twin = Twin(GO2, computer.join("twin"))
        computer.attach(twin.advance)

    Joint arrays are in the order of :attr:`joint_names`, that of the wire.
    """

    def __init__(
        self,
        robot: Robot,
        bus: Bus,
        *,
        hardware: Hardware | None = None,
        model: Path | None = None,
        quirks: Quirks | None = None,
        seed: int = 0,
        hung: bool | None = None,
        standing: bool = False,
        own_controller: bool = True,
        timestep: float | None = None,
        visual: bool = False,
        ground: Ground = LEVEL,
    ):
        """``hardware`` defaults to the robot's own. ``model`` is another MJCF of it.

        ``hung`` fixes the base to a stand, feet in the air; by default only robots on two feet are. Otherwise the robot
        lies on ``ground``, or stands if ``standing``, under its own controller if it has one: ``own_controller``.
        ``timestep`` [s] is that of the physics, by default 2 ms or what fits into the time between two states.
        """
        hardware = hardware or hardware_from(robot)
        if hardware is None:
            raise TwinError(
                f"{robot.name} has no hardware: its Robot needs hardware=Hardware(...), which names its wire"
            )
        side = side_of(hardware)
        self.period = period = side.period_of(hardware)
        """Between two states [s]."""
        if timestep is None:
            timestep = period / math.ceil(period / TIMESTEP - EPSILON)
        if not 0.0 < timestep <= period:
            raise TwinError(f"timestep = {timestep}: physics needs a step in (0, {period}] s")
        self.robot, self.hardware, self.bus = robot, hardware, bus
        self.quirks = quirks = quirks or Quirks()
        self.joint_names = hardware.joint_names
        quirks.check(robot.name, self.joint_names)
        drive_seed, sensor_seed, state_seed, command_seed = np.random.SeedSequence(seed).spawn(4)
        self.body = Body(
            robot, self.joint_names,
            model=model, timestep=timestep, parameters=quirks.parameters, visual=visual, ground=ground,
        )  # fmt: skip
        self.drives = Drives(
            self.joint_names,
            drive_limits(robot, self.joint_names, hardware.effort_limit, hardware.velocity_limit, hardware.damping),
            quirks,
            drive_seed,
        )
        self.sensors = Sensors(self.body, self.drives, quirks, sensor_seed, imu_joint=hardware.imu_joint)
        hung = robot.fixed_base or (robot.hangs if hung is None else hung)
        self.body.place(self.body.default_pos if hung or standing else self.body.folded(), hung=hung)
        self.side = side(
            bus, hardware, self.body, self.drives, quirks, standing=standing, own_controller=own_controller
        )
        self.sport = self.side.sport
        self.faults = FaultBoard(
            self.body.limits, max(hardware.velocity_limit.values()), hardware.max_motor_temperature
        )
        self._states: Link[list[tuple[Send, bytes]]] = Link(quirks.latency, quirks.jitter, quirks.loss, state_seed)
        self._incoming: Link[bytes] = Link(
            quirks.command_latency, quirks.command_jitter, quirks.command_loss, command_seed
        )
        self._delay = quirks.parameters.delay if quirks.parameters is not None else 0.0
        self._start, self._steps, self._timestep = bus.clock(), 0, timestep
        self._next_state = self._next_service = self._start
        self._reading = self.sensors.read(0, self.period)
        self._past: deque[list[bytes]] = deque(maxlen=round(PAST / self.period))
        self._doubles: dict[Fault, list[Send]] = {}
        self._tipping = False
        self._braked = robot.fixed_base  # an arm's brakes hold it until it is commanded
        self._remote, self._let_go = Remote(), math.inf

    # ---- time ------------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time on the bus's clock [s]."""
        return self._start + self._steps * self._timestep

    def advance(self, deadline: float) -> None:
        """Step until the next step would pass ``deadline`` [s] on the bus's clock."""
        self._take()
        while self.time + self._timestep <= deadline + EPSILON:
            self._step()

    def skip(self, seconds: float) -> None:
        """Let the clock jump while the world stands still, for machines that cannot keep up. Coming faults wait too."""
        self.faults.postpone(self.time, seconds)
        self._start += seconds

    def _take(self) -> None:
        for stamp, payload in self.side.receive():
            if not self.faults.active(Fault.DEAF, stamp):
                self._incoming.send(stamp + self.faults.delay(Fault.HEARD_LATER, stamp), payload)
        self.side.counters.lost = self._incoming.lost

    def _step(self) -> None:
        now, dt = self.time, self._timestep
        for due, payload in self._incoming.arrivals(now + dt - EPSILON):
            command = self.side.decode(payload)
            if command is not None:
                self.drives.command(max(due, now) + self._delay, command)
                self._braked = False
        if self.sport is not None:
            self.sport.step(now)
        if self._tipping:
            self._tip()
        if self.faults.injections:
            self._break_drives(now)
        self.body.set_drives(*self.drives.drive(now, dt, self.body.joint_vel, self.body.joint_torque))
        if not self._braked:
            self.body.step()
        self._steps += 1
        now = self.time
        if now >= self._next_state - EPSILON:
            self._sense(now)
        self._deliver(now)

    def _break_drives(self, now: float) -> None:
        faults, torque = self.faults, self.body.joint_torque
        self.drives.faulty = faults.strength(now, len(self.joint_names))
        self.drives.stuck = {
            **{joint: self.drives.limits.effort[joint] for joint in faults.joints(Fault.RUNAWAY, now)},
            **{j: self.drives.stuck.get(j, float(torque[j])) for j in faults.joints(Fault.MOTOR_STUCK, now)},
        }

    def _sense(self, now: float) -> None:
        period = self.period
        self._next_state = max(self._next_state, now - period) + period
        faults, remote = self.faults, self._remote
        for injection in faults.starting(now):
            if injection.fault is Fault.WRITER:
                self.side.intrude()
            elif injection.fault is Fault.TAKEN and self.sport is not None:
                self.sport.select(now)
                self.sport.stand_up(now)
            elif injection.fault in (Fault.REPLAY, Fault.SECOND_ROBOT):
                self._doubles[injection.fault] = self.side.double(obeys=injection.fault is Fault.SECOND_ROBOT)
            elif injection.fault is Fault.FALL:
                self._tipping = True
            elif injection.fault is Fault.FLOOR:
                self.body.drop()
        if now >= self._let_go:
            self.press()
        if faults.active(Fault.STOP, now):
            remote = Remote(remote.left, remote.right, remote.buttons | frozenset(STOP_BUTTONS))
        if faults.active(Fault.SELECT, now):
            remote = Remote(remote.left, remote.right, remote.buttons | {"select"})
        self.side.remote = remote
        clock = faults.clock(now)
        reading = faults.spoil(self.sensors.read(round(1000.0 * clock) & 0xFFFFFFFF, period), now)
        if not faults.silent(now):
            frames = self.side.state(clock, reading, intact=not faults.corrupt(now))
            if faults.active(Fault.CUT, now):
                frames = [(send, payload[: len(payload) // 2]) for send, payload in frames]
            self._past.append([payload for _, payload in frames])
            if faults.active(Fault.REWIND, now):
                frames = [(send, old) for (send, _), old in zip(frames, self._past[0], strict=True)]
            self._states.send(now + faults.delay(Fault.LATER, now), frames)
            self._double(now, reading)
        self._reading = reading

    def _double(self, now: float, reading: Reading) -> None:
        """Send what others say in this robot's place."""
        for fault, sends in self._doubles.items():
            if not self.faults.active(fault, now):
                continue
            if fault is Fault.REPLAY:
                payloads = self._past[0]
            else:
                other = replace(reading, joint_pos=self.body.default_pos, joint_vel=np.zeros_like(reading.joint_vel),
                                tick=(reading.tick + OTHER_CLOCK) & 0xFFFFFFFF)  # fmt: skip
                payloads = [payload for _, payload in self.side.state(now + OTHER_CLOCK / 1000, other, intact=True)]
            for send, payload in zip(sends, payloads, strict=True):
                send(payload)

    def _deliver(self, now: float) -> None:
        for due, frames in self._states.arrivals(now):
            self._set_clock(due)
            for send, payload in frames:
                send(payload)
        self._set_clock(now)
        if now >= self._next_service:
            self._next_service = now + SERVICE_PERIOD
            self.side.serve(now)
            self.side.beside(now, self._reading, self.truth)

    def _set_clock(self, now: float) -> None:
        if isinstance(self.bus, MemoryBus):
            self.bus.time = now

    # ---- what can be done to it ------------------------------------------------------------------------------------

    def inject(
        self, fault: Fault | str, *, after: float = 0.0, duration: float = math.inf, joint: str | None = None
    ) -> Injection:
        """Provoke a fault ``after`` seconds from now, for ``duration`` [s]; ``joint`` is the one that has it.

        A tipped robot is let go once it lies on its side, and a second writer stays: their duration means nothing.
        So do a second robot and a program that repeats states, but they fall silent.
        """
        if fault not in list(Fault):
            raise FaultError(f"there is no fault {fault!r}; there are {', '.join(Fault)}")
        fault = Fault(fault)
        known = self.side.faults_of(self.hardware)
        if fault not in known:
            raise FaultError(f"{fault}: not on this wire; there are {', '.join(sorted(known))}")
        if fault is Fault.TAKEN and self.sport is None:
            raise FaultError(f"{fault}: this robot has no controller of its own")
        if fault in (Fault.FALL, Fault.FLOOR) and self.body.hung:
            raise FaultError(f"{fault}: the robot hangs on its stand and cannot fall")
        if joint is not None and joint not in self.joint_names:
            raise FaultError(f"{fault}: no joint {joint!r}; there are {', '.join(self.joint_names)}")
        start = self.time + after
        number = 0 if joint is None else self.joint_names.index(joint)
        injection = Injection(fault=fault, start=start, end=start + duration, joint=number)
        self.faults.injections.append(injection)
        return injection

    def press(self, *buttons: str, seconds: float = math.inf) -> None:
        """Hold these buttons of the operator's transmitter, and no others, for so long."""
        if unknown := [name for name in buttons if name not in BUTTONS]:
            raise TwinError(f"the transmitter has no button {', '.join(unknown)}; it has {', '.join(BUTTONS)}")
        self._remote = Remote(self._remote.left, self._remote.right, frozenset(buttons))
        self._let_go = self.time + seconds

    def stick(self, left: tuple[float, float] = (0.0, 0.0), right: tuple[float, float] = (0.0, 0.0)) -> None:
        """Hold the sticks there, in [-1, 1]; right and up are positive."""
        self._remote = Remote(left, right, self._remote.buttons)

    def release(self) -> None:
        """Let a hung robot go."""
        self.body.hung = False

    def _tip(self) -> None:
        self._tipping = self.truth().tilt < TILT
        self.body.tip(TIP_TORQUE * self._tipping)

    # ---- what can be seen of it ------------------------------------------------------------------------------------

    def truth(self) -> Truth:
        return self.body.truth(self.time)

    @property
    def counters(self) -> Counters:
        """Counters of the frames on the command topic."""
        return self.side.counters


def open_twin(name: str, bus: Bus, *, config: Path | None = None, **settings: Any) -> Twin:
    """The twin of what ``gaitway deploy --robot`` calls ``name``; ``settings`` are :class:`Twin`'s.

    ``config`` is the file that describes a robot on ROS 2, and belongs to "ros2" alone.
    """
    hardware = hardware_of(name, config)
    return Twin(ROBOTS[hardware.robot], bus, hardware=hardware, **settings)
