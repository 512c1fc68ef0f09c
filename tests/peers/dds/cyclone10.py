"""A peer as Unitree's Python would be, on Cyclone DDS 0.10.x alone: octets are ``uint8``, as its IDL compiler writes.

``python cyclone10.py DOMAIN`` answers every low command with a low state that repeats its positions, until its input
closes; it first prints the ids of its types.
"""

import select
import sys
from dataclasses import dataclass

import cyclonedds.idl as idl
import cyclonedds.idl.annotations as annotate
import cyclonedds.idl.types as types
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

CONFIGURATION = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="lo" priority="default" multicast="default"/>
</Interfaces></General></Domain></CycloneDDS>"""
"""An interface and nothing else, as Unitree's simulator has it."""


@dataclass
@annotate.final
@annotate.autoid("sequential")
class MotorCmd_(idl.IdlStruct, typename="unitree_hg.msg.dds_.MotorCmd_"):
    mode: types.uint8
    q: types.float32
    dq: types.float32
    tau: types.float32
    kp: types.float32
    kd: types.float32
    reserve: types.uint32


@dataclass
@annotate.final
@annotate.autoid("sequential")
class LowCmd_(idl.IdlStruct, typename="unitree_hg.msg.dds_.LowCmd_"):
    mode_pr: types.uint8
    mode_machine: types.uint8
    motor_cmd: types.array[MotorCmd_, 35]
    reserve: types.array[types.uint32, 4]
    crc: types.uint32


@dataclass
@annotate.final
@annotate.autoid("sequential")
class IMUState_(idl.IdlStruct, typename="unitree_hg.msg.dds_.IMUState_"):
    quaternion: types.array[types.float32, 4]
    gyroscope: types.array[types.float32, 3]
    accelerometer: types.array[types.float32, 3]
    rpy: types.array[types.float32, 3]
    temperature: types.int16


@dataclass
@annotate.final
@annotate.autoid("sequential")
class MotorState_(idl.IdlStruct, typename="unitree_hg.msg.dds_.MotorState_"):
    mode: types.uint8
    q: types.float32
    dq: types.float32
    ddq: types.float32
    tau_est: types.float32
    temperature: types.array[types.int16, 2]
    vol: types.float32
    sensor: types.array[types.uint32, 2]
    motorstate: types.uint32
    reserve: types.array[types.uint32, 4]


@dataclass
@annotate.final
@annotate.autoid("sequential")
class LowState_(idl.IdlStruct, typename="unitree_hg.msg.dds_.LowState_"):
    version: types.array[types.uint32, 2]
    mode_pr: types.uint8
    mode_machine: types.uint8
    tick: types.uint32
    imu_state: IMUState_
    motor_state: types.array[MotorState_, 35]
    wireless_remote: types.array[types.uint8, 40]
    reserve: types.array[types.uint32, 4]
    crc: types.uint32


def main(number: int) -> None:
    domain = Domain(number, CONFIGURATION)
    participant = DomainParticipant(number)
    commands = DataReader(participant, Topic(participant, "rt/lowcmd", LowCmd_))
    states = DataWriter(participant, Topic(participant, "rt/lowstate", LowState_))
    for kind in (LowCmd_, LowState_):
        print(kind.__idl__.get_type_info().minimal.typeid_with_size.type_id.value.hex(), flush=True)
    imu = IMUState_((1, 0, 0, 0), (0, 0, 0), (0, 0, 9.81), (0, 0, 0), 30)
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        for command in commands.take(N=20):
            if not isinstance(command, LowCmd_):
                continue  # a writer left
            motors = [
                MotorState_(motor.mode, motor.q, 0, 0, 0, (30, 31), 24, (0, 0), 0, (0, 0, 0, 0))
                for motor in command.motor_cmd
            ]
            remote = [number] * 40
            states.write(LowState_((1, 2), 0, 5, command.reserve[0], imu, motors, remote, (0, 0, 0, 0), command.crc))
    del domain


main(int(sys.argv[1]))
