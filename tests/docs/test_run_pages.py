"""Every page is followed from its first line to its last: what it says is typed, small, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gaitway_sim2real.trial as validation
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle import measured
from gaitway_sim2real.hardware import ros2_hardware
from gaitway_sim2real.trial import video
from gaitway_sim2real.trial.suites import suite_of
from once import made_once

import gaitway
from gaitway.cli import main
from gaitway.training.progress import Counter

from .names import names_of
from .pages import PAGES, ROOT, Command, Snippet, block_commands, blocks
from .small import MAY_SAY_NO, small, why_not
from .workshop import ROBOT, build


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workshop, built by the first worker that needs it."""

    def fill(folder: Path) -> None:
        with contextlib.chdir(folder):
            build(folder)

    return made_once(tmp_path_factory, "workshop", fill)


@pytest.fixture
def workshop(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the workshop to work in."""
    folder = shutil.copytree(template, tmp_path / "workshop")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GAITWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("sys.stdin", io.StringIO("what is 1 + 1 ?\n"))
    examine = validation.validate_bundle

    def validate(bundle, *args, courses=False, **given):
        suite = suite_of(Contract.load(bundle))
        first = [replace(each, envs=2, seconds=min(each.seconds, 1.0)) for each in suite.scenarios[:1]]
        rungs = [replace(rung, envs=2, seconds=0.2) for rung in suite.courses[: int(courses)]]
        return examine(bundle, *args, **given | {"frames": few, "courses": rungs, "scenarios": first})

    monkeypatch.setattr(validation, "validate_bundle", validate)
    monkeypatch.setattr(measured, "SECONDS", 0.2)  # of a walk, which calibrates a policy's commands
    monkeypatch.setattr(measured, "RAMP", 0.1)
    monkeypatch.setattr(video, "record_video", partial(video.record_video, seconds=0.1))
    monkeypatch.setattr(Counter, "each", lambda counter, frames: few(frames))
    with warnings.catch_warnings():
        yield folder


def few(frames: range) -> Iterator[int]:
    """The first of the frames of a film."""
    return iter(frames[:3])


def steps(page: str) -> list[Command | Snippet]:
    """Commands and snippets in the order of the page."""
    snippets = [block for block in blocks(page) if block.language]
    return sorted([*block_commands(page), *snippets], key=lambda step: step.line)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(True for _ in steps(page))])
def test_a_page_can_be_followed(page, workshop, capsys):
    names: dict[str, object] | None = None
    for step in steps(page):
        if isinstance(step, Command):
            if why_not(step) is None:
                follow(step, capsys)
        elif step.language == "python" and page not in NEVER:
            names = names_of(page) if names is None else names
            execute(step, names)
        elif step.language == "yaml":
            Path("snippet.yaml").write_text(step.text)
            ros2_hardware(Path("snippet.yaml"))


def follow(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = small(command)
    if words[0] == "train" and "--out" not in words:
        words += ["--out", f"runs/line{command.line}"]  # the usual name has the second, which two may share here
    if words[0] == "train" and "--resume" not in words:
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    wanted = (2,) if command.refusal else (0, 1) if words[0] in MAY_SAY_NO else (0,)
    assert code in wanted, (
        f"{command.where}\nrun as: gaitway {shlex.join(words)}\nexit code {code}\n{out[-2000:]}{err[-4000:]}"
    )
    assert command.refusal in err, f"{command.where}\n{err}"
    if words[0] == "bench":
        for line in out.splitlines():
            one = shlex.split(line)[1:]
            follow(replace(command, text=shlex.join(["gaitway", *one])), capsys)


def execute(snippet: Snippet, names: dict[str, object]) -> None:
    text = re.sub(r"step_\d+\.pt", "step_000000000256.pt", snippet.text)
    code = compile("\n" * (snippet.line - 1) + text, snippet.page, "exec")  # a traceback names page and line
    exec(code, names)


NOTEBOOK = "docs/examples/first_hour.ipynb"


def cells() -> list[dict[str, Any]]:
    return list(json.loads((ROOT / NOTEBOOK).read_text("utf-8"))["cells"])


def test_the_notebook_has_no_outputs():
    """Those of a run are on the page that it follows."""
    written = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert len(written) > 8
    assert not [cell for cell in written if cell["outputs"] or cell["execution_count"] is not None]


@pytest.mark.slow
def test_the_notebook_can_be_followed(workshop, monkeypatch, capsys):
    """Each cell after the other as a kernel does it, with short trainings."""
    for run in ("runs/go2", "my_rewards.py"):
        shutil.rmtree(run) if Path(run).is_dir() else Path(run).unlink()
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    monkeypatch.setattr("gaitway.api.in_notebook", lambda: True)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    train, small = gaitway.train, dict(setting.split("=") for setting in ROBOT)

    def short(*given: Any, total_steps: int, **settings: Any) -> gaitway.Run:
        sizes = {key: int(value) for key, value in small.items()} | {"evaluation_episodes": 1, "evaluation_interval": 0}
        if settings.get("resume"):
            sizes = {"num_threads": 1, "total_steps": 512}
        return train(*given, **settings | sizes)

    monkeypatch.setattr(gaitway, "train", short)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(), 1):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{NOTEBOOK}, cell {number}", "exec"), names)
    assert names["run"].steps == 512 and names["mine"].config.task.rewards["straight"].weight == -4
    said = capsys.readouterr().out
    assert "with yours" in said and "required scenarios" in said
    assert "data:video/mp4;base64," in gaitway.play(names["bundle"])._repr_html_()


NEVER = {
    "docs/design.md": "protocols, abridged",
    "docs/diagnose.md": "in Isaac Lab's own script",
    "docs/isaaclab.md": "after Isaac Sim was launched",
    "docs/serve.md": "beside a server; tests/peers/tinker/test_tinker.py runs it",
}
"""Pages whose Python is not run, and why."""


def test_every_class_is_needed():
    """No line of the tables outlives what it was written for."""
    from .small import NOT_HERE, STANDS_FOR

    commands = [command for page in PAGES for command in block_commands(page)]
    for pattern, why in NOT_HERE:
        assert any(why_not(command) == why for command in commands), pattern
    for page, word in STANDS_FOR:
        assert any(word in command.words and page in ("", command.page) for command in commands), (page, word)
    assert set(NEVER) <= {page for page in PAGES for block in blocks(page) if block.language == "python"}
