"""Progress of a training or a film: live on a terminal, one line in a notebook, a line now and then elsewhere."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from ..terminal import in_notebook, overwrite, rewrites

if TYPE_CHECKING:
    from ..train_config import TrainConfig

LINE_INTERVAL_S = 10.0
DRAW_INTERVAL_S = 0.2  # between the states of a line on a terminal
SMOOTHING = 0.9  # weight of the past in the numbers shown
FORECAST_AFTER = (3, 1.5)  # iterations after the first, and seconds of them, from which a forecast is made
FORECAST_FROM_S = 20.0  # no word about a training that is shorter


FACTS = (
    ("rollout/reward", "reward", ".4f"),
    ("learn/loss", "loss", ".4f"),
    ("learn/accuracy", "accuracy", ".1%"),
    ("learn/margin", "margin", ".3f"),
    ("rollout/length", "tokens of an answer", ".1f"),
    ("rollout/finished", "answers that ended", ".1%"),
    ("learn/used_groups", "prompts with a signal", ".1%"),
    ("learn/learning_rate", "learning rate", ".1e"),
    ("learn/std", "action std", ".3f"),
    ("learn/entropy", "entropy", ".3f"),
    ("learn/kl", "KL of an update", ".1e"),
    ("learn/clip_fraction", "clipped", ".1%"),
    ("learn/mismatch_kl", "KL of engine and learner", ".1e"),
    ("rollout/reference_kl", "KL from the reference", ".2f"),
    ("rollout/staleness", "staleness", ".0f"),
    ("rollout/tokens_per_s", "generation", ",.0f tokens/s"),
    ("learn/tokens_per_s", "learning", ",.0f tokens/s"),
    ("learn/epsilon", "epsilon", ".3f"),
    ("learn/value_start", "value of the start", ".6f"),
    ("learn/residual", "residual", ".1e"),
)
"""Metrics that are shown where a run has them: their labels, and how they are written."""


class Progress:
    """Shows nothing; what the others have in common."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def show(self, steps: int, metrics: dict[str, float], *, last: bool = False) -> None: ...

    def say(self, line: str) -> None:
        """A line between those of :meth:`show`."""


def make_progress(config: TrainConfig, steps: int, *, quiet: bool = False) -> Progress:
    if quiet:
        return Progress()
    if in_notebook():
        return Cell(config, steps)
    return Live(config, steps) if sys.stdout.isatty() else Lines(config, steps)


class Summary:
    """Smoothed numbers of the latest iterations."""

    def __init__(self, config: TrainConfig, steps: int):
        self.config, self.steps, self.start = config, steps, time.monotonic()
        self.values: dict[str, float] = {}
        self.speed = 0.0

    def add(self, steps: int, metrics: dict[str, float]) -> None:
        keep = SMOOTHING if self.values else 0.0
        for name, value in metrics.items():
            self.values[name] = keep * self.values.get(name, value) + (1.0 - keep) * value
        self.speed = (steps - self.steps) / max(metrics["time/total"], 1e-9) * (1.0 - keep) + self.speed * keep
        self.steps = steps

    def shares(self) -> dict[str, float]:
        """Share of the time of an iteration spent in each part."""
        total = max(self.values.get("time/total", 0.0), 1e-9)
        parts = {k.removeprefix("time/"): v for k, v in self.values.items() if k.startswith("time/")}
        return {name: seconds / total for name, seconds in parts.items() if name != "total"}

    def tracking(self) -> tuple[float, float] | None:
        """Linear [m/s] and yaw [rad/s] error of a robot's first command; None where nothing is commanded."""
        linear = next((v for k, v in self.values.items() if k.startswith("tracking/") and k.endswith("/linear")), None)
        yaw = next((v for k, v in self.values.items() if k.startswith("tracking/") and k.endswith("/yaw")), None)
        return None if linear is None or yaw is None else (linear, yaw)

    def falls(self) -> float | None:
        """Share of a robot's episodes ended lately that did not end by time."""
        ended = {k: v for k, v in self.values.items() if k.startswith("rollout/termination/")}
        terminations = getattr(self.config.task, "terminations", {})
        in_time = {f"rollout/termination/{name}" for name, t in terminations.items() if t.time_out}
        total = sum(ended.values())
        return sum(v for k, v in ended.items() if k not in in_time) / total if total else None

    def rewards(self) -> dict[str, float]:
        """Reward per second of each of a robot's terms, of the episodes ended lately; of texts, per answer."""
        where, _ = self.config.domain.reward_parts
        terms = getattr(self.config.task, "rewards", {})
        return {name: self.values[where + name] for name in terms if where + name in self.values}

    def facts(self) -> dict[str, str]:
        """Main numbers of the training, by name."""
        facts = {}
        if "learn/behavior_loss" in self.values:
            facts["behaviour loss"] = f"{self.values['learn/behavior_loss']:.4f}"
        if (errors := self.tracking()) is not None:
            facts["tracking error"] = f"{errors[0]:.3f} m/s, {errors[1]:.3f} rad/s"
            falls = self.falls()
            facts["falls"] = "-" if falls is None else f"{falls:.1%} of the episodes ended"
        if "episodes/return" in self.values:
            facts["return"] = f"{self.values['episodes/return']:.1f}"
            facts["episode length"] = f"{self.values['episodes/length']:.0f}"
        for name, label, form in FACTS:
            if name in self.values:
                form, _, unit = form.partition(" ")
                facts[label] = f"{self.values[name]:{form}} {unit}".rstrip()
        return facts

    def parts(self) -> list[tuple[str, str]]:
        """The parts of the reward of texts, which say more than their sum."""
        return [(name, f"{v:.3f}") for name, v in self.rewards().items()] if self.config.domain.shows_parts else []

    def clock(self, *, last: bool = False) -> str:
        """The time that is left; at the end, the time that the training took since it began or was continued."""
        if last:
            return f"took {clock(time.monotonic() - self.start)}"
        return f"{clock((self.config.total_steps - self.steps) / max(self.speed, 1e-9))} left"


