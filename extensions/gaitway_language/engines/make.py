"""The engine that the options ask for, checked against the model that learns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gaitway_agents.interfaces import Engine
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from torch import nn

from ..options import OWN, LanguageOptions
from ..sync import LIMIT, PROBE_TOKENS, VerifiedEngine
from .transformers import TransformersEngine, padded


def make_engine(
    options: LanguageOptions,
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    longest: int | None = None,
    precision: str = "float32",
    learning: bool = True,
) -> VerifiedEngine:
    """An engine with the weights of ``model``, a causal LM of transformers with or without adapters.

    ``prompts`` are those of the probe on which it is compared with ``model``, computed in ``precision``, after every
    update; a few will do. ``longest`` is the most tokens of a prompt and its answer; None is as many as the model sees.
    ``learning=False`` says that nothing else changes ``model``, as in a process that only samples: then it takes the
    new weights too, and must have no adapters.
    """
    if not learning and hasattr(model, "merge_and_unload"):
        raise UserError("learning=False with adapters: new weights come merged; give the model without adapters")
    live = TransformersEngine(model, copied=False)
    low = precision == "bfloat16"

    def score(sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        with torch.autocast(live.device.type, torch.bfloat16, enabled=low):
            return live.score(sequences)

    if longest is not None and prompts:
        longest = max(longest, max(map(len, prompts)) + PROBE_TOKENS) + 1  # to score one, vLLM draws a token more
    engine = _engine(options, model, longest)
    limit = LIMIT
    if low or torch.bfloat16 in (next(model.parameters()).dtype, getattr(engine, "dtype", None)):
        with torch.autocast(live.device.type, torch.bfloat16, enabled=low):
            limit = max(limit, rounding(live, prompts, torch.bfloat16))
    load = None if learning else live.decoder.load
    return VerifiedEngine(engine, score, prompts, limit=limit, load=load, weights=lambda: MergedWeights(model))


@torch.inference_mode()
def rounding(live: TransformersEngine, prompts: Sequence[Sequence[int]], dtype: torch.dtype) -> float:
    """Difference of two computations of a log-probability in ``dtype`` by rounding alone [nats].

    The residual stream is rounded after each of a decoder's two sums a layer and once more in the logits, every time by
    up to half a unit in the last place, evenly spread: independent errors, whose variances add up. States are
    normalised before the output layer, so logits are off by the same share of their spread over the vocabulary, which
    is measured after ``prompts`` and grows with the width. A log-probability is a difference of two of them, and two
    computations differ by sqrt(2) times what each is off. Sampled tokens are mostly likelier, and so closer.
    """
    tokens, lengths = padded(prompts, live.device)
    spread = float(live.decoder.logits(tokens, lengths)[:, -1].float().std(-1).mean())
    unit, layers = 0.5 * torch.finfo(dtype).eps, live.layers
    return 2.0 * unit * math.sqrt((2 * layers + 1) / 3.0) * spread


def _engine(options: LanguageOptions, model: nn.Module, longest: int | None) -> Engine:
    dtype: torch.dtype = getattr(torch, options.dtype)
    if options.server == OWN or options.cluster:
        return _started(options, model, longest)
    if options.rollout == "transformers":
        return TransformersEngine(model, dtype=dtype, batch_size=options.batch_size, asynchronous=options.asynchronous)
    if options.rollout == "vllm":
        from .vllm import VLLMEngine

        return VLLMEngine(
            model,
            dtype=dtype,
            batch_size=options.batch_size,
            gpu_memory=options.gpu_memory,
            tensor_parallel=options.tensor_parallel,
            sleep=options.sleep,
            asynchronous=options.asynchronous,
            longest=longest,
        )
    if options.rollout == "vllm-serve":
        from .vllm_serve import VLLMServeEngine

        return VLLMServeEngine(
            model, options.server, transport=options.transport, batch_size=options.batch_size, longest=longest
        )
    from .vllm_server import VLLMServerEngine

    return VLLMServerEngine(model, options.server, transport=options.transport)


def check_server(options: LanguageOptions) -> None:
    """Raise :class:`..sync.EngineLostError` where nothing listens at the address that the options name."""
    from .vllm_serve import command
    from .vllm_server import START, check_listens

    check_listens(options.server, command(options.transport) if options.rollout == "vllm-serve" else START)


def _started(options: LanguageOptions, model: nn.Module, longest: int | None) -> Engine:
    """An engine in a process that this one starts."""
    from .own_server import Here, Order, OwnServerEngine, Place, environment_beside

    order, device = Order.of(model, options, longest), next(model.parameters()).device
    place: Place
    if options.cluster:
        from .on_ray import OnNode

        place = OnNode(options.cluster, order, gpus=options.gpus_there(device.type == "cuda"))
    else:
        place = Here(order, environment_beside(device))
    return OwnServerEngine(model, place, order.token, transport=options.transport)
