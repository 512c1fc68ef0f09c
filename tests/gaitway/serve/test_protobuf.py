"""Protocol buffers against Google's own library, and messages that are cut off."""

import contextlib

import pytest
from gaitway_files.errors import UserError
from hypothesis import given
from hypothesis import strategies as st

from gaitway.serve import protobuf as wire
from gaitway.serve.messages import read_training_request


@pytest.fixture(scope="module")
def struct_message():
    """A message class of Google's with strings, doubles, maps and lists."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="probe.proto", package="probe", syntax="proto3")
    message = file.message_type.add(name="Probe")
    kinds = {"text": 9, "number": 1, "whole": 4, "data": 12}
    for place, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=place, type=kind, label=1)
    message.field.add(name="many", number=5, type=4, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("probe.Probe"))


@given(
    st.text(max_size=300).filter(lambda t: t.isprintable()),
    st.floats(allow_nan=False),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=300),
    st.lists(st.integers(0, 2**63), max_size=9),
)
def test_messages_are_those_of_googles_library(struct_message, text, number, whole, data, many):
    theirs = struct_message(text=text, number=number, whole=whole, data=data, many=many)
    found = dict(wire.fields(theirs.SerializeToString()))
    assert wire.text(found.get(1, memoryview(b""))) == text
    assert wire.number(found.get(2, memoryview(bytes(8)))) == number
    assert found.get(3, 0) == whole
    assert bytes(found.get(4, b"")) == data
    assert wire.integers(found.get(5, memoryview(b""))) == many
    ours = [wire.bytes_field(1, text), wire.double_field(2, number), wire.integer_field(3, whole)]
    ours += [wire.bytes_field(4, data), wire.packed_field(5, many)]
    assert struct_message.FromString(b"".join(ours)) == theirs


@given(st.binary(max_size=64))
def test_any_bytes_are_a_request_or_a_message_to_the_user(data):
    with contextlib.suppress(UserError):
        read_training_request(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"\x0a\x05ab", "cut off"), (b"\x08\xff", "cut off"), (b"\x08" + b"\xff" * 10, "64 bits"), (b"\x0b", "type 3")],
)
def test_what_is_cut_off_or_unknown_is_refused(data, what):
    with pytest.raises(UserError, match=what):
        list(wire.fields(data))
