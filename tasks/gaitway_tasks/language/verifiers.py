"""Tasksets of verifiers 0.4 (github.com/PrimeIntellect-ai/verifiers) as environments of texts.

A process of its own runs them (:mod:`~gaitway_tasks.language.verifiers_host`): verifiers needs many packages in
versions of its own, and the main thread.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from gaitway_files.errors import NotDone, UserError
from gaitway_files.ranges import PositiveInt
from gaitway_files.trust import require_trust

from .env import Opening, Played, Turn
from .rows import Row, RowError, check_split
from .tools import MAX_CALLS, read_calls

PREFIX = "verifiers:"
"""Of names of tasks, before a taskset's id."""
PYTHON = "GAITWAY_VERIFIERS_PYTHON"
"""Environment variable with the Python that has verifiers, where that is not the one that runs this."""
HOST = Path(__file__).parent / "verifiers_host" / "__main__.py"
KEPT = 8
"""Processes of tasksets that are kept."""


def module_of(taskset: str) -> str:
    """The module that verifiers imports for an id such as "owner/my-taskset@1.0"."""
    return taskset.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()


@dataclass(frozen=True, kw_only=True)
class VerifiersSource(Played):
    """Tasks of an installed taskset; rows have ``prompt``, ``task``, the task's index, and ``key``, its content.

    The first ``test`` tasks are for tests, and the ``train`` tasks after them for training, without those that are the
    same as a test's. Training draws from them in random order.
    """

    taskset: str
    """Id of the taskset: the name of its installed package."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the taskset's configuration, such as ``{"split": "train"}``."""
    test: PositiveInt = 50
    train: PositiveInt = 1000

    def new(self, max_turns: int = 1) -> VerifiersText:
        return VerifiersText(self.taskset, json.dumps(dict(self.params), sort_keys=True), max_turns)

    def rows(self, split: str) -> list[Row]:
        check_split(split)
        return list(self._tests if split == "test" else self._trains)

    def stream(self, split: str, seed: int) -> Iterator[Row]:
        """Training tasks in random order, again and again."""
        check_split(split)
        random, rows = Random(f"gaitway verifiers/{split}/{seed}"), list(self._trains)
        while True:
            random.shuffle(rows)
            yield from rows

    @functools.cached_property
    def _tests(self) -> tuple[Row, ...]:
        return self._listed(0, self.test)

    @functools.cached_property
    def _trains(self) -> tuple[Row, ...]:
        tested = {row["key"] for row in self._tests}
        found = tuple(row for row in self._listed(self.test, self.train) if row["key"] not in tested)
        if not found:
            raise RowError(
                f"{PREFIX}{self.taskset}: after {len(self._tests)} test tasks no other ones are left to train on; make "
                "task.source.test smaller"
            )
        return found

    def _listed(self, start: int, count: int) -> tuple[Row, ...]:
        env = self.new()
        found = []
        for task in env.host.ask("tasks", start=start, count=count)["tasks"]:
            opening = task["opening"] or env.reset({"task": task["task"]})
            found.append({"prompt": opening, "task": task["task"], "key": task["key"]})
        env.drop()
        return tuple(found)


