"""Which model answers, through which engine, and how: settings of the language world."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class LoraOptions(Checked):
    """Low-rank adapters (Hu et al. 2021) on the linear layers; everything else stays frozen."""

    rank: PositiveInt = 16
    alpha: PositiveFloat = 32.0
    """Adapters are scaled by alpha / rank."""
    dropout: ShareBelowOne = 0.0
    four_bits: bool = False
    """Keep the frozen weights of linear layers in four bits (QLoRA, Dettmers et al. 2023), which needs bitsandbytes:
    about a third of the memory of bfloat16, and slower. Engines get them in ``language.dtype``, adapters merged."""
    targets: tuple[str, ...] = ()
    """Names of the layers that get one, such as ("q_proj", "v_proj"); none means every linear layer but the head."""


@dataclass(frozen=True, kw_only=True)
class TinyModel(Checked):
    """A model built from nothing, in Llama's architecture."""

    hidden_size: PositiveInt = 128
    layers: PositiveInt = 2
    heads: PositiveInt = 4
    intermediate_size: PositiveInt = 384
    max_positions: PositiveInt = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (2 * self.heads):
            raise UserError(f"hidden_size {self.hidden_size}: must be a multiple of twice the heads, {2 * self.heads}")


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(Checked):
    """Everything about the model and its engine that is not learning."""

    model: str = "tiny"
    """"tiny" builds one; else a folder in Hugging Face's form, or a model of its hub by id."""
    tiny: TinyModel | None = None
    """Sizes of the model to build for "tiny"; None for any other model."""
    teacher: str = ""
    """Model that agent "gkd" learns from: a run, a folder in Hugging Face's form, or a model of its hub by id."""
    pad_token: str = ""
    """Token for padding that the exported tokeniser is to name; learning needs none, masks come from lengths."""
    dtype: Annotated[str, one_of("float32", "bfloat16")] = "float32"
    """Type of frozen weights under adapters and of the engine's, "float32" or "bfloat16"; what learns is float32."""
    attention: Annotated[str, one_of("sdpa", "eager", "flash_attention_2")] = "sdpa"
    """"sdpa", "eager", or "flash_attention_2" on a GPU that has it."""
    gradient_checkpointing: bool = False
    """Compute activations anew in the backward pass: slower, and a fraction of the memory."""
    lora: LoraOptions | None = None
    rollout: Annotated[str, one_of("transformers", "vllm", "vllm-server")] = "transformers"
    """Who continues prompts: "transformers" in this process, "vllm" in this process, or a "vllm-server"."""
    server: str = ""
    """Address of the vLLM server, http://host:port; only for rollout "vllm-server"."""
    transport: Annotated[str, one_of("http", "nccl", "gloo")] = "http"
    """How weights reach the server: "http", "nccl" from this GPU to another, or "gloo" from memory to memory."""
    gpu_memory: Annotated[float, Range(lambda share: 0.0 < share < 1.0, "must lie between 0 and 1")] = 0.3
    """Share of the GPU's memory that vLLM in this process takes; only for rollout "vllm"."""
    sleep: bool = False
    """Let vLLM in this process give its share of the GPU back while the model learns, which costs a copy of its weights
    to the machine's memory and back for every update."""
    tensor_parallel: PositiveInt = 1
    """GPUs that vLLM in this process splits the model over; only for rollout "vllm"."""
    batch_size: PositiveInt = 256
    """Sequences that the engine continues at once."""
    temperature: PositiveFloat = 1.0
    top_p: PositiveShare = 1.0
    top_k: NonNegativeInt = 0
    """0 keeps every token."""

    staleness: NonNegativeInt = 0
    """Updates that sampling may lag behind learning, in a process of its own; 0: they take turns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.model == "tiny") != (self.tiny is not None):
            raise UserError(f"model {self.model!r}, tiny {self.tiny}: only 'tiny' has sizes")
        if (self.rollout == "vllm-server") != bool(self.server):
            raise UserError(f"rollout {self.rollout!r}, server {self.server!r}: 'vllm-server' needs one, others none")
        if self.server and not re.fullmatch(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?/?", self.server):
            raise UserError(f"server {self.server!r}: write http://host:port")
        if self.transport != "http" and not self.server:
            raise UserError(f"transport {self.transport!r} with rollout {self.rollout!r}: only a 'vllm-server' has one")
        if self.sleep and self.rollout != "vllm":
            raise UserError(
                f"sleep with rollout {self.rollout!r}: only 'vllm' in this process shares the learner's GPU"
            )
        if self.tensor_parallel > 1 and self.rollout != "vllm":
            raise UserError(
                f"tensor_parallel {self.tensor_parallel} with rollout {self.rollout!r}: only 'vllm' splits a model; a "
                "server has its own --tensor-parallel"
            )
