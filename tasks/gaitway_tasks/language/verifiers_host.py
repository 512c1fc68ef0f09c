"""Runs a taskset of verifiers for another process, whose model plays it: requests and answers are lines of JSON.

Run as a script by :mod:`~gaitway_tasks.language.verifiers`, maybe by another Python, so it imports nothing of ours. The
code of verifiers is asynchronous and wants the main thread, which it has here. Its own machinery to run agents in
containers and processes is left out: an environment's ``run`` gets an agent whose turns are the other process's
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any


class Refused(Exception):
    """A taskset, or a task, that cannot be played here; the message says why."""


class Stage:
    """The taskset of an id, with ``params`` of its configuration, and the environment that plays its tasks."""

    def __init__(self, taskset: str, params: dict[str, Any]):
        from verifiers.v1.configs.agent import agent_config_fields
        from verifiers.v1.utils.loaders import load_environment, resolve_env_config

        self.config = resolve_env_config({"taskset": {**params, "id": taskset}})
        self.seats = sorted(agent_config_fields(self.config))
        if len(self.seats) != 1:
            raise Refused(f"it has the agents {', '.join(self.seats)}, and only environments with one are played")
        self.env = load_environment(self.config)
        self._coming: Iterator[Any] = iter(self.env.taskset)
        self._tasks: list[Any] = []
        self._check_class()

    def _check_class(self) -> None:
        kind, taskset = type(self.env.taskset).task_type(), type(self.env.taskset)
        if taskset.toolsets(self.env.taskset.config):
            raise Refused("it brings servers of tools, which are not played here")
        if kind.NEEDS_CONTAINER:
            raise Refused("its tasks need a container")

    def task(self, index: int) -> Any:
        """The task of an index. Raises IndexError after the last one."""
        while len(self._tasks) <= index:
            found = next(self._coming, None)
            if found is None:
                raise IndexError(index)
            if not self._tasks:
                self._check_task(found)
            self._tasks.append(found)
        return self._tasks[index]

    def _check_task(self, task: Any) -> None:
        """Refuse what only verifiers' own harnesses and runtimes could do."""
        from verifiers.v1.session import hook_boundary
        from verifiers.v1.task import Task
        from verifiers.v1.trace import Trace
        from verifiers.v1.utils.decorators import discover_decorated

        if type(task).toolsets(task.config):
            raise Refused("its tasks bring servers of tools, which are not played here")
        if task.plugged_judges():
            raise Refused("its rewards ask a judge, another model; leave task.judges out of task.source.params")
        if task.data.image or type(task).setup is not Task.setup:
            raise Refused("its tasks prepare a container or another place to work in")
        for name, hook in [*((f.__name__, f) for f in task.hooks("reward")), ("finalize", task.finalize)]:
            parameter = inspect.signature(hook).parameters.get("runtime")
            own = getattr(hook, "__func__", None) is not Task.finalize
            if own and parameter is not None and parameter.default is inspect.Parameter.empty:
                raise Refused(f"its {name} looks at the files of a container, which there is none of")
        if discover_decorated(task, "intercept"):
            raise Refused("its tasks intercept requests to the model")
        for stop in task.hooks("stop"):
            if hook_boundary(stop, allow_trace=True) is not Trace:
                raise Refused(f"its stop {stop.__name__} looks at requests or responses; only a trace is known here")

    def listed(self, start: int, count: int) -> list[dict[str, Any]]:
        """At most ``count`` tasks from ``start`` on: index, key of the content, and the opening, where it is known."""
        from verifiers.v1.task import task_key

        found = []
        for index in range(start, start + count):
            try:
                task = self.task(index)
            except IndexError:
                break
            opening = None if task.data.prompt is None else opening_of(task.data)
            key = task_key(task.data.model_dump(mode="json", exclude={"idx", "name"}, exclude_none=True))
            found.append({"task": index, "key": key, "opening": opening})
        return found


class Dialogue:
    """A task that is being played: the environment runs until it needs an answer."""

    def __init__(self, stage: Stage, task: Any, turns: int):
        self.stage, self.task, self.turns = stage, task, turns
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """What the environment says: messages, or the end."""
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self.work = asyncio.create_task(self._play())

    async def _play(self) -> None:
        from verifiers.v1.agent import Agents
        from verifiers.v1.episode import EnvInfo, Episode
        from verifiers.v1.trace import TraceTask

        try:
            task = self.task
            record = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
            episode = Episode(env=EnvInfo(id=self.stage.config.env_id), task=record)
            agents = Agents(self.stage.config, lambda name, spec: Seat(self, name, spec, episode.traces))
            await self.stage.env.setup(agents)
            await self.stage.env.run(task, agents)
            await self.stage.env.finalize(task, episode)
            rewards = {n: r.value for trace in episode.traces for n, r in trace.rewards.items() if r is not None}
            await self.said.put({"reply": None, "reward": sum(rewards.values()), "rewards": rewards})
        except Exception as error:
            await self.said.put({"error": described(error)})

    async def next(self) -> dict[str, Any]:
        return await self.said.get()


