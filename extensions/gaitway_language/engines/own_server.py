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
from typing import Any

import torch
from gaitway_files.children import ending_with_us
from torch import nn

from ..sync import EngineLostError
from .serve import TOKEN
from .vllm_server import VLLMServerEngine

SERVER = (sys.executable, "-m", "gaitway_language.engines.serve")
TORCHRUN = re.compile(r"((LOCAL_|GROUP_)?RANK|(LOCAL_|GROUP_)?WORLD_SIZE|MASTER_(ADDR|PORT)|(ROLE|TORCHELASTIC)_\w+)")
"""Variables by which processes of torchrun know each other, which an engine is none of."""
PATIENCE = 900.0
"""Longest time that a server may take to start [s]: vLLM compiles for minutes."""


class OwnServerEngine(VLLMServerEngine):
    """Continues prompts in a process on this machine, with the engine and the settings of ``options``.

    The process has the weights of ``model``, a causal LM of transformers, after each update. It ends with this one, and
    :meth:`renew` starts another one where it was killed.
    """

    def __init__(self, model: nn.Module, options: Any, *, longest: int | None = None):
        self._device = next(model.parameters()).device
        self._token = secrets.token_hex(32)
        self._secret = f"Bearer {self._token}"
        self._folder = tempfile.TemporaryDirectory(prefix="gaitway-engine-")
        base: Any = model
        config = copy.deepcopy(base.config)
        if hasattr(config, "quantization_config"):
            del config.quantization_config  # weights are sent merged, and so unpacked
        config.architectures = [type(base.get_base_model() if hasattr(base, "get_base_model") else base).__name__]
        config.save_pretrained(self._folder.name)
        self._command = [*SERVER, "--model", self._folder.name, "--without-weights", "--engine", options.rollout]
        self._command += ["--dtype", options.dtype, "--port", "0", "--batch-size", str(options.batch_size)]
        self._command += ["--gpu-memory", str(options.gpu_memory), "--tensor-parallel", str(options.tensor_parallel)]
        self._command += [] if longest is None else ["--max-length", str(longest)]
        self._processes: list[subprocess.Popen[str]] = []
        self._end = weakref.finalize(self, _end, self._processes, self._folder)
        super().__init__(model, self._start(), transport=options.transport)

    def _start(self) -> str:
        """The address of a new server; :class:`EngineLostError` where it ends before it answers."""
        environment = _environment(self._device) | {TOKEN: self._token}
        environment["OMP_NUM_THREADS"] = str(torch.get_num_threads())
        process = subprocess.Popen(
            ending_with_us(self._command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # an interrupted training may still need it
        )
        self._processes[:] = [process]
        assert process.stdout is not None
        impatient = threading.Timer(PATIENCE, process.kill)
        impatient.start()
        try:
            line = process.stdout.readline()
        finally:
            impatient.cancel()
        if not line:
            raise EngineLostError(
                f"the engine's process ended before it answered, with exit code {process.wait()} (-9: it was killed, "
                f"as where memory runs out or the start takes more than {PATIENCE:.0f} s); lines above may say why"
            )
        # Whatever a library prints later must not fill the pipe.
        threading.Thread(target=_pass_on, args=(process.stdout,), daemon=True).start()
        return line.split()[-1]

    def renew(self) -> None:
        """Start another process; it has no weights yet. :class:`EngineLostError` where that fails."""
        _stop(self._processes)
        self.address = self._start()
        self._meet()

    def _silence(self, error: Exception) -> str:
        try:
            code = self._processes[0].wait(1.0)
        except subprocess.TimeoutExpired:
            return f"the engine's process does not answer ({type(error).__name__}: {error}), but has not ended"
        return f"the engine's process ended with exit code {code} (-9: it was killed, as where memory runs out)"

    def close(self) -> None:
        """End the process."""
        self._end()


def _environment(device: torch.device) -> dict[str, str]:
    """Variables of a process beside one on ``device``: with its GPU, if torchrun gave it one, and alone otherwise."""
    found = {name: value for name, value in os.environ.items() if not TORCHRUN.fullmatch(name)}
    if device.index is not None:
        visible = found.get("CUDA_VISIBLE_DEVICES", "")
        found["CUDA_VISIBLE_DEVICES"] = visible.split(",")[device.index] if visible else str(device.index)
    return found


def _pass_on(lines: Any) -> None:
    with lines:
        for line in lines:
            sys.stderr.write(line)


def _stop(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _end(processes: list[subprocess.Popen[str]], folder: tempfile.TemporaryDirectory[str]) -> None:
    _stop(processes)
    folder.cleanup()
