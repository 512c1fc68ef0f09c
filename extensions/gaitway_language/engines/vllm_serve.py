"""The client of ``vllm serve``, vLLM's own server: its generation from tokens, and its own weight transfer."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import torch
from gaitway_agents.interfaces import Completion, Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import NotDone, UserError
from torch import Tensor, nn

from ..sync import EngineLostError
from .group import own_address
from .limits import check_prompts
from .stream import WeightStream
from .vllm import _buckets
from .vllm_plugin import BACKEND
from .vllm_server import WAIT, meet_again, silence

OLDEST = (0, 32)
"""First version of vLLM with all that is asked here."""
BACKENDS = {"http": BACKEND, "nccl": "nccl"}
"""vLLM's name for each transport of weights."""


def command(transport: str) -> str:
    """The line that starts a server for a training."""
    return (
        "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs "
        f'--weight-transfer-config \'{{"backend": "{BACKENDS[transport]}"}}\''
    )


class VLLMServeEngine:
    """Continues prompts through ``vllm serve`` at ``address``, which gets ``model``'s weights now and at each update.

    ``transport`` is how weights travel: "nccl", from this process's GPU to all of the server's, by vLLM's own code on
    either side; or "http", in requests, for which Gaitway is installed beside the server too. "nccl" has not been run.
    ``batch_size`` is the number of requests at once, of which each continues one prompt, however often it is given.
    ``longest`` is the most tokens of a prompt and its answer, ``timeout`` [s] how long an answer may take.

    Each update has a number, which vLLM says of every token that it draws. An answer from another one, as after a
    restart, is an :class:`EngineLostError`. Equal calls draw equal tokens, but for rounding on GPUs, which depends on
    what else is computed at the time.
    """

    def __init__(
        self,
        model: nn.Module,
        address: str,
        *,
        transport: str = "http",
        batch_size: int = 256,
        longest: int | None = None,
        timeout: float = 1800.0,
    ):
        if transport == "nccl" and not torch.cuda.is_available():
            raise UserError("language.transport=nccl, but there is no GPU here: use language.transport=http")
        base: Any = model
        self.vocabulary = int(base.get_input_embeddings().num_embeddings)
        limits = [limit for limit in (getattr(base.config, "max_position_embeddings", None), longest) if limit]
        self._longest = min(limits) if longest else 0
        self.address, self.transport = address.rstrip("/"), transport
        self.batch_size, self.timeout = batch_size, timeout
        self._meet()
        self.update(MergedWeights(model))

    def _meet(self) -> None:
        """Look at a server that has none of our weights; UserError for one that was not started for a training."""
        self._version: str | None = None
        self._sender: Any = None
        told = str(self._ask("GET", "/version", timeout=10.0)["version"])
        found = re.match(r"(\d+)\.(\d+)", told)
        if found is None or (int(found[1]), int(found[2])) < OLDEST:
            raise UserError(f"the server {self.address} is vLLM {told}: install 'vllm>={OLDEST[0]}.{OLDEST[1]}' there")
        config = self._ask("GET", "/server_info?config_format=json", timeout=120.0)["vllm_config"]
        backend = (config["weight_transfer_config"] or {}).get("backend")
        if backend != BACKENDS[self.transport]:
            other = next((name for name, theirs in BACKENDS.items() if theirs == backend), None)
            raise self._wrongly_started(
                f"has the weight transfer {backend!r}, and language.transport={self.transport} needs "
                f"{BACKENDS[self.transport]!r}",
                f", or use language.transport={other}" if other else "",
            )
        options = config["model_config"]
        if options["logprobs_mode"] != "processed_logprobs":
            raise self._wrongly_started(f"says {options['logprobs_mode']}, which are not those of what it draws from")
        self.positions = int(options["max_model_len"])
        if self.positions < self._longest:
            raise self._wrongly_started(
                f"has room for {self.positions} tokens, and a prompt with its answer may have {self._longest}",
                f" --max-model-len {self._longest}",
            )
        if config["device_config"]["device"] == "cpu" and config["scheduler_config"]["enable_chunked_prefill"]:
            raise self._wrongly_started(
                "reads prompts in parts, at which vLLM's CPU build ends if they have seeds",
                " --no-enable-chunked-prefill",
            )
        self.dtype: torch.dtype = getattr(torch, options["dtype"].removeprefix("torch."))
        self._ask("POST", "/inference/v1/abort_requests", {"request_ids": []})  # no key, or no such paths, shows here

    def _wrongly_started(self, mistake: str, more: str = "") -> UserError:
        return UserError(f"the server {self.address} {mistake}: start it with {command(self.transport)}{more}")

    def renew(self) -> None:
        """Wait for a server at the same address; :class:`EngineLostError` after ``WAIT`` seconds without one."""
        meet_again(self._meet, WAIT)

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """One completion for each prompt; ValueError for one that is empty, too long or not of this vocabulary."""
        limits = sampling.limits_of(prompts)
        check_prompts(prompts, limits, vocabulary=self.vocabulary, positions=self.positions)
        rows: dict[tuple[tuple[int, ...], int], list[int]] = {}
        for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
            rows.setdefault((tuple(prompt), limit), []).append(row)
        found: dict[int, Completion] = {}

        def ask(prompt: tuple[int, ...], limit: int) -> list[Completion]:
            settings = {
                "max_tokens": limit,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
                "stop_token_ids": list(sampling.stop_tokens),
                "logprobs": 0,
            }
            if sampling.temperature > 0.0:  # or all answers are the same
                settings |= {"n": len(rows[prompt, limit]), "seed": _seed(sampling.seed, prompt, limit)}
            return [_completion(choice) for choice in self._continue(prompt, settings)["choices"]]

        for key, answers in zip(rows, self._together(ask, list(rows)), strict=True):
            answers = answers if len(answers) > 1 else answers * len(rows[key])
            found |= dict(zip(rows[key], answers, strict=True))
        return [found[row] for row in range(len(prompts))]

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability at temperature 1 of every token but the first, by the weights that ``generate`` uses."""
        check_prompts(sequences, [1] * len(sequences), vocabulary=self.vocabulary, positions=self.positions)

        def ask(sequence: Sequence[int]) -> list[float]:
            said = self._continue(sequence, {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0})
            numbers = said["prompt_logprobs"][1:]
            return [float(each[str(token)]["logprob"]) for each, token in zip(numbers, sequence[1:], strict=True)]

        return self._together(ask, [(sequence,) for sequence in sequences])

    def _together(self, ask: Any, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        if not questions:
            return []
        with ThreadPoolExecutor(min(self.batch_size, len(questions))) as pool:
            return list(pool.map(lambda question: ask(*question), questions))

    def _continue(self, tokens: Sequence[int], settings: dict[str, Any]) -> Any:
        """vLLM's answer to a prompt; :class:`EngineLostError` where it was cut short or drawn from other weights."""
        # What ends an answer is said in every call, and the model's own configuration has no say beside it.
        settings |= {"detokenize": False, "skip_special_tokens": False, "ignore_eos": True}
        answer = self._ask("POST", "/inference/v1/generate", {"token_ids": list(tokens), "sampling_params": settings})
        for choice in answer["choices"]:
            drawn = {span["version"] for span in choice["weight_versions"] or ()}
            if drawn != {self._version} or choice["finish_reason"] not in ("stop", "length"):
                raise EngineLostError(
                    f"the server {self.address} has not the weights that it was given: it was started anew, or another "
                    "training uses it"
                )
        return answer

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Have all of the server's processes take new weights, and forget what is cached of old ones."""
        if self._version is not None and self._version != self._ask("GET", "/weight_info")["weight_version"]:
            raise EngineLostError(f"the server {self.address} was started anew, without the weights that it had")
        self._ask("POST", "/pause?mode=wait")  # this empties the cache too
        try:
            if self.transport == "nccl":
                self._send(WeightStream(parameters, self.dtype))
            else:
                self.start_weight_update()
                for part in _buckets(parameters, self.dtype):
                    file = b"".join(WeightStream(part, self.dtype))
                    self.update_weights({"safetensors": base64.b64encode(file).decode()})
                self.finish_weight_update()
        except NotDone as error:
            # It stays at rest: with half of its weights, vLLM would end at the next question.
            raise UserError(
                f"the server {self.address} does not take the weights of the model that learns, with a vocabulary of "
                f"{self.vocabulary}: its own must have the same architecture and sizes. Start it anew with that MODEL. "
                f"It says: {error}"
            ) from error
        self._ask("POST", "/resume")

    def _send(self, stream: WeightStream) -> None:
        """Weights by vLLM's own NCCL backend, which drives the four methods below."""
        if self._sender is None:
            try:
                from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
                from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
                from vllm.utils.network_utils import get_open_port
            except ImportError as error:
                raise UserError(
                    f"language.transport=nccl needs vLLM here too ({error}): pip install 'gaitway[vllm]'"
                ) from error
            url = urlsplit(self.address)
            own = own_address(url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
            workers = self._ask("GET", "/get_world_size")["world_size"]
            init = NCCLTrainerInitInfo(own, get_open_port(), 1 + workers, rank=0)
            source = _Source(stream)
            self._sender = WeightTransferTrainerFactory.trainer_init(init, client=self, source=source)
        self._sender.source = _Source(stream)
        self._sender.send_weights()

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        self._ask("POST", "/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        try:
            self._ask("POST", "/start_weight_update")
        except NotDone:  # a training was ended within an update
            self._ask("POST", "/finish_weight_update")
            self._ask("POST", "/start_weight_update")

    def update_weights(self, update_info: Any) -> None:
        self._ask("POST", "/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        version = secrets.token_hex(8)
        self._ask("POST", "/finish_weight_update", {"weight_version": version})
        self._version = version

    def close(self) -> None:
        """Leave the server running: this process did not start it."""

    def _ask(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """The server's answer; UserError for what it calls our mistake, NotDone for its own.

        :class:`EngineLostError` where it is gone.
        """
        url = urlsplit(self.address)
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=timeout or self.timeout)
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("VLLM_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        try:
            connection.request(method, path, json.dumps(body or {}) if method == "POST" else None, headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
        except (OSError, HTTPException) as error:
            slow = isinstance(error, TimeoutError) and timeout is None  # and so is there
            raise (UserError if slow else EngineLostError)(
                silence(self.address, error, command(self.transport))
            ) from error
        finally:
            connection.close()
        try:
            found = json.loads(text) if text else {}
        except json.JSONDecodeError:
            raise UserError(f"what answers at {self.address} is no vLLM: mend language.server") from None
        if status == 200:
            return found
        said = _message(found)
        if status == 404:
            raise self._wrongly_started(f"knows no {path.partition('?')[0]}")
        if status == 403:
            raise self._wrongly_started(f"says: {said}")
        if status == 401:
            raise UserError(f"the server {self.address} wants its --api-key: set VLLM_API_KEY to the same here")
        if status < 500:
            raise UserError(f"the server {self.address} says: {said}")
        if path != "/health":
            self._ask("GET", "/health", timeout=30.0)
            raise NotDone(said)
        raise EngineLostError(f"the engine of the server {self.address} has ended")


class _Source:
    """What vLLM's trainer side asks of weights."""

    def __init__(self, stream: WeightStream):
        self.stream = stream

    def metadata(self) -> list[Any]:
        from vllm.distributed.weight_transfer.base import ParamMeta

        return [ParamMeta(name, self.stream.dtype, tuple(shape)) for name, shape in self.stream.layout]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for (name, _), tensor in zip(self.stream.layout, self.stream.tensors(), strict=True):
            yield name, tensor.detach().to(device, self.stream.dtype)


def _seed(seed: int, prompt: Sequence[int], limit: int) -> int:
    """A seed for each prompt of a call: vLLM counts on from it, one for each of its answers."""
    text = json.dumps([seed, list(prompt), limit]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def _completion(choice: Any) -> Completion:
    return Completion(
        tokens=choice["token_ids"],
        log_probs=[each["logprob"] for each in choice["logprobs"]["content"]],
        finished=choice["finish_reason"] == "stop",
    )


def _message(found: Any) -> str:
    """The text of an error, which is in one of several places."""
    error = found.get("error", found.get("detail", found)) if isinstance(found, dict) else found
    return str(error.get("message", error) if isinstance(error, dict) else error)
