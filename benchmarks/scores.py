"""Trainings to published scores: each training's row, and the table of all, which grows with every run.

    python benchmarks/scores.py [--for HOURS] [--jobs N] [--only NAME ...] [--out runs/scores]
    python benchmarks/scores.py --table

``scores.yaml`` lists the trainings in the order of their value, with the published scores that they are to reach and
where these stand. The script trains one after the other, or N at a time, on a thread each. Started again, it goes on
where it was stopped or killed: a finished training is a line of ``scores.jsonl``, and an unfinished one continues from
its checkpoint. The line says on which machines and commits it ran. After HOURS the trainings under way write their
checkpoints. ``--table`` writes the table into docs/benchmarks/agents.md, and docs/images/scores.svg: curves of training
returns beside the published ones.

A training between three quarters and nine tenths of its steps that will hardly reach its first bar is stopped, and its
line says so: if it rose from its best on twice as fast as it ever has over a tenth of the steps, it would end below.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

HERE = Path(__file__).parent
PLAN, ROWS = HERE / "scores.yaml", HERE / "scores.jsonl"
PAGE, FIGURE = HERE.parent / "docs/benchmarks/agents.md", HERE.parent / "docs/images/scores.svg"
START, END = "<!-- scores -->\n", "<!-- end of scores -->"
MEASURES = ("training", "evaluation", "maximum")
EVALUATIONS = 20
"""Evaluations during a training."""
POLL_S = 5.0
LOOK_S = 120.0
"""Seconds between looks at the curve of a training under way."""
POINTS = 40
"""Points of a curve in a row."""


class PlanError(ValueError):
    """A line of the plan that cannot be meant."""


@dataclass(frozen=True)
class Bar:
    measure: str
    value: float
    source: str

    def __str__(self) -> str:
        return f"{self.value:g} ({self.source}, {self.measure})"


@dataclass(frozen=True)
class Training:
    """One task, agent and seed."""

    name: str
    task: str
    agent: str
    steps: int
    seed: int
    settings: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    published: tuple[tuple[float, float], ...] = ()
    """Points (steps, training return) of a published curve."""

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.seed

    def __str__(self) -> str:
        return f"{self.name} seed {self.seed}"


@dataclass
class Running:
    training: Training
    folder: Path
    process: subprocess.Popen[bytes]
    looked: float = field(default_factory=time.monotonic)
    stopped: str | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="hours", type=float, default=math.inf, help="hours after which to stop")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time, a thread each")
    parser.add_argument("--only", nargs="+", help="names such as pong-sticky-ppo")
    parser.add_argument("--out", type=Path, default=Path("runs/scores"), help="folder of the run folders")
    parser.add_argument("--table", action="store_true", help="train nothing; write the page's table and figure")
    options = parser.parse_args()
    try:
        plan = planned(yaml.safe_load(PLAN.read_text())["trainings"])
        if unknown := set(options.only or ()) - {training.name for training in plan}:
            raise PlanError(f"--only {' '.join(sorted(unknown))}: {PLAN.name} has no such name")
        check_tasks(plan)
    except PlanError as error:
        raise SystemExit(f"{parser.prog}: {error}") from None
    if not options.table:
        wanted = [training for training in plan if not options.only or training.name in options.only]
        campaign(wanted, options.out, options.jobs, time.monotonic() + 3600.0 * options.hours)
    print(written := table(plan, read_rows()))
    if options.table:
        PAGE.write_text(with_table(PAGE.read_text(), written))
        draw(plan, read_rows(), FIGURE)


# ---- the plan -------------------------------------------------------------------------------------------------------


def flattened(settings: Iterable[Any]) -> Iterator[Any]:
    """Settings of a list that may hold lists, such as those that several trainings share."""
    for setting in settings:
        yield from flattened(setting) if isinstance(setting, list) else [setting]


def planned(lines: Sequence[dict[str, Any]]) -> list[Training]:
    """Trainings of the plan's lines, in order; raises PlanError for a line that cannot be meant."""
    found: list[Training] = []
    for line in lines:
        name = line.get("name", f"{line.get('task')}-{line.get('agent')}")
        known = {"name", "task", "agent", "steps", "seeds", "settings", "bars", "published"}
        if missing := {"task", "agent", "steps", "seeds", "bars"} - line.keys():
            raise PlanError(f"{name}: {PLAN.name} gives no {', '.join(sorted(missing))}")
        if unknown := line.keys() - known:
            raise PlanError(
                f"{name}: {', '.join(sorted(unknown))} in {PLAN.name}: known are {', '.join(sorted(known))}"
            )
        bars = tuple(bar_of(name, bar) for bar in line["bars"])
        what = (name, line["task"], line["agent"], int(line["steps"]))
        published = tuple((float(steps), float(score)) for steps, score in line.get("published", ()))
        settings = tuple(flattened(line.get("settings", ())))
        if odd := [setting for setting in settings if not isinstance(setting, str)]:
            raise PlanError(f"{name}: setting {odd[0]!r} in {PLAN.name}: write NAME=VALUE")
        found += [Training(*what, seed, settings, bars, published) for seed in line["seeds"]]
    keys = [training.key for training in found]
    for training in found:
        if keys.count(training.key) > 1:
            raise PlanError(f"{training}: {PLAN.name} has it twice; give one of them another name")
    return found


