"""Answers of one engine with the weights of the checkpoint that each request names."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from gaitway_language.engines.transformers import TransformersEngine, padded

from .base import Adapters, BaseModel
from .fields import number_of
from .learner import model_of
from .messages import Array, Likeliest, Sampled, samples_message

MOST_SAMPLES, MOST_LIKELIEST = 1024, 64
"""Most answers to one prompt, and most of the likeliest tokens of a position."""
MOST_STOPS = 64
ROWS, CACHE_BYTES = 256, 2**31
"""Most sequences that are continued at once, and bytes of their keys and values."""


@dataclass(frozen=True)
class SampleRequest:
    """A prompt and how to continue it, checked."""

    prompt: tuple[int, ...]
    samples: int
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    stop_tokens: tuple[int, ...]
    stop_texts: tuple[str, ...]
    prompt_log_probs: bool
    last: int | None
    """Score only so many of the prompt's last tokens; None: all but the first."""
    prompt_likeliest: int
    likeliest: int

    @property
    def together(self) -> tuple[object, ...]:
        """Requests for which this is equal may be answered together; one with a seed is answered by itself."""
        alone = object() if self.seed is not None else None
        return self.temperature, self.top_p, self.top_k, self.stop_tokens, alone


def sample_request(body: Mapping[str, Any], base: BaseModel) -> SampleRequest:
    """A ``SampleRequest`` of Tinker's as JSON. Raises UserError that names the field."""
    prompt = _prompt(body.get("prompt"))
    params = body.get("sampling_params")
    if not isinstance(params, dict):
        raise UserError(f"sampling_params {params!r}: must be an object")
    positions = base.positions or 2**20
    if len(prompt) >= positions:
        raise UserError(
            f"prompt of {len(prompt)} tokens: the model sees {positions}, the answer included; shorten the prompt"
        )
    if not 0 <= min(prompt) <= max(prompt) < base.vocabulary:
        raise UserError(f"prompt has a number that is no token of the model's {base.vocabulary}; use its tokeniser")
    for name in ("target_prompt_logprobs", "prompt_alt_tokens_k", "record_stability_info"):
        if body.get(name):
            raise UserError(f"{name}: this server does not compute it; leave it out")
    room = positions - len(prompt)
    limit = number_of(params, "max_tokens", 1, 2**31, room)
    stop_tokens, stop_texts = _stops(params.get("stop"), base)
    last = body.get("prompt_logprobs_last_n")
    if last is not None and (type(last) is not int or not 1 <= last < len(prompt)):
        raise UserError(f"prompt_logprobs_last_n {last!r}: must be from 1 to {len(prompt) - 1} for this prompt")
    return SampleRequest(
        prompt=prompt,
        samples=number_of(body, "num_samples", 1, MOST_SAMPLES, 1),
        max_tokens=min(limit, room),
        temperature=number_of(params, "temperature", 0.0, 1e6, 1.0),
        top_p=number_of(params, "top_p", 1e-9, 1.0, 1.0),
        top_k=max(0, number_of(params, "top_k", -1, 2**31, -1)),
        seed=None if params.get("seed") is None else number_of(params, "seed", -(2**63)),
        stop_tokens=stop_tokens,
        stop_texts=stop_texts,
        prompt_log_probs=bool(body.get("prompt_logprobs")),
        last=last,
        prompt_likeliest=number_of(body, "topk_prompt_logprobs", 0, MOST_LIKELIEST, 0),
        likeliest=number_of(body, "topk_sample_logprobs", 0, MOST_LIKELIEST, 0),
    )


def _prompt(given: Any) -> tuple[int, ...]:
    chunks = given.get("chunks") if isinstance(given, dict) else None
    if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks):
        raise UserError("prompt: must have chunks of tokens")
    if other := [str(c.get("type")) for c in chunks if c.get("type", "encoded_text") != "encoded_text"]:
        raise UserError(f"prompt has a chunk of type {other[0]!r}: this model reads text only")
    lists = [chunk.get("tokens") for chunk in chunks]
    if not all(isinstance(tokens, list) and all(type(t) is int for t in tokens) for tokens in lists):
        raise UserError("prompt: tokens must be lists of whole numbers")
    if not any(lists):
        raise UserError("prompt has no tokens: there is nothing to continue")
    return tuple(token for tokens in lists for token in tokens)


def _stops(given: Any, base: BaseModel) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Stop tokens, and texts that are more than one token. None stands for the model's own ends of an answer."""
    if given is None:
        return base.stops, ()
    words = [given] if isinstance(given, str) else given
    listed = isinstance(words, list) and len(words) <= MOST_STOPS
    if not listed or not all(type(word) in (int, str) and word != "" for word in words):
        raise UserError(f"stop {given!r}: must be a text, a list of texts or a list of tokens, at most {MOST_STOPS}")
    special = base.tokenizer.get_added_vocab()
    tokens = [special[w] if isinstance(w, str) else w for w in words if not isinstance(w, str) or w in special]
    if any(not 0 <= token < base.vocabulary for token in tokens):
        raise UserError(f"stop {given!r}: has no token of the model's {base.vocabulary}")
    return tuple(sorted(set(tokens))), tuple(w for w in words if isinstance(w, str) and w not in special)


