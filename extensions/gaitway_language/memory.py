"""Estimate of a training's memory from a model's configuration, before hours or gigabytes are spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from gaitway_files.reading import one_line
from torch import nn

from .engines.llama import PROMPT_TOKENS
from .model import ModelError, read_config
from .options import LanguageOptions

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
FOUR_BITS = 0.53
"""Bytes of a weight in four bits, its share of their scales included."""
LOGITS = {"cpu": 2**24, "cuda": 2**26}
"""Logits that are in memory at a time, as in ``gaitway_agents.models.causal_lm``."""
KEPT = 2**27
"""Logits that a CPU keeps for the backward pass, in the type of the products; as there."""
LEAN = ("llama", "qwen2")
"""Model types that learn in lean passes on a CPU, as in ``gaitway_agents.models.llama``."""
LONGEST = 512
"""Tokens of a sequence up to which they do."""
SMALLEST = 1024
"""Tokens of a forward pass below which a GPU would wait for its next operation."""
USABLE = 0.95
"""Share of a GPU's free memory: some is left between tensors, and libraries take theirs."""


def estimate_memory(
    options: LanguageOptions,
    *,
    sequence: int,
    chunk_size: int = 4096,
    precision: str = "float32",
    offload: bool = False,
    store: str = "flat",
    processes: int = 1,
    reference: bool = False,
    moving: bool = False,
    critic: bool = False,
    samples: bool = True,
    on_gpu: bool = False,
    teacher: LanguageOptions | None = None,
) -> dict[str, int]:
    """Bytes by what they are for, when most are needed, of learning with Adam; of a model from a folder or the hub.

    ``sequence`` is the most tokens of a prompt and its answer, ``chunk_size`` the tokens of a forward pass;
    ``offload``, ``precision`` and ``store`` are the optimiser's, and bytes those of one of ``processes``.
    ``reference`` and ``critic`` say whether there are such copies beside the model (the reference of a model with
    adapters is none), and ``moving`` that the reference follows. An agent that ``samples`` keeps its engine; others
    make one to be evaluated. A process of its own that samples has another copy, and the weights on their way to it
    are in the machine's memory, which is not that of a GPU (``on_gpu``). Learning and sampling take turns, so only
    the one that needs more counts. Activations were measured on Llama's family (``make test`` does so again), and
    are a rule of thumb for others. A ``teacher`` is there in both turns.
    """
    model, config = _outline(options)
    sizes = [p.numel() for p in model.parameters()]
    parameters = sum(sizes)
    low, engine_bytes = precision == "bfloat16", 2 if options.dtype == "bfloat16" else 4
    halved = low and ((options.lora is not None and options.dtype == "bfloat16") or store != "flat")
    bytes_of_weight = engine_bytes if options.lora else 2 if low and store == "sharded" else 4
    learnt, weights = _learnt(model, options), bytes_of_weight * parameters
    if options.lora is not None:
        weights += 4 * learnt
        if options.lora.four_bits:
            weights -= int((engine_bytes - FOUR_BITS) * sum(m.weight.numel() for m in _linear(model).values()))
    share = 1 if store == "flat" else processes
    kept = {"weights": weights, "gradients": 4 * learnt}
    if not (offload and on_gpu):
        if store == "sharded" and low:
            kept["weights in float32"] = 4 * learnt // share
        kept["Adam's moments"] = 8 * learnt // share
    if store == "fsdp":
        kept |= {name: 0 if offload and on_gpu else kept[name] // processes for name in ("weights", "gradients")}
        kept["weights put together"] = (2 if low else 4) * _together(sizes, config)
    if reference and options.lora is None:
        linear = sum(m.weight.numel() for m in _linear(model).values()) if low and not moving else 0
        kept["reference"] = (4 * parameters) // share if store == "fsdp" else 4 * parameters - 2 * linear
    if critic:
        kept["critic"] = sum(kept.values()) - kept.get("reference", 0)
    here = options.rollout == "transformers" and not (samples and options.cluster)
    engine = engine_bytes * parameters if here else 0
    if samples and engine:
        kept["engine's weights"] = engine
    if samples and options.staleness:
        kept["sampler's model"] = engine_bytes * parameters
        if not on_gpu:
            sent = 4 if options.lora is None else engine_bytes
            kept["weights on their way"] = (options.staleness + 1) * sent * parameters
    tokens, models = max(chunk_size, sequence), 2 if critic else 1
    activations, lean = _activations(config, options, sequence, low, halved), _lean(config, options, sequence, on_gpu)
    learning = {
        "activations": tokens * ((models - lean) * activations + lean * _lean_activations(config, sequence, low)),
        # bfloat16, float32 before and after the softmax, and its gradients
        "logits": 16 * min(tokens * config.vocab_size, LOGITS["cuda" if on_gpu else "cpu"]),
    }
    if not on_gpu:
        learning["logits"] = max(learning["logits"], (2 if low else 4) * min(tokens * config.vocab_size, KEPT))
    if teacher is not None:
        kept["teacher"], learning["teacher's activations"] = estimate_teacher(teacher, tokens, sequence, low)
    if low and not halved:
        learning["weights in bfloat16"] = (models - lean) * 2 * parameters
    if lean and options.lora is not None:
        learning["weights with adapters"] = (2 if low else 4) * sum(m.weight.numel() for m in _linear(model).values())
    if options.lora is None:
        # That of tied embeddings is summed from both of their uses before it is added to what was there.
        learning["gradient under way"] = ((10 if store == "flat" else 4) if low else 8) * max(sizes)
    sampling: dict[str, int] = {}
    if engine:
        if not samples and not (options.lora is not None and options.lora.four_bits):
            sampling["engine's weights"] = engine
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        keys = 2 * config.num_hidden_layers * heads * size
        sampling["engine's keys and values"] = engine_bytes * keys * sequence * options.batch_size
        read = min(PROMPT_TOKENS, sequence * options.batch_size)
        sampling["engine's prompts"] = engine_bytes * read * (keys + 4 * _wide(config) + 6 * config.hidden_size)
        sampling["engine's logits"] = (16 + engine_bytes) * options.batch_size * config.vocab_size
    found = kept | max(learning, sampling, key=lambda parts: sum(parts.values()))
    if store != "fsdp":
        return found
    # Before there are parts, every process has the whole model.
    begin = {"weights": kept["weights"], "weights while they are read": 4 * parameters}
    begin |= {name: kept[name] for name in ("engine's weights", "reference") if name in kept}
    return max(found, begin, key=lambda parts: sum(parts.values()))


def estimate_teacher(options: LanguageOptions, tokens: int, sequence: int, low: bool) -> tuple[int, int]:
    """Bytes of a teacher's weights, and of its activations while it reads so many ``tokens``, one layer at a time.

    Its logits take half of the student's share, slice by slice.
    """
    model, config = _outline(options)
    size = 2 if options.dtype == "bfloat16" else 4
    one = replace(options, gradient_checkpointing=False)
    layer = _activations(config, one, sequence, low, size == 2) // (config.num_hidden_layers + 1)
    return size * sum(p.numel() for p in model.parameters()), tokens * layer


def estimate_host_memory(
    options: LanguageOptions, *, offload: bool = False, store: str = "flat", processes: int = 1, beside: int = 1
) -> dict[str, int]:
    """Bytes of the machine's memory that a training on a GPU needs: to read the model, and for ``offload``.

    ``beside`` of the ``processes`` are on this machine.
    """
    model, _ = _outline(options)
    read = 2 if options.lora is not None and options.dtype == "bfloat16" else 4
    found = {"weights while they are read": beside * read * sum(p.numel() for p in model.parameters())}
    if not offload:
        return found
    each = {"flat": 8, "sharded": 12, "fsdp": 16}[store] * _learnt(model, options)
    return found | {"Adam's moments": beside * each // (1 if store == "flat" else processes)}


TURNS = ("activations", "teacher's activations", "logits", "weights in bfloat16", "gradient under way")
"""Parts that are there while learning alone."""


class Saving(NamedTuple):
    """Settings that memory depends on and results, but for rounding, do not."""

    chunk_size: int
    gradient_checkpointing: bool
    offload: bool


def affordable(
    needed: Callable[[Saving], Mapping[str, int]], asked: Saving, available: int, *, sequence: int, on_gpu: bool
) -> Saving:
    """``asked``, or the first that fits of what saves more, in the order of what it costs in time; or else the last.

    Smaller forward passes come first, down to :data:`SMALLEST` tokens or a ``sequence``; then activations computed anew
    in the backward pass, which also reads a group's prompt once for each answer; then Adam's moments off a GPU.
    """
    sizes = [asked.chunk_size]
    while sizes[-1] // 2 >= max(SMALLEST, sequence):
        sizes.append(sizes[-1] // 2)
    kinds = [asked, asked._replace(gradient_checkpointing=True)]
    if on_gpu:
        kinds.append(kinds[-1]._replace(offload=True))
    candidates = [kind._replace(chunk_size=size) for kind in kinds for size in sizes]
    return next((one for one in candidates if sum(needed(one).values()) <= available), candidates[-1])


def _together(sizes: Sequence[int], config: Any) -> int:
    """Parameters that fully_shard has in one place at most: what is in no layer, a layer, and the one after it."""
    outside = config.vocab_size * config.hidden_size
    outside *= 1 if getattr(config, "tie_word_embeddings", False) else 2
    return outside + 2 * (sum(sizes) - outside) // config.num_hidden_layers


def available_memory(device: torch.device) -> int:
    """Bytes that can be used of those free on a GPU, or on this machine within the limits of a container."""
    if device.type == "cuda":
        return int(USABLE * torch.cuda.mem_get_info(device)[0])
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
        "first of these that you have not: language.gradient_checkpointing=true, on a GPU "
        "agent.optimizer.offload=true and agent.optimizer.store=sharded, a smaller agent.optimizer.chunk_size or "
        "language.batch_size, adapters (--lora) on weights in bfloat16 (language.dtype=bfloat16), more GPUs (--gpus), "
        "a smaller model"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}"


def _outline(options: LanguageOptions) -> tuple[nn.Module, Any]:
    """The model without its weights, and its configuration.

    The last ones are kept: an estimate is asked for once for each way to save memory, and large models have many parts.
    """
    config = read_config(options.model)
    words = config.to_json_string(use_diff=False)
    if words not in _OUTLINES:
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            try:
                model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
            except ValueError as error:
                raise ModelError(f"model {options.model!r} is no causal language model: {one_line(error)}") from error
        while len(_OUTLINES) >= 2:  # a model and its teacher
            del _OUTLINES[next(iter(_OUTLINES))]
        _OUTLINES[words] = model
    return _OUTLINES[words], config.get_text_config()


_OUTLINES: dict[str, nn.Module] = {}


def _learnt(model: Any, options: LanguageOptions) -> int:
    """Parameters that learn."""
    if options.lora is None:
        return sum(p.numel() for p in model.parameters())
    targets = options.lora.targets
    adapted = [m for name, m in _linear(model).items() if not targets or name.rpartition(".")[2] in targets]
    return sum(options.lora.rank * (m.in_features + m.out_features) for m in adapted)


def _linear(model: Any) -> dict[str, nn.Linear]:
    """Linear layers but the head, by name."""
    head = model.get_output_embeddings()
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head}


def _lean(config: Any, options: LanguageOptions, sequence: int, on_gpu: bool) -> bool:
    """True if the model, but not a critic, learns in lean passes."""
    lora = options.lora
    plain = lora is None or not (lora.dropout or lora.four_bits)
    short = sequence <= LONGEST and not options.gradient_checkpointing
    return plain and short and not on_gpu and config.model_type in LEAN


def _lean_activations(config: Any, sequence: int, low: bool) -> int:
    """Bytes of a token's activations in lean passes, as :func:`_activations` says them of others."""
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    # Queries, keys, values and what attention gives; its scores; gate and up: all in the type of the products.
    kept = (2 * heads + 2 * keys) * size + heads * sequence + 2 * _wide(config)
    # The states before each half of a layer are in float32.
    return int((8 * config.hidden_size + (2 if low else 4) * kept) * (config.num_hidden_layers + 1))


def _wide(config: Any) -> int:
    return int(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)


def _activations(config: Any, options: LanguageOptions, sequence: int, low: bool, halved: bool) -> int:
    """Bytes that a token's activations take until the backward pass, and while it is under way in one layer.

    ``low`` is the precision of forward passes, ``halved`` where what one layer hands to the next is in bfloat16 too.
    """
    hidden = config.hidden_size
    layer = (34 * hidden + 8 * _wide(config)) if low else (40 * hidden + 16 * _wide(config))
    if options.attention == "eager":
        layer += (6 if low else 4) * config.num_attention_heads * sequence
    if options.gradient_checkpointing:
        return (2 if halved else 4) * hidden * config.num_hidden_layers + 2 * layer
    return int(layer * (config.num_hidden_layers + 1))
