"""``--checkpoint``: every command that uses a run's policy uses the one that is named."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import gaitway_sim2real.trial as suite
import numpy as np
import pytest
import torch
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.trial import Verdict
from gaitway_tasks.recording import Recording
from once import made_once
from scripted_examinations import SMALL, outcomes

import gaitway
from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import RunWarning
from gaitway.sources import digest
from gaitway.training.load import load_actor
from gaitway.view.walkers import WorldWalker

STEPS = [128, 256, 384, 512]
BEST = 256
WIDTH = 8 * (45 + 2)
"""Numbers that the policy reads: eight steps of 45 and a clock."""
BUNDLE = Path(gaitway.__file__).parent / "demo/bundles/anymal-c"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run with a checkpoint of each iteration; the second alone passed its examination. Read-only."""

    def fill(folder: Path) -> None:
        every = ["checkpoint_interval=1", "keep_checkpoints=9", "total_steps=512"]
        with pytest.MonkeyPatch.context() as patch:
            outcomes(patch, {2}, suite=set())
            words = ["train", "velocity-flat-anymal-c-blind", "--until", "good", "--quiet", *SMALL, *every]
            assert main([*words, "--out", str(folder / "run")]) == 0
        made = RunFolder.open(folder / "run")
        assert made.record.pop("chosen") == BEST  # a test chooses
        with made.lock:
            made.update()

    return made_once(tmp_path_factory, "run-with-checkpoints", fill) / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(autouse=True)
def writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export writes the walking ANYmal C of the demo, with the hash that is asked for: a graph takes seconds."""

    def write(task, actor, out, *, checkpoint_sha256, **options):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(BUNDLE, out)
        replace(Contract.load(out), checkpoint_sha256=checkpoint_sha256).save(out)
        return out

    monkeypatch.setattr("gaitway_sim2real.bundle.export.export_bundle", write)


class Suite:
    """Verdicts without a walk: the demo's, in which the hashes of checkpoints that ``fail`` fail at the first limit."""

    def __init__(self) -> None:
        self.fail: set[str] = set()

    def __call__(self, bundle: Path, *, report_dir: Path, **options: Any) -> Verdict:
        verdict = Verdict.load(BUNDLE / "validation.json")
        if exported(bundle) in self.fail:
            first, *others = verdict.scenarios
            checks = tuple(replace(check, passed=False, value=2 * check.limit) for check in first.checks)
            verdict = replace(verdict, scenarios=(replace(first, checks=checks), *others))
        report_dir.mkdir(parents=True, exist_ok=True)
        (report_dir / "report.html").touch()
        return verdict


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(suite, "validate_bundle", found := Suite())
    return found


def hash_of(run: Path, steps: int) -> str:
    return digest(RunFolder.open(run).kept()[steps])


def exported(bundle: Path) -> str:
    return Contract.load(bundle).checkpoint_sha256


@pytest.mark.parametrize(
    ("words", "steps"), [([], 512), (["last"], 512), (["best"], BEST), (["384"], 384), (["0.128k"], 128)]
)
def test_the_named_checkpoint_is_exported(run, tmp_path, capsys, words, steps):
    named = ["--checkpoint", *words] if words else []
    assert main(["export", str(run), "--out", str(tmp_path / "bundle"), *named]) == 0
    assert exported(tmp_path / "bundle") == hash_of(run, steps)
    said = capsys.readouterr().out
    assert ("checkpoint of 256 steps, the best by its examinations" in said) == (words == ["best"])


def test_the_choice_of_a_run_is_used_and_said(run, tmp_path, capsys):
    RunFolder.open(run).update(chosen=BEST)
    words = ["export", str(run), "--out", str(tmp_path / "bundle")]
    assert main(words) == 0
    assert "256 steps, the one this run chose; --checkpoint last for the newest" in capsys.readouterr().out
    assert exported(tmp_path / "bundle") == hash_of(run, BEST)
    assert main([*words, "--checkpoint", "last"]) == 0
    assert exported(tmp_path / "bundle") == hash_of(run, 512) and "chose" not in capsys.readouterr().out
    assert gaitway.export(run, tmp_path / "bundle").contract.checkpoint_sha256 == hash_of(run, BEST)
    RunFolder.open(run).update(status="running")  # goes on: its newest policy is looked at again
    assert WorldWalker(run).caption == "512 steps"


