"""Unitree's checksum, against values computed with Unitree's own library and against the definition."""

import struct

import numpy as np
import pytest
from gaitway_onboard.wire.crc import check, checksum, crc32_mpeg2, seal
from gaitway_onboard.wire.declarations import GO_LOW_CMD, GO_LOW_STATE, HG_LOW_CMD, HG_LOW_STATE
from gaitway_onboard.wire.layouts import layout_of

from .random_messages import dds_bytes, random_value
from .test_layouts import C_STRUCTS, flat


def by_definition(words):
    """CRC-32/MPEG-2, bit by bit."""
    crc = 0xFFFFFFFF
    for word in words:
        crc ^= word
        for _ in range(32):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def test_the_algorithm():
    assert crc32_mpeg2(b"123456789") == 0x0376E6E7  # the check value of the catalogue of CRCs
    assert crc32_mpeg2(bytes(16)) == 0x552D22C8


@pytest.mark.parametrize(
    "kind, known",
    [(GO_LOW_CMD, 0x4B5A4880), (GO_LOW_STATE, 0x85F11EA6), (HG_LOW_CMD, 0xFE172F9F), (HG_LOW_STATE, 0xD64BB04A)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_empty_messages_have_the_checksum_of_unitrees_library(kind, known):
    assert checksum(layout_of(kind).new()) == known


@pytest.mark.parametrize("kind", C_STRUCTS, ids=lambda kind: kind.name)
def test_random_messages_have_the_checksum_of_their_c_struct(kind):
    rng = np.random.default_rng(5)
    for _ in range(3):
        values = random_value(kind, rng)
        image = struct.pack(C_STRUCTS[kind], *flat(values))
        words = struct.unpack(f"<{len(image) // 4}I", image)
        assert checksum(layout_of(kind).read(dds_bytes(kind, values))) == by_definition(words[:-1])


@pytest.mark.parametrize("kind", C_STRUCTS, ids=lambda kind: kind.name)
def test_any_changed_byte_that_means_something_is_noticed(kind):
    message = layout_of(kind).read(dds_bytes(kind, random_value(kind, np.random.default_rng(6))))
    assert not check(message)
    seal(message)
    assert check(message)
    meaning = np.setdiff1d(message.layout.image_index, [0])
    for byte in meaning[:: len(meaning) // 50]:
        message.bytes[byte] ^= 0x10
        assert not check(message)
        message.bytes[byte] ^= 0x10
    assert check(message)


def test_padding_does_not_count():
    message = layout_of(GO_LOW_CMD).new()
    seal(message)
    padding = np.setdiff1d(np.arange(4, message.layout.size), message.layout.image_index)
    assert len(padding)
    message.bytes[padding] = 0xAA
    assert check(message)
