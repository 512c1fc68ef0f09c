"""Any message as CDR: byte for byte what cyclonedds makes of it, and back."""

import numpy as np
import pytest
from gaitway_onboard.wire import idl
from gaitway_onboard.wire.declarations import IMU, JOINT_STATE, MESSAGES, REQUEST, RESPONSE
from gaitway_onboard.wire.idl import WireError, decode, encode

from .random_messages import dds_bytes, random_value

NAMES = sorted(MESSAGES)


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_what_cyclonedds_makes_of_it(name):
    rng = np.random.default_rng(7)
    for _ in range(8):
        values = random_value(MESSAGES[name], rng)
        assert encode(MESSAGES[name], values) == dds_bytes(MESSAGES[name], values)


@pytest.mark.parametrize("name", NAMES)
def test_decoding_undoes_encoding(name):
    rng = np.random.default_rng(8)
    for _ in range(8):
        payload = dds_bytes(MESSAGES[name], random_value(MESSAGES[name], rng))
        assert encode(MESSAGES[name], decode(MESSAGES[name], payload)) == payload


def test_fields_come_back_as_they_were():
    request = {
        "header": {"identity": {"id": 2**40, "api_id": 1001}, "policy": {"priority": -3, "noreply": True}},
        "parameter": '{"name":"normal"}',
        "binary": b"\x01\xff",
    }
    found = decode(REQUEST, encode(REQUEST, request))
    assert found["header"]["identity"] == {"id": 2**40, "api_id": 1001}
    assert found["header"]["lease"] == {"id": 0}
    assert found["header"]["policy"] == {"priority": -3, "noreply": True}
    assert (found["parameter"], found["binary"]) == ('{"name":"normal"}', b"\x01\xff")

    found = decode(JOINT_STATE, encode(JOINT_STATE, {"name": ["a", "bc"], "position": np.array([0.5, -1.0])}))
    assert found["name"] == ["a", "bc"]
    np.testing.assert_array_equal(found["position"], [0.5, -1.0])
    assert len(found["effort"]) == 0


def test_zero_is_an_empty_message():
    assert encode(IMU, {}) == encode(IMU, idl.zero(IMU))
    assert decode(RESPONSE, encode(RESPONSE, {})) == {**idl.zero(RESPONSE), "binary": b""}


def test_truncated_payloads_are_refused_wherever_they_end():
    payload = encode(JOINT_STATE, {"name": ["hip", "knee"], "position": [1, 2], "velocity": [3, 4], "effort": [5, 6]})
    for length in range(0, len(payload)):
        with pytest.raises(WireError):
            decode(JOINT_STATE, payload[:length])


def test_a_length_beyond_the_payload_is_refused_before_memory_is_asked_for():
    payload = bytearray(encode(JOINT_STATE, {"name": ["hip"]}))
    payload[4 + 8 : 4 + 12] = b"\xff\xff\xff\xff"  # the length of frame_id
    with pytest.raises(WireError, match="no such message"):
        decode(JOINT_STATE, payload)


def test_other_encodings_are_refused():
    big_endian = b"\x00\x00\x00\x00" + encode(IMU, {})[4:]
    with pytest.raises(WireError, match="little-endian CDR"):
        decode(IMU, big_endian)


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"orientaton": {}}, "Imu_ has no field orientaton"),
        ({"orientation_covariance": [1.0]}, "array of 9 was given 1"),
    ],
)
def test_values_that_do_not_fit_are_refused(values, reason):
    with pytest.raises(WireError, match=reason):
        encode(IMU, values)
