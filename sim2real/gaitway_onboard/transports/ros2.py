"""A robot under ros2_control, over plain DDS, without a ROS installation: JointState and Imu in, commands out.

ros2_control's forwarding controllers know neither gains nor damping, so both are made here, at the rate of the loop,
from the newest state:

- **effort**: what is sent is the torque ``kp (target - q) - kd qd`` itself. Clipped to the effort limit it is within
  it on every message, whatever the robot does until the next one. Between messages the torque is constant: damping is
  as good as the rate and the delay of the topic allow. Such a controller keeps its last torque for ever if no program
  sends another, so :meth:`Ros2Robot.close` sends zeros; a guardian can do no more either, and the robot falls limp.
- **position**: the drives run ``kp (p - q) - kd qd`` with gains of their own. What is sent is the position ``p`` at
  which that law gives the torque asked for, clipped to the effort limit. This holds **if the drives have the gains of
  the configuration** and at the state that was measured; what a drive exerts before the next message, as its joint
  moves, is up to it. Damping lets ``p`` follow the joint. When messages end, the drives hold the last ``p``: the
  robot stays stiff where it is, and there is no message that a guardian could send to damp it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from gaitway_files.hardware import Hardware

from ..interface import Array, DeployError, Health, SafeStop, Signals
from ..rotation import matrix_from_quat
from ..wire.bus import Bus, Topic
from ..wire.declarations import FLOAT64_MULTI_ARRAY, IMU, JOINT_STATE, JOINT_TRAJECTORY
from ..wire.idl import WireError
from ..wire.ros import CommandFrame, ImuReading, JointReading, JointStateReader, read_imu, ros_topic
from .on_bus import BusRobot
from .open import Connection
from .order import Order
from .ros2_config import ARRAY, EFFORT, Ros2Config
from .source import refuse_drivers

ENOUGH = 20
"""Joint states that make a connection."""
SLOW = 2.5
"""Times the period of commands: joint states that come less often are too old to compute torques from."""
OLD = 0.03
"""Age of a joint state [s] from which no torque is computed: what opposed a velocity then may be driving it now."""
NANOSECONDS = 1e9
"""Nanoseconds of a stamp per second."""
MARGIN = 1e-6
"""Share of the effort limit left unused, for rounding."""


def open_robot(hardware: Hardware, connection: Connection) -> Ros2Robot:
    """The robot that the configuration in ``hardware.wire`` describes, not yet connected."""
    return Ros2Robot(hardware.wire, connection.dds(), connection.robot_ids)


class Ros2Robot(BusRobot):
    """Implements :class:`gaitway_onboard.interface.HardwareInterface`; joints are in the controller's order.

    Commands are sent with a history of one, reliably; states are read best-effort, which hears any publisher. Its
    :attr:`Signals.stamp` is when the older of joint state and IMU arrived; the tick is the joint state's own stamp.
    """

    def __init__(self, config: Ros2Config, bus: Bus, robot_ids: Collection[str] = ()):
        """``robot_ids`` say whose joint states and IMU are meant where several write them, as for
        :class:`.source.Source`."""
        kind = FLOAT64_MULTI_ARRAY if config.message == ARRAY else JOINT_TRAJECTORY
        super().__init__(config.hardware(), bus, ros_topic(config.command, kind, depth=1), robot_ids)
        self.config = config
        self.state_topic = ros_topic(config.joint_states, JOINT_STATE, reliable=False, depth=8)
        self.imu_topic = None if config.imu is None else ros_topic(config.imu, IMU, reliable=False, depth=5)
        self._limit = (1.0 - MARGIN) * self._per_joint("effort_limit")
        self._drive = self._per_joint("stiffness"), self._per_joint("damping")
        self._damping = self._per_joint("stop_damping")
        self._frame = CommandFrame(kind, config.joints, self.period)
        self._reader = JointStateReader(config.joints)
        self._rotation = matrix_from_quat(np.array(config.imu_quat_wxyz))
        self._base_of = _undone_first(*config.imu_quat_wxyz)
        self._order, self._imu_order = Order(NANOSECONDS), Order(NANOSECONDS)
        self._joints: tuple[float, JointReading] | None = None
        self._imu: tuple[float, ImuReading] | None = None
        self._stamps: list[float] = []
        self._nonsense: str | None = None

    # ---- before the first command ----------------------------------------------------------------------------------

    def connect(self, timeout: float = 3.0) -> None:
        def heard() -> bool:
            return self._signals is not None and len(self._stamps) >= ENOUGH

        self._connect([self.state_topic, *([] if self.imu_topic is None else [self.imu_topic])], heard, timeout)
        self.check_alone()
        interval = float(np.median(np.diff(self._stamps)))
        if self.config.interface == EFFORT and interval > SLOW * self.period:
            raise DeployError(
                f"{self.config.joint_states} comes every {1e3 * interval:.1f} ms, and torques are made of it every "
                f"{1e3 * self.period:.1f} ms: joints swing when their damping is late. Let joint_state_broadcaster "
                "publish at the rate of commands, or lower rate"
            )

    def _silence(self, timeout: float) -> str:
        """Reason why there are no signals, as far as it can be told."""
        if self._nonsense is not None:
            return self._nonsense
        if self._joints is not None and self._imu is None and self.imu_topic is not None:
            return self._unheard(self.imu_topic, str(self.config.imu), timeout)
        if self._stamps:
            return f"only {len(self._stamps)} messages came on {self.config.joint_states} within {timeout:g} s"
        if self._reader.missing:
            return f"{self.config.joint_states} lacks {', '.join(self._reader.missing)}: does another robot publish it?"
        return self._unheard(self.state_topic, self.config.joint_states, timeout)

    def _unheard(self, topic: Topic, name: str, timeout: float) -> str:
        if types := self.bus.other_types(topic):
            return f"{name} carries {', '.join(types)}, not {topic.type}: is it another topic?"
        if writers := self.bus.other_writers(topic):
            return f"{', '.join(writers)} offers {name}, but nothing came within {timeout:g} s: is it still starting?"
        return (
            f"nothing on {name} within {timeout:g} s, and no program offers it: is ros2_control running, on this "
            "network and ROS_DOMAIN_ID, and is that the name that ros2 topic list prints?"
        )

    def check_alone(self) -> None:
        super().check_alone()
        if others := refuse_drivers(self.bus, self.command_topic):
            raise DeployError(
                f"{', '.join(sorted({each.who for each in others}))} also writes {self.config.command}: two writers "
                "make the joints jump between their commands: stop the other program"
            )

    def take_over(self) -> None:
        self._commands = self._announce()
        self.read()
        self.damp()

    # ---- at the control rate ---------------------------------------------------------------------------------------

    def read(self) -> Signals:
        self._take()
        signals, health = self._watched()
        health.behind = max(self._order.behind, self._imu_order.behind)
        return signals

    def _take(self) -> None:
        """Take in what came; a message that cannot be read, or is of other joints, counts as silence."""
        states, *imus = self._sources
        fresh = False
        for stamp, payload, writer in states.take():
            if (states.settled and not states.counts(writer)) or states.passes_over(writer):
                continue
            joints = self._read_joints(payload)
            if not states.settled and self._reader.missing:
                states.pass_over(writer)
            elif not states.counts(writer):
                continue
            elif joints is not None and self._order.accepts(joints.stamp):
                self._joints, fresh = (stamp, joints), True
                if len(self._stamps) < ENOUGH:
                    self._stamps.append(1e-9 * joints.stamp if joints.stamp else stamp)
        for source in imus:
            for stamp, payload, writer in source.take():
                if not source.counts(writer) or (imu := self._read_imu(payload)) is None:
                    continue
                if self._imu_order.accepts(imu.stamp):
                    self._imu, fresh = (stamp, imu), True
        if fresh and self._joints is not None and (self._imu is not None or not imus):
            self._signals = self._merged(self._joints, self._imu)

    def _read_joints(self, payload: bytes) -> JointReading | None:
        try:
            joints = self._reader.read(payload)
        except WireError as error:
            self._nonsense = f"{self.config.joint_states}: {error}"
            return None
        if joints is not None and joints.velocity is None:
            self._nonsense = (
                f"{self.config.joint_states} has no velocities: give joint_state_broadcaster the interface velocity"
            )
            return None
        if joints is not None and self._signals is None and not np.isfinite(joints.position).all():
            self._nonsense = (
                f"{self.config.joint_states} has positions that are no numbers: are the drives switched on?"
            )
            return None
        return joints

    def _read_imu(self, payload: bytes) -> ImuReading | None:
        try:
            imu = read_imu(payload)
        except WireError as error:
            self._nonsense = f"{self.config.imu}: {error}"
            return None
        if not imu.oriented:
            self._nonsense = f"{self.config.imu} has no orientation: name the topic of an IMU with a filter"
            return None
        return imu

    def _merged(self, joints: tuple[float, JointReading], imu: tuple[float, ImuReading] | None) -> Signals:
        reading = joints[1]
        assert reading.velocity is not None
        if imu is None:
            return Signals(
                joint_pos=reading.position,
                joint_vel=reading.velocity,
                joint_torque=reading.effort,
                imu_quat_wxyz=None,
                gyro=None,
                stamp=joints[0],
                health=Health(tick=reading.stamp, tick_rate=NANOSECONDS),
            )
        motion = imu[1]
        return Signals(
            joint_pos=reading.position,
            joint_vel=reading.velocity,
            joint_torque=reading.effort,
            imu_quat_wxyz=self._base_of @ motion.quat_wxyz,
            gyro=self._rotation @ motion.gyro,
            accelerometer=self._rotation @ motion.accelerometer,
            stamp=min(joints[0], imu[0]),
            health=Health(tick=reading.stamp, imu_tick=motion.stamp, tick_rate=NANOSECONDS),
        )

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        """As :meth:`RobotInterface.write`, the torque clipped to the effort limit; see the head of this module.

        Once joint states are :data:`OLD`, efforts are zero and positions the last that were measured.
        """
        if self._commands is None or self._signals is None:
            raise DeployError("take over before commanding")
        pos, vel = self._signals.joint_pos, self._signals.joint_vel
        torque = np.asarray(stiffness, float) * (np.asarray(targets, float) - pos) - np.asarray(damping, float) * vel
        torque = np.where(np.isnan(torque), 0.0, np.clip(torque, -self._limit, self._limit))
        assert self._joints is not None
        if self.clock() - self._joints[0] > OLD:
            torque = vel = np.zeros(len(pos))
        if self.config.interface == EFFORT:
            self._frame.values[:] = torque
        else:
            stiff, damped = self._drive
            wanted = pos + (torque + damped * vel) / stiff
            known = np.isfinite(wanted)  # without a position no command is surely harmless: the last stays
            self._frame.values[known] = wanted[known]
        self._commands.send(self._frame.payload)

    def damp(self) -> None:
        zeros = np.zeros(len(self.joint_names))
        held = zeros if self._signals is None else self._signals.joint_pos
        self.write(held, zeros, self._damping)

    def safe_stop(self) -> SafeStop | None:
        """Torques of zero; None for "position", where no message damps without knowing the robot's state."""
        if self.config.interface != EFFORT:
            return None
        return self.bus.safe_stop(self.command_topic, self._zeros())

    def close(self) -> None:
        if self._commands is not None and self.config.interface == EFFORT:
            self._commands.send(self._zeros())
        self._commands = None
        self.bus.close()

    def _zeros(self) -> bytes:
        frame = CommandFrame(FLOAT64_MULTI_ARRAY, self.joint_names, self.period)
        return bytes(frame.payload)

    def _per_joint(self, key: str) -> Array:
        values = self.config.per_joint(key)
        return np.array([values[name] for name in self.joint_names])


def _undone_first(w: float, x: float, y: float, z: float) -> Array:
    """The matrix (4, 4) that multiplies a quaternion, w first, from the right by the conjugate of this one."""
    return np.array([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
