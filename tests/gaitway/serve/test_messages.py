"""Requests for losses: dense and sparse tensors, settings, and what does not fit."""

import numpy as np
import pytest
from gaitway_files.errors import UserError
from served_model import tensor, training_message

from gaitway.serve import messages
from gaitway.serve import protobuf as wire
from gaitway.serve.messages import read_training_request


def sparse(values, ends, columns, shape):
    """A tensor of float32 in CSR form."""
    parts = [np.asarray(values, "<f4"), np.asarray(ends, "<i8"), np.asarray(columns, "<i8")]
    inner = b"".join(wire.bytes_field(i, part.tobytes()) for i, part in enumerate(parts, 1))
    return b"".join([wire.bytes_field(2, inner), wire.integer_field(3, 1), wire.packed_field(4, shape)])


def request_with(inputs, tokens=(5, 6, 7)):
    """A request of one datum, whose tensors are messages."""
    entries = [wire.bytes_field(2, [wire.bytes_field(1, n), wire.bytes_field(2, t)]) for n, t in inputs.items()]
    chunk = wire.bytes_field(1, wire.bytes_field(1, np.array(tokens, "<i4").tobytes()))
    return wire.bytes_field(3, [wire.bytes_field(1, chunk), *entries])


def test_a_request_has_its_data_and_settings():
    data = [([5, 6], {"target_tokens": [6, 7], "weights": [0.5, 1.0]}), ([1], {"target_tokens": [[2, 3]]})]
    found = read_training_request(training_message("m", 7, data, "ppo", {"clip_low_threshold": 0.5}, True))
    assert (found.model, found.seq, found.loss, found.forward_only) == ("m", 7, "ppo", True)
    assert found.settings == {"clip_low_threshold": 0.5}
    assert found.data[0].tokens.tolist() == [5, 6]
    assert found.data[0].inputs["weights"].tolist() == [0.5, 1.0]
    assert found.data[1].inputs["target_tokens"].tolist() == [[2, 3]]


def test_settings_of_an_older_client_are_read():
    entry = [wire.bytes_field(1, "beta"), wire.double_field(2, 0.3)]
    assert read_training_request(wire.bytes_field(5, entry)).settings == {"beta": 0.3}
    text = [wire.bytes_field(1, "kind"), wire.bytes_field(2, wire.bytes_field(2, "x"))]
    assert read_training_request(wire.bytes_field(7, text)).settings == {"kind": "x"}


def test_a_sparse_tensor_is_filled_with_zeros():
    message = request_with({"weights": sparse([1.0, 2.0, 3.0], [0, 1, 1, 3], [1, 0, 2], [3, 4])})
    (datum,) = read_training_request(message).data
    assert datum.inputs["weights"].tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [2, 0, 3, 0]]


@pytest.mark.parametrize(
    ("tensors", "what"),
    [
        ({"weights": sparse([1.0], [0, 1, 1], [0], [3, 4])}, "CSR"),
        ({"weights": sparse([1.0], [0, 0, 0, 1], [4], [3, 4])}, "CSR"),
        ({"weights": sparse([1.0], [0, 2, 0, 1], [0], [3, 4])}, "CSR"),
        ({"weights": sparse([], [0] * 4, [], [3, 2**30])}, "in a request"),
        ({"weights": wire.bytes_field(1, b"abc") + wire.integer_field(3, 1)}, "3 bytes"),
        ({"weights": wire.integer_field(3, 4)}, "dtype 4"),
        ({"weights": tensor([1.0, 2.0]) + wire.packed_field(4, [9])}, r"shape \[2, 9\]"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tensors, what):
    with pytest.raises(UserError, match=what):
        read_training_request(request_with(tensors))


def test_sparse_tensors_of_all_data_have_one_limit(monkeypatch):
    monkeypatch.setattr(messages, "MOST_CELLS", 100)
    one = request_with({"weights": sparse([], [0] * 4, [], [3, 16])})
    assert len(read_training_request(one).data) == 1
    with pytest.raises(UserError, match=r"datum 1.*in a request"):
        read_training_request(one + request_with({"weights": sparse([], [0] * 4, [], [3, 17])}))


def test_images_are_refused():
    image = wire.bytes_field(3, wire.bytes_field(1, wire.bytes_field(2, wire.bytes_field(1, b"png"))))
    with pytest.raises(UserError, match="image or audio"):
        read_training_request(image)
