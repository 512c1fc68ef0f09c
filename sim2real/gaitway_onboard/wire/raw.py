"""Payloads in and out of DDS without a Python object per message; the one place that uses cyclonedds' private calls."""

from __future__ import annotations

import time
from typing import Any

import cyclonedds
from cyclonedds.core import DDSException, InstanceState, Policy, Qos, SampleState, ViewState
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader

from ..interface import DeployError
from .bus import CLOSED, BusError, Publisher, Subscriber, Topic

try:
    from cyclonedds._clayer import ddspy_take, ddspy_write
except ImportError as error:
    raise ImportError(
        f"cyclonedds at {cyclonedds.__path__[0]} has no raw reads and writes ({error}); version 11.0.1 does"
    ) from None

_ANY = SampleState.Any | ViewState.Any | InstanceState.Any


class Writer(Publisher):
    def __init__(self, participant: Any, dds_topic: Any, topic: Topic):
        self._topic = topic
        self._writer: Any = DataWriter(participant, dds_topic, _qos(topic))
        self._handle = self._writer._ref

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        if self._writer is None:
            raise DeployError(CLOSED)
        code = ddspy_write(self._handle, payload)
        # A time-out is a reader that does not keep up: that message is lost, as on any network.
        if code < 0 and code != DDSException.DDS_RETCODE_TIMEOUT:
            raise BusError(f"{self._topic.name}: {DDSException(code, f'{len(payload)} bytes of {self._topic.type}')}")

    def acknowledged(self) -> bool:
        """True if there is a reader, and each that asks for reliable delivery has everything."""
        return bool(self._writer.get_matched_subscriptions()) and self._writer.wait_for_acks(0)

    def close(self) -> None:
        self._writer = None


class Reader(Subscriber):
    def __init__(self, participant: Any, dds_topic: Any, topic: Topic, sender_times: bool):
        self._topic, self._most, self._sender_times = topic, topic.depth + 1, sender_times
        self._reader: Any = DataReader(participant, dds_topic, _qos(topic))
        self._handle = self._reader._ref

    def take_from(self) -> list[tuple[float, bytes, int]]:
        """DDS keeps no time of arrival, so a message came when it was first seen; with ``sender_times``, when it was
        sent. A writer that left is no message."""
        if self._reader is None:
            raise DeployError(CLOSED)
        taken = ddspy_take(self._handle, _ANY, self._most)
        if isinstance(taken, int):
            raise BusError(f"{self._topic.name}: {DDSException(taken, 'taking messages')}")
        behind, now = time.time_ns() - time.monotonic_ns(), time.monotonic()
        return [
            (1e-9 * (info.source_timestamp - behind) if self._sender_times else now, payload, info.publication_handle)
            for payload, info in taken
            if info.valid_data
        ]

    def close(self) -> None:
        self._reader = None


def _qos(topic: Topic) -> Qos:
    """Quality of service of rclcpp's default and sensor profiles: volatile, the newest ``depth``; never blocking."""
    reliability = Policy.Reliability.Reliable(max_blocking_time=0) if topic.reliable else Policy.Reliability.BestEffort
    return Qos(reliability, Policy.Durability.Volatile, Policy.History.KeepLast(topic.depth))
