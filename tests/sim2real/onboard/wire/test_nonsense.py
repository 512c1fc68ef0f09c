"""Whatever comes over the network is read or refused: nothing else may leave a reader."""

import numpy as np
import pytest
from gaitway_onboard.wire.declarations import IMU, JOINT_STATE, MESSAGES, TWIST_STAMPED
from gaitway_onboard.wire.idl import HEADER, WireError, decode, encode
from gaitway_onboard.wire.ros import JointStateReader, read_imu, read_twist

from .random_messages import random_value


def corrupted(kind, count):
    """Messages with bytes changed, cut off, added or moved; and mere noise."""
    rng = np.random.default_rng(len(kind.name))
    for number in range(count):
        payload = bytearray(encode(kind, random_value(kind, rng)))
        if number % 4 == 0:
            payload = bytearray(HEADER + rng.bytes(rng.integers(0, 200)))
        for _ in range(rng.integers(1, 4)):
            if len(payload) > 8:
                payload[rng.integers(4, len(payload))] = rng.choice([0, 1, 4, 127, 255])
        end = len(payload) if number % 3 else rng.integers(0, len(payload) + 1)
        yield bytes(payload[:end]) + rng.bytes(4 * (number % 5 == 0))


def survives(read, payloads):
    """Number of refused payloads; other errors fail."""
    refused = 0
    for payload in payloads:
        try:
            read(payload)
        except WireError:
            refused += 1
    return refused


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_any_message(name):
    kind = MESSAGES[name]
    assert survives(lambda payload: decode(kind, payload), corrupted(kind, 60)) > 5


@pytest.mark.parametrize(
    "kind, read",
    [(JOINT_STATE, JointStateReader(("a", "b")).read), (IMU, read_imu), (TWIST_STAMPED, lambda p: read_twist(p, True))],
    ids=["JointState", "Imu", "TwistStamped"],
)
def test_what_is_read_at_the_control_rate(kind, read):
    assert survives(read, corrupted(kind, 400)) > 50


def test_joint_states_that_change_under_way():
    """A reader that has learnt one message meets others of its length."""
    reader = JointStateReader(("hip", "knee"))
    good = encode(JOINT_STATE, {"name": ["knee", "hip"], "position": [1, 2], "velocity": [3, 4], "effort": [5, 6]})
    rng = np.random.default_rng(0)
    for _ in range(400):
        assert reader.read(good).position.tolist() == [2, 1]
        payload = bytearray(good)
        payload[rng.integers(12, 56)] = rng.integers(0, 256)  # where names and counts are
        survives(reader.read, [bytes(payload)])
