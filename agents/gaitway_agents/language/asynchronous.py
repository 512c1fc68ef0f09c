"""Sample in a process of its own while the learner learns, with the same result every time."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import torch
from gaitway_files.children import end_with_parent
from gaitway_files.errors import NotDone, UserError
from torch import Tensor

from ..interfaces import TokenRollout, TokenWorld
from .shared_weights import SharedWeights

GRACE = 10.0
"""Seconds that the other process has to end by itself."""


class AsynchronousWorld:
    """A ``TokenWorld`` that samples ahead, in another process (asynchronous RLHF, Noukhovitch et al. 2024).

    With staleness N, rollout k is sampled with the weights after update max(0, k - N): N rollouts wait or are under
    way while the learner works on the one before them. Which weights a rollout comes from depends on the order of
    the calls alone, never on which process is faster, so a training can be repeated and continued exactly. A learner
    that takes several rollouts for one update gets none older than N updates.

    ``make`` builds the world in the other process and must be picklable: a function of a module, or a
    ``functools.partial`` of one. Its engine needs weights of its own, since the learner's are elsewhere. What goes
    wrong there is raised here by the next call.
    """

    def __init__(self, make: Callable[[], TokenWorld], *, staleness: int = 1, threads: int = 1):
        if staleness < 0:
            raise UserError(f"staleness {staleness}: must not be negative; 0 samples with the newest weights")
        if threads < 1:
            raise UserError(f"threads {threads}: must be at least 1")
        try:
            pickle.dumps(make)
        except Exception as error:
            raise UserError(
                f"make {make!r} cannot go to another process ({error}): use a function of a module, or a "
                "functools.partial of one"
            ) from error
        self.staleness = staleness
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs, threads, os.getpid()), name="sampler")
        self._process.start()
        theirs.close()
        self.close = weakref.finalize(self, _end, self._connection, self._process)
        """End the process; what it is sampling is lost."""
        self._weights: SharedWeights | None = None
        self._pending: deque[str] = deque()
        """Questions that were asked and not yet answered."""
        self._ready: deque[dict[str, Any]] = deque()
        self._shape: tuple[int, int] | None = None
        self._log: Mapping[str, float] = {}
        self._version = 0
        self.temperature: float = self._ask("temperature")

    # ---- the world -------------------------------------------------------------------------------------------------

    def sample(self, num_prompts: int, group_size: int) -> TokenRollout:
        if self._shape is None:
            self._shape = (num_prompts, group_size)
        if self._shape != (num_prompts, group_size):
            raise UserError(
                f"{num_prompts} prompts of {group_size} answers asked for, but {self._shape[0]} of {self._shape[1]} "
                "are being sampled ahead: a world that samples ahead cannot change that"
            )
        self._fill()
        while not self._ready:
            self._receive()
        return TokenRollout(**self._ready.popleft())

    def update_weights(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        """Returns at once; the numbers are those of the last weights that the engine has taken already."""
        named = list(parameters) if isinstance(parameters, Iterator) else parameters
        if self._weights is None:
            self._weights = SharedWeights.like(named, self.staleness + 1)
            self._ask("weights", self._weights)
            self._weights.unlink()
        while self._pending.count("update_weights") > self.staleness:
            self._receive()  # the place that comes next still holds weights that were not read yet
        slot = self._version % (self.staleness + 1)
        self._weights.write(slot, named)
        self._version += 1
        self._send("update_weights", slot)
        if self._shape is not None:
            self._fill()
        return self._log

    def state_dict(self) -> dict[str, Any]:
        """Waits for the rollouts under way, which are part of the state."""
        self._drain()
        return {"world": self._ask("state_dict"), "rollouts": list(self._ready), "shape": self._shape}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._drain()
        self._ask("load_state_dict", state["world"])
        self._ready = deque(state["rollouts"])
        self._shape = None if state["shape"] is None else tuple(state["shape"])

    # ---- questions and answers -------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Ask for rollouts until there is one for the next update and one for each update ahead."""
        while len(self._ready) + self._pending.count("sample") <= self.staleness:
            self._send("sample", *(self._shape or ()))

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Send a question and wait for its answer, past those to earlier ones."""
        self._send(what, *arguments)
        while len(self._pending) > 1:
            self._receive()
        return self._receive()

    def _drain(self) -> None:
        while self._pending:
            self._receive()

    def _send(self, what: str, *arguments: Any) -> None:
        try:
            self._connection.send((what, arguments))
        except (BrokenPipeError, ConnectionResetError):
            self._drain()
            self._receive()  # after the answers that came before, raises what ended the process
        self._pending.append(what)

    def _receive(self) -> Any:
        """The next answer. Rollouts and numbers for the log are kept."""
        try:
            answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            self._process.join(10.0)
            raise SamplerDied(
                f"the sampling process ended by itself, with exit code {self._process.exitcode}: if that is -9, the "
                "machine had no memory left for a second copy of the model"
            ) from None
        if isinstance(answer, _Failure):
            self.close()
            raise answer.error
        what = self._pending.popleft()
        if what == "sample":
            self._ready.append(answer)
        elif what == "update_weights":
            self._log = answer
        return answer


class SamplerDied(NotDone):
    """The sampling process is no more, and did not say why."""


@dataclasses.dataclass(frozen=True)
class _Failure:
    error: Exception


def _end(connection: Connection, process: Any) -> None:
    connection.close()
    process.terminate()
    process.join(GRACE)
    if process.is_alive():
        process.kill()
        process.join()


def _serve(make: Callable[[], TokenWorld], connection: Connection, threads: int, learner: int) -> None:
    """Answer questions in order until the other end is closed or the process ``learner`` ends."""
    torch.set_num_threads(threads)
    for number in (signal.SIGINT, signal.SIGHUP):  # the learner decides what an interrupted training still needs
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    end_with_parent(learner, signal.SIGTERM)
    # Its own thread sends, because a pipe holds less than a rollout and the next one is to begin.
    with ThreadPoolExecutor(1) as sender:
        try:
            worker = _Worker(make())
            while True:
                what, arguments = connection.recv()
                answer = pickle.dumps(worker.answer(what, arguments))
                sender.submit(_send, connection, answer)
        except (EOFError, ConnectionResetError):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except Exception as error:
            sender.submit(_send, connection, _failure(error))


def _send(connection: Connection, answer: bytes) -> None:
    """Send from the sender's thread. An error ends the process: without an answer the learner would wait for ever."""
    try:
        connection.send_bytes(answer)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the learner has ended
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _leave(*_: Any) -> None:
    """End in good order, since engines have processes of their own to end, and undisturbed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


class _Worker:
    def __init__(self, world: TokenWorld):
        self.world = world
        self.weights: SharedWeights | None = None

    def answer(self, what: str, arguments: tuple[Any, ...]) -> Any:
        if what == "sample":
            return dict(vars(self.world.sample(*arguments)))  # plain values, so that a checkpoint can hold them
        if what == "update_weights":
            assert self.weights is not None
            return dict(self.world.update_weights(self.weights.read(*arguments)))
        if what == "weights":
            (self.weights,) = arguments
            return None
        if what == "temperature":
            return self.world.temperature
        return getattr(self.world, what)(*arguments)


def _failure(error: Exception) -> bytes:
    """An exception for the other process, of its class where that can be pickled."""
    error.add_note("In the sampling process:\n" + "".join(traceback.format_exception(error)))
    try:
        found = pickle.dumps(_Failure(error))
        pickle.loads(found)
        return found
    except Exception:
        return pickle.dumps(_Failure(RuntimeError("".join(traceback.format_exception(error)))))
