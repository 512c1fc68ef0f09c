"""Views into fixed-size messages: the bytes of cyclonedds, the C structs of Unitree."""

import struct

import numpy as np
import pytest
from gaitway_onboard.wire.declarations import (  # fmt: skip
    GO_LOW_CMD,
    GO_LOW_STATE,
    HG_BMS_STATE,
    HG_IMU_STATE,
    HG_LOW_CMD,
    HG_LOW_STATE,
    MESSAGES,
    REQUEST,
    SPORT_MODE_STATE,
    WIRELESS_CONTROLLER,
)
from gaitway_onboard.wire.idl import Struct, WireError
from gaitway_onboard.wire.layouts import Layout, layout_of

from .random_messages import dds_bytes, random_value

FIXED = (
    GO_LOW_CMD, GO_LOW_STATE, SPORT_MODE_STATE, WIRELESS_CONTROLLER,
    HG_LOW_CMD, HG_LOW_STATE, HG_IMU_STATE, HG_BMS_STATE,
)  # fmt: skip
C_STRUCTS = {
    GO_LOW_CMD: "<4B4IH2x" + "B3x5f3I" * 20 + "4B55Bx2I",
    GO_LOW_STATE: "<4B4IH2x" + "13fB3x" + "B3x7fB3x3I" * 20 + "4BiH4B15H" + "8hI41B3xf2B2x2f4H2I",
    HG_LOW_CMD: "<2B2x" + "B3x5fI" * 35 + "5I",
    HG_LOW_STATE: "<2I2B2xI" + "13fh2x" + "B3x4f2hf7I" * 35 + "40B5I",
}


def by_path(kind, values, path=()):
    """Leaves of nested values, arrays stacked: ``{"motor_cmd.q": [...]}``."""
    if isinstance(values, dict):
        return {k: v for name, value in values.items() for k, v in by_path(kind, value, (*path, name)).items()}
    if isinstance(values, list) and values and isinstance(values[0], dict):
        rows = [by_path(kind, value, path) for value in values]
        return {key: [row[key] for row in rows] for key in rows[0]}
    return {".".join(path): values}


def flat(values):
    """Leaves in the order of the declaration."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, dict | list):
            yield from flat(value)
        else:
            yield value


@pytest.mark.parametrize("kind", FIXED, ids=lambda kind: kind.name)
def test_fields_written_through_views_are_the_bytes_of_cyclonedds(kind):
    rng = np.random.default_rng(1)
    message = layout_of(kind).new()
    for _ in range(4):
        values = random_value(kind, rng)
        for path, value in by_path(kind, values).items():
            message[path] = value
        assert bytes(message.payload) == dds_bytes(kind, values)


@pytest.mark.parametrize("kind", FIXED, ids=lambda kind: kind.name)
def test_fields_are_read_from_the_bytes_of_cyclonedds(kind):
    rng = np.random.default_rng(2)
    message = layout_of(kind).new()
    for _ in range(4):
        values = random_value(kind, rng)
        message.load(dds_bytes(kind, values))
        for path, value in by_path(kind, values).items():
            np.testing.assert_array_equal(message[path], np.asarray(value, message[path].dtype), path)


@pytest.mark.parametrize("kind", C_STRUCTS, ids=lambda kind: kind.name)
def test_the_image_is_the_c_struct(kind):
    values = random_value(kind, np.random.default_rng(3))
    message = layout_of(kind).read(dds_bytes(kind, values))
    image = message.bytes[message.layout.image_index].tobytes()
    assert image == struct.pack(C_STRUCTS[kind], *flat(values))


def has_layout(kind: Struct) -> bool:
    try:
        return bool(layout_of(kind))
    except WireError:
        return False


def test_what_has_a_fixed_size():
    assert [kind for kind in MESSAGES.values() if has_layout(kind) and "unitree" in kind.name] == list(FIXED)
    with pytest.raises(WireError, match="no fixed size"):
        Layout(REQUEST)


def test_views_stay_valid_when_another_payload_is_loaded():
    message, other = layout_of(GO_LOW_STATE).new(), layout_of(GO_LOW_STATE).new()
    positions, tick = message["motor_state.q"], message["tick"]
    other["motor_state.q"] = np.arange(20)
    other["tick"] = 7
    message.load(other.payload)
    np.testing.assert_array_equal(positions, np.arange(20, dtype=np.float32))
    assert tick == 7
    positions[3] = -1
    assert message["motor_state.q"][3] == -1 and message["motor_state.mode"].sum() == 0


def test_a_payload_of_another_type_changes_nothing():
    message = layout_of(GO_LOW_STATE).new()
    message["tick"] = 5
    before = bytes(message.payload)
    for payload in (b"", before[:-4], before + bytes(4), layout_of(HG_LOW_STATE).new().payload, b"\0\0" + before[2:]):
        with pytest.raises(WireError):
            message.load(payload)
    assert bytes(message.payload) == before


def test_padding_at_the_end_may_be_missing():
    layout = layout_of(WIRELESS_CONTROLLER)
    message = layout.new()
    message["keys"] = 0x8001
    assert len(message.payload) == 24
    assert layout.read(message.payload[:22])["keys"] == 0x8001


def test_a_field_that_is_not_there_is_named():
    message = layout_of(HG_LOW_CMD).new()
    with pytest.raises(WireError, match=r"unitree_hg::msg::dds_::LowCmd_ has no field 'motor_cmd\.p'"):
        message["motor_cmd.p"] = 1
    with pytest.raises(WireError, match="no field 'level_flag'"):
        message["level_flag"]
