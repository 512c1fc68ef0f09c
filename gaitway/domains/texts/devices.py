"""Device and precision of a language model."""

from __future__ import annotations

import os

import torch
from gaitway_agents.presets import has_bfloat16

from ...errors import ConfigError


def find_device(name: str) -> torch.device:
    """The device that ``name`` asks for; "auto" is a GPU if there is one."""
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        own = os.environ.get("LOCAL_RANK")  # each process of torchrun has a GPU
        return torch.device("cuda") if own is None else torch.device("cuda", int(own))
    if name != "cpu" and not torch.cuda.is_available():
        raise ConfigError(f"device={name}: this machine has no GPU that torch can use; use device=cpu")
    return torch.device(name)


def let_memory_grow(rollout: str) -> None:
    """Have torch keep a GPU's memory in pieces that grow, before it has taken any: less of it is lost between tensors.

    vLLM in this process manages memory of its own, which cannot be such.
    """
    if rollout != "vllm":
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")


def usual_dtype(device: torch.device) -> str:
    """Default dtype of a real model's frozen weights and engine: bfloat16 on a GPU that computes in it."""
    return "bfloat16" if device.type == "cuda" and has_bfloat16(device) else "float32"
