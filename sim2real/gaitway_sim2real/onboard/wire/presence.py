"""Who writes what on a DDS domain, from DDS's own discovery."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
)
from cyclonedds.core import InstanceState

_BATCH = 64


class Presence:
    """Follows discovery: looking again costs nothing while nobody comes or goes.

    Discovery tells of every writer of a topic, also of one whose type is another: which a reader would not.
    """

    def __init__(self, participant: Any):
        self._participants = BuiltinDataReader(participant, BuiltinTopicDcpsParticipant)
        self._publications = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
        self._names: dict[str, str] = {}
        self._writers: dict[str, tuple[str, str, str]] = {}  # topic, participant and type, by writer

    def writers(self, topic: str, ignored: Collection[str]) -> tuple[str, ...]:
        """Every participant but the ignored ones that writes ``topic``: process, host and address if it tells them."""
        self._look()
        others = {who for name, who, _ in self._writers.values() if name == topic and who not in ignored}
        return tuple(sorted(self._names.get(who, f"participant {who}") for who in others))

    def types(self, topic: str, ignored: Collection[str]) -> tuple[str, ...]:
        """The types that they write it with."""
        self._look()
        return tuple(sorted({t for name, who, t in self._writers.values() if name == topic and who not in ignored}))

    def _look(self) -> None:
        for sample, alive in _changes(self._participants):
            if alive:
                self._names[str(sample.key)] = _describe(sample)
            else:
                self._names.pop(str(sample.key), None)
        for sample, alive in _changes(self._publications):
            if alive:
                self._writers[str(sample.key)] = (sample.topic_name, str(sample.participant_key), sample.type_name)
            else:
                self._writers.pop(str(sample.key), None)


def _changes(reader: BuiltinDataReader) -> Iterator[tuple[Any, bool]]:
    while batch := reader.take(N=_BATCH):
        for sample in batch:
            yield sample, sample.sample_info.valid_data and sample.sample_info.instance_state == InstanceState.Alive


def _describe(participant: Any) -> str:
    told = {policy.key: policy.value for policy in participant.qos if hasattr(policy, "key")}
    if "__Pid" not in told:
        return f"participant {participant.key}"
    address = told.get("__NetworkAddresses", "localprocess")
    where = "" if address == "localprocess" else f", {address}"
    return f"{told.get('__ProcessName', 'process')} (pid {told['__Pid']} on {told.get('__Hostname', 'unknown')}{where})"
