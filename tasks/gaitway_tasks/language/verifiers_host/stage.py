"""A taskset and its environment: its tasks, and whether they can be played here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from .messages import Refused, opening_of
from .shelf import Shelf


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
        self.shared = Shelf()

    async def open(self) -> list[dict[str, Any]]:
        """Start what all dialogues share. Names, descriptions and schemas of the tools."""
        taskset = self.env.taskset
        if type(taskset).task_type().NEEDS_CONTAINER:
            raise Refused("its tasks need a container")
        await self.env.start()
        for toolset in type(taskset).toolsets(taskset.config):
            await self.shared.add(toolset)
        listed = Shelf(self.shared)
        for toolset in self.own_toolsets():
            await listed.add(toolset, begin=False)
        return listed.described()

    def own_toolsets(self) -> list[Any]:
        """New toolsets for one dialogue."""
        task_type = type(self.env.taskset).task_type()
        found: list[Any] = task_type.toolsets(self.env.taskset.config.task)
        return found

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