def bar_of(name: str, line: dict[str, Any]) -> Bar:
    measures = [measure for measure in MEASURES if measure in line]
    if len(measures) != 1 or not str(line.get("source") or "").strip():
        raise PlanError(f"{name}: bar {line}: it needs one of {', '.join(MEASURES)}, and a source")
    return Bar(measures[0], float(line[measures[0]]), str(line["source"]))


def check_tasks(plan: Sequence[Training]) -> None:
    """Raise PlanError for a training that cannot run here, such as that of a game without its ROM."""
    from gaitway.train_config import resolve

    for training in {training.name: training for training in plan}.values():
        try:
            config = resolve(training.task, agent=training.agent, overrides=list(settings_of(training)))
            config.domain.preflight(config)
        except (ValueError, ImportError) as error:
            raise PlanError(f"{training}: {error}") from None


def settings_of(training: Training) -> tuple[str, ...]:
    return (
        f"total_steps={training.steps}", f"evaluation_interval={training.steps // EVALUATIONS}",
        "evaluation_episodes=100", "num_threads=1", "checkpoint_interval=200", "keep_checkpoints=1", *training.settings,
    )  # fmt: skip


# ---- the campaign ---------------------------------------------------------------------------------------------------


def campaign(plan: Sequence[Training], out: Path, jobs: int, end: float) -> None:
    """Train what has no row yet, until all is done or the time is up."""
    done = {(row["name"], row["seed"]) for row in read_rows()}
    waiting = [training for training in plan if training.key not in done]
    print(f"{len(plan) - len(waiting)} of {len(plan)} trainings are done", flush=True)
    running: list[Running] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < end:
                running.append(begun(waiting.pop(0), out))
            if time.monotonic() >= end:
                print("the time is up; the same command continues", flush=True)
                break
            time.sleep(POLL_S)
            for each in list(running):
                if each.process.poll() is not None:
                    running.remove(each)
                    ended(each)
                elif each.stopped is None and time.monotonic() - each.looked > LOOK_S:
                    each.looked, each.stopped = time.monotonic(), hopeless(each.training, each.folder)
                    if each.stopped:
                        each.process.terminate()
    finally:
        for each in running:
            each.process.terminate()
        for each in running:
            each.process.wait()


def begun(training: Training, out: Path) -> Running:
    """A training's process, and a note of where and on which commit it began."""
    from gaitway.runs.provenance import git_state, machine

    folder = out / training.name / f"seed{training.seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = ["--agent", training.agent, "--seed", str(training.seed), "--out", str(folder), "--resume", "--quiet"]
    if ":" in (module := training.task.removeprefix("gym:")):
        options += ["--trust", module.split(":")[0]]
    with folder.with_name(f"{folder.name}.starts.jsonl").open("a") as file:
        start = {"machine": machine()["processor"], "commit": (git_state() or {}).get("commit")}
        file.write(json.dumps(start) + "\n")
    with folder.with_name(f"{folder.name}.log").open("ab") as log:
        command = [sys.executable, "-m", "gaitway", "train", training.task, *options, *settings_of(training)]
        paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])  # harvest.py lies here
        environment = os.environ | {"PYTHONPATH": paths}
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
    print(f"{training}: begun", flush=True)
    return Running(training, folder, process)