class Forecast:
    """Forecast of a training's duration on this machine, from its first iterations; printed once.

    The first iteration counts for nothing, since much is loaded in it. Nor do those in which nothing is learnt yet.
    """

    def __init__(self, config: TrainConfig, steps: int):
        self.config, self.steps = config, steps
        self.times: list[float] | None = []
        """Seconds per step of each iteration; None once the forecast was made."""
        self.spent, self.busy, self.first = 0.0, 0.0, True

    def add(self, steps: int, metrics: dict[str, float]) -> str:
        """Count an iteration; the forecast if it can be made now, else nothing."""
        done, self.steps = steps - self.steps, steps
        seconds, first, self.first = metrics.get("time/total", 0.0), self.first, False
        if self.times is None or first or done <= 0 or not metrics.get("time/learning"):
            self.busy = time.process_time()
            return ""
        self.times.append(seconds / done)
        self.spent += seconds
        if len(self.times) < FORECAST_AFTER[0] or self.spent < FORECAST_AFTER[1]:
            return ""
        left = (self.config.total_steps - steps) * statistics.median(self.times)
        self.times = None
        if left < FORECAST_FROM_S:
            return ""
        text = f"this will take {'at most ' if self.config.until == 'good' else ''}{about(left)} on this machine"
        share = (time.process_time() - self.busy) / self.spent  # of a core; one core at least is busy when it is ours
        if share > 0.8 or os.getloadavg()[0] < (os.cpu_count() or 1):
            return text
        return f"{text} as busy as it is; {about(left * share)} if it were idle"


def about(seconds: float) -> str:
    """A duration to two digits, in a unit that suits it."""
    if seconds < 90.0:
        return f"about {seconds:.0f} s"
    minutes = seconds / 60.0
    return f"about {minutes:.{int(minutes < 9.95)}f} min" if minutes < 90.0 else f"about {minutes / 60.0:.1f} h"


class Lines(Progress):
    """Progress as a line every few seconds, for logs and pipes."""

    def __init__(self, config: TrainConfig, steps: int):
        self.summary, self.last = Summary(config, steps), -LINE_INTERVAL_S
        self.forecast = Forecast(config, steps)

    def show(self, steps: int, metrics: dict[str, float], *, last: bool = False) -> None:
        summary = self.summary
        summary.add(steps, metrics)
        if forecast := self.forecast.add(steps, metrics):
            self.say(forecast)
        if not last and time.monotonic() - self.last < LINE_INTERVAL_S:
            return
        self.last = time.monotonic()
        shares = ", ".join(f"{name} {share:.0%}" for name, share in summary.shares().items())
        facts = "  ".join(f"{name} {value}" for name, value in [*summary.parts(), *summary.facts().items()][:3])
        self.put(
            f"{steps:>11,} / {summary.config.total_steps:,} steps  {summary.speed:>7,.0f} steps/s ({shares})  "
            f"{facts}  {summary.clock(last=last)}"
        )

    def put(self, line: str) -> None:
        """Show the state that :meth:`show` has made a line of."""
        print(line, flush=True)

    def say(self, line: str) -> None:
        print(line, flush=True)


