"""A language model that two processes train as one: stopped, continued by two or by one, and read by other commands."""

import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest
import torch
from bit_by_bit import differences
from language_runs import FLOAT, MODEL, PROBLEMS, RL, ours

from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows

GRPO = ["train", "arithmetic", "device=cpu", *MODEL, *RL, "agent.optimizer.minibatches=1", "total_steps=128"]


def run(*argv, status: int = 0) -> str:
    """What a command in a process of its own said."""
    command = [sys.executable, "-m", "gaitway", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def policy_of(folder):
    return RunFolder.open(folder).load_checkpoint()[0]["trainer"]["policy"]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sharded", "fsdp"])
def test_stopped_and_continued_by_two_processes_is_bit_identical(tmp_path, store):
    chosen = [*GRPO, f"agent.optimizer.store={store}"]
    run(*chosen, "--cpus", 2, "--out", tmp_path / "whole")
    run(*chosen, "total_steps=64", "--cpus", 2, "--out", tmp_path / "parts")
    run(*chosen, "--cpus", 2, "--out", tmp_path / "parts", "--resume")
    assert differences(policy_of(tmp_path / "whole"), policy_of(tmp_path / "parts")) == []
    rows = read_rows(tmp_path / "whole" / "metrics.jsonl")
    assert rows[-1]["steps"] == 128 and rows[0]["steps"] == 32  # of both processes
    again = read_rows(tmp_path / "parts" / "metrics.jsonl")
    for name in ("rollout/reward", "learn/grad_norm", "learn/kl"):
        assert [row[name] for row in again] == [row[name] for row in rows]
    folders = sorted(path.name for path in (tmp_path / "parts" / "checkpoints").iterdir())
    assert [name for name in folders if name.endswith(".parts")] == [
        name.replace(".pt", ".parts") for name in folders if name.endswith(".pt") and store != "flat"
    ]
    # By one process, which has all of it.
    run(*chosen, "total_steps=160", "--out", tmp_path / "parts", "--resume")
    assert read_rows(tmp_path / "parts" / "metrics.jsonl")[-1]["steps"] == 160
    run("export", tmp_path / "parts", "--out", tmp_path / "exported")
    from transformers import AutoModelForCausalLM

    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    theirs = exported.get_input_embeddings().weight.detach()
    ours_ = policy_of(tmp_path / "parts")["model.model.embed_tokens.weight"]
    assert torch.equal(theirs.float(), ours_.float())


@pytest.mark.slow
def test_each_process_may_have_an_engine_in_a_process_of_its_own(tmp_path):
    """The same answers as of engines in the processes."""
    found = []
    for engine in ([], ["--server", "own"]):
        run(*GRPO, "total_steps=64", *engine, "--cpus", 2, "--out", tmp_path / f"run{len(found)}")
        found.append(read_rows(tmp_path / f"run{len(found)}" / "metrics.jsonl"))
    for name in ("rollout/reward", "learn/grad_norm"):
        assert [row[name] for row in found[0]] == [row[name] for row in found[1]]


@contextmanager
def served(model):
    """The address of a server of a model's folder, in a process of its own."""
    command = [sys.executable, "-m", "gaitway_language.engines.serve", "--model", str(model), "--without-weights"]
    command += ["--engine", "transformers", "--dtype", "float32", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


@pytest.mark.slow
def test_each_process_may_have_a_server_and_a_run_goes_on_with_others(tmp_path):
    """The same answers as of engines in the processes, and of one process with one server."""
    shorter = [*GRPO, "total_steps=64"]
    run(*shorter, "--cpus", 2, "--out", tmp_path / "here")
    run("export", tmp_path / "here", "--out", tmp_path / "model")
    with ExitStack() as servers:
        addresses = [servers.enter_context(served(tmp_path / "model")) for _ in range(3)]
        there = ["--rollout", "vllm-server", "--out", tmp_path / "there", "--server"]
        said = run(*shorter, "--cpus", 2, *there, addresses[0], "--dry-run", status=2)
        assert "2 processes train" in said and "name 2, not 1" in said and "Traceback" not in said
        run(*shorter, "--cpus", 2, *there, ",".join(addresses[:2]))
        rows = {name: read_rows(tmp_path / name / "metrics.jsonl") for name in ("here", "there")}
        for name in ("rollout/reward", "learn/grad_norm"):
            assert [row[name] for row in rows["there"]] == [row[name] for row in rows["here"]]
        further = [*GRPO, "total_steps=80", "--resume"]
        assert "1 process trains" in run(*further, "--out", tmp_path / "there", status=2)
        run(*further, *there, addresses[2])
        run(*further, "--out", tmp_path / "here")
    rows = {name: read_rows(tmp_path / name / "metrics.jsonl")[-1] for name in ("here", "there")}
    for name in ("steps", "rollout/reward", "learn/grad_norm"):
        assert rows["there"][name] == rows["here"][name]
    assert RunFolder.open(tmp_path / "there").config().language.server == addresses[2]


@pytest.mark.slow
def test_examples_are_read_once_by_two_processes(tmp_path):
    settings = [*MODEL, *FLOAT, *PROBLEMS, "device=cpu", "agent.batch_size=16", "agent.optimizer.store=sharded"]
    run("train", "arithmetic", "--agent", "sft", *settings, "total_steps=640", "--cpus", 2, "--out", tmp_path / "sft")
    rows = read_rows(tmp_path / "sft" / "metrics.jsonl")
    assert rows[-1]["steps"] == 640 and rows[-1]["learn/epoch"] == pytest.approx(640 / 256)
    assert rows[-1]["learn/loss"] < rows[0]["learn/loss"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["agent.optimizer.store=fsdp", "--agent", "sft"], "'fsdp' with agent sft"),
        (["agent.optimizer.store=fsdp", "--lora"], "'fsdp' with --lora"),
        (["agent.optimizer.store=split"], "'flat', 'sharded', 'fsdp'"),
        (["agent.optimizer.store=sharded", "agent.optimizer.workers=2"], "workers 2"),
        (["--cpus", "2", "language.staleness=1"], "language.staleness=1"),
        (["agent.optimizer.store=fsdp", "--server", "own"], "'fsdp' with --server own"),
        (["--cpus", "2", "--rollout", "vllm"], "--rollout vllm --server own"),
        (["--cpus", "2", "--rollout", "vllm-server", "--server", "http://here:1"], "name 2, not 1"),
        (["--cpus", "2", "--rollout", "vllm-serve", "--server", "http://here:1"], "name 2, not 1"),
        (["--cpus", "2", "--rollout", "vllm-server", "--server", "http://a:1,http://a:1/"], "'http://a:1' twice"),
        (["--cpus", "2", "--rollout", "vllm-server", "--server", "http://a:1, http://b:1"], "no spaces between"),
        (["--rollout", "vllm-server", "--server", "http://a:1,http://b:1"], "1 process trains"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_loaded(tmp_path, capsys, argv, message):
    code, _, told = ours(["train", "arithmetic", "device=cpu", *argv, "--out", tmp_path / "run"], capsys)
    assert code != 0 and message in told and told.count("\n") <= 2
    assert not (tmp_path / "run").exists()
