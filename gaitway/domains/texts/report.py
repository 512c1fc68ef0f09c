"""One page about several language runs: scores with intervals, curves, the same problems answered by each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_sim2real.pages.model import Figure, Head, Report, Section, Table, note, repeat
from gaitway_sim2real.pages.panels import Line, stacked

from ...compare.figures import COLOURS
from ...compare.page import dotted
from ...compare.page import style as page_style
from ...errors import RunError
from ...runs.folder import EVALUATIONS as EXAMS
from ...runs.folder import METRICS, RunFolder, is_run
from ...runs.rows import read_rows
from .evaluate import EVALUATIONS, Evaluation
from .pages import Card, shown, style
from .statistics import Measure

PROBLEMS = 12
"""Problems of each kind whose answers are shown."""
EXAMINED = "greedy accuracy"
"""Measure that reports compare where answers are right or wrong."""
GREEDY_SHARE, SAMPLED_SHARE = "greedy share of the optimum", "sampled share of the optimum"
EXAMINATIONS = {EXAMINED: "held-out accuracy [%]", GREEDY_SHARE: "share of the optimum [%]"}
"""Measures of the evaluations during training that reports plot, and their labels."""
SAMPLED = "sampled accuracy"
PERPLEXITY = "perplexity"
RETURN = "rollout/reward/environment"
PANELS = (
    ("rollout/reward/correctness", "sampled accuracy [%]", 100.0),
    (RETURN, "return", 1.0),
    ("rollout/reward/format", "right form [%]", 100.0),
    ("rollout/length", "tokens of an answer", 1.0),
    ("learn/entropy", "token entropy [nats]", 1.0),
    ("learn/loss", "loss [nats]", 1.0),
)
"""Metrics of iterations that are drawn where runs have them, their labels and factors."""
AS_MUCH = 1.25
"""Most CPU time of a control, of the second run's, to count as costing no more."""
WINDOW = 5
"""Iterations over which curves are averaged."""


