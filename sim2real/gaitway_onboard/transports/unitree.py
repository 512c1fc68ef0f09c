"""Unitree's robots over their own DDS topics: ``rt/lowstate`` in, ``rt/lowcmd`` out, both message families.

Nothing is published before :meth:`UnitreeRobot.take_over`. Everything that goes over the wire at the control rate lives
in two preallocated payloads; see :mod:`gaitway_onboard.wire.layouts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
from gaitway_files.hardware import Hardware

from ..interface import Array, DeployError, Remote, SafeStop, Signals
from ..wire.bus import Endpoint, Subscriber, Topic
from ..wire.declarations import HG_BMS_STATE, WIRELESS_CONTROLLER
from ..wire.idl import Struct, WireError
from ..wire.layouts import Message, layout_of
from .motion_switcher import Watch, release
from .on_bus import BusRobot
from .open import Connection
from .order import Order
from .remote import make_remote
from .source import refuse_drivers
from .unitree_frames import COMMANDS, STATES, TICKS, WRAPS, CommandFrame, StateFrame

COMMAND, STATE, BATTERY, REMOTE = "rt/lowcmd", "rt/lowstate", "rt/lf/bmsstate", "rt/wirelesscontroller"
ENOUGH = 5
"""Good states that make a connection."""
LEAVING = 1.0
"""Seconds that the robot's own controller gets to leave the topic of commands once it is released."""
LISTEN = 0.3
"""Seconds of listening to a second writer: 150 commands of one that sends at the usual rate."""
HEARD = 256
"""Commands that may come between two looks at who sends them, one's own among them."""
REMOTE_AGE = 0.5
"""A transmitter that was silent for so long [s] is out of reach; its buttons are not held."""


