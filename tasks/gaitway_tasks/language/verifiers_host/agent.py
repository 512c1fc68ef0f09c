"""An environment's agent and its dialogue, whose answers come from the other process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

from .messages import Refused, opening_of, plain
from .shelf import Shelf


class Player(Protocol):
    """The :class:`~.dialogue.Dialogue` that an agent takes part in."""

    turns: int
    """Answers that are left."""
    said: asyncio.Queue[dict[str, Any]]
    answers: asyncio.Queue[dict[str, Any]]
    shelf: Shelf


class Seat:
    """An environment's agent, played by the other process. It stands for ``verifiers.v1.Agent``."""

    def __init__(self, dialogue: Player, name: str, config: Any, traces: list[Any]):
        self.dialogue, self.name, self.config, self.traces = dialogue, name, config, traces
        self.trainable = True

    async def run(self, task: Any, **more: Any) -> Any:
        async with self.interaction(task, **more) as talk:
            await talk.turn()
        return talk.trace

    @contextlib.asynccontextmanager
    async def interaction(self, task: Any, **more: Any) -> AsyncIterator[Talk]:
        if given := sorted(name for name, value in more.items() if value is not None):
            raise Refused(f"it runs its agent with {', '.join(given)}, which there is none of")
        if self.traces:
            raise Refused("it plays a task several times in one episode, and one dialogue is played here")
        talk = Talk(self, task)
        self.traces.append(talk.trace)
        yield talk
        await talk.close()


class Talk:
    """A dialogue that an environment holds with its agent. It stands for ``verifiers.v1.Interaction``."""

    def __init__(self, seat: Seat, task: Any):
        from verifiers.v1.state import state_cls
        from verifiers.v1.trace import AgentInfo, Trace, TraceTask

        self.seat, self.task = seat, task
        self.trace = Trace(
            task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=AgentInfo(config=seat.config, name=seat.name),
        )
        self.over = False

    async def turn(self, message: Any = None) -> Any:
        """Answers to the messages until one calls no tool; a terminated segment where there is none any more."""
        from verifiers.v1.agent import Segment

        if self.over:
            raise RuntimeError("the exchange is over; read interaction.trace")
        said = opening_of(self.task.data) if not self.trace.nodes else []
        if message is not None:
            said += [{"role": "user", "content": message}] if isinstance(message, str) else plain(message)
        for each in said:
            self._add(each["role"], each["content"])
        if await self._stopped():
            self.over = True
            return Segment(messages=[], terminated=True)
        begin = len(self.trace.nodes)
        while await self._answered(said):
            replies = [node.message for node in self.trace.nodes[begin:] if node.message.role == "tool"]
            if await self._stopped():
                break
            said = [{"role": "tool", "content": "\n".join(reply.content for reply in replies)}]
            begin = len(self.trace.nodes)
        return Segment(messages=[node.message for node in self.trace.nodes[begin:]])

    async def _answered(self, said: list[dict[str, str]]) -> bool:
        """Take the answer to messages, and let the tools that it calls reply; False if it calls none."""
        from verifiers.v1.types import AssistantMessage, ToolCall, ToolMessage

        dialogue = self.seat.dialogue
        await dialogue.said.put({"messages": said})
        given = await dialogue.answers.get()
        dialogue.turns -= 1
        calls = [
            ToolCall(id=f"call-{len(self.trace.nodes)}-{i}", name=call["name"], arguments=json.dumps(call["given"]))
            for i, call in enumerate(given["calls"])
        ]
        self._put(AssistantMessage(content=given["answer"], tool_calls=calls or None), sampled=True)
        for call, each in zip(calls, given["calls"], strict=True):
            text = await dialogue.shelf.call(each["name"], each["given"])
            self._put(ToolMessage(tool_call_id=call.id, content=text, name=call.name))
        return bool(calls)

    async def close(self) -> Any:
        """End and score the dialogue."""
        from verifiers.v1.utils.decorators import invoke

        if self.trace.stop_condition is None:
            self.trace.stop("user_closed")
        await invoke(self.task.finalize, {"trace": self.trace, "runtime": None})
        await self.task.score(self.trace)
        self.trace.is_completed = self.trace.ok = True
        return self.trace

    async def _stopped(self) -> bool:
        if self.seat.dialogue.turns <= 0:
            self.trace.stop("max_turns")
            return True
        for stop in self.task.hooks("stop") if self.trace.num_turns else ():
            found = stop(self.trace)
            if await found if inspect.isawaitable(found) else found:
                self.trace.stop(stop.__name__)
                return True
        return False

    def _add(self, role: str, content: str) -> None:
        from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage

        self._put({"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}[role](content=content))

    def _put(self, message: Any, *, sampled: bool = False) -> None:
        from verifiers.v1.graph import MessageNode

        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))