@dataclass(frozen=True)
class ReportedRun:
    """One run, and its evaluations by the name of their task."""

    path: Path
    record: dict[str, Any]
    rows: list[dict[str, Any]]
    exams: list[dict[str, Any]]
    evaluations: dict[str, Evaluation]
    began: str = ""
    """Model with which it began, as its settings name it: maybe the folder of another run."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def agent(self) -> str:
        return str(self.record["algorithm"])

    @property
    def cpu_minutes(self) -> float:
        return float(self.record.get("cpu_time_s", 0.0)) / 60.0


@dataclass(frozen=True)
class LanguageReport:
    """Runs in the order in which they are told."""

    runs: tuple[ReportedRun, ...]

    @cached_property
    def tasks(self) -> list[str]:
        """Names of the evaluated tasks, the training's own first."""
        own = str(self.runs[0].record["task"])
        names = dict.fromkeys(name for run in self.runs for name in run.evaluations)
        return sorted(names, key=lambda name: name != own)

    def headlines(self) -> list[str]:
        """Line for each evaluated task: scores of every run's likeliest and sampled answers."""
        lines = []
        for task in self.tasks:
            scores = [f"{run.name} {_said(run.evaluations[task])}" for run in self.runs if task in run.evaluations]
            lines.append(f"{task}: {'; '.join(scores)}")
        return lines

    def findings(self) -> list[str]:
        """For each evaluated task, what the second run is ahead of the first and the controls, and what of it the first
        could do already: by sampling, by a vote over samples, or where its answers were begun for it.

        Empty where runs have no shares of right answers to compare.
        """
        return [text for task in self.tasks if (text := self._finding(task))]

    def _finding(self, task: str) -> str:
        there = [(run.name, run.evaluations[task]) for run in self.runs if task in run.evaluations]
        if len(there) < 2 or any(EXAMINED not in e.measures for _, e in there):
            return ""
        (start, before), (name, after), *controls = there
        reached, least = after.measures[EXAMINED].value, before.measures[EXAMINED].value
        text = f"{task}: {name} is right in {_percent(reached)} of its likeliest answers, {start} in {_percent(least)}"
        if controls:
            text += self._beside(reached, name, [(control, e.measures[EXAMINED].value) for control, e in controls])
        own = self._own(task, before)
        if own:
            had = max(least, *(value for _, value in own))
            text += f". Asked in other ways, {start} is right in {', '.join(said for said, _ in own)}: "
            text += f"{_points(max(0.0, min(had, reached) - least))} of the gain are only elicited, "
            text += f"{_points(max(0.0, reached - had))} are added"
        most = [measure for measure in before.measures if measure.startswith("pass@")]
        if most:
            text += f". {most[-1]} of {start}, lucky guesses included: {_percent(before.measures[most[-1]].value)}"
        if PERPLEXITY in before.measures and PERPLEXITY in after.measures:
            had, has = (e.measures[PERPLEXITY].value for e in (before, after))
            text += f". The perplexity of a plain text went from {had:.1f} to {has:.1f}"
        return f"{text}."

    def _beside(self, reached: float, name: str, controls: list[tuple[str, float]]) -> str:
        """Scores of the controls, and the distances to the best that cost no more and to the best that cost more."""
        own, text = self._cost(name), ""
        costs = {control: self._cost(control) / own if own else 1.0 for control, _ in controls}
        for control, share in controls:
            dear = f" with {costs[control]:.1f} times the CPU time" if costs[control] > AS_MUCH else ""
            text += f"; {control} in {_percent(share)}{dear}"
        equal = [share for control, share in controls if costs[control] <= AS_MUCH]
        dearer = [share for control, share in controls if costs[control] > AS_MUCH]
        told = [
            f"{_distance(reached - max(shares))} the best {words}"
            for shares, words in (
                (equal, "of those that cost no more" if dearer else "of these"), (dearer, "of those that cost more"),
            ) if shares
        ]  # fmt: skip
        return f"{text}: {', '.join(told)}"

    def _cost(self, name: str) -> float:
        """CPU minutes of training from the first run on: those of the runs that this one goes back to are counted."""
        runs, cost = {run.name: run for run in self.runs[1:]}, 0.0
        while (run := runs.pop(name, None)) is not None:
            cost, name = cost + run.cpu_minutes, Path(run.began).name
        return cost

    def _own(self, task: str, before: Evaluation) -> list[tuple[str, float]]:
        """Accuracies of the first run by other ways to ask it, each with its name."""
        found = [
            (f"{_percent(m.value)} {'sampled' if name == SAMPLED else f'by {name}'}", m.value)
            for name, m in before.measures.items()
            if name == SAMPLED or name.startswith("majority@")
        ]
        for other in self.runs[0].evaluations.values():
            if other.prefill and not before.prefill and other.problems[0].prompt == before.problems[0].prompt:
                value = other.measures[EXAMINED].value
                found.append((f"{_percent(value)} where answers are begun with {other.prefill}", value))
        return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _distance(share: float) -> str:
    return f"{_points(abs(share))} {'ahead of' if share >= 0.0 else 'behind'}"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def read_runs(paths: Sequence[Path]) -> LanguageReport:
    """Records, curves and evaluations of runs; raises :class:`RunError` for what is no finished language run."""
    runs: list[ReportedRun] = []
    for path in paths:
        if not is_run(path) and (found := {file.stem: file for file in sorted(path.glob("*.json"))}):
            runs.append(_published(path, {name: Evaluation.load(file) for name, file in found.items()}))
            continue
        run = RunFolder.open(path)
        if run.record["world"] != "language":
            raise RunError(f"{path} is a run of {run.record['task']}, not of a language model: use gaitway compare")
        evaluations = {}
        for file in sorted((path / EVALUATIONS).glob("*.json")):
            evaluations[file.stem] = Evaluation.load(file)
        rows, exams = (_rows(path / name) for name in (METRICS, EXAMS))
        config = run.config()
        assert config.language is not None
        runs.append(ReportedRun(path, run.record, rows, exams, evaluations, config.language.model))
    if not any(run.record["machine"] for run in runs):
        raise RunError(f"none of {', '.join(map(str, paths))} is a run: a report tells what runs have learnt")
    if not any(run.evaluations for run in runs):
        raise RunError(f"none of these runs was evaluated: gaitway evaluate {paths[0]} first, and so on")
    return LanguageReport(tuple(runs))