def test_a_bundle_is_written_anew_for_another_checkpoint(run, verdicts, capsys):
    bundle, words = run / "bundle", ["validate", str(run), "--report", str(run / "validation")]
    assert main(words) == 0 and exported(bundle) == hash_of(run, 512)
    assert main([*words, "--checkpoint", "best"]) == 0 and exported(bundle) == hash_of(run, BEST)
    assert "256 steps, the best" in capsys.readouterr().out
    kept = (bundle / "policy.onnx").stat().st_ino
    assert main([*words, "--checkpoint", "256"]) == 0 and (bundle / "policy.onnx").stat().st_ino == kept
    assert gaitway.validate(run, checkpoint=128, video=False, quiet=True).passed
    assert exported(bundle) == hash_of(run, 128)
    verdict = gaitway.validate(run, video=False, quiet=True)
    assert exported(bundle) == hash_of(run, 512) and verdict.passed


def test_all_checkpoints_are_compared_and_the_run_keeps_its_bundle(run, verdicts, capsys):
    gaitway.export(run, run / "bundle")
    before = {path: path.stat().st_mtime_ns for path in (run / "bundle").iterdir()}
    verdicts.fail = {hash_of(run, steps) for steps in STEPS if steps != BEST}
    assert main(["validate", str(run), "--checkpoint", "all"]) == 0
    said = capsys.readouterr().out
    for steps in STEPS:
        assert f"checkpoint of {steps} steps" in said
        folder = run / "validated" / f"step_{steps:012d}"
        assert exported(folder / "bundle") == hash_of(run, steps)
        assert (folder / "validation/report.html").exists() and (folder / "bundle/validation.json").exists()
    table = " ".join(said[said.index("grid [m/s]") :].split())
    assert table.count("FAIL") == 3 and table.count("PASS") == 1
    demo = Verdict.load(BUNDLE / "validation.json")
    required = sum(result.required for result in demo.scenarios)
    assert table.count(f"{required - 1} of {required}") == 3 and f"{required} of {required}" in table
    assert table.count("Command grid, ") == 3
    grid = demo.scenarios[0].metrics
    assert table.count(f"{grid['lin_vel_error']:.3f}") == 4 and f"{grid['yaw_vel_error']:.3f}" in table
    assert {path: path.stat().st_mtime_ns for path in (run / "bundle").iterdir()} == before
    assert not (run / "validation").exists()

    verdicts.fail.add(hash_of(run, BEST))
    assert main(["validate", str(run), "--checkpoint", "best", "--checkpoint", "last"]) == 1
    said = capsys.readouterr().out
    assert "checkpoint of 256 steps, 1 of 2" in said and "checkpoint of 512 steps, 2 of 2" in said


def test_a_damaged_checkpoint_is_left_out_of_all(run, verdicts):
    RunFolder.open(run).kept()[384].write_bytes(b"")
    with pytest.warns(RunWarning, match=r"step_000000000384\.pt is damaged.*left out"):
        found = gaitway.validate_all(run, quiet=True)
    assert list(found) == [128, 256, 512] and all(verdict.passed for verdict in found.values())
    with pytest.raises(gaitway.UserError, match="is damaged"), pytest.warns(RunWarning):
        gaitway.validate_all(run, [384], quiet=True)
    with pytest.raises(gaitway.UserError, match="is damaged"):
        gaitway.export(run, run / "bundle", checkpoint=384)


@pytest.mark.parametrize("option", ["--json", "--report", "--sign", "--robot"])
def test_what_is_for_one_checkpoint_is_refused_for_all(run, tmp_path, capsys, option):
    pytest.importorskip("cryptography")
    key = tmp_path / "key"
    if option == "--sign":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        made = Ed25519PrivateKey.generate()
        key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        key.chmod(0o600)
    assert main(["validate", str(run), "--checkpoint", "all", option, str(key)]) == 2
    assert f"{option} is for one checkpoint" in capsys.readouterr().err and not (run / "validated").exists()


