"""Tokenisers of GGUF files, which name the rule that cuts a text into words and leave the rule itself to the reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import one_line

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
"""Words as the tokenisers of Llama 3 and Qwen 2 have them, which differ in how many digits they keep together."""
RULES = {
    "gpt-2": ("", True),
    "smollm": (r"\p{N}", True),
    "llama-bpe": (WORDS.replace("DIGITS", "{1,3}"), False),
    "qwen2": (WORDS.replace("DIGITS", ""), False),
}
"""Rules by GGUF's name: what is cut apart first, and whether GPT-2's rule cuts the rest. Published with each model;
llama.cpp has them in ``src/llama-vocab.cpp``."""
TEXTS = ("1234 + 56 = 1290", "  two  spaces\n\n\tx", "naïve 😀 Привет 日本", 'def f(x): return {"a": [1.5]}')
"""Texts that every tokeniser of this kind gives back as they were."""
CONTROL, ADDED = 3, 4
"""Types of tokens in a GGUF file: those that steer, and those that were added to the vocabulary."""


def gguf_tokenizer(path: Path, fields: Mapping[str, Any]) -> Any:
    """The tokeniser (transformers' ``PreTrainedTokenizerFast``) of a GGUF file with these ``fields``.

    Raises :class:`UserError` for one whose kind or rule is not known: it would read other tokens in silence.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    kind, rule = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or rule not in RULES:
        raise UserError(
            f"{path} has a tokeniser of the kind {kind!r} that cuts words by the rule {rule!r}, and only 'gpt2' with "
            f"{', '.join(map(repr, RULES))} can be read: give the model as a folder in Hugging Face's form"
        )
    try:
        tokens, types, merges = (fields[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type", "merges"))
        pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
        numbers = {token: number for number, token in enumerate(tokens)}
        tokenizer = Tokenizer(models.BPE(numbers, pairs, ignore_merges=rule == "llama-bpe"))
    except Exception as error:  # tokenizers raises no narrower one
        raise UserError(f"the tokeniser of {path} is damaged: tokens or merges: {one_line(error)}") from error
    first, gpt2 = RULES[rule]
    cut = [pre_tokenizers.Split(Regex(first), "isolated")] if first else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=gpt2)]
    )
    if rule == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, types, strict=True):
        if kind in (CONTROL, ADDED):
            tokenizer.add_tokens([AddedToken(token, special=kind == CONTROL, normalized=False)])
    named = {
        f"{name}_token": tokens[number]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (number := fields.get(f"tokenizer.ggml.{key}_token_id")) is not None
    }
    if fields.get("tokenizer.ggml.add_bos_token", rule == "llama-bpe") and "bos_token" in named:
        begin = (named["bos_token"], fields["tokenizer.ggml.bos_token_id"])
        tokenizer.post_processor = processors.TemplateProcessing(f"{begin[0]} $A", special_tokens=[begin])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **named)
    for text in TEXTS:
        if (back := fast.decode(fast.encode(text, add_special_tokens=False))) != text:
            raise UserError(
                f"the tokeniser of {path} makes {back!r} of {text!r}: its vocabulary lacks bytes; get the file "
                "anew, or give the model as a folder in Hugging Face's form"
            )
    fast.chat_template = fields.get("tokenizer.chat_template")
    return fast