def _published(path: Path, evaluations: dict[str, Evaluation]) -> ReportedRun:
    """A model that no run made, by a folder of its evaluations, as a run that has learnt nothing."""
    first = next(iter(evaluations.values()))
    record = {
        "task": first.task, "algorithm": "-", "steps": 0, "cpu_time_s": 0.0, "wall_time_s": 0.0,
        "status": "as published", "machine": {}, "command": [],
    }  # fmt: skip
    return ReportedRun(path, record, [], [], evaluations, first.model)


def language_report(found: LanguageReport, command: str) -> Report:
    """The whole page. ``command`` is what was typed."""
    lines = [" ".join(run.record["command"]) for run in found.runs if run.record["command"]]
    record = next(run.record for run in found.runs if run.record["machine"])
    machine, versions = record["machine"], record["versions"]
    return Report(
        f"{', '.join(found.tasks)}: what was learnt",
        _head(found),
        *(_scores(found, task) for task in found.tasks),
        Section("While they learnt", *_curves(found)),
        *(section for task in found.tasks for section in _answers(found, task)),
        repeat(
            "\n".join([*lines, command]),
            f"{machine['processor']}, {machine['cores']} cores; Gaitway {versions['gaitway']}, torch "
            f"{versions.get('torch', '?')}.",
        ),
        styles=[page_style(), style()],
    )


def _main(evaluation: Evaluation) -> tuple[Measure, bool]:
    """The measure that says most, and whether it is a share."""
    measures = evaluation.measures
    found = measures.get(EXAMINED, measures.get(GREEDY_SHARE))
    return (found, True) if found is not None else (measures["greedy reward"], False)


def _said(evaluation: Evaluation) -> str:
    measure, is_share = _main(evaluation)
    if not is_share:
        return measure.number()
    measures = evaluation.measures
    sampled = measures.get(SAMPLED, measures.get(SAMPLED_SHARE))
    text = measure.percent() + (f", sampled {sampled.percent()}" if sampled is not None else "")
    return text if EXAMINED in measures else f"{text} of the optimum"


def _head(report: LanguageReport) -> Head:
    first, task = report.runs[0], report.tasks[0]
    best = max((c for c in report.runs if task in c.evaluations), key=lambda c: _main(c.evaluations[task])[0].value)
    total = sum(run.cpu_minutes for run in report.runs)
    rows = [
        [
            dotted(run.name, i), run.agent, run.began, f"{run.record['steps']:,}", f"{run.cpu_minutes:.1f}",
            f"{run.record['wall_time_s'] / 60:.1f}", run.record["status"],
        ]
        for i, run in enumerate(report.runs)
    ]  # fmt: skip
    heads = ["run", "agent", "began with", "sequences", "CPU min", "wall min", "state"]
    text = (
        "Brackets are 95 % intervals over problems. CPU minutes are those of training with its evaluations, without "
        "the samples that a control learnt from."
    )
    return Head(
        f"Language runs on {first.record['task']}",
        f"{best.name} answers best",
        f"of {len(report.runs)} runs, {total:.1f} CPU minutes in all",
        *(report.findings() or report.headlines()),
        Table(heads, rows, ["", "", "", "num", "num", "num", ""]),
        note(text, "muted"),
    )


