"""A tiny model behind ``gaitway serve``'s server, in a thread, and a client of the wire without Tinker's package."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gaitway_language.model import load_model
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.tokenizer import build_tokenizer

from gaitway.serve import protobuf as wire
from gaitway.serve.base import BaseModel
from gaitway.serve.http import ServiceServer
from gaitway.serve.service import Service

NAME = "tiny"
WORDS = "a b c d e f g h yes no one two three what is the sum of and"
SIZES = TinyModel(hidden_size=32, heads=2, layers=2, intermediate_size=64, max_positions=48)


def tiny_base(seed: int = 0) -> BaseModel:
    """A model of 20 thousand parameters with a tokeniser of its own."""
    tokenizer = build_tokenizer([WORDS])
    options = LanguageOptions(model="tiny", tiny=SIZES)
    model: Any = load_model(options, tokenizer, seed=seed, learning=False)
    with torch.no_grad():  # an output layer this small says much the same of all tokens, and adapters leave it alone
        model.get_input_embeddings().weight.mul_(8.0)
    return BaseModel(NAME, model, tokenizer)


@contextmanager
def serving(base: BaseModel, root: Path, **settings: Any) -> Iterator[str]:
    """Address of a server around ``base``."""
    service = Service(base, root, **settings)
    base.tokenizer.save_pretrained(service.training.tokenizer)
    server = ServiceServer(service, ("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        service.close()
        thread.join(10)


@pytest.fixture(scope="package")
def base() -> BaseModel:
    return tiny_base()


@pytest.fixture(scope="module")
def address(base: BaseModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(base, tmp_path_factory.mktemp("checkpoints"), most_models=64) as found:
        yield found


class Wire:
    """Requests as Tinker's client sends them."""

    def __init__(self, address: str, headers: dict[str, str] | None = None):
        self.address, self.headers = address, {"X-API-Key": "tml-local", **(headers or {})}

    def ask(self, path: str, body: Any = None, method: str = "POST", kind: str = "application/json") -> tuple[int, Any]:
        """Status and content, JSON or bytes."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if method == "POST" and data is None:
            data = b"{}"
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", data, method=method)
        for name, value in {**self.headers, "Content-Type": kind}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _content(answer)
        except urllib.error.HTTPError as error:
            return error.code, _content(error)

    def wait(self, path: str, body: Any, **more: Any) -> Any:
        """The result of a future."""
        status, future = self.ask(path, body, **more)
        assert status == 200, future
        status, found = self.ask("retrieve_future", {"request_id": future["request_id"]})
        assert status == 200, found
        return found

    def session(self) -> str:
        return self.ask("create_session", {"tags": [], "sdk_version": "0.38.0"})[1]["session_id"]

    def model(self, session: str, number: int = 0, **config: Any) -> str:
        """A new model of a session: of rank 4, or with ``lora_config=None`` all weights."""
        body = {"session_id": session, "model_seq_id": number, "base_model": NAME}
        body |= {"lora_config": {"rank": 4, "seed": 1}} | config
        return self.wait("create_model", body)["model_id"]

    def losses(self, model: str, seq: int, data: list[Any], loss: str = "cross_entropy", **more: Any) -> Any:
        message = training_message(model, seq, data, loss, **more)
        return self.wait("forward_backward", message, kind="application/x-protobuf")


def _content(answer: Any) -> Any:
    content = answer.read()
    return json.loads(content) if answer.headers.get_content_type() == "application/json" else content


def training_message(
    model: str,
    seq: int,
    data: list[tuple[list[int], dict[str, Any]]],
    loss: str = "cross_entropy",
    settings: dict[str, float] | None = None,
    forward_only: bool = False,
) -> bytes:
    """``ForwardBackwardRequest`` of data: input tokens, and tensors of the loss by name."""
    parts = [wire.bytes_field(1, model), wire.integer_field(2, seq)]
    for tokens, inputs in data:
        chunk = wire.bytes_field(1, wire.bytes_field(1, np.array(tokens, "<i4").tobytes()))
        datum = [wire.bytes_field(1, chunk)]
        for name, values in inputs.items():
            datum.append(wire.bytes_field(2, [wire.bytes_field(1, name), wire.bytes_field(2, tensor(values))]))
        parts.append(wire.bytes_field(3, datum))
    parts.append(wire.bytes_field(4, loss))
    for name, value in (settings or {}).items():
        parts.append(wire.bytes_field(7, [wire.bytes_field(1, name), wire.bytes_field(2, wire.double_field(1, value))]))
    return b"".join([*parts, wire.integer_field(6, int(forward_only))])


def tensor(values: Any) -> bytes:
    """``Tensor`` of numbers: whole ones as int64, others as float32."""
    array = np.asarray(values)
    whole = array.dtype.kind == "i"
    data = array.astype("<i8" if whole else "<f4").tobytes()
    return b"".join(
        [wire.bytes_field(1, data), wire.integer_field(3, 2 if whole else 1), wire.packed_field(4, array.shape)]
    )


def outputs_of(message: bytes) -> tuple[list[dict[str, np.ndarray]], dict[str, float]]:
    """Tensors of each datum and metrics of ``ForwardBackwardOutput``."""
    outputs, metrics = [], {}
    for number, value in wire.fields(message):
        if number == 2:
            found = {}
            for field, entry in wire.fields(wire.raw(value)):
                if field == 2:
                    parts = dict(wire.fields(wire.raw(entry)))
                    batched = dict(wire.fields(wire.raw(parts[2])))
                    shape = (-1, *wire.integers(batched.get(4, memoryview(b""))))
                    found[wire.text(parts[1])] = np.frombuffer(batched[1], "<f4").reshape(shape)
            outputs.append(found)
        elif number == 3:
            parts = dict(wire.fields(wire.raw(value)))
            metrics[wire.text(parts[1])] = wire.number(parts[2])
    return outputs, metrics


def samples_of(message: bytes) -> tuple[list[dict[str, Any]], np.ndarray | None]:
    """Answers, and log-probabilities of the prompt, of ``SampleResponse``."""
    answers, prompt = [], None
    for number, value in wire.fields(message):
        if number == 1:
            parts = dict(wire.fields(wire.raw(value)))
            tokens = np.frombuffer(parts.get(2, b""), "<i4").tolist()
            log_probs = np.frombuffer(parts.get(3, b""), "<f4").tolist()
            answers.append({"stopped": parts[1] == 0, "tokens": tokens, "log_probs": log_probs, "best": parts.get(4)})
        elif number == 2:
            prompt = np.frombuffer(wire.raw(value), "<f4")
    return answers, prompt
