"""A server around an engine, for generation on other GPUs or another machine than learning.

    python -m gaitway_language.engines.serve --model Qwen/Qwen2.5-1.5B-Instruct --port 8000

It answers one request at a time, from one trainer, and listens on this machine only unless told otherwise. Other
machines are answered only if the environment here and there holds the same secret, GAITWAY_ENGINE_TOKEN. It is sent as
it is, so keep the server on a private network. Pages in a browser are refused.
"""

from __future__ import annotations

import argparse
import hmac
import ipaddress
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import torch
from gaitway_agents.interfaces import Engine, Sampling
from gaitway_files.adapters import with_factors
from gaitway_files.errors import UserError
from torch import Tensor

from ..gguf_files import model_folder
from .group import WeightGroup
from .stream import tensors_of

CHUNK = 2**20
REQUEST_BYTES = 2**30
"""Most of a request but new weights, which is kept in memory."""
SILENCE = 60.0
"""Longest time between two parts of a request [s]; then its connection is closed."""
SHARED = Path("/dev/shm")
TOKEN = "GAITWAY_ENGINE_TOKEN"
"""Environment variable with the secret that server and trainer share."""
LIFE = "Gaitway-Engine-Life"
"""Header with the ``life`` of the server that a request is for: one that was started anew has not its weights."""


def bearer() -> str | None:
    """The value of the header ``Authorization`` for the secret in the environment; None without one."""
    token = os.environ.get(TOKEN, "")
    return f"Bearer {token}" if token else None


def needed(host: str) -> str:
    return f"others reach {host}: set {TOKEN} to the same secret here and where you train, or leave --host out"


class EngineServer(ThreadingHTTPServer):
    """``engine`` over HTTP at ``address``, (host, port); port 0 takes a free one, ``server_port`` says which.

    A thread for each connection reads its request; one thread does what they ask for, in turn. Raises ValueError for an
    address that others reach while the environment holds no secret.
    """

    daemon_threads = True

    def __init__(self, engine: Engine, address: tuple[str, int], *, vocabulary: int, dtype: torch.dtype):
        self.bearer = bearer()
        if self.bearer is None and not is_loopback(address[0]):
            raise UserError(needed(address[0]))
        super().__init__(address, _Handler)
        self.engine, self.dtype = engine, dtype
        self.turn = ThreadPoolExecutor(1)
        self.group: WeightGroup | None = None
        self.base: dict[str, Tensor] = {}
        """Weights that adapters are added to, where the trainer sends no more than those."""
        self.about = {
            "engine": type(engine).__name__,
            "vocabulary": vocabulary,
            "dtype": str(dtype).removeprefix("torch."),
            "life": secrets.token_hex(8),
        }


