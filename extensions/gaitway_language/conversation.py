"""Rows and messages as tokens, by the chat template of a tokeniser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from gaitway_files.errors import UserError
from gaitway_tasks.language.tools import END_CALL, Call, read_calls

Message = Mapping[str, Any]
Schemas = Sequence[Mapping[str, Any]]
"""Schemas of tools, as chat templates take them."""

REPLIES, SHORT = 4096, 200
"""Replies whose tokens are kept, and most characters of one: environments of few places repeat themselves."""
HALF = re.compile(r"[\ud800-\udfff]")
"""Half of a character that UTF-16 writes as two."""
ANSWER = "@@answer@@"
"""Stands for an answer where a template is asked what it writes around one."""


_OPENED = re.compile(r"([<\[])[\w:]+[>\]]\s*$")


class ConversationError(UserError):
    """Messages that cannot be put into tokens; the message names them and the fix."""


def tells_tools(tokenizer: Any) -> bool:
    """True if a tokeniser's chat template describes tools to the model by itself."""
    return "tools" in (tokenizer.chat_template or "")


def calls_are_read(
    tokenizer: Any, tools: Sequence[Mapping[str, Any]], template: Mapping[str, Any] | None = None
) -> bool:
    """True if a chat template that :func:`tells_tools` has them called in a form that is read, that of the calls which
    it writes itself.

    ``tools`` are their schemas, ``template`` further variables of the chat template.
    """
    from jinja2 import TemplateError

    if not tells_tools(tokenizer):
        return False
    for schema in tools:
        name, wanted = schema["function"]["name"], dict.fromkeys(schema["function"]["parameters"]["properties"], ANSWER)
        called = {"type": "function", "id": "call00000", "function": {"name": name, "arguments": wanted}}
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": [called]},
        ]
        try:
            text = tokenizer.apply_chat_template(messages, tools=list(tools), tokenize=False, **(template or {}))
        except (TemplateError, TypeError):  # it has no calls
            return False
        if not any((call.name, call.given) == (name, wanted) for call in _calls_in(str(text))):
            return False
    return True


def _calls_in(text: str) -> list[Call]:
    """Calls in a conversation: those up to the last end of one, or the JSON of its last lines."""
    end = text.rfind(END_CALL)
    if end >= 0:
        return list(read_calls(text[: end + len(END_CALL)]))
    last = text[text.rfind('{"name"') :]
    return list(read_calls(last[: last.rfind("}") + 1]))


