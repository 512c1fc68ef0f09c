"""Models: known ones from a folder or the hub, small ones built from nothing, and their adapters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import nn

from .conversation import Conversation
from .gguf_files import model_folder
from .options import LanguageOptions, LoraOptions, TinyModel
from .saving import STATISTICS


class ModelError(UserError):
    """A model that cannot be had, or not used; the message names it and the fix."""


def load_model(
    options: LanguageOptions,
    tokenizer: Any,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    learning: bool = True,
) -> nn.Module:
    """The causal LM that ``options`` name, with its adapters, ready to learn.

    What learns is float32; weights under adapters have ``options.dtype``, and so have those of a model that is not
    ``learning``. ``seed`` is for models and adapters made from nothing. Raises :class:`ModelError`.
    """
    from transformers import AutoModelForCausalLM

    if options.tiny is not None:
        model = build_model(options.tiny, tokenizer, seed, attention=options.attention)
    else:
        whole = learning and options.lora is None
        model = _pretrained(AutoModelForCausalLM, options.model, options, whole, device)
        _check_vocabulary(model, tokenizer, options.model)
    return _prepared(model, options, tokenizer, seed).to(device)


def build_model(sizes: TinyModel, tokenizer: Any, seed: int, *, attention: str = "sdpa") -> nn.Module:
    """A model in Llama's architecture with tied embeddings and random weights, for the tokens of ``tokenizer``."""
    from transformers import LlamaConfig, LlamaForCausalLM

    # Not Qwen2's, for whose folders AutoTokenizer takes Qwen2's tokeniser whatever they say of theirs.
    settings: dict[str, Any] = {"attn_implementation": attention}
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=sizes.hidden_size,
        intermediate_size=sizes.intermediate_size,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.heads,
        max_position_embeddings=sizes.max_positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def load_reward_model(
    options: LanguageOptions, tokenizer: Any, *, seed: int = 0, device: torch.device | str = "cpu"
) -> tuple[nn.Module, float, float]:
    """A sequence classification model with one label, and the mean and deviation that its scores are normalised by.

    ``options.model`` is a reward model or a causal LM, whose head is then new.
    """
    from transformers import AutoModelForSequenceClassification

    if options.tiny is not None:
        model: Any = _with_head(build_model(options.tiny, tokenizer, seed, attention=options.attention), seed)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            whole = options.lora is None
            kind: Any = AutoModelForSequenceClassification
            model = _pretrained(kind, options.model, options, whole, device, num_labels=1)
        _check_vocabulary(model, tokenizer, options.model)
    mean, std = (float(getattr(model.config, name, default)) for name, default in zip(STATISTICS, (0, 1), strict=True))
    return _prepared(model, options, tokenizer, seed).to(device), mean, std


def _with_head(model: Any, seed: int) -> nn.Module:
    """A sequence classification model on the decoder of a causal LM."""
    from transformers import AutoModelForSequenceClassification

    config = copy.deepcopy(model.config)
    config.num_labels = 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made: Any = AutoModelForSequenceClassification.from_config(config)
    made.get_decoder().load_state_dict(model.get_decoder().state_dict())
    return made


