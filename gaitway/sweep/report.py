"""The page of a sweep: its best trial, what other seeds say of it, all trials, and what mattered."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gaitway_sim2real.pages.model import NUMBER, Cell, Figure, Head, Report, Section, Table, Text, bold, note, repeat
from optuna.trial import FrozenTrial, TrialState

from ..compare.measures import percent
from ..compare.numbers import number, spread
from .finalists import FOLDER, Finalist, against
from .history import history
from .parallel import STYLE, Line, parallel
from .plan import GRACE, RUNGS
from .search import REASON, SECONDS, Search, value_of
from .space import short_names

LUCK = (
    "A trial is one training with one seed. The best of many is chosen for its luck too: expect less of it with "
    "another seed."
)
FEW_FOR_IMPORTANCE = 20
"""Completed trials below which importance is mostly noise."""
LETTERS = 80
"""Most of a line of a command."""
STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "unfinished",
}
PRUNING = {
    "median": f"from {100 * GRACE // RUNGS} % of its steps on, a trial ends if its best value so far is worse than the "
    "median of the others at the same step",
    "halving": f"at {100 * GRACE // RUNGS} % and {300 * GRACE // RUNGS} % of its steps, only the best third of the "
    "trials that came so far goes on",
    "none": "every trial runs to its end",
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of a sweep's commands, of their workers, busy or not, and of the processes of its trials."""

    wall: float
    workers: float
    trials: float

    @property
    def overhead(self) -> float:
        """Share of the time in which fewer than all workers trained, relative to the trainings."""
        return self.workers / self.trials - 1.0 if self.trials else 0.0

    def __str__(self) -> str:
        more = f"{max(100.0 * self.overhead, 0.0):.1f} % more than the trainings"
        return f"{self.wall:.0f} s, for the workers {self.workers:.0f} s: {more}, {self.trials:.0f} s"


def cost_of(search: Search) -> Cost:
    """What the search has cost, without the finalists' seeds."""
    seconds = sum(float(trial.user_attrs.get(SECONDS, 0.0)) for trial in search.trials())
    return Cost(wall=search.wall, workers=search.room, trials=seconds)


def headline(search: Search, found: Sequence[Finalist]) -> list[str]:
    """The result in a few lines, for the terminal."""
    ranked = search.ranked()
    if not ranked:
        return []
    plan, best = search.plan, ranked[0]
    lines = [f"best: trial {best.number}, {plan.metric.name} {number(value_of(best))}, with one seed"]
    confirmed = [each for each in found if each.values]
    if confirmed:
        lines.append(f"with {_confirmed(search, confirmed)}")
        best = confirmed[0].trial
    else:
        lines.append("the best of many is lucky too: repeat the command with --confirm 3 to train it with more seeds")
    return [*lines, f"train it: {plan.command(best.params, Path('runs/best'))}"]


def report(search: Search, found: Sequence[Finalist], cost: Cost, command: str) -> Report:
    """The whole page. ``command`` is what was typed."""
    plan, trials, ranked = search.plan, search.trials(), search.ranked()
    states = [trial.state for trial in trials]
    counts = ", ".join(f"{states.count(state)} {word}" for state, word in STATES.items() if state in states)
    return Report(
        f"Sweep of {plan.task}",
        Head(
            f"Sweep of {len(trials)} trials: {counts or 'none begun'}",
            plan.task,
            f"with {plan.agent}, by {plan.metric.name}, {'less' if plan.metric.lower else 'more'} is better",
            *_best(search, found),
        ),
        Section("Other seeds", *_seeds(search, found)),
        Section("Values", *_history(search)),
        Section("Parallel coordinates", *_lines(search)),
        Section("Importance", *_importance(search)),
        Section("Trials", _trials(search, ranked)),
        Section("Failed trials", [f"trial {t.number}: {t.user_attrs.get(REASON, '')}" for t in trials if _failed(t)]),
        Section(
            "How it searched",
            {
                "proposals": f"Optuna's TPE, seed {plan.seed}; the first ten are random"
                + (", and trial 0 has the settings as they were" if plan.begun else ""),
                "pruning": PRUNING[plan.prune],
                "cost": str(cost),
            },
        ),
        repeat(
            folded(command), "The same command continues a sweep that was stopped, and leaves what has ended as it is."
        ),
        styles=[STYLE],
    )


def _failed(trial: FrozenTrial) -> bool:
    return bool(trial.state == TrialState.FAIL)


def _best(search: Search, found: Sequence[Finalist]) -> list[object]:
    ranked = search.ranked()
    if not ranked:
        return ["No trial was completed."]
    best = ranked[0]
    text = f"Trial {bold(best.number)} has the best value: {bold(number(value_of(best)))}."
    confirmed = [each for each in found if each.values]
    if confirmed:
        trained, text = confirmed[0].trial, f"{text} With {_confirmed(search, confirmed)}"
    else:
        trained, text = best, f"{text} {LUCK} --confirm 3 trains the best with more seeds."
    return [text, Text(folded(search.plan.command(trained.params, Path("runs/best"))), tag="pre")]


