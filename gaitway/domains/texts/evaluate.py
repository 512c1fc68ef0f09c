"""Evaluation of a model on held-out problems: its likeliest answers, and several samples of each."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from gaitway_files.json_files import read_json
from gaitway_files.reading import GIB, MissingFile
from gaitway_tasks.language.answers import CORRECT, RIGHT, final_answer
from gaitway_tasks.language.env import PLAYED

from ...errors import RunError
from ...runs.files import write_text_atomically
from .optimum import optimum
from .statistics import Measure, bootstrap_mean, doublings, majority, mean_share, pass_at_k, wilson

if TYPE_CHECKING:
    from gaitway_agents.interfaces import Engine
    from gaitway_language.world import TextWorld
    from gaitway_tasks.language.spec import Row

EVALUATIONS = "evaluations"
"""Folder of a run's evaluations after the training."""
FORMAT = "format"
"""The part that says whether an answer has the form asked for."""
PASSAGE = 256
"""Tokens of a passage whose perplexity is measured."""
BATCH = 256
"""Answers that are scored at a time, so that a long evaluation shows its progress."""


EVALUATION_BYTES = GIB
"""Most of a file of answers; a thousand problems with eight answers each have 20 MB."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer to a problem."""

    text: str
    tokens: int
    """Tokens that the model generated, in all turns."""
    finished: bool
    """True if the answer ended before the length limit."""
    reward: float
    parts: Mapping[str, float]
    """Parts of the reward that have an opinion on the answer."""
    last_turn: str | None = None
    """The part of the text that rewards looked at; None in files that do not say."""

    @property
    def is_right(self) -> bool | None:
        """True if the answer is right; None where no part of the reward judges it."""
        found = next((self.parts[name] for name in CORRECT if name in self.parts), None)
        return None if found is None else found >= RIGHT


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem and a model's answers to it."""

    prompt: str
    expected: str
    """The answer of the data, for people; empty if it has none."""
    level: str
    """The problem's degree of difficulty where the data has one."""
    greedy: Answer
    samples: tuple[Answer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results of all problems of an evaluation, and its settings."""

    task: str
    model: str
    steps: int
    """Training steps when the model was evaluated."""
    temperature: float
    """Sampling temperature; greedy answers have none."""
    seed: int
    problems: tuple[Problem, ...]
    seconds: float
    prefill: str = ""
    """Text that began every answer, given to the model."""
    optimum: float | None = None
    """Best expected return in the environment that was played, where tables give it exactly."""
    surprise: tuple[float, ...] = ()
    """Mean negative log-probability of a token [nats] in each passage of a plain text, where one was given."""

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """Measures of the model by name, with 95 % intervals over problems.

        Shares of single answers have Wilson's interval, everything else that of resampled problems.
        """
        greedy = [problem.greedy for problem in self.problems]
        found: dict[str, Measure] = {}
        if verdicts := _verdicts(greedy):
            found["greedy accuracy"] = _share(verdicts)
        if self.problems[0].samples:
            found |= self._of_samples()
        if formed := [answer.parts[FORMAT] >= RIGHT for answer in greedy if FORMAT in answer.parts]:
            found["greedy format"] = _share(formed)
        found |= self._of_optimum("greedy", [answer.parts.get(PLAYED, 0.0) for answer in greedy])
        found["greedy finished"] = _share([answer.finished for answer in greedy])
        found["greedy reward"] = bootstrap_mean([answer.reward for answer in greedy])
        found["greedy length"] = bootstrap_mean([answer.tokens for answer in greedy])
        if self.surprise:
            mean = bootstrap_mean(self.surprise)
            low, high = math.exp(mean.low), math.exp(mean.high)
            found["perplexity"] = Measure(math.exp(mean.value), low, high, extremes=mean.extremes)
        return found

    def _of_samples(self) -> dict[str, Measure]:
        groups = [problem.samples for problem in self.problems]
        count = len(groups[0])
        found: dict[str, Measure] = {}
        if judged := [group for group in groups if len(_verdicts(group)) == count]:
            right = [sum(_verdicts(group)) for group in judged]
            found["sampled accuracy"] = mean_share([r / count for r in right])
            for k in doublings(count)[1:]:
                found[f"pass@{k}"] = mean_share([pass_at_k(count, r, k) for r in right])
            if count > 1:
                votes = [majority([_vote(a) for a in group], _verdicts(group)) for group in judged]
                found[f"majority@{count}"] = mean_share(votes)
        formed = [[a.parts[FORMAT] >= RIGHT for a in group if FORMAT in a.parts] for group in groups]
        if formed := [group for group in formed if group]:
            found["sampled format"] = mean_share([sum(group) / len(group) for group in formed])
        earned = [sum(a.parts.get(PLAYED, 0.0) for a in group) / count for group in groups]
        found |= self._of_optimum("sampled", earned)
        found["sampled reward"] = bootstrap_mean([sum(a.reward for a in group) / count for group in groups])
        found["sampled length"] = bootstrap_mean([sum(a.tokens for a in group) / count for group in groups])
        return found

    def _of_optimum(self, how: str, returns: Sequence[float]) -> dict[str, Measure]:
        """The mean of returns and its ends as shares of the optimum, which may be above 1 by luck."""
        if self.optimum is None:
            return {}
        found = {"optimum": Measure(self.optimum, self.optimum, self.optimum)}
        if self.optimum > 0.0:
            mean = bootstrap_mean(returns)
            share, low, high = (end / self.optimum for end in (mean.value, mean.low, mean.high))
            found[f"{how} share of the optimum"] = Measure(share, low, high, extremes=mean.extremes)
        return found

    @cached_property
    def levels(self) -> dict[str, Measure]:
        """Greedy accuracy of each level of difficulty, where there are several."""
        names = sorted({problem.level for problem in self.problems}, key=lambda name: (len(name), name))
        verdicts = {name: _verdicts([p.greedy for p in self.problems if p.level == name]) for name in names}
        if len(names) < 2:
            return {}
        return {name: _share(found) for name, found in verdicts.items() if name and found}

    @property
    def failures(self) -> list[Problem]:
        """Problems whose greedy answer is wrong or, where nothing says so, below the median reward."""
        if _verdicts([problem.greedy for problem in self.problems]):
            return [problem for problem in self.problems if problem.greedy.is_right is False]
        middle = sorted(problem.greedy.reward for problem in self.problems)[len(self.problems) // 2]
        return [problem for problem in self.problems if problem.greedy.reward < middle]

    def save(self, path: Path) -> None:
        """Save as JSON, with the measures beside the answers."""
        tree = {"measures": {name: asdict(m) for name, m in self.measures.items()}, **asdict(self)}
        write_text_atomically(path, json.dumps(tree, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        try:
            tree = read_json(path, limit=EVALUATION_BYTES, nan=True)
            tree.pop("measures")
            problems = tuple(_problem(problem) for problem in tree.pop("problems"))
            tree["surprise"] = tuple(tree.get("surprise", ()))
            return cls(problems=problems, **tree)
        except MissingFile:
            raise RunError(f"cannot read {path}: no such file") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RunError(f"{path} is damaged, or no evaluation: make it anew with gaitway evaluate") from None


def evaluate(
    world: TextWorld, rows: Sequence[Row], *, model: str, steps: int, samples: int = 0, seed: int = 0
) -> Evaluation:
    """The likeliest answer to every row, and ``samples`` drawn as in training; raises ``ValueError`` without rows."""
    if not rows:
        raise UserError(f"{world.task.name} has no problems to evaluate on")
    start = time.perf_counter()
    greedy = _answers(world, rows, temperature=0.0, seed=seed)
    repeated = [row for row in rows for _ in range(samples)]
    drawn = _answers(world, repeated, temperature=world.sampling.temperature, seed=seed + 1)
    problems = tuple(
        Problem(
            prompt=world.text_of(row),
            expected=_shown(row.get("answer")),
            level=_shown(row.get("level")),
            greedy=greedy[i],
            samples=tuple(drawn[i * samples : (i + 1) * samples]),
        )
        for i, row in enumerate(rows)
    )
    return Evaluation(
        task=world.task.name,
        model=model,
        steps=steps,
        temperature=world.sampling.temperature,
        seed=seed,
        problems=problems,
        seconds=time.perf_counter() - start,
        prefill=world.conversation.prefill,
        optimum=optimum(world.task, rows),
    )


def surprise(engine: Engine, tokens: Sequence[int]) -> tuple[float, ...]:
    """Mean negative log-probability of a token [nats] in each whole passage of :data:`PASSAGE` of ``tokens``.

    Raises :class:`UserError` for fewer tokens than a passage has.
    """
    passages = [tokens[i : i + PASSAGE] for i in range(0, len(tokens) - PASSAGE + 1, PASSAGE)]
    if not passages:
        raise UserError(f"a plain text of {len(tokens)} tokens: perplexity needs at least {PASSAGE}")
    return tuple(-sum(said) / len(said) for said in engine.score(passages))


def _answers(world: TextWorld, rows: Sequence[Row], *, temperature: float, seed: int) -> list[Answer]:
    found: list[Answer] = []
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        sampling = replaced(world.sampling, temperature=temperature, seed=(seed * 1_000_003 + first) % 2**31)
        if not temperature:
            sampling = replaced(sampling, top_p=1.0, top_k=0)
        dialogues = world.converse(part, sampling)
        rewards, parts = world.judge(dialogues, part)
        found += [
            Answer(
                text=world.conversation.decode(dialogue.tokens),
                tokens=sum(dialogue.chosen),
                finished=dialogue.finished,
                reward=float(rewards[i]),
                parts={name: float(values[i]) for name, values in parts.items() if not math.isnan(values[i])},
                last_turn=dialogue.answer,
            )
            for i, dialogue in enumerate(dialogues)
        ]
    return found


def _verdicts(answers: Sequence[Answer]) -> list[bool]:
    """Whether answers are right, of those on which the rewards have an opinion."""
    return [answer.is_right for answer in answers if answer.is_right is not None]


def _share(flags: Sequence[bool]) -> Measure:
    return wilson(sum(flags), len(flags))


def _vote(answer: Answer) -> str | None:
    """Normalised answer for the vote; all right answers count as the same."""
    return "right" if answer.is_right else final_answer(answer.text if answer.last_turn is None else answer.last_turn)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _problem(tree: dict[str, Any]) -> Problem:
    samples = tuple(Answer(**answer) for answer in tree.pop("samples"))
    return Problem(greedy=Answer(**tree.pop("greedy")), samples=samples, **tree)
