"""An engine in a process of its own, which the training starts and, if it ends, starts again."""

from __future__ import annotations

import copy
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol

import torch
from gaitway_files.children import ending_with_us
from gaitway_files.writing import open_to_append, write_file
from torch import nn

from ..sync import EngineLostError
from .serve import TOKEN
from .vllm_server import VLLMServerEngine

SERVER = (sys.executable, "-m", "gaitway_language.engines.serve")
TORCHRUN = re.compile(r"((LOCAL_|GROUP_)?RANK|(LOCAL_|GROUP_)?WORLD_SIZE|MASTER_(ADDR|PORT)|(ROLE|TORCHELASTIC)_\w+)")
"""Variables by which processes of torchrun know each other, which an engine is none of."""
PATIENCE = 900.0
"""Longest time that a server may take to start [s]: vLLM compiles for minutes."""
LINE = 300
"""Characters of a process's last words that a message has."""


@dataclass(frozen=True)
class Order:
    """A server, as it is started on any machine."""

    files: Mapping[str, bytes]
    """The folder of its model, without weights."""
    arguments: tuple[str, ...]
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    """Secret that it shares with this process, which no command line shows."""

    @staticmethod
    def of(model: nn.Module, options: Any, longest: int | None) -> Order:
        """The engine and the settings of ``options`` for ``model``, a causal LM of transformers."""
        base: Any = model
        config = copy.deepcopy(base.config)
        if hasattr(config, "quantization_config"):
            del config.quantization_config  # weights are sent merged, and so unpacked
        config.architectures = [type(base.get_base_model() if hasattr(base, "get_base_model") else base).__name__]
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        arguments = ["--without-weights", "--engine", options.rollout, "--dtype", options.dtype]
        arguments += ["--port", "0", "--batch-size", str(options.batch_size)]
        arguments += ["--gpu-memory", str(options.gpu_memory), "--tensor-parallel", str(options.tensor_parallel)]
        arguments += [] if longest is None else ["--max-length", str(longest)]
        return Order(files, tuple(arguments))


class Place(Protocol):
    """Where a server runs, one at a time."""

    def start(self) -> str:
        """The address of a new server, in place of the last; :class:`EngineLostError` if it ends before it answers."""

    def silence(self, said: str) -> str:
        """What it means that the server did not answer, but that was ``said`` of it."""

    def close(self) -> None:
        """End the server."""


class Here:
    """This machine. The process has the variables of ``environment``, and ends with this one.

    ``logged`` keeps what it says in its folder, for messages, in place of saying it here.
    """

    def __init__(self, order: Order, environment: Mapping[str, str], *, host: str = "127.0.0.1", logged: bool = False):
        self._folder = tempfile.TemporaryDirectory(prefix="gaitway-engine-")
        for name, content in order.files.items():
            write_file(Path(self._folder.name, name), methodcaller("write", content))
        self._log = Path(self._folder.name, "log") if logged else None
        self._command = [*SERVER, "--model", self._folder.name, "--host", host, *order.arguments]
        self._environment = {**environment, TOKEN: order.token}
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        self._stop()
        with open_to_append(self._log) if self._log else nullcontext() as log:
            self.process = process = subprocess.Popen(
                ending_with_us(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,  # an interrupted training may still need it
            )
        assert process.stdout is not None
        impatient = threading.Timer(PATIENCE, process.kill)
        impatient.start()
        try:
            line = process.stdout.readline()
        finally:
            impatient.cancel()
        if not line:
            code = process.wait()
            raise EngineLostError(
                f"the engine's process ended before it answered, with exit code {code} (-9: it was killed, as where "
                f"memory runs out or the start takes more than {PATIENCE:.0f} s); {self._last_words()}"
            )
        # Whatever a library prints later must not fill the pipe.
        threading.Thread(target=_pass_on, args=(process.stdout,), daemon=True).start()
        return line.split()[-1]

    def silence(self, said: str) -> str:
        assert self.process is not None
        try:
            code = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"the engine's process does not answer ({said}), but has not ended"
        return f"the engine's process ended with exit code {code} (-9: it was killed, as where memory runs out)"

    def tidy(self) -> None:
        """Remove the files of a server that has started and read them. It cannot be started again."""
        self._folder.cleanup()

    def close(self) -> None:
        self._stop()
        self.tidy()

    def _stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _last_words(self) -> str:
        if self._log is None:
            return "lines above may say why"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"its last line: {lines[-1][:LINE]}" if lines else "it said nothing"


class OwnServerEngine(VLLMServerEngine):
    """Continues prompts in a server that this process starts at ``place`` and that knows its ``token``.

    The server has the weights of ``model``, a causal LM of transformers, after each update. It ends with this process,
    and :meth:`renew` starts another one where it was killed.
    """

    def __init__(self, model: nn.Module, place: Place, token: str, *, transport: str = "http"):
        self.place = place
        self._secret = f"Bearer {token}"
        self._end = weakref.finalize(self, place.close)
        super().__init__(model, place.start(), transport=transport)

    def renew(self) -> None:
        """Start another server; it has no weights yet. :class:`EngineLostError` where that fails."""
        self.address = self.place.start()
        self._meet()

    def _silence(self, error: Exception) -> str:
        return self.place.silence(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """End the server."""
        self._end()


def environment_beside(device: torch.device) -> dict[str, str]:
    """Variables of a process beside one on ``device``: with its GPU, if torchrun gave it one, and alone otherwise."""
    found = {name: value for name, value in os.environ.items() if not TORCHRUN.fullmatch(name)}
    if device.index is not None:
        visible = found.get("CUDA_VISIBLE_DEVICES", "")
        found["CUDA_VISIBLE_DEVICES"] = visible.split(",")[device.index] if visible else str(device.index)
    return found | {"OMP_NUM_THREADS": str(torch.get_num_threads())}


def _pass_on(lines: Any) -> None:
    with lines:
        for line in lines:
            sys.stderr.write(line)