class Seat:
    """An environment's agent, played by the other process. It stands for ``verifiers.v1.Agent``."""

    def __init__(self, dialogue: Dialogue, name: str, config: Any, traces: list[Any]):
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
        """One answer to the messages; a terminated segment where there is none any more."""
        from verifiers.v1.agent import Segment
        from verifiers.v1.types import AssistantMessage

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
        dialogue = self.seat.dialogue
        await dialogue.said.put({"messages": said})
        answer = await dialogue.answers.get()
        dialogue.turns -= 1
        reply = AssistantMessage(content=answer)
        self._add("assistant", answer, sampled=True)
        return Segment(messages=[reply])

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

    def _add(self, role: str, content: str, *, sampled: bool = False) -> None:
        from verifiers.v1.graph import MessageNode
        from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage

        kind = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}[role]
        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(MessageNode(parent=parent, message=kind(content=content), sampled=sampled))


def opening_of(data: Any) -> list[dict[str, str]]:
    """System prompt and prompt of a task as plain messages."""
    system = [] if data.system_prompt is None else [{"role": "system", "content": data.system_prompt}]
    if data.prompt is None:
        return system
    return system + ([{"role": "user", "content": data.prompt}] if isinstance(data.prompt, str) else plain(data.prompt))


def plain(messages: Any) -> list[dict[str, str]]:
    """Messages as roles and texts. Raises :class:`Refused` for pictures and tools."""
    found = []
    for message in messages:
        given = message if isinstance(message, dict) else message.model_dump()
        role, content = given.get("role"), given.get("content")
        if isinstance(content, list):
            if any(part.get("type") != "text" for part in content):
                raise Refused("a message has a picture, and the model reads text only")
            content = "\n".join(part["text"] for part in content)
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            raise Refused(f"a message of the role {role!r} is not played here")
        found.append({"role": role, "content": content})
    return found


def described(error: BaseException) -> str:
    """An error with those that it wraps, as a line."""
    if isinstance(error, Refused):
        return str(error)
    lines = [f"{type(error).__name__}: {error}"]
    while (error := error.__cause__ or error.__context__) is not None and len(lines) < 3:  # type: ignore[assignment]
        lines.append(f"{type(error).__name__}: {error}")
    return " <- ".join(dict.fromkeys(" ".join(line.split()) for line in lines))


class Host:
    """Answers requests, each in a task of its own."""

    def __init__(self, answers: Any):
        self.answers = answers
        self.stage: Stage | None = None
        self.dialogues: dict[int, Dialogue] = {}
        self._numbers = itertools.count()

    async def serve(self, lines: asyncio.StreamReader) -> None:
        running = set()
        while line := await lines.readline():
            work = asyncio.create_task(self._answer(json.loads(line)))
            running.add(work)
            work.add_done_callback(running.discard)

    async def _answer(self, request: dict[str, Any]) -> None:
        for number in request["left"]:
            if (dialogue := self.dialogues.pop(number, None)) is not None:
                dialogue.work.cancel()
        try:
            found = await getattr(self, f"do_{request['do']}")(**request["with"])
        except Exception as error:
            found = {"error": described(error)}
        self.answers.write(json.dumps({"number": request["number"], **found}) + "\n")
        self.answers.flush()

    async def do_open(self, taskset: str, params: dict[str, Any]) -> dict[str, Any]:
        self.stage = Stage(taskset, params)
        await self.stage.env.start()
        return {}

    async def do_open_dialogues(self) -> dict[str, Any]:
        return {"dialogues": sorted(self.dialogues)}

    async def do_tasks(self, start: int, count: int) -> dict[str, Any]:
        assert self.stage is not None
        return {"tasks": self.stage.listed(start, count)}

    async def do_reset(self, task: int, turns: int) -> dict[str, Any]:
        assert self.stage is not None
        number = next(self._numbers)
        dialogue = self.dialogues[number] = Dialogue(self.stage, self.stage.task(task), turns)
        return {"dialogue": number, **await self._said(number, dialogue)}

    async def do_step(self, dialogue: int, answer: str) -> dict[str, Any]:
        player = self.dialogues[dialogue]
        await player.answers.put(answer)
        return await self._said(dialogue, player)

    async def _said(self, number: int, dialogue: Dialogue) -> dict[str, Any]:
        said = await dialogue.next()
        if "messages" not in said:
            del self.dialogues[number]
        return said


async def main() -> None:
    # What environments print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.append(sys.argv[1])  # the user's folder, last
    reader = asyncio.StreamReader(limit=2**28)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await Host(answers).serve(reader)


if __name__ == "__main__":
    asyncio.run(main())