def test_each_checkpoint_has_its_own_policy(run):
    known = gaitway.load_run(run)
    assert known.checkpoints == STEPS and known.checkpoint.stem == "step_000000000512"
    observation = np.ones((1, WIDTH), np.float32)
    actions = {steps: known.policy(checkpoint=steps)(observation) for steps in STEPS}
    assert len({action.tobytes() for action in actions.values()}) == 4
    assert np.array_equal(known.policy()(observation), actions[512])
    assert np.array_equal(known.policy("best")(observation), actions[BEST])
    actor = load_actor(RunFolder.open(run), BEST)[1]
    assert np.allclose(actor(torch.from_numpy(observation)).detach().numpy(), actions[BEST], atol=1e-6)


def test_the_named_checkpoint_is_evaluated(run, monkeypatch):
    def played(config, trainer, *given):  # without episodes, which take long
        return {"returns": [trainer.policy.state_dict()]}

    monkeypatch.setattr("gaitway.training.evaluator.played", played)
    weights = {which: gaitway.evaluate(run, 1, checkpoint=which)["returns"][0] for which in (128, BEST, "best", None)}

    def same(first: Any, second: Any) -> bool:
        return all(torch.equal(weights[first][name], value) for name, value in weights[second].items())

    assert same(BEST, "best") and not same(BEST, 128) and not same(BEST, None)


def test_the_named_checkpoint_is_played(run, monkeypatch, capsys):
    seen = []

    class Seen(WorldWalker):
        def __init__(self, *given):
            super().__init__(*given)
            seen.append(self.caption)

    monkeypatch.setattr("gaitway.view.walkers.WorldWalker", Seen)
    for named in ([], ["--checkpoint", "best"]):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        assert main(["play", str(run), "--port", port, "--seconds", "0.1", *named]) == 0
    assert seen == ["512 steps", "256 steps"]


def test_the_named_checkpoint_is_recorded(run, tmp_path, capsys):
    recorded = []
    for named in ([], ["--checkpoint", "best"], ["--checkpoint", "128"]):
        out = tmp_path / "rollout.npz"
        assert main(["record", str(run), "--out", str(out), "--seconds", "0.4", "--envs", "2", *named]) == 0
        recorded.append(Recording.load(out).action.tobytes())
    assert len(set(recorded)) == 3 and "256 steps, the best" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["validate", BUNDLE, "--checkpoint", "best"],
        ["validate", BUNDLE, "--checkpoint", "all"],
        ["validate", "policy.onnx", "--checkpoint", "last"],
        ["play", BUNDLE, "--checkpoint", "2M"],
        ["play", BUNDLE, "--checkpoint", "best", "--world", "isaaclab"],
        ["record", BUNDLE, "--out", "x.npz", "--checkpoint", "best"],
        ["evaluate", "Qwen/Qwen2.5-1.5B-Instruct", "--task", "gsm8k", "--checkpoint", "best"],
    ],
)
def test_only_a_run_has_checkpoints(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(word) for word in words]) == 2
    assert "only a run has checkpoints" in capsys.readouterr().err


def test_python_refuses_it_as_well():
    for call in (gaitway.play, gaitway.validate):
        with pytest.raises(gaitway.UserError, match=r"^checkpoint best: .*only a run has checkpoints"):
            call(BUNDLE, checkpoint="best")


def test_unknown_checkpoints_are_refused(run, tmp_path, capsys):
    for words, reason in (
        (["--checkpoint", "130"], "kept no checkpoint of 130 steps; the nearest: 128, 256, 384, 512"),
        (["--checkpoint", "newest"], "--checkpoint newest: use a number of steps such as 2000000 or 2M, best or last"),
    ):
        assert main(["export", str(run), "--out", str(tmp_path / "bundle"), *words]) == 2
        assert reason in capsys.readouterr().err
    (run / "examinations.jsonl").unlink()
    assert main(["play", str(run), "--checkpoint", "best"]) == 2
    assert "was trained without examinations" in capsys.readouterr().err
