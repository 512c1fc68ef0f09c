"""Which model answers, through which engine, and how: settings of the language world."""

from __future__ import annotations

import re
from dataclasses import dataclass

ROLLOUTS = ("transformers", "vllm", "vllm-server")


@dataclass(frozen=True, kw_only=True)
class LoraOptions:
    """Low-rank adapters (Hu et al. 2021) on the linear layers; everything else stays frozen."""

    rank: int = 16
    alpha: float = 32.0
    """Adapters are scaled by alpha / rank."""
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Names of the layers that get one, such as ("q_proj", "v_proj"); none means every linear layer but the head."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank {self.rank}: must be at least 1")
        if not self.alpha > 0.0:
            raise ValueError(f"alpha {self.alpha}: must be positive")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout {self.dropout}: must lie in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class TinyModel:
    """A model built from nothing, in Llama's architecture."""

    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    intermediate_size: int = 384
    max_positions: int = 512

    def __post_init__(self) -> None:
        for name in ("hidden_size", "layers", "heads", "intermediate_size", "max_positions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 1")
        if self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size {self.hidden_size}: must be a multiple of twice the heads, {2 * self.heads}")


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """Everything about the model and its engine that is not learning."""

    model: str = "tiny"
    """"tiny" builds one; else a folder in Hugging Face's form, or a model of its hub by id."""
    tiny: TinyModel | None = None
    """What to build for "tiny"; None for any other model."""
    pad_token: str = ""
    """Token for padding that the exported tokeniser is to name; learning needs none, masks come from lengths."""
    dtype: str = "float32"
    """Of frozen weights under adapters, and of the engine: "float32" or "bfloat16". What learns is float32."""
    attention: str = "sdpa"
    """"sdpa", "eager", or "flash_attention_2" on a GPU that has it."""
    gradient_checkpointing: bool = False
    """Compute activations anew in the backward pass: slower, and a fraction of the memory."""
    lora: LoraOptions | None = None
    rollout: str = "transformers"
    """Who continues prompts: "transformers" in this process, "vllm" in this process, or a "vllm-server"."""
    server: str = ""
    """Address of the vLLM server, http://host:port; only for rollout "vllm-server"."""
    transport: str = "http"
    """How weights reach the server: "http", "nccl" from this GPU to another, or "gloo" from memory to memory."""
    gpu_memory: float = 0.3
    """Share of the GPU's memory that vLLM in this process takes; only for rollout "vllm"."""
    tensor_parallel: int = 1
    """GPUs that vLLM in this process splits the model over; only for rollout "vllm"."""
    batch_size: int = 256
    """Sequences that the engine continues at once."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""

    staleness: int = 0
    """Updates that sampling may lag behind learning, in a process of its own; 0: they take turns."""

    def __post_init__(self) -> None:
        if (self.model == "tiny") != (self.tiny is not None):
            raise ValueError(f"model {self.model!r}, tiny {self.tiny}: only 'tiny' has sizes")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype {self.dtype!r}: use 'float32' or 'bfloat16'")
        if self.attention not in ("sdpa", "eager", "flash_attention_2"):
            raise ValueError(f"attention {self.attention!r}: use 'sdpa', 'eager' or 'flash_attention_2'")
        if self.rollout not in ROLLOUTS:
            raise ValueError(f"rollout {self.rollout!r}: use one of {', '.join(map(repr, ROLLOUTS))}")
        if (self.rollout == "vllm-server") != bool(self.server):
            raise ValueError(f"rollout {self.rollout!r}, server {self.server!r}: 'vllm-server' needs one, others none")
        if self.server and not re.fullmatch(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?/?", self.server):
            raise ValueError(f"server {self.server!r}: write http://host:port")
        if self.transport not in ("http", "nccl", "gloo"):
            raise ValueError(f"transport {self.transport!r}: use 'http', 'nccl' or 'gloo'")
        if self.transport != "http" and not self.server:
            raise ValueError(
                f"transport {self.transport!r} with rollout {self.rollout!r}: only a 'vllm-server' has one"
            )
        if not 0.0 < self.gpu_memory < 1.0:
            raise ValueError(f"gpu_memory {self.gpu_memory}: a share between 0 and 1")
        if self.tensor_parallel < 1 or (self.tensor_parallel > 1 and self.rollout != "vllm"):
            raise ValueError(
                f"tensor_parallel {self.tensor_parallel} with rollout {self.rollout!r}: at least 1, and more "
                "for 'vllm' alone; a server has its own --tensor-parallel"
            )
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}: must be at least 1")
        if not self.temperature > 0.0:
            raise ValueError(f"temperature {self.temperature}: must be positive; learning samples, it does not argmax")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p {self.top_p}: must lie in (0, 1]")
        if self.top_k < 0:
            raise ValueError(f"top_k {self.top_k}: must not be negative")
        if self.staleness < 0:
            raise ValueError(f"staleness {self.staleness}: must not be negative; 0 samples and learns in turns")