def folded(command: str) -> str:
    """A command over several lines that a shell reads as one.

    >>> print(folded("gaitway train cartpole " + 9 * "agent.gamma=0.99 ").partition(chr(92))[0])
    gaitway train cartpole agent.gamma=0.99 agent.gamma=0.99 agent.gamma=0.99 agent.gamma=0.99
    """
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if lines[-1].strip() and len(lines[-1]) + len(word) > LETTERS:
            lines.append("   ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines).strip()


def _confirmed(search: Search, confirmed: Sequence[Finalist]) -> str:
    """The finalists in a sentence that begins with "with": the best mean, and whether chance explains its lead."""
    best, *others = confirmed
    seeds = f"{len(best.values)} seed{'s' * (len(best.values) > 1)}"
    told = f"other seeds trial {best.number} is the best: {spread(best.values)} over {seeds}"
    if not others:
        return f"{told}."
    start = next((each for each in others if each.number == 0 and search.plan.begun), None)
    other = start or others[0]
    compared = against(search, best, other)
    who = "the settings as they were" if start else f"trial {other.number}"
    chance = f"chance alone does as much in {percent(compared.chance)} of cases"
    clear = "" if compared.different else ", so this is no ranking"
    return f"{told}; against {who} it is {compared} ({chance}{clear})."


def _seeds(search: Search, found: Sequence[Finalist]) -> list[object]:
    if not found:
        return []
    rows = []
    for each in found:
        name = f"{each.number}" + (" (settings as they were)" if each.number == 0 and search.plan.begun else "")
        runs = ", ".join(number(value) for value in each.values) + (f"; {len(each.failed)} failed" * bool(each.failed))
        rows.append([name, spread(each.values) if each.values else "—", runs, number(value_of(each.trial))])
    about = (
        "The mean and the standard deviation over further seeds. The value in the search chose the trial and is not in "
        "the mean."
    )
    compare = f"gaitway compare {search.folder / FOLDER} --group {search.plan.space[0].key}"
    table = Table(["trial", "other seeds", "each", "in the search"], rows)
    return [table, note(about), [text for each in found for text in each.failed], note(f"Curves: {compare}")]


def _history(search: Search) -> list[object]:
    plan = search.plan
    values = {trial.number: value_of(trial) for trial in search.ranked()}
    picture = history(values, plan.metric.name, lower=plan.metric.lower)
    return [Figure(picture, legend=[("best1", "a completed trial"), ("best0", "the best so far")])] if picture else []


def _lines(search: Search) -> list[object]:
    ranked, plan = search.ranked(), search.plan
    lines = [
        Line(f"trial {t.number}: {number(value_of(t))}", t.params, value_of(t), rank) for rank, t in enumerate(ranked)
    ]
    picture = parallel(plan.space, lines, plan.metric.name)
    legend = [("best0", "the best"), ("best1", "the next two"), ("others", "other completed trials")]
    caption = "A line is a trial, the best value on top. Pruned and failed trials are left out."
    return [Figure(picture, caption, legend, wide=True)] if picture else []


def _importance(search: Search) -> list[object]:
    found, done = search.importance(), len(search.ranked())
    if not found:
        return []
    rows = [[key, f"{100.0 * share:.0f} %", Cell("", drawing=_bar(share))] for key, share in found.items()]
    about = "Share of each setting in what separates the best tenth of the trials from the others (PED-ANOVA)."
    few = f" From {done} trials this is mostly noise: {FEW_FOR_IMPORTANCE} say more." * (done < FEW_FOR_IMPORTANCE)
    return [Table(["setting", "importance", ""], rows, ("", NUMBER, "")), note(about + few)]


def _bar(share: float) -> str:
    return (
        '<svg viewBox="0 0 260 9" preserveAspectRatio="none" class="share-bar" role="presentation">'
        f'<rect width="{260 * share:.1f}" height="9" fill="var(--command)"/></svg>'
    )


def _trials(search: Search, ranked: Sequence[FrozenTrial]) -> Table:
    plan = search.plan
    others = sorted((t for t in search.trials() if t not in ranked), key=lambda trial: trial.number)
    rows = []
    for trial in [*ranked, *others]:
        reached = max(trial.intermediate_values, default=0) if trial.state == TrialState.PRUNED else 0
        state = STATES[trial.state] + f" at {100 * reached // RUNGS} %" * bool(reached)
        value = number(value_of(trial)) if trial.state == TrialState.COMPLETE else "—"
        css = "good" if trial in ranked[:1] else "bad" if _failed(trial) else ""
        settings = [each.short(trial.params[each.key]) if each.key in trial.params else "—" for each in plan.space]
        rows.append([str(trial.number), Cell(state, css), value, *settings, f"{trial.user_attrs.get(SECONDS, 0):.0f}"])
    return Table(["trial", "state", plan.metric.name, *short_names(plan.space), "time [s]"], rows)