@dataclass(frozen=True)
class RemoteTool:
    """A tool of a taskset, as :class:`~gaitway_tasks.language.tools.Tool` tells a model of one."""

    name: str
    about: str
    parameters: Mapping[str, Any]
    """JSON schema of its arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        about = {"name": self.name, "description": self.about, "parameters": self.parameters}
        return {"type": "function", "function": about}


class VerifiersText:
    """A dialogue of a taskset, which ends after ``max_turns`` answers at the latest; ``params`` are JSON."""

    def __init__(self, taskset: str, params: str, max_turns: int):
        self.taskset, self.params, self.max_turns = taskset, params, max_turns
        self._dialogue: int | None = None
        self._left: deque[int] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return VerifiersText, (self.taskset, self.params, self.max_turns)

    def __del__(self) -> None:
        self.drop()

    @property
    def host(self) -> Host:
        return _host(self.taskset, self.params, os.getpid())

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """Tools that the model is told of."""
        return self.host.tools

    def reset(self, row: Row) -> Opening:
        self.drop()
        host = self.host
        self._left = host.left
        said = host.ask("reset", task=row["task"], turns=self.max_turns)
        if "messages" not in said:
            raise NotDone(f"{PREFIX}{self.taskset}: task {row['task']} ended before the model could say anything")
        self._dialogue = said["dialogue"]
        messages: list[dict[str, str]] = said["messages"]
        return messages

    def step(self, answer: str) -> Turn:
        called = islice(read_calls(answer), MAX_CALLS) if self.tools else ()
        calls = [{"name": call.name, "given": call.given} for call in called]
        said = self.host.ask("step", dialogue=self._dialogue, answer=answer, calls=calls)
        if "messages" not in said:
            self._dialogue = None
            return Turn(reward=float(said["reward"]))
        roles = {message["role"] for message in said["messages"]}
        if roles not in ({"user"}, {"tool"}):
            raise NotDone(f"{PREFIX}{self.taskset}: it replies as {' and '.join(sorted(roles))}; only a user may reply")
        (role,) = roles
        return Turn("\n\n".join(message["content"] for message in said["messages"]), role=role)

    def drop(self) -> None:
        """Leave a dialogue that has not ended: the next request tells so."""
        if self._dialogue is not None:
            self._left.append(self._dialogue)
            self._dialogue = None


class Host:
    """The process that runs a taskset. Its errors are :class:`UserError` when it opens, else :class:`NotDone`."""

    def __init__(self, taskset: str, params: str):
        self.taskset = taskset
        require_trust(module_of(taskset), f"task.source.taskset {taskset!r}")
        python = os.environ.get(PYTHON) or sys.executable
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        try:
            self._process = subprocess.Popen(
                [python, "-P", str(HOST), os.getcwd()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise UserError(f"{PYTHON} {python!r} cannot be run: {error.strerror}") from None
        atexit.register(self.close)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._count = 0
        self.left: deque[int] = deque()
        """Dialogues that nobody goes on with. Appended to without a lock, as garbage collection may do."""
        threading.Thread(target=self._read, name="verifiers", daemon=True).start()
        try:
            opened = self.ask("open", taskset=taskset, params=json.loads(params))
            self.tools = tuple(RemoteTool(**tool) for tool in opened["tools"])
        except NotDone as error:
            self.close()
            raise UserError(f"{error}{_fix(str(error), taskset, python)}") from None

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """The answer to a request."""
        assert self._process.stdin is not None
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            self._count += 1
            self._waiting[self._count] = future
            left = [self.left.popleft() for _ in range(len(self.left))]
            line = json.dumps({"number": self._count, "do": what, "with": more, "left": left})
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            except OSError:
                self._waiting.pop(self._count)
                future.set_result({"error": self._last_words()})
        found = future.result()
        if "error" in found:
            raise NotDone(f"{PREFIX}{self.taskset}: {found['error']}")
        return found

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            with self._lock:
                future = self._waiting.pop(found.pop("number"))
            future.set_result(found)
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_result({"error": self._last_words()})

    def _last_words(self) -> str:
        """The last line that the process wrote of its own, after it has ended."""
        self._errors.seek(0)
        lines = self._errors.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
        return f"its process ended: {lines[-1] if lines else 'it said nothing'}"


@functools.lru_cache(maxsize=KEPT)
def _host(taskset: str, params: str, process: int) -> Host:
    """The host of a taskset for this process."""
    return Host(taskset, params)


def _fix(message: str, taskset: str, python: str) -> str:
    """What to do about an error of opening a taskset."""
    if "No module named 'verifiers" in message:
        return f". {python} has no verifiers: pip install verifiers, or name a Python that has it in {PYTHON}"
    if "not found (tried to import" in message or f"No module named {module_of(taskset)!r}" in message:
        return f". Install the package {module_of(taskset)!r} for {python}"
    return ""