def _scores(report: LanguageReport, task: str) -> Section:
    """Every measure of every run on one task, and greedy accuracy by level."""
    there = [(i, c.name, c.evaluations[task]) for i, c in enumerate(report.runs) if task in c.evaluations]
    found = [e for *_, e in there]
    names = dict.fromkeys(name for e in found for name in e.measures)
    rows = [[name, *(shown(name, e.measures[name]) if name in e.measures else "-" for e in found)] for name in names]
    for level in dict.fromkeys(level for e in found for level in e.levels):
        shares = (e.levels[level].percent() if level in e.levels else "-" for e in found)
        rows.append([f"greedy accuracy, level {level}", *shares])
    counts = ", ".join(map(str, sorted({len(e.problems) for e in found})))
    heads = ["", *(dotted(name, i) for i, name, _ in there)]
    return Section(task, Table(heads, rows), aside=f"{counts} held-out problems")


def _curves(report: LanguageReport) -> list[Any]:
    """Accuracy of the examinations on the way, and metrics of iterations, averaged over a few, by sequences."""
    rows: list[tuple[str, list[Line]]] = []
    best = {e.optimum for run in report.runs for e in run.evaluations.values() if e.optimum is not None}
    last = max((row["steps"] for run in report.runs for row in run.rows), default=1)
    for name, label in EXAMINATIONS.items():
        rows.append((label, []))
        for i, run in enumerate(report.runs):
            found = [(row["steps"], row["measures"][name]) for row in run.exams if name in row.get("measures", {})]
            for end, css in (("value", "series"), ("low", "series thin"), ("high", "series thin")):
                if len(found) > 1:
                    rows[-1][1].append(_line([(steps, 100.0 * measure[end]) for steps, measure in found], i, css))
    for metric, label, scale in PANELS:
        rows.append((label, []))
        for i, run in enumerate(report.runs):
            points = [(row["steps"], scale * row[metric]) for row in run.rows if metric in row]
            if len(points) > WINDOW:
                near = [points[max(0, k - WINDOW + 1) : k + 1] for k in range(len(points))]
                means = [(part[-1][0], sum(value for _, value in part) / len(part)) for part in near]
                rows[-1][1].extend([_line(points, i, "series thin"), _line(means, i, "series")])
        if metric == RETURN and rows[-1][1]:
            rows[-1][1].extend((np.array([0.0, last]), np.full(2, value), "limit dashed") for value in sorted(best))
    text = (
        "Held-out: likeliest answers to held-out problems on the way; thin lines are ends of 95 % intervals. "
        f"Below: every iteration, thin, and the mean of {WINDOW}."
    )
    if best:
        text += " Dashed: the best expected return, from exact tables."
    legend = [(_colour(i), run.name) for i, run in enumerate(report.runs)]
    figures = [
        stacked([(label, lines)], (0.0, max(float(time[-1]) for time, _, _ in lines)), xlabel="sequences", height=150)
        for label, lines in rows
        if lines
    ]
    return [Figure("", legend=legend), *figures, note(text)] if figures else []


def _line(points: Sequence[tuple[float, float]], run: int, css: str) -> Line:
    steps, values = np.array(points, float).T
    return steps, values, f"{css} {_colour(run)}"


def _answers(report: LanguageReport, task: str) -> list[Section]:
    """Section with the same problems answered by every run: first those the first run fails, then those still wrong."""
    there = [(c.name, {p.prompt: p for p in c.evaluations[task].problems})
             for c in report.runs if task in c.evaluations]  # fmt: skip
    if len(there) < 2:
        return []
    (before, first), (after, last) = there[:2]
    prompts = [prompt for prompt in first if all(prompt in problems for _, problems in there)]
    turned = [p for p in prompts if first[p].greedy.is_right is False and last[p].greedy.is_right]
    wrong = [p for p in prompts if last[p].greedy.is_right is False]
    return [
        Section(
            f"{task}: {title}",
            *(Card(first[p], [(name, problems[p].greedy) for name, problems in there]) for p in chosen[:PROBLEMS]),
            aside=f"{min(PROBLEMS, len(chosen))} of {len(chosen)}",
        )
        for title, chosen in ((f"{before} fails, {after} does not", turned), (f"{after} still fails", wrong))
    ]


def _rows(path: Path) -> list[dict[str, Any]]:
    return read_rows(path) if path.exists() else []


def _colour(number: int) -> str:
    return f"g{number % len(COLOURS)}"
