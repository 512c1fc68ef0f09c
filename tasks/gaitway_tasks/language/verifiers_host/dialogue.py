"""A task that is being played."""

from __future__ import annotations

import asyncio
from typing import Any

from .agent import Seat
from .messages import described
from .shelf import Shelf
from .stage import Stage


class Dialogue:
    """A task that is being played: the environment runs until it needs an answer."""

    def __init__(self, stage: Stage, task: Any, turns: int):
        self.stage, self.task, self.turns = stage, task, turns
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """What the environment says: messages, or the end."""
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """Answers, and the calls of tools in each."""
        self.shelf = Shelf(stage.shared)
        self.work = asyncio.create_task(self._play())

    async def _play(self) -> None:
        from verifiers.v1.agent import Agents
        from verifiers.v1.episode import EnvInfo, Episode
        from verifiers.v1.trace import TraceTask

        try:
            task = self.task
            for toolset in self.stage.own_toolsets():
                await self.shelf.add(toolset, task.data)
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
