"""Tokenisers: those of known models, and small ones made of a task's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gaitway_files.errors import UserError

from .gguf_files import model_folder

PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"
ROLES = {"system": "<system>", "user": "<user>", "assistant": "<assistant>", "tool": "<result>"}
PIECES = r" ?</?[a-z]+>| ?[A-Za-z']+| ?\d{1,2}| ?[^\sA-Za-z\d]|\s"
"""Tags, words, numbers below 100 and signs, each with the space before it: pieces in a row are the text again."""

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}<system>{% elif message.role == 'user' %}<user>"
    "{% elif message.role == 'tool' %}<result>{% else %}<assistant>{% endif %}"
    "{{ message.content }}{% if message.role == 'assistant' %}<end>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class TokenizerError(UserError):
    """A tokeniser that learning cannot use; the message names what is wrong with it and the fix."""


def build_tokenizer(texts: Iterable[str]) -> Any:
    """A word-level tokeniser (transformers' ``PreTrainedTokenizerFast``) of every piece of ``texts`` and every digit.

    Texts made of known pieces are encoded without loss; other pieces become ``<unknown>``. A text, and what follows a
    role's token, begins with an unwritten space, so that a word is the same wherever it stands.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = {piece for text in texts for piece in re.findall(PIECES, f" {text}")}
    if not pieces - {" "}:
        raise TokenizerError("a tokeniser of no words: the texts it is to be made of are empty")
    pieces |= {space + digit for digit in "0123456789" for space in ("", " ")} | {" "}
    special = [PAD, END, UNKNOWN, *ROLES.values()]
    vocabulary = {piece: i for i, piece in enumerate([*special, *sorted(pieces - set(special))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES.values()),
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    return fast


def load_tokenizer(name: str, pad_token: str = "") -> Any:
    """The tokeniser of a folder or of a model on the hub.

    ``pad_token`` names another token for padding in the exported tokeniser; learning needs none. Raises
    :class:`TokenizerError` if there is none, or none that ends an answer.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model_folder(name), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise TokenizerError(
            f"no tokeniser for model {name!r}: {str(error).splitlines()[0]}. Give a folder in Hugging Face's form, or "
            "a model's id on the hub and a network"
        ) from error
    if pad_token:
        if tokenizer.convert_tokens_to_ids(pad_token) in (None, tokenizer.unk_token_id):
            raise TokenizerError(f"pad_token {pad_token!r} is no token of {name}: use one of {_spare(tokenizer)}")
        tokenizer.pad_token = pad_token
    if tokenizer.eos_token_id is None:
        raise TokenizerError(f"the tokeniser of {name} has no token that ends an answer (EOS): set one in its files")
    return tokenizer


def _spare(tokenizer: Any) -> str:
    """Tokens that could pad: special ones, without a part of their own in a conversation."""
    used = {tokenizer.eos_token, tokenizer.bos_token, tokenizer.unk_token}
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if str(token) not in used]
    wanted = [t for t in added if re.search(r"pad|reserved|unused|extra|endoftext", t)]
    return ", ".join(repr(token) for token in (wanted or added or ["<pad>, after adding it to the vocabulary"])[:3])