class _Handler(BaseHTTPRequestHandler):
    server: EngineServer
    protocol_version = "HTTP/1.1"
    timeout = SILENCE

    def do_GET(self) -> None:
        self._answer(self.path == "/about", lambda: self.server.about)

    def do_POST(self) -> None:
        action = {
            "/generate": self._generate,
            "/score": self._score,
            "/update": self._update,
            "/base": self._base,
            "/adapters": self._adapters,
            "/join": self._join,
            "/receive": self._receive,
        }.get(self.path)
        self._answer(action is not None, action or dict)

    def _generate(self) -> Any:
        request = self._body()
        settings = request["sampling"]
        sampling = Sampling(**settings | {name: tuple(v) for name, v in settings.items() if isinstance(v, list)})
        found = self._in_turn(lambda: self.server.engine.generate(request["prompts"], sampling))
        return [asdict(completion) for completion in found]

    def _score(self) -> Any:
        sequences = self._body()["sequences"]
        return self._in_turn(lambda: self.server.engine.score(sequences))

    def _update(self) -> Any:
        with self._file() as path:
            return self._in_turn(lambda: self._take(tensors_of(path)))

    def _base(self) -> Any:
        with self._file() as path:
            self.server.base = dict(tensors_of(path))
        return {}

    def _adapters(self) -> Any:
        with self._file() as path:
            factors = dict(tensors_of(path))
        return self._in_turn(lambda: self._take(with_factors(self.server.base, factors)))

    def _take(self, weights: Iterable[tuple[str, Tensor]]) -> Any:
        return dict(self.server.engine.update(weights) or {})

    @contextmanager
    def _file(self) -> Iterator[Path]:
        """The request as a file of safetensors."""
        left = self._length()
        with tempfile.NamedTemporaryFile(dir=SHARED if SHARED.is_dir() else None, suffix=".safetensors") as file:
            while left and (part := self.rfile.read(min(left, CHUNK))):
                file.write(part)
                left -= len(part)
            if left:
                raise ConnectionError(f"{left} bytes of the new weights did not arrive")
            file.flush()
            yield Path(file.name)

    def _join(self) -> Any:
        request = self._body()
        return self._in_turn(lambda: self._enter(request))

    def _enter(self, request: Any) -> Any:
        group = WeightGroup(request["backend"], 1, request["host"], request["port"])
        group.join()
        self.server.group = group
        return {}

    def _receive(self) -> Any:
        """Weights by way of the group; the request has their names and shapes."""
        layout = self._body()["layout"]
        return self._in_turn(lambda: self._take_from_group(layout))

    def _take_from_group(self, layout: Any) -> Any:
        if self.server.group is None:
            raise UserError("no group to receive weights from: /join comes first")
        tensors = self.server.group.receive(layout, self.server.dtype)
        try:
            return self._take(tensors)
        finally:
            for _ in tensors:  # the other side waits until the last one is taken
                pass

    def _in_turn(self, action: Callable[[], Any]) -> Any:
        return self.server.turn.submit(action).result()

    def _length(self) -> int:
        length = int(self.headers["Content-Length"] or 0)
        if length < 0:
            raise UserError(f"a request of {length} bytes")
        return length

    def _body(self) -> Any:
        kind, length = self.headers.get_content_type(), self._length()
        if kind != "application/json":
            raise UserError(f"a request of the type {kind}: application/json is needed")
        if length > REQUEST_BYTES:
            raise UserError(f"a request of {length} bytes: at most {REQUEST_BYTES} are read")
        return json.loads(self.rfile.read(length))

    def _answer(self, known: bool, action: Callable[[], Any]) -> None:
        """Answer with the action's result; 400 for errors of the client, 500 for errors of the server."""
        page, secret = self.headers["Origin"], self.headers["Authorization"] or ""
        life = self.headers[LIFE]
        try:
            if page is not None:
                status, found = 403, {"error": f"a page of {page} asks, and only programs may"}
            elif self.server.bearer and not hmac.compare_digest(secret.encode(), self.server.bearer.encode()):
                status, found = 401, {"error": f"{TOKEN} must hold the secret that the server was started with"}
            elif life not in (None, self.server.about["life"]):
                status, found = 410, {"error": "started anew, without the weights that it had"}
            else:
                status, found = (200, action()) if known else (404, {"error": f"no such path: {self.path}"})
        except ValueError as error:
            status, found = 400, {"error": str(error)}
        except Exception as error:
            status, found = 500, {"error": f"{type(error).__name__}: {error}"}
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if status != 200:  # part of the request may not have been read
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gaitway_language.engines.serve", description=__doc__)
    parser.add_argument("--model", required=True, help="folder in Hugging Face's form, or a model of its hub by id")
    parser.add_argument("--without-weights", action="store_true", help="read the folder's config.json alone")
    parser.add_argument("--engine", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--batch-size", type=int, default=256, help="sequences that are continued at once")
    parser.add_argument("--gpu-memory", type=float, default=0.9, help="share of the GPU's memory that vLLM takes")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="GPUs that vLLM splits the model over")
    parser.add_argument("--max-length", type=int, help="tokens of a prompt and its answer, at most")
    asked = parser.parse_args(arguments)
    dtype: torch.dtype = getattr(torch, asked.dtype)
    if bearer() is None and not is_loopback(asked.host):
        parser.error(needed(asked.host))

    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    folder, kind = model_folder(asked.model), cast(Any, AutoModelForCausalLM)
    model: Any
    if asked.without_weights:
        with no_init_weights():  # the trainer sends them
            model = kind.from_config(AutoConfig.from_pretrained(folder, trust_remote_code=False), dtype=dtype)
        model.tie_weights()
    else:
        model = kind.from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)
    engine: Engine
    if asked.engine == "vllm":
        from .vllm import VLLMEngine

        engine = VLLMEngine(
            model,
            dtype=dtype,
            batch_size=asked.batch_size,
            gpu_memory=asked.gpu_memory,
            tensor_parallel=asked.tensor_parallel,
            longest=asked.max_length,
        )
    else:
        from .transformers import TransformersEngine

        model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        engine = TransformersEngine(model, batch_size=asked.batch_size)
    vocabulary = int(model.get_input_embeddings().num_embeddings)
    del model
    server = EngineServer(engine, (asked.host, asked.port), vocabulary=vocabulary, dtype=dtype)
    print(f"{asked.model} answers at http://{asked.host}:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        server.turn.shutdown(cancel_futures=True)
        engine.close()


if __name__ == "__main__":
    main()
