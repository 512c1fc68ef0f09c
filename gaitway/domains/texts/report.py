"""One page about several language runs: scores with intervals, curves, the same problems answered by each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_sim2real.pages.document import document

from ...compare.figures import COLOURS, STYLE, Drawing
from ...compare.page import dot, figure_of
from ...compare.page import style as page_style
from ...errors import RunError
from ...runs.folder import EVALUATIONS as EXAMS
from ...runs.folder import METRICS, RunFolder
from ...runs.rows import read_rows
from .evaluate import EVALUATIONS, Evaluation, Problem
from .pages import card, shown, style
from .statistics import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBLEMS = 12
"""Problems of each kind whose answers are shown."""
PANELS = (
    ("rollout/reward/correctness", "sampled accuracy while training", True),
    ("rollout/reward/format", "answers in the right form", True),
    ("rollout/length", "tokens of an answer", False),
    ("learn/entropy", "entropy of a token [nats]", False),
    ("learn/loss", "loss [nats]", False),
)
"""Metrics of iterations that are drawn where runs have them; whether they are shares."""
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
        """What was evaluated, the training's own task first."""
        own = str(self.runs[0].record["task"])
        names = dict.fromkeys(name for run in self.runs for name in run.evaluations)
        return sorted(names, key=lambda name: name != own)

    def headlines(self) -> list[str]:
        """A line on each evaluated task: what every run's likeliest answers scored, and its sampled ones."""
        lines = []
        for task in self.tasks:
            scores = [f"{run.name} {_said(run.evaluations[task])}" for run in self.runs if task in run.evaluations]
            lines.append(f"{task}: {'; '.join(scores)}")
        return lines


def read_runs(paths: Sequence[Path]) -> LanguageReport:
    """Records, curves and evaluations of runs; raises :class:`RunError` for what is no finished language run."""
    runs = []
    for path in paths:
        run = RunFolder.open(path)
        if run.record["world"] != "language":
            raise RunError(f"{path} is a run of {run.record['task']}, not of a language model: use gaitway compare")
        evaluations = {}
        for file in sorted((path / EVALUATIONS).glob("*.json")):
            evaluations[file.stem] = Evaluation.load(file)
        rows, exams = (_rows(path / name) for name in (METRICS, EXAMS))
        runs.append(ReportedRun(path, run.record, rows, exams, evaluations))
    if not any(run.evaluations for run in runs):
        raise RunError(f"none of these runs was evaluated: gaitway evaluate {paths[0]} first, and so on")
    return LanguageReport(tuple(runs))


def render_report(report: LanguageReport, command: str) -> str:
    """The whole page. ``command`` is what was typed."""
    title = ", ".join(report.tasks)
    sections = [
        _head(report),
        *(_scores(report, task) for task in report.tasks),
        _curves(report),
        *(_answers(report, task) for task in report.tasks),
        _repeat(report, command),
    ]
    return document(f"{title}: what was learnt", sections, page_style(), style())


def _main(evaluation: Evaluation) -> tuple[Measure, bool]:
    """The measure that says most, and whether it is a share."""
    found = evaluation.measures.get("greedy accuracy")
    return (found, True) if found is not None else (evaluation.measures["greedy reward"], False)


def _said(evaluation: Evaluation) -> str:
    measure, is_share = _main(evaluation)
    if not is_share:
        return measure.number()
    sampled = evaluation.measures.get("sampled accuracy")
    return measure.percent() + (f", sampled {sampled.percent()}" if sampled is not None else "")


def _head(report: LanguageReport) -> str:
    first, task = report.runs[0], report.tasks[0]
    best = max((c for c in report.runs if task in c.evaluations), key=lambda c: _main(c.evaluations[task])[0].value)
    lines = "".join(f"<p>{escape(line)}</p>" for line in report.headlines())
    rows = "".join(
        f"<tr><td>{dot(i)}{escape(c.name)}</td><td>{escape(c.agent)}</td><td>{escape(_began(c))}</td>"
        f'<td class="num">{c.record["steps"]:,}</td><td class="num">{c.cpu_minutes:.1f}</td>'
        f'<td class="num">{c.record["wall_time_s"] / 60:.1f}</td><td>{escape(c.record["status"])}</td></tr>'
        for i, c in enumerate(report.runs)
    )
    total = sum(run.cpu_minutes for run in report.runs)
    return f"""<header><p class="kicker">Language runs on {escape(str(first.record["task"]))}</p>
<h1>{escape(best.name)} answers best <span>of {len(report.runs)} runs, {total:.1f} CPU minutes in all</span></h1>
{lines}<div class="scroll"><table class="numbers"><thead><tr><th>run</th><th>agent</th><th>began with</th>
<th class="num">sequences</th><th class="num">CPU min</th><th class="num">wall min</th><th>state</th></tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="muted">Brackets are 95 % intervals over problems. CPU minutes are those of training, evaluations on the way
included.</p></header>"""


def _began(run: ReportedRun) -> str:
    config = RunFolder.open(run.path).config()
    assert config.language is not None
    return config.language.model


def _scores(report: LanguageReport, task: str) -> str:
    """Every measure of every run on one task, and greedy accuracy by level."""
    there = [(i, c, c.evaluations[task]) for i, c in enumerate(report.runs) if task in c.evaluations]
    head = "".join(f'<th class="num">{dot(i)}{escape(c.name)}</th>' for i, c, _ in there)
    names = dict.fromkeys(name for *_, evaluation in there for name in evaluation.measures)
    rows = {name: [shown(name, e.measures[name]) if name in e.measures else "-" for *_, e in there] for name in names}
    for level in dict.fromkeys(level for *_, evaluation in there for level in evaluation.levels):
        rows[f"greedy accuracy, level {level}"] = [
            e.levels[level].percent() if level in e.levels else "-" for *_, e in there
        ]
    body = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td class=num>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows.items()
    )
    counts = sorted({len(evaluation.problems) for *_, evaluation in there})
    asked = f"{', '.join(map(str, counts))} held-out problems"
    return f"""<section><h2>{escape(task)} <span class="muted">{asked}</span></h2>
<div class="scroll"><table class="numbers"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>
</section>"""


