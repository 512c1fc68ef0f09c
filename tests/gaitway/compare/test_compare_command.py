"""``gaitway compare``: what it prints, what it writes, and the exit codes that scripts rely on."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from html_page import Page

from gaitway.cli import main
from gaitway.commands import compare as command
from gaitway.compare.text import _cell


@pytest.fixture(scope="module")
def report(three_by_two, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report") / "new" / "folder"
    assert main(["compare", str(three_by_two), "--reps", "100", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def page(report) -> Page:
    return Page((report / "compare.html").read_text("utf-8"))


def markdown_cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| ") and not set(line) <= set("| -:")]
    return [cell.strip() for row in rows for cell in row.strip("|").split("|")]


def test_everything_is_written(report):
    figures = {"curves-steps", "curves-time", "efficiency", "aggregates", "profile"}
    names = {"compare.md", "compare.csv", "compare.html", *(f"{f}.{kind}" for f in figures for kind in ("png", "svg"))}
    assert {path.name for path in report.iterdir()} == names
    for figure in figures:
        assert (report / f"{figure}.png").read_bytes().startswith(b"\x89PNG\r\n")
        assert ET.parse(report / f"{figure}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_is_well_formed(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)) > 50


def test_the_page_needs_no_network(report, page):
    text = (report / "compare.html").read_text("utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link", text)
    assert page.links and all(link.startswith("#") for link in page.links)
    used = {link[1:] for link in page.links} | set(re.findall(r"url\(#([^)]+)\)", text))
    assert used <= set(page.ids)


def test_the_page_is_coloured_by_its_style_sheet(report):
    body = (report / "compare.html").read_text("utf-8").partition("</style>")[2]
    assert "var(--g0)" in body and "var(--g1)" in body and "var(--ink)" in body
    assert not re.search(r"#[0-9a-f]{6}\b", body), "a fixed colour would be wrong in dark mode"


def test_the_page_has_every_cell_of_every_table(report, page):
    cells = markdown_cells((report / "compare.md").read_text("utf-8"))
    assert len(cells) > 100
    assert set(cells) <= set(page.cells)


@pytest.mark.parametrize("agent", ["ppo", "vpg"])
def test_numbers_of_the_page_are_those_of_the_files(three_by_two, page, agent):
    means = []
    for seed in range(3):
        lines = (three_by_two / f"hopper-{agent}" / f"seed{seed}" / "episodes.jsonl").read_text().splitlines()
        means.append(np.mean([json.loads(line)["return"] for line in lines][-100:]))
    row = next(k for k in range(len(page.cells)) if page.cells[k : k + 3] == ["hopper", agent, "3"])
    center, spread = (float(word) for word in page.cells[row + 3].split(" ± "))
    assert center == pytest.approx(np.mean(means), rel=1e-3)
    assert spread == pytest.approx(np.std(means, ddof=1), abs=5.1e-3)  # with the decimals of the mean
    assert [float(cell) for cell in page.cells[row + 4 : row + 7]] == pytest.approx(means, rel=1e-3)


def test_the_csv_is_lossless(three_by_two, report):
    with open(report / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    for row in rows:
        lines = (Path(row["run"]) / "episodes.jsonl").read_text().splitlines()
        assert float(row["score"]) == np.mean([json.loads(line)["return"] for line in lines][-100:])
        assert (float(row["steps_per_s"]), row["evaluations"]) == (500.0, "3")
    assert {row["group"] for row in rows} == {"ppo", "vpg"}


def test_the_same_runs_give_the_same_page_byte_for_byte(make_run, tmp_path):
    for agent in ("ppo", "vpg"):
        for seed in range(2):
            make_run(tmp_path / "runs" / agent / str(seed), agent=agent, seed=seed)
    pages = [tmp_path / "page.html", tmp_path / "again.html"]
    for page in pages:
        assert main(["compare", str(tmp_path / "runs"), "--reps", "50", "--html", str(page)]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_the_terminal_shows_the_tables(three_by_two, ours):
    code, out, err = ours([three_by_two, "--reps", "100"])
    assert code == 0 and len(err.splitlines()) == 1 and "too few runs for 95 % intervals, which need 10: 3 of " in err
    for word in (
        "Scores: training return",
        "mean of the last 100 training episodes",
        "wall time [s]",
        "IQM",
        "ppo against vpg",
    ):
        assert word in out
    assert "agent.learning_rate   0.0003   0.001" in out
    assert "ppo is better in 18 of 18 pairs of seeds (chance alone: 0.5 %)" in out


def test_html_alone(three_by_two, tmp_path, ours):
    where = ["--where", "task=hopper", "--label", "ppo=<PPO> & co|x"]
    code, out, _ = ours([three_by_two, *where, "--reps", "50", "--html", tmp_path / "a" / "page.html"])
    assert code == 0 and f"page: {tmp_path / 'a' / 'page.html'}" in out
    page = Page((tmp_path / "a" / "page.html").read_text("utf-8"))
    assert page.open == [] and "<PPO> & co|x" in page.cells
    assert "--label 'ppo=<PPO> & co|x'" in page.text
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["page.html"]


def test_a_single_run_can_be_looked_at(make_run, tmp_path, ours):
    make_run(tmp_path / "run", evaluations=0)
    code, out, err = ours([tmp_path / "run", "--html", tmp_path / "page.html"])
    assert code == 0
    assert re.search(r"IQM of the training return — ppo: [0-9.]+\.\n", out)
    assert "nothing can be said about chance" in err
    assert Page((tmp_path / "page.html").read_text("utf-8")).open == []


def test_what_is_left_out_is_said_everywhere(make_run, tmp_path, ours):
    make_run(tmp_path / "runs" / "a")
    make_run(tmp_path / "runs" / "b", seed=1)
    make_run(tmp_path / "runs" / "c", seed=2, status="running")
    (make_run(tmp_path / "runs" / "d", seed=3).path / "run.json").write_text("{")
    code, _, err = ours([tmp_path / "runs", "--out", tmp_path / "out", "--reps", "50"])
    assert code == 0
    written = (tmp_path / "out" / "compare.md").read_text(), Page((tmp_path / "out" / "compare.html").read_text()).text
    for text in (err, *written):
        assert f"{tmp_path / 'runs' / 'c'} is left out: it is unfinished" in text
        assert f"{tmp_path / 'runs' / 'd'} is left out: run.json is damaged" in text
    assert err.count(" is left out: ") == 2
    assert "too few runs for 95 % intervals, which need 10: 2 of ppo on hopper" in err and "(min " in written[0]


def test_runs_without_episodes_are_compared_by_reward_if_asked(make_run, tmp_path, ours):
    for seed in range(2):
        make_run(tmp_path / str(seed), task="velocity-flat-anymal-c", seed=seed, episodes=False)
    code, _, err = ours([tmp_path, "--reps", "50"])
    assert code == 2 and "--metric rollout/reward" in err
    code, out, _ = ours([tmp_path, "--reps", "50", "--metric", "rollout/reward"])
    assert code == 0
    assert "Scores: rollout/reward" in out


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min-prob-improvement", "0.05"], "add --baseline DIR"),
        (
            ["--baseline", "OLD", "--min-prob-improvement", "5"],
            "--min-prob-improvement 5: must be at most 1",
        ),
        (
            ["--baseline", "OLD", "--min-prob-improvement", "0.05", "--label", "ppo=x", "--where", "seed=99"],
            "no run has it",
        ),
        (["--baseline", "NONE", "--min-prob-improvement", "0.05"], "no file or folder"),
        (["--baseline", "OLD", "--min-prob-improvement", "0.05", "--group", "seed"], "no new run has a counterpart"),
        (["--reps", "0"], "--reps 0: must be at least 1"),
        (["--metric", "learn/nothing"], "metrics.jsonl has no learn/nothing"),
        (["--normalize", "atari-human"], "hopper is none of the 57 games"),
        (["--html", "OLD"], "is a folder: name a file"),
        (["--out", "OLD/0/run.json"], "a file is in the way"),
    ],
)
def test_bad_input_is_exit_code_2(versions, ours, options, message):
    words = [word.replace("OLD", str(versions / "old")).replace("NONE", str(versions / "none")) for word in options]
    code, _, err = ours([versions / "same", *words])
    assert code == 2
    assert message in err and "Traceback" not in err


def test_nothing_found_is_exit_code_2(tmp_path, ours):
    assert ours([tmp_path])[0] == 2
    assert ours([tmp_path / "none"])[0] == 2


def test_without_matplotlib_tables_are_shown_and_figures_refused(versions, tmp_path, ours, monkeypatch):
    monkeypatch.setattr("gaitway.catalogue.Entry.missing", lambda entry: ["matplotlib"])
    assert ours([versions / "old", "--reps", "50"])[0] == 0
    code, _, err = ours([versions / "old", "--html", tmp_path / "page.html"])
    assert code == 2 and "writing figures needs matplotlib" in err
    assert command.COMPARE.modules == ("matplotlib",)


def test_comparing_loads_no_torch(versions, tmp_path):
    code = (
        "import sys; from gaitway.cli import main\n"
        f"assert main(['compare', {str(versions / 'old')!r}, '--reps', '20']) == 0\n"
        "assert not {'torch', 'gymnasium', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.fixture(scope="module")
def robots(make_run, tmp_path_factory) -> Path:
    """Robots with two weights of a reward: more of it gives larger returns, and does not walk better."""
    root = tmp_path_factory.mktemp("robots")
    for weight, level, falls, error in ((1.0, 50.0, 0, 0.1), (3.0, 150.0, 2, 0.4)):
        config = {"task": {"rewards": {"track": {"weight": weight}}}}
        for seed in (0, 1):
            run = make_run(root / f"{weight}-{seed}", task="velocity", seed=seed, level=level, config=config)
            end = {"steps": 10_000, "wall_s": 20.0, "deterministic": True, "seed": 1, "lengths": [20] * 4}
            walked = {"base_velocity": {"linear": error, "yaw": 2 * error}}
            run.append_evaluation(end | {"returns": [level] * 4, "falls": falls, "tracking": walked})
            name = "tracking/base_velocity/linear"
            run.append_metrics({"iteration": 21, "steps": 10_000, "wall_s": 20.0, name: error + 0.01 * seed})
    return root


def test_robots_are_compared_by_what_they_do(robots, ours):
    code, out, err = ours([str(robots), "--group", "task.rewards.track.weight", "--reps", "20"])
    assert code == 0
    text = " ".join(out.split())
    assert "Walking" in text and "Lower is better" in text
    assert re.search(r"weight 1 2 0 of 8 0\.0 ± 0\.0 0\.1000 ± 0\.0 0\.2000", text), text
    assert re.search(r"weight 3 2 4 of 8 50\.00 ± 0\.0 0\.4000", text), text
    assert out.index("Walking") < out.index("Scores: training return")
    assert "training return is not compared on velocity, because rewards differ: track weight 1 or 3; falls" in err
    *_, falls, _, _, last = out.splitlines()
    assert falls == (
        "Falls — track weight 1: 0 of 8 episodes, track weight 3: 4 of 8 episodes; no ranking: track weight 1 is "
        "better in 4 of 4 pairs of seeds, and chance alone does as much in 33 % of cases."
    )
    assert last == "The training return is not compared on velocity, because rewards differ: track weight 1 or 3."
    assert "IQM" not in out


def test_less_of_an_error_is_better(robots, ours):
    metric = ["--metric", "tracking/base_velocity/linear", "--reps", "20"]
    code, out, err = ours([str(robots), *metric, "--group", "task.rewards.track.weight"])
    assert code == 0 and "rewards" not in err
    assert "Lower is better" in out and "track weight 1 is better in 4 of 4 pairs of seeds" in out.splitlines()[-1]
    codes = []
    for new, old in (("1.0", "3.0"), ("3.0", "1.0")):
        runs = [str(run) for run in robots.glob(f"{new}-*")]
        gate = ["--baseline", str(old_runs(robots, old)), "--min-prob-improvement", "0.5"]
        codes.append(ours([*runs, *metric, *gate])[0])
    assert codes == [0, 1]


def old_runs(robots: Path, weight: str) -> Path:
    """A folder with the runs of one weight."""
    folder = robots.parent / f"old-{weight}"
    for run in robots.glob(f"{weight}-*"):
        if not (folder / run.name).exists():
            shutil.copytree(run, folder / run.name)
    return folder


def test_names_however_long_leave_room_for_the_drawing(robots, tmp_path, ours):
    long = "a_name_that_" * 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        label = f"track weight 3={long}"
        group = ["--group", "task.rewards.track.weight", "--label", label]
        code, _, err = ours([str(robots), *group, "--reps", "20", "--out", str(tmp_path)])
    assert code == 0 and "layout" not in err
    assert long in (tmp_path / "compare.md").read_text()
    assert long not in (tmp_path / "curves-steps.svg").read_text()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@sum"])
def test_a_cell_is_no_formula_of_a_spreadsheet(text):
    assert _cell(text) == f"'{text}" and _cell(f"a{text}\n") == f"a{text}\\n" and _cell(-1.5) == -1.5


def test_published_scores_are_in_the_table_the_figures_and_the_command_that_repeats_it(three_by_two, tmp_path, capsys):
    words = ["hopper=a book=5000:1,10000:2", "walker2d=a <b>table</b> of $1 and $2=3"]
    given = [word for each in words for word in ("--published", each)]
    assert main(["compare", str(three_by_two), "--reps", "20", "--out", str(tmp_path), *given]) == 0
    assert "Published scores" in capsys.readouterr().out
    by_steps, by_time = ((tmp_path / f"curves-{kind}.svg").read_text() for kind in ("steps", "time"))
    assert "a book" in by_steps and "a book" not in by_time  # its points are of steps
    assert all("&lt;b&gt;table&lt;/b&gt; of $1 " in text for text in (by_steps, by_time))
    text = (tmp_path / "compare.html").read_text()
    assert "'hopper=a book=5000:1,10000:2'" in html.unescape(text) and "<b>table" not in text
    assert "Dashed: published." in text
