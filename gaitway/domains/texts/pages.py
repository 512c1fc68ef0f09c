"""Pages of sampled answers that a person can read: what was asked, what was answered, and what each part earned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from gaitway_sim2real.pages.model import Head, Report, Section, Table, note

from ...runs.files import write_text_atomically
from .evaluate import Answer, Evaluation, Problem
from .statistics import Measure

FAILURES, OTHERS = 30, 10
"""Number of failures and of other problems that a page shows."""
SAMPLES = 4
"""Sampled answers that are shown beside the likeliest one."""
MEASURES = "numbers measures"
SHARES = re.compile(r"accuracy|pass@|majority@|format|finished|share")


def write_page(evaluation: Evaluation, path: Path) -> None:
    """The page of one evaluation."""
    write_text_atomically(path, report(evaluation).html())


def report(evaluation: Evaluation) -> Report:
    failures = evaluation.failures
    others = [problem for problem in evaluation.problems if problem not in failures]
    judged = any(problem.greedy.is_right is not None for problem in evaluation.problems)
    levels = [[name, measure.percent()] for name, measure in evaluation.levels.items()]
    return Report(
        f"{evaluation.task}: answers of {evaluation.model}",
        _head(evaluation),
        Section("By difficulty", Table(["level", "greedy accuracy"], levels, css=MEASURES)) if levels else None,
        _problems("Failures to read", failures, FAILURES),
        _problems("Answers that are right" if judged else "Answers", others, OTHERS),
        styles=[style()],
    )


def style() -> str:
    """Style sheet of answers."""
    return (files(__package__) / "pages.css").read_text("utf-8")


def shown(name: str, measure: Measure) -> str:
    """A measure as people read it: shares in percent."""
    return measure.percent() if SHARES.search(name) else measure.number()


class Card:
    """A problem and some answers to it, each under a word that says whose or which it is."""

    def __init__(self, problem: Problem, answers: Sequence[tuple[str, Answer]]):
        self.problem, self.answers = problem, answers

    def html(self) -> str:
        problem = self.problem
        expected = f'<p class="expected">expected <b>{escape(problem.expected)}</b></p>' if problem.expected else ""
        level = f' <span class="muted">level {escape(problem.level)}</span>' if problem.level else ""
        body = "".join(_answer(word, answer) for word, answer in self.answers)
        return f'<article><p class="prompt">{escape(problem.prompt)}{level}</p>{expected}{body}</article>'


def _head(evaluation: Evaluation) -> Head:
    samples = len(evaluation.problems[0].samples)
    drawn = f", {samples} samples each at temperature {evaluation.temperature:g}" if samples else ""
    text = (
        f"{len(evaluation.problems)} problems, the likeliest answer to each{drawn}; seed {evaluation.seed}; "
        f"{evaluation.seconds:.0f} s. Brackets are 95 % intervals over problems."
    )
    rows = [[name, shown(name, measure)] for name, measure in evaluation.measures.items()]
    about = f"{evaluation.model}, after {evaluation.steps:,} sequences"
    measures = Table(["", ""], rows, css=MEASURES)
    return Head("Answers on held-out problems", evaluation.task, about, note(text, "muted"), measures)


def _problems(title: str, problems: Sequence[Problem], most: int) -> Section:
    # Spread over the whole list, which may be sorted by kind or difficulty.
    chosen = problems[:: max(1, len(problems) // most)][:most]
    cards = [
        Card(one, [("likeliest", one.greedy), *((f"sample {i}", a) for i, a in enumerate(one.samples[:SAMPLES], 1))])
        for one in chosen
    ]
    count = f"{len(cards)} of {len(problems)}" if len(cards) < len(problems) else str(len(problems))
    return Section(title, *cards, aside=count)


def _answer(word: str, answer: Answer) -> str:
    verdict = {True: "good", False: "bad", None: ""}[answer.is_right]
    parts = "".join(f"<span>{escape(name)} <b>{value:g}</b></span>" for name, value in answer.parts.items())
    cut = "" if answer.finished else '<span class="cut">cut off</span>'
    return f"""<div class="answer {verdict}"><p class="parts"><i>{escape(word)}</i>
<span>reward <b>{answer.reward:g}</b></span>{parts}<span>{answer.tokens} tokens</span>{cut}</p>
<p class="text">{_marked(answer.text)}</p></div>"""


def _marked(text: str) -> str:
    """Tags pale, so that one sees what they hold."""
    return re.sub(r"(&lt;/?[a-z_]+&gt;)", r'<span class="tag">\1</span>', escape(text, quote=False))
