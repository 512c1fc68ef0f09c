"""Live progress of a training: a bar and a table on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .config import TrainConfig

LINE_INTERVAL_S = 10.0
SMOOTHING = 0.9  # weight of the past in the numbers shown
SHARES = ("physics", "terms", "policy", "learning")


class Progress:
    """Shows nothing; what the others have in common."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def show(self, steps: int, metrics: dict[str, float]) -> None: ...


def make_progress(config: TrainConfig, steps: int, *, quiet: bool = False) -> Progress:
    if quiet:
        return Progress()
    return Live(config, steps) if sys.stdout.isatty() else Lines(config, steps)


class Summary:
    """Smoothed numbers of the latest iterations."""

    def __init__(self, config: TrainConfig, steps: int):
        self.config, self.steps = config, steps
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
        return {name: self.values.get(f"time/{name}", 0.0) / total for name in SHARES}

    def tracking(self) -> tuple[float, float]:
        """Linear [m/s] and yaw [rad/s] error of the first command."""
        linear = next((v for k, v in self.values.items() if k.startswith("tracking/") and k.endswith("/linear")), 0.0)
        yaw = next((v for k, v in self.values.items() if k.startswith("tracking/") and k.endswith("/yaw")), 0.0)
        return linear, yaw

    def falls(self) -> float | None:
        """Share of the episodes ended lately that did not end by time."""
        ended = {k: v for k, v in self.values.items() if k.startswith("rollout/termination/")}
        in_time = {f"rollout/termination/{name}" for name, t in self.config.task.terminations.items() if t.time_out}
        total = sum(ended.values())
        return sum(v for k, v in ended.items() if k not in in_time) / total if total else None

    def rewards(self) -> dict[str, float]:
        """Reward per second of each term, of the episodes ended lately."""
        names = (f"rollout/{name}" for name in self.config.task.rewards)
        return {key.removeprefix("rollout/"): self.values[key] for key in names if key in self.values}

    def eta_s(self) -> float:
        return (self.config.total_steps - self.steps) / max(self.speed, 1e-9)


class Lines(Progress):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, config: TrainConfig, steps: int):
        self.summary, self.last = Summary(config, steps), -LINE_INTERVAL_S

    def show(self, steps: int, metrics: dict[str, float]) -> None:
        summary = self.summary
        summary.add(steps, metrics)
        done = steps >= summary.config.total_steps
        if not done and time.monotonic() - self.last < LINE_INTERVAL_S:
            return
        self.last = time.monotonic()
        linear, yaw = summary.tracking()
        falls = summary.falls()
        shares = ", ".join(f"{name} {share:.0%}" for name, share in summary.shares().items())
        print(
            f"{steps:>11,} / {summary.config.total_steps:,} steps  {summary.speed:>7,.0f} steps/s ({shares})  "
            f"error {linear:.2f} m/s {yaw:.2f} rad/s  falls {'-' if falls is None else f'{falls:.0%}'}  "
            f"reward {summary.values.get('rollout/reward', 0.0):.4f}  {_clock(summary.eta_s())} left",
            flush=True,
        )


class Live(Progress):
    """A bar with the time left over a table of what matters."""

    def __init__(self, config: TrainConfig, steps: int):
        from rich import live, progress

        self.summary = Summary(config, steps)
        self.bar = progress.Progress(
            progress.TextColumn("[bold]{task.description}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.percentage:>5.1f} %"),
            progress.TextColumn("{task.fields[clock]}"),
            expand=True,
        )
        self.row = self.bar.add_task(
            f"{config.task.name} seed {config.seed}", total=config.total_steps, completed=steps, clock=""
        )
        self.live = live.Live(self.bar, refresh_per_second=4)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def show(self, steps: int, metrics: dict[str, float]) -> None:
        from rich.console import Group
        from rich.table import Table

        summary = self.summary
        summary.add(steps, metrics)
        self.bar.update(self.row, completed=steps, clock=f"{_clock(summary.eta_s())} left")
        linear, yaw = summary.tracking()
        falls = summary.falls()
        left = Table.grid(padding=(0, 2))
        left.add_row("steps", f"{steps:,} of {summary.config.total_steps:,}")
        left.add_row("speed", f"{summary.speed:,.0f} steps/s")
        for name, share in summary.shares().items():
            left.add_row(f"  {name}", f"{share:.0%}")
        left.add_row("tracking error", f"{linear:.3f} m/s, {yaw:.3f} rad/s")
        left.add_row("falls", "-" if falls is None else f"{falls:.1%} of the episodes ended")
        left.add_row("learning rate", f"{summary.values.get('learn/learning_rate', 0.0):.1e}")
        left.add_row("action std", f"{summary.values.get('learn/std', 0.0):.3f}")
        right = Table.grid(padding=(0, 2))
        right.add_row("[bold]reward per second[/]", "")
        for name, value in summary.rewards().items():
            right.add_row(name, f"{value:+.4f}")
        columns = Table.grid(padding=(0, 4))
        columns.add_row(left, right)
        self.live.update(Group(self.bar, columns))


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
