"""Check that the engine answers with the learner's weights, after every update, as some only claim it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gaitway_agents.interfaces import Completion, Engine, Sampling
from gaitway_files.errors import NotDone, UserError
from torch import Tensor

Score = Callable[[Sequence[Sequence[int]]], list[list[float]]]
"""Log-probabilities at temperature 1 of every token but the first of sequences."""


LIMIT = 0.05
"""Largest gap [nats]: weights of another update are further apart, computations in float32 1e-6."""
PROBE_TOKENS = 16
"""Number of tokens that the engine samples after each prompt of the probe."""


class EngineOutOfStepError(NotDone):
    """The engine's log-probabilities are not those of the model that learns."""


class VerifiedEngine:
    """``engine``, whose log-probabilities are compared with the learner's at the start and after every update.

    The probe is the same every time: the engine samples ``max_tokens`` after each of ``prompts``, and both what it
    says of them as it samples and what it scores them with is compared with ``score_with``, the model that learns. The
    gap is the mean over these tokens of the absolute difference, the larger of the two; bfloat16 gives about 0.01.
    ``update`` has to be called while the model still has the weights that the engine is given. Calls from several
    threads wait for each other.
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
    ):
        """``load`` is for a model to compare with that is not the learner's own: it gets the new weights first."""
        if not prompts:
            raise UserError("no prompts: the probe needs at least one to compare engine and model on")
        if not limit > 0.0:
            raise UserError(f"limit {limit}: must be positive [nats]")
        self.engine, self.score_with, self.load, self.limit = engine, score_with, load, limit
        self.prompts = [list(prompt) for prompt in prompts]
        self.asynchronous: bool = getattr(engine, "asynchronous", False)
        """Dialogues go on one by one, through :meth:`converse`."""
        self._sampling = Sampling(max_tokens=max_tokens)
        self._lock = threading.Lock()
        self.verify()

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        with self._lock:
            return self.engine.generate(prompts, sampling)

    def converse(self, prompts: Sequence[Sequence[int]], sampling: Sampling, replies: Any) -> None:
        with self._lock:
            engine: Any = self.engine
            engine.converse(prompts, sampling, replies)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        with self._lock:
            return self.engine.score(sequences)

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        """Update the engine and compare; the gap [nats] and what both took [s].

        Raises :class:`EngineOutOfStepError` where the gap exceeds the limit.
        """
        start = time.perf_counter()
        with self._lock:
            if self.load is not None:
                parameters = list(parameters)
                self.load(parameters)
            found = self.engine.update(parameters) or {}
        gap = self.verify()
        return {**found, "sync_gap": gap, "sync_seconds": time.perf_counter() - start}

    def verify(self) -> float:
        """The gap of the probe [nats]; :class:`EngineOutOfStepError` where it exceeds the limit."""
        with self._lock:
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