class UnitreeRobot(BusRobot):
    """Implements :class:`gaitway_onboard.interface.HardwareInterface`; joints are in the order of the wire."""

    def __init__(self, hardware: Hardware, connection: Connection):
        if hardware.family not in COMMANDS:
            raise DeployError(f"{hardware.name} speaks {hardware.family}, not one of {', '.join(COMMANDS)}")
        topic = Topic(COMMAND, COMMANDS[hardware.family].name)
        super().__init__(hardware, connection.dds(), topic, connection.robot_ids)
        self.connection = connection
        self.state_topic = Topic(STATE, STATES[hardware.family].name, reliable=False, depth=8)
        self._damping = np.array([hardware.damping[name] for name in self.joint_names])
        self._state, self._command = StateFrame(hardware), CommandFrame(hardware)
        self._order = Order(TICKS, WRAPS)
        self._battery: Subscriber | None = None
        self._remote_topic: Subscriber | None = None
        self._seen = self._corrupt = self._unsealed = self._foreign = 0
        self._heard: Subscriber | None = None
        self._watch: Watch | None = None
        self._charge: float | None = None
        self._remote, self._remote_stamp = Remote(), -np.inf

    # ---- before the first command ----------------------------------------------------------------------------------

    def connect(self, timeout: float = 3.0) -> None:
        if self.hardware.family == "unitree_hg":
            self._battery = self.bus.subscriber(Topic(BATTERY, HG_BMS_STATE.name, reliable=False))
        else:
            self._remote_topic = self.bus.subscriber(Topic(REMOTE, WIRELESS_CONTROLLER.name, reliable=False))
        self._connect([self.state_topic], lambda: self._seen >= ENOUGH, timeout)
        self._check_machine()
        self.check_alone()

    def _silence(self, timeout: float) -> str:
        """Reason why there is no state, as far as it can be told."""
        name, family, there = self.hardware.name, self.hardware.family, self.connection.where
        if self._foreign:
            return (
                f"what comes on {STATE} is no {family} message, which {name} speaks: another robot, or another "
                "firmware: name the robot that is there"
            )
        if self._corrupt and self._corrupt == self._unsealed:
            return (
                f"none of the {self._corrupt} states on {STATE} has a checksum: is this a simulator? --unsealed-states "
                "believes them all the same"
            )
        if self._corrupt:
            return (
                f"all {self._corrupt} states on {STATE} had a wrong checksum within {timeout:g} s: do not drive this "
                "robot; is its firmware one that Gaitway knows?"
            )
        if self._seen:
            return f"only {self._seen} good states came on {STATE} within {timeout:g} s: is the network overloaded?"
        if types := self.bus.other_types(self.state_topic):
            return (
                f"{STATE} carries {', '.join(types)}, and {name} speaks {self.state_topic.type}: another robot, or "
                "another firmware: name the robot that is there"
            )
        if writers := self.bus.other_writers(self.state_topic):
            return (
                f"no state came within {timeout:g} s on {there}, though {', '.join(writers)} offers {STATE}: "
                "does a firewall block UDP, or is the robot still starting?"
            )
        return (
            f"no state came within {timeout:g} s, and no program offers {STATE} on {there}: is the robot on, the "
            "cable in, the interface the one that faces the robot (an address in 192.168.123.x), and the domain right?"
        )

    def _check_machine(self) -> None:
        known = self.hardware.mode_machines
        if not known:
            return
        machine = self._state.machine
        if machine not in known:
            listed = "; ".join(f"{number}: {text}" for number, text in known.items())
            raise DeployError(
                f"the robot says mode_machine {machine}, and {self.hardware.name} is for {listed}: its motors may be "
                "others, so it is not driven"
            )
        silent = [name for name in self.joint_names if not self._state.speaks(self.hardware.motors.index(name))]
        unused = [slot for slot, name in enumerate(self.hardware.motors) if name is None and self._state.speaks(slot)]
        if silent and unused:
            raise DeployError(
                f"motor slots {', '.join(map(str, unused))} report motion and should be empty, those of "
                f"{', '.join(silent)} are silent: the robot numbers its motors otherwise than {self.hardware.name} "
                "says, so it is not driven"
            )

    def check_alone(self) -> None:
        """As :meth:`HardwareInterface.check_alone`. What writes commands beside the states may be the robot's own
        controller, which is switched off and judged in :meth:`take_over`."""
        super().check_alone()
        others, robot = refuse_drivers(self.bus, self.command_topic), self._sources[0].about
        if self.connection.own_controller and robot is not None:
            own = {robot.id, *filter(None, [robot.address]), *self.robot_ids}
            others = [each for each in others if not own & {each.id, each.address}]
        if others:
            self._judge(others)

    def take_over(self) -> None:
        commands = self._announce()
        if self.connection.own_controller:
            release(self.bus, self.hardware, say=self.connection.say)
        deadline = self.clock() + LEAVING
        while (others := refuse_drivers(self.bus, self.command_topic)) and self.clock() < deadline:
            self.sleep_until(self.clock() + self.period)
        if others:
            self._judge(others)
            who = ", ".join(sorted({each.who for each in others}))
            self.connection.say(f"{who} could send commands and is silent: its first command will end this")
            self._silent = frozenset(each.handle for each in others)
        if self.connection.own_controller:
            self._watch = Watch(self.bus)
        self._commands = commands
        self.damp()

    def _judge(self, others: Sequence[Endpoint]) -> None:
        """Listen to who else writes commands, and refuse; unless all are silent, and may be."""
        who = ", ".join(sorted({each.who for each in others}))
        if self._heard is None:
            self._heard = self.bus.subscriber(dataclasses.replace(self.command_topic, reliable=False, depth=HEARD))
        self.sleep_until(self.clock() + LISTEN)
        if self._spoke({each.handle for each in others}):
            raise DeployError(
                f"{who} sends commands on {COMMAND}: with two writers the motors jump between their commands: stop "
                "the other program"
            )
        if not self.connection.silent_writers:
            raise DeployError(
                f"{who} could send commands on {COMMAND}, though it is silent: stop the other program; if it is the "
                "robot's own controller, switched off, --silent-writers goes on and stops at its first command"
            )

    def _spoke(self, writers: Collection[int]) -> bool:
        """True if one of these has sent a command since the last call."""
        return self._heard is not None and any(writer in writers for _, _, writer in self._heard.take_from())

    # ---- at the control rate ---------------------------------------------------------------------------------------

    def read(self) -> Signals:
        now = self.clock()
        if self._silent and self._spoke(self._silent):
            self._silent, self._looked = frozenset(), -np.inf
        self._take()
        signals, health = self._watched()
        health.corrupt, health.battery, health.behind = self._corrupt, self._charge, self._order.behind
        if self._watch is not None:
            self._watch.look(now)
            health.taken_by = self._watch.active
        health.remote = self._remote if now - self._remote_stamp <= REMOTE_AGE else None
        return signals

    def _take(self) -> None:
        """Load the newest good state of this robot; older ones are checked and counted, those of others left out."""
        newest, (source,) = None, self._sources
        for stamp, payload, writer in source.take():
            if not source.counts(writer):
                continue
            try:
                whole, unsealed = self._state.whole(payload), self._state.unsealed
            except WireError:
                self._foreign += 1
                continue
            self._unsealed += unsealed
            whole |= unsealed and self.connection.unsealed_states
            self._seen += whole
            self._corrupt += not whole
            if whole and self._order.accepts(self._state.arrived_tick):
                newest = stamp, payload
        if newest is None:
            return
        stamp, payload = newest
        self._state.message.load(payload)
        self._signals = self._state.signals(stamp)
        self._listen(stamp)

    def _listen(self, now: float) -> None:
        """Subscribe to messages that do not come with every state, or not from every robot: battery and transmitter."""
        if (remote := self._state.remote()) is not None:
            self._remote, self._remote_stamp = remote, now
        elif self._remote_topic is not None and (message := _read(self._remote_topic, WIRELESS_CONTROLLER)):
            left_x, left_y, right_x, right_y = (float(message[axis]) for axis in ("lx", "ly", "rx", "ry"))
            keys = int(message["keys"])
            self._remote, self._remote_stamp = make_remote(left_x, left_y, right_x, right_y, keys), now
        if (charge := self._state.charge()) is not None:
            self._charge = charge
        elif self._battery is not None and (message := _read(self._battery, HG_BMS_STATE)):
            self._charge = int(message["soc"]) / 100.0

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self._send(targets, stiffness, damping)

    def damp(self) -> None:
        held = 0.0 if self._signals is None else self._signals.joint_pos
        self._send(np.where(np.isfinite(held), held, 0.0), 0.0, self._damping)  # 0 * nan would be nan

    def _send(self, targets: Array | float, stiffness: Array | float, damping: Array) -> None:
        if self._commands is None:
            raise DeployError("take over before commanding")
        self._command.fill(targets, stiffness, damping)
        if (machine := self._state.machine) is not None:
            self._command.echo_machine(machine)
        self._commands.send(self._command.sealed())

    def safe_stop(self) -> SafeStop:
        frame = CommandFrame(self.hardware)
        frame.fill(0.0, 0.0, self._damping)
        if (machine := self._state.machine) is not None:
            if self._signals is None:
                raise DeployError("connect before asking for the safe stop: it repeats the robot's mode_machine")
            frame.echo_machine(machine)
        return self.bus.safe_stop(self.command_topic, bytes(frame.sealed()))

    def close(self) -> None:
        self.bus.close()


def _read(subscriber: Subscriber, kind: Struct) -> Message | None:
    """The newest message, if there is one and it is one."""
    taken = subscriber.take()
    try:
        return None if taken is None else layout_of(kind).read(taken[1])
    except WireError:
        return None