class Conversation:
    """Turns prompts, answers and what environments reply into tokens.

    ``system`` is said before prompts that bring no such message. ``stops`` are further tokens that end an answer, those
    of the model's generation config. ``tools`` are schemas of tools, for a chat template whose :func:`calls_are_read`.
    ``prefill`` begins the first answer to every prompt, such as "<think>", in the model's place. ``template`` are
    further variables of the chat template, such as ``{"enable_thinking": False}``.
    """

    def __init__(
        self,
        tokenizer: Any,
        system: str = "",
        stops: Sequence[int] = (),
        tools: Schemas = (),
        prefill: str = "",
        template: Mapping[str, Any] | None = None,
    ):
        self.template = dict(template or {})
        self.tokenizer, self.system, self.tools = tokenizer, system, list(tools)
        for name in self.template:
            if name not in re.findall(r"\w+", tokenizer.chat_template or ""):
                raise ConversationError(
                    f"task.chat_template_kwargs.{name}: {self._template} has no variable of that name; leave it out"
                )
        added = tokenizer.added_tokens_decoder
        self._special = {i for i, token in added.items() if token.special} | set(tokenizer.all_special_ids)
        texts = sorted(map(re.escape, tokenizer.convert_ids_to_tokens(sorted(self._special))))
        self._special_texts = re.compile("|".join(texts))
        self.end = self._end()
        """The token that ends an answer as the chat template writes it; without one, the tokeniser's."""
        self.prefill = prefill
        self.opening = self._opening() + prefill
        """The part of the answer that a prompt already ends with, such as "<think>"."""
        self._reply = lru_cache(REPLIES)(self._tokens_of_reply)
        self.stops = tuple(dict.fromkeys((self.end, int(tokenizer.eos_token_id), *stops)))
        """Every token that ends an answer."""
        if system and tokenizer.chat_template is not None:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": "?"}]
            if system.strip() not in self._render(messages, generate=True):
                raise ConversationError(f"{self._template} leaves system messages out, and there is one: {system!r}")

    def messages(self, prompt: str | Sequence[Message]) -> list[dict[str, Any]]:
        found = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
        if self.system and (not found or found[0]["role"] != "system"):
            found.insert(0, {"role": "system", "content": self.system})
        if not found:
            raise ConversationError("a prompt of no messages: it must have one at least")
        return found

    def prompt(self, prompt: str | Sequence[Message], tools: Schemas = ()) -> list[int]:
        """Tokens of a prompt and of ``prefill``, up to where the model's answer begins.

        ``tools`` are those of this prompt alone.
        """
        return self._prompt(prompt, tools) + (self.encode(self.prefill) if self.prefill else [])

    def _prompt(self, prompt: str | Sequence[Message], tools: Schemas) -> list[int]:
        messages = self.messages(prompt)
        if tools and not tells_tools(self.tokenizer):
            raise ConversationError(
                f"a prompt with tools, and {self._template} leaves tools out: use a model whose template has them, or "
                "write them into the prompt"
            )
        if self.tokenizer.chat_template is None:
            if any(message["role"] == "assistant" for message in messages):
                raise ConversationError(
                    f"a prompt with earlier answers, but the tokeniser of {self.tokenizer.name_or_path} has no chat "
                    "template: use a model that has one (an instruct model), or prompts of one message"
                )
            tokens = self.encode("\n\n".join(message["content"] for message in messages) + "\n\n", special=True)
            ended = tokens[-1:] == [self.end]  # some tokenisers end every text, and this one goes on
            return tokens[:-1] if ended else tokens
        return self.encode(self._render(messages, generate=True, tools=tools))

    def answer(self, completion: str) -> list[int]:
        """Tokens of a whole answer, without the opening that its prompt has and with its end."""
        opening = self.opening.strip()
        if opening and completion.lstrip().startswith(opening):
            completion = completion.lstrip().removeprefix(opening).lstrip()
        tokens = self.encode(completion)
        return tokens if tokens and tokens[-1] == self.end else [*tokens, self.end]

    def whole(self, messages: Sequence[Message], tools: Schemas = ()) -> tuple[list[int], list[bool]]:
        """Tokens of messages up to the last answer, and which of them are the assistant's, the ends of answers
        included; those of an answer with ``weight`` 0 are not.

        They are those of a dialogue in which the model gave these answers: a template that leaves out a part of earlier
        answers, such as their thoughts, does so in prompts only.
        """
        messages = self.messages(messages)
        if messages[0]["role"] == "assistant":
            raise ConversationError("messages that begin with an answer, before which nothing was asked")
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        if not turns:
            raise ConversationError("messages without an answer: none is of the role 'assistant'")
        tokens = self.prompt(messages[: turns[0]], tools)
        chosen = [False] * len(tokens)
        for turn, following in pairwise([*turns, None]):
            assert turn is not None
            answer = self.answer(messages[turn]["content"])
            reply = [] if following is None else self.between(messages[turn + 1 : following], tools)
            tokens += answer + reply
            chosen += [bool(messages[turn].get("weight", 1))] * len(answer) + [False] * len(reply)
        return tokens, chosen

    def reply(self, text: str, role: str = "tool") -> list[int]:
        """Tokens between an answer, its end included, and the next one, where a tool or a user says ``text``.

        It cannot end a turn or begin another: the tokeniser's special tokens are taken out of it.
        """
        return list(self._reply(text, role)) if len(text) <= SHORT else self._tokens_of_reply(text, role)

    def _tokens_of_reply(self, text: str, role: str) -> list[int]:
        text = text.encode("utf-8", "replace").decode()  # of half an emoji, which no tokeniser reads
        while (plain := self._special_texts.sub("", text)) != text:  # what is left may join to another
            text = plain
        if self.tokenizer.chat_template is None:
            return self.encode(f"\n{text}\n")
        return self.between([{"role": role, "content": text}])

    def between(self, messages: Sequence[Message], tools: Schemas = ()) -> list[int]:
        """Tokens of messages between the end of an answer and the next answer.

        What the template makes of a stand-in for the answer tells, so that nothing of the answer itself is rendered
        again.
        """
        if self.tokenizer.chat_template is None:
            raise ConversationError(
                f"messages after an answer, but the tokeniser of {self.tokenizer.name_or_path} has no chat template: "
                "use a model that has one (an instruct model), or rows with one answer"
            )
        before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": ANSWER}]
        _, stand_in, text = self._render([*before, *messages], generate=True, tools=tools).partition(ANSWER)
        tokens = self.encode(text)
        end = self._first_special(tokens)
        if not stand_in or end is None or tokens[end] not in self.stops:
            named = ", ".join(map(repr, self.tokenizer.convert_ids_to_tokens(list(self.stops))))
            raise ConversationError(
                f"{self._template} does not end an earlier answer with a token that ends the model's answers "
                f"({named}), so that nothing can follow one: use a model whose template does, or one turn and no tools"
            )
        return tokens[end + 1 :]

    def check_tools(self) -> None:
        """Raise :class:`ConversationError` if the template cannot say what a tool replied."""
        if "7" not in self.decode(self.reply("7")):
            raise ConversationError(
                f"{self._template} leaves out what tools reply (messages of the role 'tool'): use a model whose "
                "template has them, or a task without tools"
            )

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokens of a text; ``special`` adds what the tokeniser begins a text with."""
        if half := HALF.search(text):
            raise ConversationError(
                f"a text with \\u{ord(half[0]):04x}, half of a character such as an emoji, which no tokeniser reads: "
                f"{text[max(0, half.start() - 40) : half.start()]!r}"
            )
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens without the end that an answer may have."""
        kept = tokens[:-1] if tokens and tokens[-1] in self.stops else tokens
        text = self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def _end(self) -> int:
        if self.tokenizer.chat_template is not None:
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": ANSWER}]
            tokens = self.encode(self._render(messages).partition(ANSWER)[2])
            if (end := self._first_special(tokens)) is not None:
                return tokens[end]
        return int(self.tokenizer.eos_token_id)

    def _opening(self) -> str:
        if self.tokenizer.chat_template is None:
            return ""
        asked = {"role": "user", "content": "?"}
        before = self._render([asked, {"role": "assistant", "content": ANSWER}]).partition(ANSWER)[0]
        prompt = self._render([asked], generate=True)
        opening = prompt.removeprefix(before) if prompt.startswith(before) else ""
        opened = _OPENED.search(prompt)
        if not opening and opened and opened[0].strip().replace(opened[1], f"{opened[1]}/") in before:
            opening = opened[0]  # a template that writes thoughts into every answer closes them there
        return "" if "</" in opening else opening  # what is closed already is not the model's to go on with

    def _first_special(self, tokens: Sequence[int]) -> int | None:
        known = self._special - {self.tokenizer.unk_token_id}
        return next((i for i, token in enumerate(tokens) if token in known), None)

    @property
    def _template(self) -> str:
        return f"the chat template of {self.tokenizer.name_or_path or 'the tokeniser'}"

    def _render(self, messages: Sequence[Message], *, generate: bool = False, tools: Schemas = ()) -> str:
        from jinja2 import TemplateError

        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages),
                    tools=[*self.tools, *tools] or None,
                    tokenize=False,
                    add_generation_prompt=generate,
                    **self.template,
                )
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ConversationError(f"{self._template} refuses messages of {roles}: {error}") from error
