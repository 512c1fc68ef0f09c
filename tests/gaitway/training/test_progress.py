"""Progress messages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_sim2real.mujoco.camera import RenderingError
from gaitway_sim2real.mujoco.film import film
from stand_bundle import make_stand_bundle

from gaitway.terminal import in_notebook
from gaitway.train_config import TrainConfig, resolve
from gaitway.training import progress
from gaitway.training.progress import Counter, Lines, Live, Scenarios, Summary


@pytest.fixture(scope="module")
def config() -> TrainConfig:
    return resolve("cartpole", overrides=["total_steps=100000"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds on a clock that stands still unless it is moved."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_last_line_says_what_it_took(config, clock, capsys):
    lines = Lines(config, 0)
    metrics = {"time/total": 1.0}
    lines.show(50_000, metrics)
    clock[0] += 62.0
    lines.show(130_000, metrics, last=True)  # whole rollouts: a training ends beyond the steps that were asked for
    first, last = capsys.readouterr().out.splitlines()
    assert first.endswith("0:01 left")
    assert last.endswith("took 1:02")


def test_no_time_is_left_beyond_the_end(config):
    summary = Summary(config, 0)
    summary.add(130_000, {"time/total": 1.0})
    assert summary.clock() == "0:00 left"


def test_the_bar_of_a_terminal_says_the_same(config, clock):
    live = Live(config, 0)
    live.show(50_000, {"time/total": 1.0})
    assert live.bar.tasks[0].fields["clock"] == "0:01 left"
    clock[0] += 62.0
    live.show(130_000, {"time/total": 1.0}, last=True)
    assert live.bar.tasks[0].fields["clock"] == "took 1:02"


def rendered(stream: str) -> list[str]:
    """Lines of a cell's output as a notebook draws it: text after a carriage return covers the text before it."""
    lines = []
    for line in stream.split("\n"):
        drawn = ""
        for part in line.split("\r"):
            drawn = part + drawn[len(part) :]
        lines.append(drawn.rstrip())
    return lines


def test_a_training_is_one_line_in_a_notebook(config, clock, capsys, monkeypatch):
    """However long it takes; what is said on the way stays above it."""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="one")))
    with progress.make_progress(config, 0) as shown:
        for done in range(1, 60):
            shown.show(1000 * done, {"time/total": 0.2})
            if done == 30:
                shown.say("examination")
            clock[0] += 10.0
        shown.show(100_000, {"time/total": 0.2}, last=True)
    steps(clock, 0.5, 3)
    print("video: walk.mp4")
    first, last, video, end = rendered(capsys.readouterr().out)
    assert (first, video, end) == ("examination", "video: walk.mp4", "")
    assert last.startswith("    100,000 / 100,000 steps") and last.endswith("took 9:50")


def test_a_shell_without_cells_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object()))
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()


@pytest.mark.parametrize(
    ("cpu", "load", "ending"),
    [
        (2.0, 9.0, "this machine"),
        (0.25, 0.1, "this machine"),
        (0.25, 9.0, "this machine as busy as it is; about 24 s if it were idle"),
    ],
)
def test_a_training_says_once_and_early_how_long_it_will_take(config, clock, capsys, monkeypatch, cpu, load, ending):
    busy = [100.0]
    monkeypatch.setattr(progress.time, "process_time", lambda: busy[0])
    monkeypatch.setattr(progress.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(progress.os, "cpu_count", lambda: 2)
    lines = Lines(config, 0)
    for done in range(1, 9):
        seconds = 60.0 if done == 1 else 1.0  # much is loaded in the first
        busy[0] += cpu * seconds
        lines.show(1000 * done, {"time/total": seconds, "time/learning": 0.5 * seconds})
    said = [line for line in capsys.readouterr().out.splitlines() if "will take" in line]
    assert said == [f"this will take about 1.6 min on {ending}"]


def test_a_short_training_and_one_that_learns_nothing_yet_get_no_forecast(config, clock, capsys):
    for learning, rows in ((0.5, 10_000), (0.0, 10)):
        lines = Lines(config, 0)
        for done in range(1, 9):
            lines.show(rows * done, {"time/total": 1.0, "time/learning": learning})
    assert "will take" not in capsys.readouterr().out


def steps(clock: list[float], seconds: float, number: int) -> list[int]:
    done = []
    for frame in Counter("film", "frames").each(range(0, 2 * number, 2)):
        done.append(frame)
        clock[0] += seconds
    return done


def test_a_film_has_a_line_every_ten_seconds_in_a_log(clock, capsys):
    assert steps(clock, 1.0, 25) == list(range(0, 50, 2))
    assert capsys.readouterr().out.splitlines() == [
        "film: 10 of 25 frames, 0:15 left",
        "film: 20 of 25 frames, 0:05 left",
    ]
    steps(clock, 0.1, 25)
    assert capsys.readouterr().out == ""


def test_a_film_rewrites_its_line_on_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    steps(clock, 0.5, 3)
    shown = capsys.readouterr().out
    assert shown.split("\r\x1b[2K") == [
        "",
        "film: 0 of 3 frames",
        "film: 1 of 3 frames, 0:01 left",
        "film: 2 of 3 frames, 0:00 left",
        "",
    ]


def test_every_frame_of_a_film_is_counted(tmp_path: Path):
    plant, seen = LockstepRobot(make_stand_bundle(tmp_path / "bundle"), visual=True).plant, []

    def each(frames: range) -> Iterator[int]:
        for frame in frames:
            seen.append(frame)
            yield frame

    poses, still = np.tile(plant.model.qpos0, (6, 1)), np.zeros((6, 3))
    try:
        film(plant, poses, still, still, ["policy"] * 6, tmp_path / "x.mp4", control_dt=0.02, frames=each)
    except RenderingError:
        pytest.skip("this machine has no OpenGL")
    assert seen == [0, 2, 4]


@pytest.mark.parametrize("begun", [True, False])
def test_long_work_is_not_silent(begun, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.05)
    with Scenarios() as said:
        if begun:
            said.show(3, 51, "Straight", 90.0)
        time.sleep(0.3)
    out = capsys.readouterr().out.splitlines()
    assert out[:1] == ["[3/51] Straight, 1:30 left"] or not begun
    assert 2 <= out.count(f"{'[3/51]' if begun else 'validation'} at work for 0:00") <= 6
    time.sleep(0.1)
    assert capsys.readouterr().out == ""
