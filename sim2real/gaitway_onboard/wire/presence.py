"""Presence of writers and readers on a DDS domain, from DDS's own discovery."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import InstanceState, Policy

from .bus import Endpoint

DRIVES = b"gaitway: drives robots"
"""User data of a participant that drives robots."""
_BATCH = 64
_PREFIX = 24
"""Hexadecimal digits of a GUID that a participant shares with all that belongs to it."""


class Presence:
    """Follows discovery: looking again costs nothing while no program comes or goes.

    Discovery tells of every endpoint of a topic, also of one whose type is another: which a reader would not.
    """

    def __init__(self, participant: Any):
        self._participant = participant
        self._participants = BuiltinDataReader(participant, BuiltinTopicDcpsParticipant)
        self._told: dict[str, tuple[str, str, bool]] = {}  # in words, address and whether it drives, by participant
        self._writers = _Endpoints(participant, BuiltinTopicDcpsPublication)
        self._readers: _Endpoints | None = None

    def writers(self, topic: str, ignored: Collection[str]) -> tuple[Endpoint, ...]:
        """Every writer of ``topic`` but those of the ignored participants, in a fixed order."""
        return self._of(self._writers, topic, ignored)

    def readers(self, topic: str, ignored: Collection[str]) -> tuple[Endpoint, ...]:
        """Every reader of it, likewise."""
        self._readers = self._readers or _Endpoints(self._participant, BuiltinTopicDcpsSubscription)
        return self._of(self._readers, topic, ignored)

    def _of(self, endpoints: _Endpoints, topic: str, ignored: Collection[str]) -> tuple[Endpoint, ...]:
        for sample, alive in _changes(self._participants):
            if alive:
                self._told[str(sample.key)] = _describe(sample)
            else:
                self._told.pop(str(sample.key), None)
        found = []
        for handle, (name, participant, kind) in endpoints.all().items():
            if name == topic and participant not in ignored:
                who, address, drives = self._told.get(participant, (f"participant {participant}", "", False))
                number = participant.replace("-", "")[:_PREFIX]
                found.append(Endpoint(handle, number, who, kind, address, drives))
        return tuple(sorted(found, key=lambda each: (each.who, each.id, each.handle)))


class _Endpoints:
    """Topic, participant and type of each writer, or reader, by its handle."""

    def __init__(self, participant: Any, kind: Any):
        self._reader = BuiltinDataReader(participant, kind)
        self._found: dict[int, tuple[str, str, str]] = {}

    def all(self) -> dict[int, tuple[str, str, str]]:
        for sample, alive in _changes(self._reader):
            handle = sample.sample_info.instance_handle
            if alive:
                self._found[handle] = (sample.topic_name, str(sample.participant_key), sample.type_name)
            else:
                self._found.pop(handle, None)
        return self._found


def _changes(reader: BuiltinDataReader) -> Iterator[tuple[Any, bool]]:
    while batch := reader.take(N=_BATCH):
        for sample in batch:
            yield sample, sample.sample_info.valid_data and sample.sample_info.instance_state == InstanceState.Alive


def _describe(participant: Any) -> tuple[str, str, bool]:
    told = {policy.key: policy.value for policy in participant.qos if hasattr(policy, "key")}
    drives = any(isinstance(policy, Policy.Userdata) and policy.data == DRIVES for policy in participant.qos)
    locator = told.get("__NetworkAddresses", "localprocess")
    found = re.match(r"udp6?/\[?([0-9A-Fa-f:.]+?)\]?:\d", locator)
    address = found[1] if found else ""
    where = "" if locator == "localprocess" else f", {locator}"
    if "__Pid" not in told:
        return f"participant {participant.key}{where}", address, drives
    words = (
        f"{told.get('__ProcessName', 'process')} (pid {told['__Pid']} on {told.get('__Hostname', 'unknown')}{where})"
    )
    return words, address, drives
