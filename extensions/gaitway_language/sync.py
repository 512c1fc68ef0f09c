"""Check that the engine answers with the learner's weights, after every update, as some only claim it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gaitway_agents.interfaces import Completion, Engine, Sampling
from gaitway_files.errors import NotDone, UserError
from torch import Tensor

Score = Callable[[Sequence[Sequence[int]]], list[list[float]]]
"""Log-probabilities at temperature 1 of every token but the first of sequences."""


LIMIT = 0.05
"""Largest gap [nats]: weights of another update are further apart, computations in float32 1e-6."""
PROBE_TOKENS = 16
"""Number of tokens that the engine samples after each prompt of the probe."""


STARTS = 3
"""Processes that an engine may need for one question: what ends all of them is the question."""

Answer = TypeVar("Answer")


class EngineLostError(UserError):
    """The engine's process has ended, and its weights with it."""


class EngineWarning(UserWarning):
    """An engine that was lost, and is replaced."""


class EngineOutOfStepError(NotDone):
    """The engine's log-probabilities are not those of the model that learns."""


class VerifiedEngine:
    """``engine``, whose log-probabilities are compared with the learner's at the start and after every update.

    The probe is the same every time: the engine samples ``max_tokens`` after each of ``prompts``, and both what it
    says of them as it samples and what it scores them with is compared with ``score_with``, the model that learns. The
    gap is the mean over these tokens of the absolute difference, the larger of the two; bfloat16 gives about 0.01.
    ``update`` has to be called while the model still has the weights that the engine is given. Calls from several
    threads wait for each other.

    An engine with a method ``renew`` may be lost, as one in a process that is killed. It is then renewed, gets the
    model's weights, is compared, and is asked again what it did not answer. Draws depend on the question alone, so the
    answer is the one that was lost.
    """

    def __init__(
        self,
        engine: Engine,
        score_with: Score,
        prompts: Sequence[Sequence[int]],
        *,
        limit: float = LIMIT,
        max_tokens: int = PROBE_TOKENS,
        load: Callable[[Iterable[tuple[str, Tensor]]], None] | None = None,
        weights: Callable[[], Iterable[tuple[str, Tensor]]] | None = None,
    ):
        """``load`` is for a model to compare with that is not the learner's own: it gets the new weights first.
        ``weights`` are those of the model, for an engine that was lost; None: that ends the training."""
        if not prompts:
            raise UserError("no prompts: the probe needs at least one to compare engine and model on")
        if not limit > 0.0:
            raise UserError(f"limit {limit}: must be positive [nats]")
        self.engine, self.score_with, self.load, self.limit = engine, score_with, load, limit
        self.weights = weights
        self.prompts = [list(prompt) for prompt in prompts]
        self.asynchronous: bool = getattr(engine, "asynchronous", False)
        """Dialogues go on one by one, through :meth:`converse`."""
        self._sampling = Sampling(max_tokens=max_tokens)
        self._lock = threading.Lock()
        self.verify()

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        with self._lock:
            return self._answer(lambda: self.engine.generate(prompts, sampling))

    def converse(self, prompts: Sequence[Sequence[int]], sampling: Sampling, replies: Any) -> None:
        with self._lock:
            engine: Any = self.engine
            engine.converse(prompts, sampling, replies)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        with self._lock:
            return self._answer(lambda: self.engine.score(sequences))

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        """Update the engine and compare; the gap [nats] and what both took [s].

        Raises :class:`EngineOutOfStepError` where the gap exceeds the limit.
        """
        start = time.perf_counter()
        with self._lock:
            if self.load is not None:
                parameters = list(parameters)
                self.load(parameters)
            elif isinstance(parameters, Iterator):
                parameters = list(parameters)  # they may have to be sent again
            found = self._answer(lambda: self.engine.update(parameters)) or {}
            gap = self._answer(self._gap)
        return {**found, "sync_gap": gap, "sync_seconds": time.perf_counter() - start}

    def verify(self) -> float:
        """The gap of the probe [nats]; :class:`EngineOutOfStepError` where it exceeds the limit."""
        with self._lock:
            return self._answer(self._gap)

    def _answer(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question, asked again where it was lost; :class:`EngineLostError` after ``STARTS`` times."""
        lost: EngineLostError | None = None
        for start in range(STARTS + 1):
            try:
                if lost is not None:
                    self._renew()
                return question()
            except EngineLostError as error:
                lost = error
                if self.weights is None or not hasattr(self.engine, "renew"):
                    break
                if start < STARTS:
                    warnings.warn(
                        f"{time.strftime('%H:%M:%S')}: {error}. Attempt {start + 1} of {STARTS} to replace it follows: "
                        "another gets the current weights, and is asked what was not answered",
                        EngineWarning,
                        stacklevel=3,
                    )
        assert lost is not None
        raise lost

    def _renew(self) -> None:
        engine: Any = self.engine
        assert self.weights is not None
        engine.renew()
        engine.update(self.weights())
        self._gap()

    def _gap(self) -> float:
        answers = self.engine.generate(self.prompts, self._sampling)
        sequences = [prompt + answer.tokens for prompt, answer in zip(self.prompts, answers, strict=True)]
        scored = self.engine.score(sequences)
        expected = self.score_with(sequences)
        sampled = [value for answer in answers for value in answer.log_probs]
        lengths = [len(answer.tokens) for answer in answers]
        theirs = [value for row, n in zip(expected, lengths, strict=True) for value in row[len(row) - n :]]
        ours = [value for row, n in zip(scored, lengths, strict=True) for value in row[len(row) - n :]]
        gap = max(_mean_gap(sampled, theirs), _mean_gap(ours, theirs))
        if not gap <= self.limit:
            raise EngineOutOfStepError(
                f"{type(self.engine).__name__} does not answer with the model's weights: on the probe its "
                f"log-probabilities are {gap:.3f} nats off on average, and {self.limit:.3g} is the limit. Nothing "
                "learnt from its answers would be right. Use rollout=transformers, or a version of the engine that "
                "takes new weights; a gap just above the limit with dtype=bfloat16 goes away with dtype=float32"
            )
        return gap

    def rest(self) -> None:
        """Let the engine give memory back until it is asked again, if it is of a kind that can."""
        with self._lock:
            getattr(self.engine, "rest", lambda: None)()

    def close(self) -> None:
        self.engine.close()


def _mean_gap(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(theirs)
