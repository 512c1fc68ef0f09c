"""Pages of sampled answers that a person can read: what was asked, what was answered, and what each part earned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from gaitway_sim2real.pages.document import document

from ...runs.files import write_text_atomically
from .evaluate import Answer, Evaluation, Problem
from .statistics import Measure

FAILURES, OTHERS = 30, 10
"""How many problems a page shows of either kind: enough to read, and to see what goes wrong."""
SAMPLES = 4
"""Sampled answers that are shown beside the likeliest one."""
SHARES = re.compile(r"accuracy|pass@|majority@|format|finished")


def write_page(evaluation: Evaluation, path: Path) -> None:
    """The page of one evaluation."""
    write_text_atomically(path, render_page(evaluation))


def render_page(evaluation: Evaluation) -> str:
    failures = evaluation.failures
    others = [problem for problem in evaluation.problems if problem not in failures]
    sections = [
        _head(evaluation),
        _levels(evaluation),
        _problems("Failures to read", failures, FAILURES),
        _problems("Answers that are right" if _is_judged(evaluation) else "Answers", others, OTHERS),
    ]
    return document(f"{evaluation.task}: answers of {evaluation.model}", sections, style())


def style() -> str:
    """Style sheet of answers."""
    return (files(__package__) / "pages.css").read_text("utf-8")


def shown(name: str, measure: Measure) -> str:
    """A measure as people read it: shares in percent."""
    return measure.percent() if SHARES.search(name) else measure.number()


def card(problem: Problem, answers: Sequence[tuple[str, Answer]]) -> str:
    """A problem and some answers to it, each under a word that says whose or which it is."""
    expected = f'<p class="expected">expected <b>{escape(problem.expected)}</b></p>' if problem.expected else ""
    level = f' <span class="muted">level {escape(problem.level)}</span>' if problem.level else ""
    body = "".join(_answer(word, answer) for word, answer in answers)
    return f'<article><p class="prompt">{escape(problem.prompt)}{level}</p>{expected}{body}</article>'


def _head(evaluation: Evaluation) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="num">{shown(name, measure)}</td></tr>'
        for name, measure in evaluation.measures.items()
    )
    samples = len(evaluation.problems[0].samples)
    drawn = f", {samples} samples each at temperature {evaluation.temperature:g}" if samples else ""
    return f"""<header><p class="kicker">Answers on held-out problems</p>
<h1>{escape(evaluation.task)} <span>{escape(evaluation.model)}, after {evaluation.steps:,} sequences</span></h1>
<p class="muted">{len(evaluation.problems)} problems, the likeliest answer to each{drawn}; seed {evaluation.seed};
{evaluation.seconds:.0f} s. Brackets are 95 % intervals over problems.</p>
<div class="scroll"><table class="numbers measures"><tbody>{rows}</tbody></table></div></header>"""


def _levels(evaluation: Evaluation) -> str:
    if not evaluation.levels:
        return ""
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="num">{measure.percent()}</td></tr>'
        for name, measure in evaluation.levels.items()
    )
    head = '<thead><tr><th>level</th><th class="num">greedy accuracy</th></tr></thead>'
    return (
        f'<section><h2>By difficulty</h2><table class="numbers measures">{head}<tbody>{rows}</tbody></table></section>'
    )


def _problems(title: str, problems: Sequence[Problem], most: int) -> str:
    if not problems:
        return ""
    # Spread over the whole list, which may be sorted by kind or difficulty.
    step = max(1, len(problems) // most)
    cards = [
        card(
            problem,
            [("likeliest", problem.greedy)]
            + [(f"sample {i}", answer) for i, answer in enumerate(problem.samples[:SAMPLES], 1)],
        )
        for problem in problems[::step][:most]
    ]
    count = f"{len(cards)} of {len(problems)}" if len(cards) < len(problems) else str(len(problems))
    return f'<section><h2>{title} <span class="muted">{count}</span></h2>{"".join(cards)}</section>'


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


def _is_judged(evaluation: Evaluation) -> bool:
    return evaluation.problems[0].greedy.is_right is not None