def ended(run: Running) -> None:
    """Write the row of a training that is finished or cannot reach its bar; tell what else ended it."""
    record_file = run.folder / "run.json"
    record = json.loads(record_file.read_text()) if record_file.exists() else {}
    # A folder that was trained with other settings is finished too, and continuing it is refused.
    if (record.get("status") != "finished" or run.process.returncode) and run.stopped is None:
        print(f"{run.training}: exit code {run.process.returncode}; see {run.folder}.log", flush=True)
        return
    row = row_of(run.training, run.folder, record, run.stopped)
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    shown = ", ".join(f"{name} {value:.1f}" for name, value in row["scores"].items())
    print(
        f"{run.training}: {shown}; {row['cpu_s'] / 60:.1f} CPU-min{f'; {run.stopped}' if run.stopped else ''}",
        flush=True,
    )


def row_of(training: Training, folder: Path, record: dict[str, Any], stopped: str | None) -> dict[str, Any]:
    starts = [json.loads(line) for line in folder.with_name(f"{folder.name}.starts.jsonl").read_text().splitlines()]
    trained = curve(folder, "training")
    thinned = trained[:: max(1, len(trained) // POINTS)] + trained[-1:]
    return {
        "name": training.name, "task": training.task, "agent": training.agent, "seed": training.seed,
        "steps": record["steps"], "asked": training.steps, "settings": list(training.settings),
        "scores": {measure: points[-1][1] for measure in MEASURES if (points := curve(folder, measure))},
        "cpu_s": round(record["cpu_time_s"], 1), "wall_s": round(record["wall_time_s"], 1), "stopped": stopped,
        "machines": sorted({start["machine"] for start in starts}),
        "commits": list(dict.fromkeys((start["commit"] or "?")[:8] for start in starts)),
        "versions": {name: record["versions"].get(name) for name in ("gaitway", "torch", "gymnasium")},
        "curve": [[steps, round(value, 3)] for steps, value in thinned],
    }  # fmt: skip


def curve(folder: Path, measure: str) -> list[tuple[int, float]]:
    """Points (steps, score so far) of a run: a score of each measure as it was after so many steps."""
    if measure == "training":
        rows = list(lines(folder / "episodes.jsonl"))
        returns = np.array([row["return"] for row in rows])
        ends = np.linspace(0, len(rows), 2 * POINTS + 1).astype(int)[1:]
        return [
            (rows[end - 1]["steps"], float(returns[max(0, end - 100) : end].mean())) for end in np.unique(ends) if end
        ]
    found = [(row["steps"], float(np.mean(row["returns"]))) for row in lines(folder / "evaluations.jsonl")]
    if measure == "evaluation":
        return found
    return [(steps, max(value for _, value in found[: i + 1])) for i, (steps, _) in enumerate(found)]


def hopeless(training: Training, folder: Path) -> str | None:
    """Why a training is stopped: it will hardly reach its first bar."""
    if not training.bars:
        return None
    bar = training.bars[0]
    points = curve(folder, bar.measure)
    if not points or not 0.75 <= points[-1][0] / training.steps < 0.9:
        return None
    steps, stretch = points[-1][0], training.steps / 10
    rises = [b - a for s, a in points for t, b in points if 0 < t - s <= stretch]
    best = max(value for _, value in points)
    could = best + 2.0 * max([0.0, *rises]) * (training.steps - steps) / stretch
    if could >= bar.value:
        return None
    return f"stopped after {steps:,} steps at {points[-1][1]:.1f}: twice its fastest rise would end below {bar}"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file that may be under way, whose last line may be cut."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


# ---- the table ------------------------------------------------------------------------------------------------------


def read_rows() -> list[dict[str, Any]]:
    return list(lines(ROWS))


def table(plan: Sequence[Training], rows: Sequence[dict[str, Any]]) -> str:
    """The rows so far as Markdown, and how far the plan is done."""
    heads = ["task, agent, steps", "seeds", *MEASURES, "mean [95 % interval]", "published", "CPU [min]"]
    text = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    names = list(dict.fromkeys(training.name for training in plan))
    for name in names:
        found = sorted((row for row in rows if row["name"] == name), key=lambda row: row["seed"])
        if found:
            first = next(training for training in plan if training.name == name)
            text.append(table_row(first, found))
    machines = sorted({machine for row in rows for machine in row["machines"]})
    return "\n".join([*text, "", f"{len(rows)} of {len(plan)} trainings are done. Machines: {', '.join(machines)}."])


def with_table(page: str, written: str) -> str:
    """The page with this table between its marks."""
    before, rest = page.split(START)
    return f"{before}{START}{written}\n{END}{rest.split(END)[1]}"


def table_row(training: Training, rows: Sequence[dict[str, Any]]) -> str:
    cells = {m: ", ".join(number(row["scores"].get(m)) for row in rows) for m in MEASURES}
    judged = [judgement(bar, rows) for bar in training.bars]
    several = any(len(row["machines"]) > 1 or len(row["commits"]) > 1 for row in rows)
    stopped = [f"{row['seed']} at {row['steps'] / row['asked']:.0%}" for row in rows if row["stopped"]]
    notes = [f"stopped: {', '.join(stopped)}"] if stopped else []
    notes += ["resumed on another commit or machine"] if several else []
    title = f"{training.name.removesuffix(f'-{training.agent}')}, {training.agent}, {training.steps:,}"
    return (
        f"| {title}{''.join(f'; {note}' for note in notes)} | {', '.join(str(row['seed']) for row in rows)} "
        f"| {cells['training']} | {cells['evaluation']} | {cells['maximum']} | {'; '.join(mean for mean, _ in judged)} "
        f"| {'; '.join(told for _, told in judged)} | {np.mean([row['cpu_s'] for row in rows]) / 60:.1f} |"
    )


def judgement(bar: Bar, rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Mean over seeds of the bar's measure with its interval (Student's t), and the bar, missed or not."""
    values = np.array([row["scores"][bar.measure] for row in rows if bar.measure in row["scores"]])
    if not len(values):
        return "-", str(bar)
    mean, interval = values.mean(), ""
    if len(values) > 1:
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        interval = f" [{number(mean - half)}, {number(mean + half)}]"
    missed = mean < bar.value or any(row["stopped"] for row in rows)
    return f"{number(mean)}{interval}", f"{bar}{', **missed**' if missed else ''}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def draw(plan: Sequence[Training], rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Curves of all rows as SVG, a panel for each name, with the published curve, or the bars as dashed lines."""
    import matplotlib
    from matplotlib.figure import Figure

    trainings = {training.name: training for training in reversed(plan)}
    names = [name for name in dict.fromkeys(training.name for training in plan) if any(r["name"] == name for r in rows)]
    columns = 4
    # Text stays text, and the same rows give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "scores", "path.simplify_threshold": 0.3}):
        figure = Figure(figsize=(3.2 * columns, 2.3 * -(-len(names) // columns)), layout="constrained")
        for place, name in enumerate(names):
            axes = figure.add_subplot(-(-len(names) // columns), columns, place + 1)
            panel(axes, trainings[name], sorted((r for r in rows if r["name"] == name), key=lambda row: row["seed"]))
        figure.supxlabel("steps [million]", fontsize=9)
        figure.supylabel("training return, mean of 100 episodes", fontsize=9)
        figure.savefig(file, format="svg", metadata={"Date": None})


def panel(axes: Any, training: Training, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        # Many environments may end an episode at the same step: the last mean there is of all of them.
        steps, returns = zip(*dict(row["curve"]).items(), strict=True)
        axes.plot(np.array(steps) / 1e6, returns, linewidth=1.2, color=f"C{row['seed']}", label=f"seed {row['seed']}")
    if training.published:
        steps, returns = zip(*training.published, strict=True)
        axes.plot(np.array(steps) / 1e6, returns, "k.--", linewidth=0.8, label=training.bars[0].source)
        axes.legend(fontsize=6, frameon=False)
    for bar in training.bars if not training.published else ():
        below = bar.value < max(each.value for each in training.bars)
        axes.axhline(bar.value, color="black", linestyle="--", linewidth=0.8)
        axes.annotate(
            f"{bar.source}, {bar.measure}", (0.02, bar.value), (0, -2 if below else 2), textcoords="offset points",
            xycoords=("axes fraction", "data"), va="top" if below else "bottom", fontsize=6,
        )  # fmt: skip
    axes.set_title(training.name, fontsize=9)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