class Cell(Lines):
    """The same as one line that is rewritten, in a notebook; what is said stays above it."""

    def __exit__(self, *error: object) -> None:
        print(flush=True)

    def put(self, line: str) -> None:
        overwrite(line)

    def say(self, line: str) -> None:
        overwrite(line, last=True)


class Live(Progress):
    """A bar with the time left over a table of what matters."""

    def __init__(self, config: TrainConfig, steps: int):
        from rich import live, progress
        from rich.markup import escape

        from ..terminal import console

        self.summary, self.forecast = Summary(config, steps), Forecast(config, steps)
        self.bar = progress.Progress(
            progress.TextColumn("[bold]{task.description}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.percentage:>5.1f} %"),
            progress.TextColumn("{task.fields[clock]}"),
            expand=True,
        )
        self.row = self.bar.add_task(
            escape(config.task.name) + f" {config.algorithm} seed {config.seed}",
            total=config.total_steps,
            completed=steps,
            clock="",
        )
        self.live = live.Live(self.bar, console=console(markup=True), refresh_per_second=4)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def show(self, steps: int, metrics: dict[str, float], *, last: bool = False) -> None:
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        summary = self.summary
        summary.add(steps, metrics)
        if forecast := self.forecast.add(steps, metrics):
            self.live.console.print(escape(forecast))
        self.bar.update(self.row, completed=steps, clock=summary.clock(last=last))
        left = Table.grid(padding=(0, 2))
        left.add_row("steps", f"{steps:,} of {summary.config.total_steps:,}")
        left.add_row("speed", f"{summary.speed:,.0f} steps/s")
        for name, share in summary.shares().items():
            left.add_row(f"  {name}", f"{share:.0%}")
        for name, value in summary.facts().items():
            left.add_row(name, value)
        right = Table.grid(padding=(0, 2))
        rewards = summary.rewards()
        if rewards:
            right.add_row(f"[bold]{summary.config.domain.reward_parts[1]}[/]", "")
        for name, number in rewards.items():
            right.add_row(escape(name), f"{number:+.4f}")
        columns = Table.grid(padding=(0, 4))
        columns.add_row(left, right)
        self.live.update(Group(self.bar, columns))

    def say(self, line: str) -> None:
        from rich.markup import escape

        self.live.console.print(escape(line))


class Counter:
    """Says how far a job of a known length is, and how long it will take.

    On a terminal or in a notebook one line is rewritten and goes when the job is done; elsewhere there is a line every
    ten seconds.
    """

    def __init__(self, what: str, unit: str):
        self.what, self.unit = what, unit

    def each(self, parts: range) -> Iterator[int]:
        """``parts``, one after the other."""
        live, start = rewrites(), time.monotonic()
        last = 0.0 if live else start
        try:
            for done, part in enumerate(parts):
                now = time.monotonic()
                if now - last >= (DRAW_INTERVAL_S if live else LINE_INTERVAL_S):
                    last = now
                    left = f", {clock((now - start) / done * (len(parts) - done))} left" if done else ""
                    text = f"{self.what}: {done:,} of {len(parts):,} {self.unit}{left}"
                    overwrite(text) if live else print(text, flush=True)
                yield part
        finally:
            if live:
                overwrite("")


class Throttle:
    """True whenever a further state should be shown: now and then, and more often where a line is rewritten."""

    def __init__(self) -> None:
        self._last = -LINE_INTERVAL_S

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._last < (DRAW_INTERVAL_S if rewrites() else LINE_INTERVAL_S):
            return False
        self._last = now
        return True


class Scenarios:
    """Says how far a validation is: one line that is rewritten where that works, a line per scenario elsewhere.

    Elsewhere there is also a line when nothing was said for ten seconds.
    """

    def __enter__(self) -> Self:
        self._said = self._start = time.monotonic()
        self._share, self._ended = "validation", threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        if not rewrites():
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def show(self, done: int, total: int, title: str, left: float | None) -> None:
        self._share, self._said = f"[{done}/{total}]", time.monotonic()
        text = f"{self._share} {title}" + ("" if left is None else f", {clock(left)} left")
        if rewrites():
            overwrite(text, last=title == "Done")
        else:
            print(text, flush=True)

    def _go_on(self) -> None:
        while not self._ended.wait(max(0.0, self._said + LINE_INTERVAL_S - time.monotonic())):
            now = time.monotonic()
            if now - self._said >= LINE_INTERVAL_S:
                self._said = now
                print(f"{self._share} at work for {clock(now - self._start)}", flush=True)


def clock(seconds: float) -> str:
    """Time [s] as minutes and seconds, with hours if there are any."""
    minutes, seconds = divmod(int(min(max(seconds, 0.0), 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
