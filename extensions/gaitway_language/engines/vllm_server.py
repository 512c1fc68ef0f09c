"""The client of an engine in another process: see :mod:`gaitway_language.engines.serve`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import torch
from gaitway_agents.interfaces import Completion, Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..sync import EngineLostError
from .group import WeightGroup, own_address
from .serve import LIFE, bearer
from .stream import WeightStream

WAIT = 300.0
"""Longest time that a server may be away during a training [s]."""
ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Time until a machine is asked whether it is still there, and between questions [s]; questions without an answer."""


START = "python -m gaitway_language.engines.serve --model ..."
"""The line that starts a server."""


def silence(address: str, error: Exception, start: str) -> str:
    """What a missing answer means, and what to do about it."""
    return (
        f"the server {address} does not answer ({type(error).__name__}: {error}): start it with {start}, or mend "
        "language.server"
    )


def check_listens(address: str, start: str) -> None:
    """Raise :class:`EngineLostError` where nothing listens at ``address``."""
    url = urlsplit(address)
    try:
        socket.create_connection((url.hostname or "", url.port or {"https": 443}.get(url.scheme, 80)), 10.0).close()
    except OSError as error:
        raise EngineLostError(silence(address, error, start)) from error


def meet_again(meet: Callable[[], None], wait: float) -> None:
    """Call ``meet`` until the server is there; :class:`EngineLostError` after ``wait`` seconds without one."""
    end = time.monotonic() + wait
    while True:
        try:
            return meet()
        except EngineLostError:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


class VLLMServerEngine:
    """Continues prompts through the server at ``address``, which gets the weights of ``model`` now and at each update.

    ``transport`` is how weights travel, in the server's dtype: "http", in a request; "nccl", from this process's GPU to
    the server's, which must be another; or "gloo", from memory to memory. ``timeout`` [s] is how long an answer may
    take. Of adapters only their factors travel, by HTTP, and the server adds them to its copy of the weights under
    them. "nccl" has the code of "gloo" but for the backend, and has not been run for want of two GPUs.
    """

    _secret: str | None = None
    """Value of the header ``Authorization``; None: that of the environment."""

    def __init__(self, model: nn.Module, address: str, *, transport: str = "http", timeout: float = 1800.0):
        self._like: Any = model
        self.address, self.timeout, self.transport = address.rstrip("/"), timeout, transport
        self._life: str | None = None
        self._meet()
        self.update(MergedWeights(model))

    def _meet(self) -> None:
        """Begin with a server that knows nothing of this trainer."""
        self._life = None
        about = self._ask("GET", "/about", timeout=10.0)
        vocabulary = int(self._like.get_input_embeddings().num_embeddings)
        if about["vocabulary"] != vocabulary:
            raise UserError(
                f"the server {self.address} has a model with {about['vocabulary']} tokens, the one that learns has "
                f"{vocabulary}: start it with the same --model"
            )
        self._life = about["life"]
        self.dtype: torch.dtype = getattr(torch, about["dtype"])
        self._base: nn.Module | None = None
        """Model with adapters of which the server holds the weights under them."""
        self._group = None if self.transport == "http" else self._join(self.transport)

    def renew(self) -> None:
        """Wait for a server at the same address; :class:`EngineLostError` after ``WAIT`` seconds without one."""
        meet_again(self._meet, WAIT)

    def _join(self, transport: str) -> WeightGroup:
        url = urlsplit(self.address)
        here = own_address(url.hostname or "", url.port or 80)
        group = WeightGroup(transport, 0, here)
        self._beside("/join", {"backend": transport, "host": here, "port": group.port}, group.join)
        return group

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        found = self._ask("POST", "/generate", {"prompts": [list(p) for p in prompts], "sampling": asdict(sampling)})
        return [Completion(**completion) for completion in found]

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        found: list[list[float]] = self._ask("POST", "/score", {"sequences": [list(s) for s in sequences]})
        return found

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        if isinstance(parameters, MergedWeights) and (factors := parameters.factors()):
            if self._base is not parameters.model:
                self._ask("POST", "/base", WeightStream(parameters.base(), parameters.model.dtype))
                self._base = parameters.model
            return dict(self._ask("POST", "/adapters", WeightStream(factors.items(), torch.float32)))
        stream = WeightStream(parameters, self.dtype)
        if self._group is None:
            return dict(self._ask("POST", "/update", stream))
        send = partial(self._group.send, stream.tensors(), self.dtype)
        return dict(self._beside("/receive", {"layout": stream.layout}, send))

    def _beside(self, path: str, body: Any, act: Callable[[], None]) -> Any:
        """The server's answer to a request during which this side has to act."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self._ask, "POST", path, body)
            try:
                act()
            except RuntimeError:
                answer.result()  # what the server says of it comes first
                raise
            return answer.result()

    def close(self) -> None:
        """Leave the server running: this process did not start it."""

    def _silence(self, error: Exception) -> str:
        """What a missing answer means, and what to do about it."""
        return silence(self.address, error, START)

    def _ask(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """The server's answer; ValueError for what it calls our mistake, RuntimeError for its own.

        :class:`EngineLostError` where it is gone, or another one than that which has our weights.
        """
        url = urlsplit(self.address)
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=timeout or self.timeout)
        data: bytes | Iterator[Any] | None = None
        secret = self._secret or bearer()
        headers = {} if secret is None else {"Authorization": secret}
        if self._life is not None:
            headers[LIFE] = self._life
        if isinstance(body, WeightStream):
            data, headers = iter(body), headers | {"Content-Length": str(len(body))}
        elif body is not None:
            data, headers = json.dumps(body).encode(), headers | {"Content-Type": "application/json"}
        try:
            connection.connect()
            _keep_alive(connection.sock)
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            status, found = response.status, json.loads(response.read())
        except (OSError, HTTPException, json.JSONDecodeError) as error:
            # What takes too long, or answers something else, is there.
            slow = (
                isinstance(error, TimeoutError) and error.errno is None and timeout is None
            )  # else it is the network's
            there = slow or isinstance(error, json.JSONDecodeError)
            raise (UserError if there else EngineLostError)(self._silence(error)) from error
        finally:
            connection.close()
        if status != 200:
            kind_of = {400: UserError, 410: EngineLostError}.get(status, RuntimeError)
            raise kind_of(f"the server {self.address} says: {found['error']}")
        return found


def _keep_alive(connection: socket.socket) -> None:
    """Have the system ask for the other machine while its answer takes long: one without power sends no farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # Linux has all of them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