def add_lora(model: nn.Module, options: LoraOptions, *, seed: int = 0) -> nn.Module:
    """``model`` with adapters of peft, in float32, which alone learn; their product is 0 at first.

    The head of a reward model learns too.
    """
    from peft import LoraConfig, get_peft_model

    if options.targets:
        names = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)}
        if missing := set(options.targets) - names:
            raise ModelError(f"lora.targets {sorted(missing)}: no linear layer has this name; it has {sorted(names)}")
    alpha: Any = options.alpha  # peft says that it is a whole number, and only multiplies by it
    config = LoraConfig(
        r=options.rank,
        lora_alpha=alpha,
        lora_dropout=options.dropout,
        target_modules=list(options.targets) or "all-linear",
        exclude_modules=["score"] if hasattr(model, "score") else None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted: Any = get_peft_model(model, config)
    head = getattr(adapted.get_base_model(), "score", None)
    if head is not None:
        head.float().requires_grad_(True)
    return adapted


def read_config(name: str) -> Any:
    """The configuration of a model from a folder or the hub. Raises :class:`ModelError`."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model_folder(name), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"model {name!r} cannot be read: {str(error).splitlines()[0]}. Give a folder in Hugging Face's form, a "
            "run's folder, or a model's id on the hub and a network"
        ) from error


def max_positions(name: str) -> int | None:
    """Most tokens that a model from a folder or the hub sees; None where its configuration does not say."""
    return getattr(read_config(name).get_text_config(), "max_position_embeddings", None)


def stop_tokens(model: Any) -> tuple[int, ...]:
    """Every token that ends an answer by the configurations of a model; none of a reward model's."""
    config = getattr(model, "generation_config", None)
    found = () if config is None else (config.eos_token_id, model.config.eos_token_id)
    lists = [tokens if isinstance(tokens, list | tuple) else [tokens] for tokens in found if tokens is not None]
    return tuple(dict.fromkeys(token for tokens in lists for token in tokens))


def _pretrained(
    kind: Any, name: str, options: LanguageOptions, whole: bool, device: torch.device | str, **settings: Any
) -> Any:
    """``whole`` says that all of its weights learn; weights in four bits are put together on ``device``."""
    if options.lora is not None and options.lora.four_bits:
        settings |= _four_bits(getattr(torch, options.dtype), device)
    try:
        with _quiet():
            model, found = kind.from_pretrained(
                model_folder(name),
                dtype=torch.float32 if whole else getattr(torch, options.dtype),
                attn_implementation=options.attention,
                output_loading_info=True,
                trust_remote_code=False,  # where it is not said, transformers asks
                use_safetensors=True,
                **settings,
            )
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise ModelError(
            f"model {name!r} cannot be loaded: {str(error).splitlines()[0]}. Give a folder in Hugging Face's form "
            "(config.json, safetensors and tokeniser), a run's folder, or a model's id on the hub and a network"
        ) from error
    missing = sorted(set(found["missing_keys"]) - {"score.weight"})
    if missing:
        raise ModelError(
            f"model {name!r} lacks weights: {', '.join(missing[:3])}{' ...' * (len(missing) > 3)}; its files are "
            "incomplete or not of a language model"
        )
    return model


def _four_bits(dtype: torch.dtype, device: torch.device | str) -> dict[str, Any]:
    """Keyword arguments of transformers for QLoRA's weights: normal floats, their scales quantised too."""
    from transformers import BitsAndBytesConfig

    if find_spec("bitsandbytes") is None or find_spec("accelerate") is None:
        raise ModelError(
            "language.lora.four_bits=true needs bitsandbytes and accelerate, not installed here: "
            "pip install bitsandbytes accelerate"
        )
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )
    return {"quantization_config": config, "device_map": {"": device}}


@contextmanager
def _quiet() -> Iterator[None]:
    """Context without transformers' loading report: missing weights are an error here, except a new head's."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"model {name!r} knows {rows} tokens and its tokeniser {len(tokenizer)}: the tokeniser belongs to another "
            "model, or had tokens added to it; use the one that came with the model"
        )


def _prepared(model: Any, options: LanguageOptions, tokenizer: Any, seed: int) -> nn.Module:
    pad = tokenizer.pad_token_id
    if hasattr(model, "score") and pad == tokenizer.eos_token_id:
        pad = None  # transformers reads a score before the padding, which would then be before the end
    # What pads may have a meaning as well, and is then to be learnt.
    model.get_input_embeddings().padding_idx = None
    for config in (model.config, getattr(model, "generation_config", None)):
        if config is not None:
            config.pad_token_id = pad
            if config.eos_token_id is None:
                config.eos_token_id = tokenizer.eos_token_id
    if getattr(model, "generation_config", None) is not None:
        stops = Conversation(tokenizer, stops=stop_tokens(model)).stops
        model.generation_config.eos_token_id = list(stops) if len(stops) > 1 else stops[0]
    if options.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model if options.lora is None else add_lora(model, options.lora, seed=seed)
