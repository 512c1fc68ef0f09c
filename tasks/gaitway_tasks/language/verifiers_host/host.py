"""Requests and answers as lines of JSON, each carried out in a task of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

from .dialogue import Dialogue
from .messages import described
from .stage import Stage


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
        return {"tools": await self.stage.open()}

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

    async def do_step(self, dialogue: int, answer: str, calls: list[Any]) -> dict[str, Any]:
        player = self.dialogues[dialogue]
        await player.answers.put({"answer": answer, "calls": calls})
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
