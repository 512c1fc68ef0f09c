"""Payloads in and out of DDS without a Python object per message; the one place that uses cyclonedds' private calls."""

from __future__ import annotations

from typing import Any

import cyclonedds
from cyclonedds.core import DDSException, InstanceState, Policy, Qos, SampleState, ViewState
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader

from .bus import BusError, Topic

try:
    from cyclonedds._clayer import ddspy_take, ddspy_write
except ImportError as error:
    raise ImportError(
        f"cyclonedds at {cyclonedds.__path__[0]} has no raw reads and writes ({error}); version 11.0.1 does"
    ) from None

_ANY = SampleState.Any | ViewState.Any | InstanceState.Any


class Writer:
    def __init__(self, participant: Any, dds_topic: Any, topic: Topic):
        self._writer = DataWriter(participant, dds_topic, _qos(topic))
        self._handle, self._topic = self._writer._ref, topic

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        code = ddspy_write(self._handle, payload)
        # A time-out is a reader that does not keep up: that message is lost, as on any network.
        if code < 0 and code != DDSException.DDS_RETCODE_TIMEOUT:
            raise BusError(f"{self._topic.name}: {DDSException(code, f'{len(payload)} bytes of {self._topic.type}')}")

    def acknowledged(self) -> bool:
        return bool(self._writer.get_matched_subscriptions()) and self._writer.wait_for_acks(0)


class Reader:
    def __init__(self, participant: Any, dds_topic: Any, topic: Topic):
        self._reader = DataReader(participant, dds_topic, _qos(topic))
        self._handle, self._most, self._topic = self._reader._ref, topic.depth + 1, topic

    def take(self) -> list[tuple[bytes, int, int]]:
        """What came since the last call, oldest first: payload, when it was sent on the writer's wall clock [ns], and
        the handle of its writer.

        A writer that left is no message.
        """
        taken = ddspy_take(self._handle, _ANY, self._most)
        if isinstance(taken, int):
            raise BusError(f"{self._topic.name}: {DDSException(taken, 'taking messages')}")
        return [(payload, info.source_timestamp, info.publication_handle) for payload, info in taken if info.valid_data]


def _qos(topic: Topic) -> Qos:
    """As rclcpp's default and sensor data profiles: volatile, the newest ``depth``; never blocking."""
    reliability = Policy.Reliability.Reliable(max_blocking_time=0) if topic.reliable else Policy.Reliability.BestEffort
    return Qos(reliability, Policy.Durability.Volatile, Policy.History.KeepLast(topic.depth))
