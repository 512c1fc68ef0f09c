"""Rows and messages as tokens, by the chat template of a tokeniser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, str]


class ConversationError(ValueError):
    """A prompt that cannot be put into tokens; the message names it and the fix."""


class Conversation:
    """Turns prompts, answers and what tools say into tokens.

    ``system`` is said before prompts that bring no such message.
    """

    def __init__(self, tokenizer: Any, system: str = ""):
        self.tokenizer, self.system = tokenizer, system

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return int(self.tokenizer.eos_token_id)

    def messages(self, prompt: str | Sequence[Message]) -> list[dict[str, str]]:
        found = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
        if self.system and (not found or found[0]["role"] != "system"):
            found.insert(0, {"role": "system", "content": self.system})
        return found

    def prompt(self, prompt: str | Sequence[Message]) -> list[int]:
        """Tokens of a prompt, up to where the answer begins."""
        messages = self.messages(prompt)
        if self.tokenizer.chat_template is None:
            if any(message["role"] == "assistant" for message in messages):
                raise ConversationError(
                    f"a prompt with earlier answers, but the tokeniser of {self.tokenizer.name_or_path} has no chat "
                    "template: use a model that has one (an instruct model), or prompts of one message"
                )
            return self.encode("\n\n".join(message["content"] for message in messages) + "\n\n", special=True)
        return self.encode(self._render(messages, generate=True))

    def answer(self, completion: str) -> list[int]:
        """Tokens of a whole answer, its end included."""
        return [*self.encode(completion), self.end]

    def result(self, text: str) -> list[int]:
        """Tokens between an answer that called a tool, its end included, and the next answer.

        What a tool wrote cannot end a turn or begin another: the tokeniser's special tokens are taken out of it.
        """
        for special in self.tokenizer.all_special_tokens:
            text = text.replace(special, "")
        if self.tokenizer.chat_template is None:
            return self.encode(f"\n{text}\n")
        ended: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        before = self._render(ended)
        after = self._render([*ended, {"role": "tool", "content": text}], generate=True)
        end = before.rindex(self.tokenizer.eos_token) + len(self.tokenizer.eos_token)
        return self.encode(after[end:])

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokens of a text; ``special`` adds what the tokeniser begins a text with."""
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens without the end that an answer may have."""
        kept = tokens[:-1] if tokens and tokens[-1] == self.end else tokens
        return str(self.tokenizer.decode(kept, skip_special_tokens=False))

    def _render(self, messages: Sequence[Message], *, generate: bool = False) -> str:
        return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=generate))