class Sampler:
    """One engine for all: it takes the weights of a checkpoint's folder when a request for it comes."""

    def __init__(self, base: BaseModel, precision: str = "float32"):
        self.base = base
        self.engine = TransformersEngine(base.model, dtype=getattr(torch, precision))
        self.folder: Path | None = None
        """Of the weights that the engine has; None: the base model's."""
        config = base.model.config.get_text_config()
        heads: int = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.token_bytes = config.num_hidden_layers * 2 * heads * size * self.engine.dtype.itemsize
        """Bytes of a token's keys and values."""

    def use(self, folder: Path | None, adapters: Adapters) -> None:
        """Take the weights of a checkpoint; None: the base model's."""
        if folder == self.folder:
            return
        model = self.base.model if folder is None else model_of(self.base, adapters, folder)
        self.folder = Path()  # should the update fail, the engine has nobody's weights
        self.engine.update(MergedWeights(model))
        self.folder = folder

    def forget(self, folder: Path) -> None:
        """Read the weights anew when they are next asked for: they were replaced."""
        if folder == self.folder:
            self.folder = Path()

    def answer(self, requests: Sequence[SampleRequest]) -> list[bytes]:
        """A ``SampleResponse`` for each of some requests that go :attr:`SampleRequest.together`."""
        first = requests[0]
        prompts = [list(r.prompt) for r in requests for _ in range(r.samples)]
        limits = tuple(r.max_tokens for r in requests for _ in range(r.samples))
        sampling = Sampling(
            max_tokens=max(limits),
            temperature=first.temperature,
            top_p=first.top_p,
            top_k=first.top_k,
            stop_tokens=first.stop_tokens,
            seed=random.getrandbits(62) if first.seed is None else first.seed,
            limits=limits,
        )
        longest = max(map(len, prompts)) + max(limits)
        self.engine.batch_size = max(1, min(ROWS, CACHE_BYTES // (longest * self.token_bytes)))
        found = iter(self.engine.generate(prompts, sampling))
        answers = []
        for request in requests:
            samples = []
            for _ in range(request.samples):
                completion = next(found)
                length, stopped = self._length(completion.tokens, request.stop_texts)
                kept = completion.tokens[:length], completion.log_probs[:length]
                samples.append(self._sampled(request, *kept, stopped or completion.finished))
            answers.append(self._message(request, samples))
        return answers

    def _sampled(self, request: SampleRequest, tokens: list[int], log_probs: list[float], stopped: bool) -> Sampled:
        best = None
        if request.likeliest:
            full = self._likeliest((*request.prompt, *tokens), request.likeliest)
            best = Likeliest(full.tokens[len(request.prompt) :], full.log_probs[len(request.prompt) :])
        return Sampled(tokens, log_probs, stopped, best)

    def _message(self, request: SampleRequest, samples: list[Sampled]) -> bytes:
        prompt: Array | None = None
        best = None
        unscored = len(request.prompt) - (len(request.prompt) - 1 if request.last is None else request.last)
        if request.prompt_log_probs:
            (scores,) = self.engine.score([request.prompt])
            prompt = np.array([math.nan, *scores], np.float32)
            prompt[:unscored] = math.nan
        if request.prompt_likeliest:
            best = self._likeliest(request.prompt, request.prompt_likeliest)
            best.log_probs[:unscored] = math.nan
        return samples_message(samples, prompt, best)

    @torch.inference_mode()
    def _likeliest(self, sequence: Sequence[int], count: int) -> Likeliest:
        """The likeliest tokens of each position, (N, K), at temperature 1; nothing of the first."""
        tokens, lengths = padded([sequence], self.engine.device)
        logits = self.engine.decoder.logits(tokens, lengths)[0, :-1].float()
        values, ids = logits.log_softmax(-1).topk(min(count, self.base.vocabulary))
        empty = torch.full((1, values.shape[1]), math.nan)
        return Likeliest(
            torch.cat((empty.nan_to_num().long(), ids.cpu())).numpy(), torch.cat((empty, values.cpu())).numpy()
        )

    def _length(self, tokens: list[int], texts: Sequence[str]) -> tuple[int, bool]:
        """How many of an answer's tokens come up to and with the first stop text, and whether there is one."""
        decode = self.base.tokenizer.decode
        whole = decode(tokens) if texts else ""
        if not any(text in whole for text in texts):
            return len(tokens), False
        low, high = 1, len(tokens)
        while low < high:  # the least number of tokens that says one
            middle = (low + high) // 2
            said = decode(tokens[:middle])
            low, high = (low, middle) if any(text in said for text in texts) else (middle + 1, high)
        return low, True
