"""The engine that the options ask for, checked against the model that learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..options import LanguageOptions
from ..rollout import Engine
from ..sync import VerifiedEngine
from .transformers import TransformersEngine


def make_engine(
    options: LanguageOptions,
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    *,
    learning: bool = True,
) -> VerifiedEngine:
    """An engine with the weights of ``model``, a causal LM of transformers with or without adapters.

    ``prompts`` are those of the probe on which it is compared with ``model`` after every update; a few will do.
    ``learning=False`` says that nobody else changes ``model``, as in a process that only samples: then it takes the new
    weights too, and must have no adapters.
    """
    if not learning and hasattr(model, "merge_and_unload"):
        raise ValueError("learning=False with adapters: new weights come merged; give the model without adapters")
    reference = TransformersEngine(model, pad_token=tokenizer.pad_token_id, copied=False)
    load = None if learning else reference.decoder.load
    return VerifiedEngine(_engine(options, model, tokenizer), reference.score, prompts, load=load)


def _engine(options: LanguageOptions, model: nn.Module, tokenizer: Any) -> Engine:
    dtype: torch.dtype = getattr(torch, options.dtype)
    if options.rollout == "transformers":
        return TransformersEngine(model, pad_token=tokenizer.pad_token_id, dtype=dtype, batch_size=options.batch_size)
    if options.rollout == "vllm":
        from .vllm import VLLMEngine

        return VLLMEngine(model, dtype=dtype, batch_size=options.batch_size, gpu_memory=options.gpu_memory)
    from .vllm_server import VLLMServerEngine

    return VLLMServerEngine(model, options.server, transport=options.transport)
