"""Sweeps: what they run, prune, count and say, and how they survive. Most are of trainings that take milliseconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pretended_trainings
import pytest
from optuna.trial import TrialState
from pretended_trainings import TOTAL, Pretended, plan, sweep

from gaitway import jobs
from gaitway.cli import main
from gaitway.errors import RunError
from gaitway.runs.folder import RunFolder
from gaitway.runs.lock import RunLock
from gaitway.sweep.finalists import finalists, read_values
from gaitway.sweep.journal import STUDY
from gaitway.sweep.plan import Plan
from gaitway.sweep.report import cost_of
from gaitway.sweep.search import Search


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(jobs, "POLL_S", 0.01)
    monkeypatch.setattr("gaitway.sweep.search.LOOK_S", 0.0)
    monkeypatch.setattr("gaitway.sweep.search.DEAR", 0.0)


def wait_for(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    return trials_of(folder, plan())


def trials_of(folder: Path, searched: Plan) -> list[optuna.trial.FrozenTrial]:
    return Search(searched, folder).trials()


def starts(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "starts").read_text().split()]


def test_a_sweep_finds_the_best_and_the_same_command_leaves_it_as_it_is(tmp_path, capsys):
    out = tmp_path / "s"
    assert sweep(out, 14, workers=2) == 0
    said = capsys.readouterr().out
    found = trials(out)
    assert [trial.state for trial in found] == [TrialState.COMPLETE] * 14
    assert found[0].params == {"agent.gamma": 0.5}, "the first has the settings as they are"
    best = max(found, key=lambda trial: trial.value)
    assert abs(best.params["agent.gamma"] - 0.3) < 0.2
    assert best.value == pytest.approx(-1.0 - (best.params["agent.gamma"] - 0.3) ** 2)
    assert f"best: trial {best.number}, " in said and "lucky" in said and "[14 of 14]" in said
    assert f"agent.gamma={best.params['agent.gamma']!r}" in said.partition("train it: ")[2]
    page = (out / "sweep.html").read_text()
    for part in ("Parallel coordinates", "Importance", f"agent.gamma={best.params['agent.gamma']!r}", "one seed"):
        assert part in page
    again = Pretended()
    assert sweep(out, 14, again) == 0 and again.started == []
    assert "14 of 14 trials have ended" in capsys.readouterr().out
    assert sweep(out, 15, again) == 0 and again.started == ["trial-0014"]


def test_optuna_reads_what_a_sweep_writes(tmp_path):
    assert sweep(tmp_path / "s", 2) == 0
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "s" / STUDY))
    study = optuna.load_study(study_name="gaitway", storage=optuna.storages.JournalStorage(backend))
    assert [trial.value for trial in study.trials] == [trial.value for trial in trials(tmp_path / "s")]


def test_trials_that_are_behind_are_pruned_by_their_files_and_not_before_three_tenths(tmp_path, capsys):
    out = tmp_path / "s"
    assert sweep(out, 12, Pretended(pause=0.05), plan=plan(prune="median")) == 0
    found = Search(plan(prune="median"), out).trials()
    pruned = [trial for trial in found if trial.state == TrialState.PRUNED]
    assert pruned and all(trial.number >= 4 for trial in pruned)
    worst = min(trial.value for trial in found if trial.state == TrialState.COMPLETE)
    for trial in pruned:
        record = json.loads((out / f"trial-{trial.number:04d}" / "run.json").read_text())
        assert record["status"] == "interrupted" and 0.3 * TOTAL <= record["steps"] < TOTAL
        assert -1.0 - (trial.params["agent.gamma"] - 0.3) ** 2 < max(t.value for t in found[:4])
    assert worst and f"{len(pruned)} pruned" in (out / "sweep.html").read_text()
    assert capsys.readouterr().out.count(": pruned after ") == len(pruned)


def test_halving_keeps_the_best_third(tmp_path):
    out, searched = tmp_path / "s", plan(prune="halving")
    assert sweep(out, 9, Pretended(pause=0.03), plan=searched) == 0
    states = [trial.state for trial in Search(searched, out).trials()]
    assert set(states) == {TrialState.COMPLETE, TrialState.PRUNED}


def test_a_trial_that_fails_is_named_and_counts(tmp_path, capsys):
    out = tmp_path / "s"
    assert sweep(out, 8, Pretended(fails=0.6)) == 0
    found = trials(out)
    failed = [trial for trial in found if trial.state == TrialState.FAIL]
    assert len(found) == 8 and failed == [trial for trial in found if trial.params["agent.gamma"] > 0.6] != []
    said = capsys.readouterr().out
    assert said.count("failed: ValueError: too large; see") == len(failed)
    page = (out / "sweep.html").read_text()
    assert f"{len(failed)} failed" in page and f"trial {failed[0].number}: ValueError: too large" in page
    assert sweep(tmp_path / "none", 2, Pretended(fails=-1)) == 1
    assert "no trial was completed" in capsys.readouterr().err


@pytest.mark.parametrize("looks", [True, False])
def test_a_metric_that_there_is_not_ends_the_sweep_at_its_first_trial(looks, tmp_path, monkeypatch):
    """As soon as it may be pruned, or at its end."""
    if not looks:
        monkeypatch.setattr(Search, "prunes", lambda search, job: False)
    searched = plan(metric=pretended_trainings.plan().metric.__class__("rollout/rewrad", False))
    with pytest.raises(RunError, match=r"--metric rollout/rewrad: .*did you mean 'rollout/reward'.*another --out"):
        sweep(tmp_path / "s", 5, Pretended(pause=0.2 * looks), plan=searched)
    (only,) = trials_of(tmp_path / "s", searched)
    assert only.state == (TrialState.RUNNING if looks else TrialState.FAIL)


def test_a_trial_without_a_measure_fails_with_the_reason(tmp_path, capsys):
    searched = plan(metric=pretended_trainings.plan().metric.__class__("error/linear", True))
    assert sweep(tmp_path / "s", 1, plan=searched) == 1
    assert "it was not evaluated" in capsys.readouterr().out


def test_a_process_that_is_killed_goes_on_and_is_one_trial(tmp_path, capsys):
    """One is killed at its first row, one always."""

    class Killing(Pretended):
        def start(self, job):
            process = super().start(job)
            if job.folder.name == "trial-0001" or self.started.count(job.folder.name) == 1:
                rows = job.folder / "metrics.jsonl"
                before = rows.read_text() if rows.exists() else ""
                wait_for(lambda: rows.exists() and rows.read_text() != before)
                process.kill()
            return process

    out = tmp_path / "s"
    assert sweep(out, 2, Killing(pause=0.1)) == 0
    first, second = trials(out)
    assert first.state == TrialState.COMPLETE and starts(out / "trial-0000")[1] >= TOTAL // 10
    assert second.state == TrialState.FAIL and len(starts(out / "trial-0001")) == jobs.ATTEMPTS
    assert "ended by SIGKILL; continuing from its checkpoint" in capsys.readouterr().out


def processes_in(folder: Path) -> list[str]:
    """Command lines of all processes that name ``folder``."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words and "train" in words:
            found.append(words)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_sweep_that_is_stopped_or_killed_goes_on_and_counts_no_trial_twice(number, tmp_path, capsys):
    out = tmp_path / "s"
    command = [sys.executable, pretended_trainings.__file__, "sweep", str(out), "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: (out / "trial-0003" / "metrics.jsonl").exists())
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    if number == signal.SIGKILL:
        assert process.returncode == -9
        wait_for(lambda: not processes_in(out))  # pretended ones are no children of Here, and come to their own end
    else:
        assert process.returncode == 128 + number and f"stopped by {number.name}" in said
        assert not processes_in(out), "nothing is left running"
    with (out / STUDY).open("a") as file:
        file.write('{"op_code": 5, "half')  # as a disk or kernel may leave it
    before = [trial.params for trial in trials(out)]
    place = Pretended()
    assert sweep(out, 5, place, workers=2) == 0
    found = trials(out)
    assert [trial.state for trial in found] == [TrialState.COMPLETE] * 5
    assert [trial.params for trial in found][: len(before)] == before
    for trial in found:
        begun = starts(out / f"trial-{trial.number:04d}")
        assert begun == sorted(begun) and begun[0] == 0 and begun.count(0) == 1, "it continues, and begins once"
    if number != signal.SIGKILL:
        assert any(len(starts(out / f"trial-{n:04d}")) == 2 for n in (2, 3))


def test_proposals_follow_from_seed_and_trials_alone(tmp_path):
    for name, parts in (("whole", [6]), ("parts", [1, 4, 6])):
        for count in parts:
            assert sweep(tmp_path / name, count) == 0
    whole, parts = ([trial.params for trial in trials(tmp_path / name)] for name in ("whole", "parts"))
    assert whole == parts and len({str(params) for params in whole}) == 6
    assert sweep(tmp_path / "other", 3, plan=plan(seed=1)) == 0
    assert [trial.params for trial in Search(plan(seed=1), tmp_path / "other").trials()][1:] != whole[1:3]


def test_the_best_are_trained_again_with_other_seeds_and_their_mean_leaves_out_the_one_that_chose_them(
    tmp_path, capsys
):
    out = tmp_path / "s"
    assert sweep(out, 4) == 0
    cost = cost_of(Search(plan(), out)).wall
    place = Pretended(pause=0.1)
    assert sweep(out, 4, place, confirm=2, seeds=3, workers=2) == 0
    said = capsys.readouterr().out
    search = Search(plan(), out)
    assert search.wall < cost + 1.0, "their time is not that of the search"
    found = read_values(search, finalists(search, 2, 3))
    numbers = [each.number for each in found]
    assert set(numbers[:2]) | {0} == set(numbers) and place.started.count("seed1") == len(numbers)
    for each in found:
        expected = [-1.0 - (each.trial.params["agent.gamma"] - 0.3) ** 2 - 0.01 * seed for seed in (1, 2, 3)]
        assert each.values == pytest.approx(expected)
    assert f"with other seeds trial {numbers[0]} is the best" in said and "over 3 seeds" in said
    page = (out / "sweep.html").read_text()
    assert "Other seeds" in page and "chance alone" in page and "settings as they were" in page
    assert sweep(out, 4, again := Pretended(), confirm=2, seeds=3) == 0 and not again.started


def test_a_finalist_that_fails_is_named(tmp_path, capsys):
    out = tmp_path / "s"
    assert sweep(out, 1) == 0
    assert sweep(out, 1, Pretended(fails=0.1), confirm=1, seeds=2) == 1
    assert "trial 0 with seed 2: failed, exit code 1" in capsys.readouterr().out
    assert "2 failed" in (out / "sweep.html").read_text()


def test_another_sweep_and_other_files_are_left_alone(tmp_path):
    out = tmp_path / "s"
    assert sweep(out, 1) == 0
    with pytest.raises(RunError, match=r"seed 0, not 1.*--out"):
        sweep(out, 1, plan=plan(seed=1))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.tex").touch()
    with pytest.raises(RunError, match=r"has no sweep .thesis.tex"):
        sweep(tmp_path / "thesis", 1)
    with RunLock(out), pytest.raises(RunError, match="by process"):
        sweep(out, 1)
    (out / STUDY).write_text('{"op_code": 0}\n{"op_code"\n{}\n')
    with pytest.raises(RunError, match=r"damaged.*line 2"):
        sweep(out, 1)
    (out / STUDY).write_text('{"op_code": 4, "worker_id": "a"}\n')
    with pytest.raises(RunError, match="no journal of Optuna"):
        sweep(out, 1)


def test_a_run_that_another_process_still_writes_is_waited_for(tmp_path):
    out = tmp_path / "s"
    (out / "trial-0000").mkdir(parents=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
         "print(flush=True); time.sleep(1)", str(out / "trial-0000/.lock")], stdout=subprocess.PIPE
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline()
    (job,) = [jobs.Job("cartpole", "ppo", 0, out / "trial-0000", ("agent.gamma=0.5",))]
    with jobs.Crew(1, Pretended()) as crew:
        crew.waiting.append(job)
        crew.turn()
        assert not crew.running and holder.poll() is None
        wait_for(lambda: crew.turn() == [(job, 0)])
    assert holder.wait() == 0


def test_what_it_costs_is_told(tmp_path):
    out = tmp_path / "s"
    assert sweep(out, 2, Pretended(pause=0.05)) == 0
    cost = cost_of(Search(plan(), out))
    assert cost.wall == cost.workers >= cost.trials >= 1.0 and "more than the trainings" in str(cost)
    assert sweep(out, 4, Pretended(pause=0.05), workers=2) == 0
    more = cost_of(Search(plan(), out))
    assert more.workers - cost.workers == pytest.approx(2.0 * (more.wall - cost.wall), abs=0.01)


@pytest.mark.slow
def test_real_trainings_are_stopped_and_go_on(tmp_path):
    """SIGKILL to the sweep: its trainings write checkpoints, and the same command finishes each of them."""
    out = tmp_path / "s"
    words = [
        "sweep",
        "cartpole",
        "--space",
        "agent.gamma=0.9..0.999",
        "--trials",
        "2",
        "--jobs",
        "2",
        "--out",
        str(out),
    ]
    settings = ["total_steps=20000", "evaluation_episodes=2", "agent.optimizer.epochs=1", "checkpoint_interval=2"]
    process = subprocess.Popen([sys.executable, "-m", "gaitway", *words, *settings])
    folders = [out / f"trial-{number:04d}" for number in range(2)]
    wait_for(lambda: all(list(folder.glob("checkpoints/*.pt")) for folder in folders), 600)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert main([*words, *settings]) == 0
    for folder in folders:
        rows = [json.loads(line)["steps"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert rows == sorted(set(rows)) and rows[-1] >= 20000
        assert RunFolder.open(folder).record["status"] == "finished"
    assert "evaluation" in (out / "sweep.html").read_text()
