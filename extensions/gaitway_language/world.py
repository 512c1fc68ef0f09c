"""The world of a language task: prompts go to an engine, its answers get rewards, and all of it becomes tensors."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from gaitway_agents.interfaces import PADDING, Engine, Sampling, TokenRollout
from gaitway_files.errors import UserError
from gaitway_tasks.language.env import PLAYED, Played
from gaitway_tasks.language.rows import Row, RowError
from gaitway_tasks.language.sources import MIXED_FROM
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.language.watched import EnvironmentFailedError, Workers, named, watched
from torch import Tensor

from .conversation import Conversation, ConversationError
from .curriculum import Curriculum
from .dialogue import Dialogue, converse
from .partial import PartialRollouts, Rollout

Score = Callable[[Sequence[str], Sequence[str], Sequence[Row]], tuple[Sequence[float], Mapping[str, Sequence[float]]]]
"""Rewards of completions: their weighted sum and each part, from prompts, completions and rows."""


OTHER_SEEDS = 1_000_000
"""Seeds of the curricula of two processes are so far apart."""


class TextWorld:
    """Prompts of ``task`` in the order of ``seed``, answered by ``engine`` and judged by ``score``.

    Implements ``gaitway_agents.interfaces.TokenWorld``. ``engine.update`` may return numbers for the log. ``ahead``
    rollouts are begun early and finished with newer weights, see :class:`.partial.PartialRollouts`. ``share`` says
    which of how many processes this is: each has its part of the prompts.
    """

    def __init__(
        self,
        task: LanguageTask,
        conversation: Conversation,
        engine: Engine,
        sampling: Sampling,
        score: Score,
        *,
        seed: int,
        ahead: int = 0,
        share: tuple[int, int] = (0, 1),
    ):
        check_ahead(ahead, task)
        self.task, self.conversation, self.engine, self.score = task, conversation, engine, score
        self.sampling, self.seed = sampling, seed
        self.version = 0
        self._drawn = 0
        self._calls = 0
        self._stream: Iterator[Row] = task.source.stream("train", seed)
        self.share = share
        self._levels = Curriculum(task.source, seed + OTHER_SEEDS * share[0]) if task.curriculum else None
        self._partial = PartialRollouts(ahead, engine, conversation, sampling.max_tokens) if ahead else None

    @property
    def temperature(self) -> float:
        """Temperature of sampling."""
        return self.sampling.temperature

    def sample(self, num_prompts: int, group_size: int) -> TokenRollout:
        """Answers to the next prompts; :class:`RowError` for a prompt that is too long."""
        self._calls += 1
        start = time.perf_counter()
        rank, size = self.share
        sampling = replace(self.sampling, seed=(self.seed * 1_000_003 + self._calls * size + rank) % 2**31)
        if self._partial is None:
            rows = self._draw(num_prompts)
            dialogues = self.converse(rows, sampling, group_size)
        else:
            rollout = self._partial.next(lambda: self._begin(num_prompts, group_size), sampling, self.version)
            rows, dialogues = rollout.rows, rollout.dialogues
        repeated = [row for row in rows for _ in range(group_size)]
        getattr(self.engine, "rest", lambda: None)()  # what comes next is learning
        generated = time.perf_counter()
        texts = [self.text_of(row) for row in repeated]
        rewards, parts = self.judge(dialogues, repeated)
        facts = _by_file(repeated, rewards)
        if self._levels is not None:
            facts |= self._levels.learn(repeated, parts)
        judged = time.perf_counter()
        return TokenRollout(
            **_tensors(dialogues),
            groups=torch.arange(num_prompts).repeat_interleave(group_size),
            rewards=torch.tensor(rewards, dtype=torch.float32),
            parts={name: torch.tensor(values, dtype=torch.float32) for name, values in parts.items()},
            version=self.version,
            facts=facts,
            prompts=texts,
            completions=[self.conversation.decode(dialogue.tokens) for dialogue in dialogues],
            rows=[{**row} for row in repeated],  # plain, as checkpoints need them
            timing={"generation": generated - start, "reward": judged - generated},
        )

    def close(self) -> None:
        """End the engine, which then answers no more."""
        self.engine.close()

    def _draw(self, num_prompts: int) -> Sequence[Row]:
        """The next rows."""
        if self._levels is not None:
            return self._levels.draw(num_prompts, self._calls + (0 if self._partial is None else len(self._partial)))
        rank, size = self.share
        self._drawn += num_prompts * size
        return list(islice(self._stream, num_prompts * size))[rank * num_prompts : (rank + 1) * num_prompts]

    def _begin(self, num_prompts: int, group_size: int) -> Rollout:
        """The next rows, with answers that are still empty."""
        rows = list(self._draw(num_prompts))
        prompts = [prompt_tokens(row, self.task, self.conversation) for row in rows]
        return Rollout(rows, [Dialogue(prompt) for prompt in prompts for _ in range(group_size)])

    def converse(self, rows: Sequence[Row], sampling: Sampling, group_size: int = 1) -> list[Dialogue]:
        """``group_size`` dialogues for each row, adjacent."""
        prompts = [prompt_tokens(row, self.task, self.conversation) for row in rows]
        repeated = [(row, prompt) for row, prompt in zip(rows, prompts, strict=True) for _ in range(group_size)]
        environments = [self.task.new_environment() for _ in repeated]
        own = isinstance(self.task.source, Played) and self.task.environment is None
        with Workers(self.task.step_time_limit, self.task.step_threads) as workers:
            openings = watched(
                workers,
                {i: functools.partial(env.reset, repeated[i][0]) for i, env in enumerate(environments)},
                lambda i: f"reset() of {named(environments[i])}",
            )
            for i, (env, (row, _)) in enumerate(zip(environments, repeated, strict=True)):
                opening = openings[i]
                if own and opening != row["prompt"]:
                    raise EnvironmentFailedError(
                        f"reset() of {named(env)} said {str(opening)[:60]!r} for seed {row['seed']}, and "
                        f"{str(row['prompt'])[:60]!r} before: equal rows must give equal openings, so draw from the "
                        "row's seed alone"
                    )
            return converse(
                [prompt for _, prompt in repeated],
                self.engine,
                sampling,
                self.conversation,
                environments,
                self.task.max_turns,
                workers,
            )

    def judge(
        self, dialogues: Sequence[Dialogue], rows: Sequence[Row]
    ) -> tuple[Sequence[float], Mapping[str, Sequence[float]]]:
        """Rewards of dialogues and their parts; what an environment gave is a part of its own."""
        told = [{"finished": dialogue.finished, **row} for row, dialogue in zip(rows, dialogues, strict=True)]
        rewards, parts = self.score(
            [self.text_of(row) for row in rows], [dialogue.answer for dialogue in dialogues], told
        )
        if self.task.plays:
            earned = [sum(dialogue.rewards) for dialogue in dialogues]
            rewards, parts = [a + b for a, b in zip(rewards, earned, strict=True)], {**parts, PLAYED: earned}
        return rewards, parts

    def update_weights(self, parameters: Iterable[tuple[str, Tensor]]) -> Mapping[str, float]:
        found = self.engine.update(parameters)
        self.version += 1
        return found or {}

    @staticmethod
    def text_of(row: Row) -> str:
        """A row's prompt as a person would read it."""
        prompt = row["prompt"]
        return prompt if isinstance(prompt, str) else "\n".join(f"{m['role']}: {m['content']}" for m in prompt)

    def state_dict(self) -> dict[str, Any]:
        state = {"drawn": self._drawn, "calls": self._calls, "version": self.version}
        parts = {"levels": self._levels, "partial": self._partial}
        return state | {name: part.state_dict() for name, part in parts.items() if part is not None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._drawn, self._calls, self.version = state["drawn"], state["calls"], state["version"]
        self._stream = islice(self.task.source.stream("train", self.seed), self._drawn, None)
        if self._levels is not None:
            self._levels.load_state_dict(state["levels"])
        if self._partial is not None:
            self._partial.load_state_dict(state["partial"])


def _by_file(rows: Sequence[Row], rewards: Sequence[float]) -> dict[str, float]:
    """Mean rewards of the answers to each file's rows in a mixture, for the log."""
    found: dict[str, list[float]] = {}
    for row, reward in zip(rows, rewards, strict=True):
        if MIXED_FROM in row:
            found.setdefault(row[MIXED_FROM], []).append(reward)
    return {f"rollout/reward/{MIXED_FROM}/{name}": sum(values) / len(values) for name, values in found.items()}


def prompt_tokens(row: Row, task: LanguageTask, conversation: Conversation) -> list[int]:
    """Tokens of a row's prompt, its tools included; :class:`RowError` for none, or more than the task allows."""
    try:
        tokens = conversation.prompt(row["prompt"], row.get("tools", ()))
    except ConversationError as error:
        raise RowError(str(error)) from None
    if not tokens:
        raise RowError(f"the prompt {row['prompt']!r} has no tokens")
    if len(tokens) > task.max_prompt_tokens:
        raise RowError(
            f"the prompt {str(row['prompt'])[:60]!r}... has {len(tokens)} tokens, more than task.max_prompt_tokens="
            f"{task.max_prompt_tokens}: raise that, or shorten or leave out such rows"
        )
    return tokens


def check_ahead(ahead: int, task: LanguageTask) -> None:
    """ValueError for a number of rollouts to begin ahead that ``task`` does not allow."""
    if ahead and (task.max_turns > 1 or task.plays):
        raise UserError(
            f"language.max_staleness above language.staleness, by {ahead}, with task {task.name}, whose answers get "
            "replies: only single answers are drawn in parts; leave language.max_staleness out"
        )


def _tensors(dialogues: Sequence[Dialogue]) -> dict[str, Any]:
    """Tokens, lengths, mask, log-probabilities, rewards, ends and versions of dialogues, padded on the right."""
    lengths = torch.tensor([len(d.prompt) + len(d.tokens) for d in dialogues])
    shape = (len(dialogues), int(lengths.max()))
    tokens, mask, log_probs, earned = torch.full(shape, PADDING), *torch.zeros(3, *shape)
    versions = torch.zeros(shape, dtype=torch.int64)
    for i, dialogue in enumerate(dialogues):
        begin, end = len(dialogue.prompt), int(lengths[i])
        tokens[i, :end] = torch.tensor(dialogue.sequence)
        mask[i, begin:end] = torch.tensor(dialogue.chosen, dtype=torch.float32)
        log_probs[i, begin:end] = torch.tensor(dialogue.log_probs)
        earned[i, begin:end] = torch.tensor(dialogue.rewards)
        versions[i, begin : begin + len(dialogue.versions)] = torch.tensor(dialogue.versions, dtype=torch.int64)
    finished = torch.tensor([dialogue.finished for dialogue in dialogues])
    parted = any(dialogue.versions for dialogue in dialogues)
    return {
        "tokens": tokens, "lengths": lengths, "mask": mask, "log_probs": log_probs, "turn_rewards": earned,
        "finished": finished, "versions": versions if parted else None,
    }  # fmt: skip
