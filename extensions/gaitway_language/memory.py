"""How much memory a training will need, from a model's configuration, before hours or gigabytes are spent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gaitway_files.reading import one_line
from torch import nn

from .model import ModelError, read_config
from .options import LanguageOptions

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def estimate_memory(
    options: LanguageOptions,
    *,
    sequence: int,
    chunk_size: int = 4096,
    precision: str = "float32",
    reference: bool = False,
    critic: bool = False,
    on_gpu: bool = False,
) -> dict[str, int]:
    """Bytes by what they are for, of learning with Adam; of a model from a folder or the hub.

    ``sequence`` is the most tokens of a prompt and its answer, ``chunk_size`` the tokens of a forward pass and
    ``precision`` that of the optimiser. ``reference`` and ``critic`` say whether there are such copies beside the model
    (the reference of a model with adapters is none). A process of its own that samples has another copy, and the
    weights on their way to it are in the machine's memory, which is not that of a GPU (``on_gpu``). Activations were
    measured on Llama's family (``make test`` does so again), and are a rule of thumb for others.
    """
    model, config = _outline(options)
    parameters = sum(p.numel() for p in model.parameters())
    low, engine_bytes = precision == "bfloat16", 2 if options.dtype == "bfloat16" else 4
    if options.lora is None:
        learnt, weights = parameters, 4 * parameters
    else:
        learnt = sum(options.lora.rank * (m.in_features + m.out_features) for m in _adapted(model, options))
        weights = engine_bytes * parameters + 4 * learnt
    tokens = max(chunk_size, sequence)
    found = {"weights": weights, "gradients": 4 * learnt, "Adam's moments": 8 * learnt}
    if low and not (options.lora is not None and options.dtype == "bfloat16"):
        found["weights in bfloat16"] = 2 * parameters
    found["activations"] = tokens * _activations(config, options, sequence, low)
    found["logits"] = 3 * 4 * min(tokens * config.vocab_size, 2**27)
    if reference and options.lora is None:
        found["reference"] = 4 * parameters
    if critic:
        found["critic"] = weights + 12 * learnt
    if options.staleness:
        found["sampler's model"] = engine_bytes * parameters
        if not on_gpu:
            sent = 4 if options.lora is None else engine_bytes
            found["weights on their way"] = (options.staleness + 1) * sent * parameters
    if options.rollout == "transformers":
        found["engine's weights"] = engine_bytes * parameters
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        keys = 2 * config.num_hidden_layers * heads * size
        found["engine's keys and values"] = engine_bytes * keys * sequence * options.batch_size
    return found


def available_memory(device: torch.device) -> int:
    """Bytes that are free on a GPU, or on this machine within the limits of a container."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if not MEMINFO.exists():
        raise OSError(f"{MEMINFO} is not there: how much memory is free is known on Linux only")
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = 1024 * int(lines["MemAvailable"].split()[0])
    if (CGROUP / "memory.max").exists() and (most := (CGROUP / "memory.max").read_text().strip()) != "max":
        kinds = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        # Files that were read count as used, and make room as soon as it is needed.
        used = int((CGROUP / "memory.current").read_text()) - int(kinds["inactive_file"])
        free = min(free, int(most) - used)
    return free


def check_memory(needed: Mapping[str, int], available: int, where: str) -> None:
    """Raise :class:`ModelError` if what is ``needed`` is more than there is on ``where``."""
    total = sum(needed.values())
    if total <= available:
        return
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in sorted(needed.items(), key=lambda part: -part[1]))
    raise ModelError(
        f"the training needs about {_gib(total)} GiB and {where} has {_gib(available)} GiB free ({parts}). Take the "
        "first of these that you have not: adapters (--lora) on weights in bfloat16 (language.dtype=bfloat16), "
        "language.gradient_checkpointing=true, a smaller agent.optimizer.chunk_size or language.batch_size, a smaller "
        "model"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


def _outline(options: LanguageOptions) -> tuple[nn.Module, Any]:
    """The model without its weights, and its configuration."""
    from transformers import AutoModelForCausalLM

    config = read_config(options.model)
    with torch.device("meta"):
        try:
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False), config.get_text_config()
        except ValueError as error:
            raise ModelError(f"model {options.model!r} is no causal language model: {one_line(error)}") from error


def _adapted(model: Any, options: LanguageOptions) -> list[nn.Linear]:
    assert options.lora is not None
    head, targets = model.get_output_embeddings(), options.lora.targets
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head and (not targets or name.rpartition(".")[2] in targets)
    ]


def _activations(config: Any, options: LanguageOptions, sequence: int, low: bool) -> int:
    """Bytes that a token's activations take until the backward pass, and while it is under way in one layer."""
    wide = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    layer = (34 * config.hidden_size + 8 * wide) if low else (40 * config.hidden_size + 16 * wide)
    if options.attention == "eager":
        layer += (6 if low else 4) * config.num_attention_heads * sequence
    if options.gradient_checkpointing:
        return 4 * config.hidden_size * config.num_hidden_layers + 2 * layer
    return int(layer * (config.num_hidden_layers + 1))
