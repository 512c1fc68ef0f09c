"""Mistake that kills a peer: octets as ``uint8`` on Cyclone 11. ``python uint8_writer.py DOMAIN``"""

import sys
import time
from dataclasses import dataclass

import cyclonedds.idl as idl
import cyclonedds.idl.annotations as annotate
import cyclonedds.idl.types as types
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic
from gaitway_onboard.wire.dds import configuration


@dataclass
@annotate.final
@annotate.autoid("sequential")
class LowCmd_(idl.IdlStruct, typename="unitree_hg.msg.dds_.LowCmd_"):
    mode_pr: types.uint8
    mode_machine: types.uint8


number = int(sys.argv[1])
domain = Domain(number, configuration("lo"))
participant = DomainParticipant(number)
writer = DataWriter(participant, Topic(participant, "rt/lowcmd", LowCmd_))
time.sleep(5)