def _curves(report: LanguageReport) -> str:
    drawings = [drawing for drawing in (_exam_curve(report), *(_panel(report, *panel) for panel in PANELS)) if drawing]
    figures = "".join(figure_of(drawing) for drawing in drawings)
    return f'<section><h2>While they learnt</h2><div class="pair">{figures}</div></section>' if figures else ""


def _exam_curve(report: LanguageReport) -> Drawing | None:
    """Greedy accuracy, or reward, at the evaluations on the way, by sequences."""
    name = "greedy accuracy"
    lines = []
    for i, run in enumerate(report.runs):
        points = [(row["steps"], row["measures"][name]) for row in run.exams if name in row.get("measures", {})]
        if len(points) > 1:
            lines.append((i, run, points))
    if not lines:
        return None
    figure, axes = _figure()
    for i, run, points in lines:
        x, y = [steps for steps, _ in points], [100.0 * measure["value"] for _, measure in points]
        low, high = ([100.0 * measure[end] for _, measure in points] for end in ("low", "high"))
        axes.fill_between(x, low, high, color=_colour(i), alpha=0.16, linewidth=0)
        axes.plot(x, y, color=_colour(i), linewidth=2.0, marker="o", markersize=4, label=run.name)
    _finish(axes, "greedy accuracy on held-out problems [%]", share=True)
    caption = "Likeliest answers to held-out problems on the way; bands are 95 % intervals."
    return Drawing(name="exams", title="Accuracy on held-out problems", caption=caption, figure=figure)


def _panel(report: LanguageReport, metric: str, label: str, share: bool) -> Drawing | None:
    """A metric of iterations, averaged over a few."""
    lines = [(i, c, [row for row in c.rows if metric in row]) for i, c in enumerate(report.runs)]
    lines = [(i, run, rows) for i, run, rows in lines if len(rows) > WINDOW]
    if not lines:
        return None
    figure, axes = _figure()
    for i, run, rows in lines:
        values = [(100.0 if share else 1.0) * row[metric] for row in rows]
        smooth = [sum(values[max(0, k - WINDOW + 1) : k + 1]) / min(k + 1, WINDOW) for k in range(len(values))]
        steps = [row["steps"] for row in rows]
        axes.plot(steps, values, color=_colour(i), linewidth=0.7, alpha=0.35)
        axes.plot(steps, smooth, color=_colour(i), linewidth=2.0, label=run.name)
    _finish(axes, f"{label} [%]" if share else label, share=share)
    caption = f"{metric} of every iteration, thin, and the mean of {WINDOW}."
    return Drawing(name=metric.replace("/", "-"), title=label, caption=caption, figure=figure)


def _figure() -> tuple[Any, Axes]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.8, 3.6), layout="constrained")
        return figure, figure.add_subplot()


def _finish(axes: Axes, label: str, *, share: bool) -> None:
    import matplotlib
    from matplotlib.ticker import EngFormatter

    with matplotlib.rc_context(STYLE):
        axes.set_xlabel("sequences")
        axes.set_ylabel(label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if share:
            axes.set_ylim(-2, 102)
        axes.legend(loc="best", fontsize=9)


def _answers(report: LanguageReport, task: str) -> str:
    """The same problems answered by every run: first those the first run fails, then those still wrong."""
    there = [(i, c, {p.prompt: p for p in c.evaluations[task].problems})
             for i, c in enumerate(report.runs) if task in c.evaluations]  # fmt: skip
    prompts = [prompt for prompt in there[0][2] if all(prompt in problems for *_, problems in there)]
    if not prompts or len(there) < 2:
        return ""
    first, last = there[0][2], there[1][2]
    turned = [p for p in prompts if not first[p].greedy.is_right and last[p].greedy.is_right]
    wrong = [p for p in prompts if not last[p].greedy.is_right]
    parts = []
    for title, chosen in (
        (f"{there[0][1].name} fails, {there[1][1].name} does not", turned),
        (f"{there[1][1].name} still fails", wrong),
    ):
        if chosen:
            cards = "".join(
                _side_by_side([(c.name, problems[p]) for _, c, problems in there]) for p in chosen[:PROBLEMS]
            )
            count = f"{min(PROBLEMS, len(chosen))} of {len(chosen)}"
            parts.append(
                f'<section><h2>{escape(task)}: {escape(title)} <span class="muted">{count}</span></h2>{cards}</section>'
            )
    return "".join(parts)


def _side_by_side(answers: Sequence[tuple[str, Problem]]) -> str:
    return card(answers[0][1], [(name, problem.greedy) for name, problem in answers])


def _repeat(report: LanguageReport, command: str) -> str:
    lines = "\n".join(" ".join(run.record["command"]) for run in report.runs)
    record = report.runs[0].record
    machine = record["machine"]
    return f"""<section><h2>To repeat this</h2><pre>{escape(lines)}
{escape(command)}</pre><p class="caption">{escape(machine["processor"])}, {machine["cores"]} cores;
Gaitway {escape(record["versions"]["gaitway"])}, torch {escape(record["versions"].get("torch", "?"))}.</p></section>"""


def _rows(path: Path) -> list[dict[str, Any]]:
    return read_rows(path) if path.exists() else []


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
