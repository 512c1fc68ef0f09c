"""A conversation with a model, its answers as they come."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_language.conversation import Conversation
from gaitway_language.model import stop_tokens

from ...runs.choice import Which
from .models import load_writer
from .settings import is_tiny

MAX_TOKENS = 1024
"""Longest answer of a model without a run, whose task would set it."""


class Talk:
    """``source`` is a run, a folder in Hugging Face's form or an id of its hub; ``which`` is a run's checkpoint."""

    def __init__(
        self,
        source: str,
        *,
        system: str | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        alone: bool = False,
        seed: int = 0,
        which: Which = None,
    ):
        loaded = load_writer(source, which=which)
        self.model, self.temperature = loaded.model.eval(), temperature
        task = loaded.task
        if system is None:
            system = task.system_prompt if task else ""
        template = task.chat_template_kwargs if task else None
        self.conversation = Conversation(loaded.tokenizer, system, stop_tokens(loaded.model), template=template)
        self.max_tokens = max_tokens or (task.max_completion_tokens if task else MAX_TOKENS)
        self.alone = alone or is_tiny(source)  # those have only ever seen first messages
        self.messages: list[dict[str, str]] = []
        torch.manual_seed(seed)

    def forget(self) -> None:
        self.messages = []

    def say(self, text: str) -> Iterator[str]:
        """The answer to a message, piece by piece; raises :class:`UserError` when the model can hold no more."""
        from transformers import TextIteratorStreamer

        if self.alone:
            self.forget()
        self.messages.append({"role": "user", "content": text})
        tokens = self.conversation.prompt(self.messages)
        room = self._room(len(tokens))
        tokenizer: Any = self.conversation.tokenizer
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        prompt = torch.tensor([tokens], device=next(self.model.parameters()).device)
        sampling = {"do_sample": True, "temperature": self.temperature} if self.temperature else {"do_sample": False}
        model: Any = self.model
        errors: list[BaseException] = []

        def generate() -> None:
            try:
                model.generate(
                    prompt,
                    attention_mask=torch.ones_like(prompt),
                    max_new_tokens=min(self.max_tokens, room),
                    eos_token_id=list(self.conversation.stops),
                    pad_token_id=self.conversation.end,
                    streamer=streamer,
                    **sampling,
                )
            except BaseException as error:
                errors.append(error)
                streamer.end()

        # The streamer hands over pieces from another thread: generate() itself only returns at the end.
        thread = Thread(target=generate, daemon=True)
        thread.start()
        pieces = []
        for piece in streamer:
            pieces.append(piece)
            yield piece
        thread.join()
        if errors:
            raise errors[0]
        self.messages.append({"role": "assistant", "content": "".join(pieces)})

    def _room(self, used: int) -> int:
        model: Any = self.model
        limit = getattr(model.config, "max_position_embeddings", None)
        if limit is not None and used >= limit:
            raise UserError(
                f"the conversation has {used} tokens, and the model can hold {limit}: begin a new one with /new"
            )
        return MAX_TOKENS**2 if limit is None else limit - used
