"""Engines on the nodes of a Ray cluster: the same answers, nodes and trainings that are lost, and one message each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray_nodes
from bit_by_bit import differences
from gaitway_language.engines.vllm_server import VLLMServerEngine
from language_runs import MODEL, RL, ours, train

from gaitway import on_ray
from gaitway.catalogue import Entry
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows

GRPO = ["arithmetic", "--agent", "grpo", "--model", "tiny", *MODEL, *RL]
DRAWN = ("rollout/reward", "learn/grad_norm", "learn/kl")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_nodes.cluster() as made:
        yield made


def until(condition, seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
    return found


def engines(cluster) -> dict[int, Any]:
    """The servers on nodes of the cluster, and which."""
    raylets = {ray_nodes.raylet(node): node for node in cluster.gaitway_nodes}
    found = {server: set(raylets) & set(above) for server, above in ray_nodes.servers().items()}
    return {server: raylets[above.pop()] for server, above in found.items() if above}


@pytest.mark.slow
def test_a_training_whose_engine_loses_its_node_equals_one_that_is_left_alone(cluster, tmp_path, monkeypatch, capsys):
    """The node is killed while it has not answered: its server stands still then."""
    whole = train(*GRPO, out=tmp_path / "whole")
    generate, lost, rollouts = VLLMServerEngine.generate, [], []

    def generated(self, prompts, sampling):
        if len(prompts) == 16:
            rollouts.append(sampling.seed)
        if len(rollouts) == 3 and not lost:
            ((server, node),) = engines(cluster).items()
            os.kill(server, signal.SIGSTOP)
            lost.append(server)
            cluster.gaitway_nodes.remove(node)
            threading.Timer(0.5, cluster.remove_node, [node], {"allow_graceful": False}).start()
        return generate(self, prompts, sampling)

    monkeypatch.setattr(VLLMServerEngine, "generate", generated)
    capsys.readouterr()
    before = signal.getsignal(signal.SIGTERM)
    try:
        there = train(*GRPO, "--server", f"ray:{cluster.address}", out=tmp_path / "there")
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        cluster.gaitway_nodes.append(cluster.add_node(num_cpus=1, **ray_nodes.STORE))
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "Attempt" in line]
    assert "is lost with its engine" in warning and "Attempt 1 of 3 to replace it" in warning
    assert len(rollouts) == 5 and rollouts[2] == rollouts[3] and len(set(rollouts)) == 4  # the third, twice
    states = [RunFolder.open(run).load_checkpoint()[0]["trainer"] for run in (whole, there)]
    assert differences(*states) == []
    left, right = (read_rows(run / "metrics.jsonl") for run in (whole, there))
    assert [[row[name] for name in DRAWN] for row in left] == [[row[name] for name in DRAWN] for row in right]
    until(lambda: not engines(cluster) and lost[0] not in ray_nodes.servers())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_training_that_is_stopped_or_killed_leaves_no_engine(cluster, tmp_path, number):
    words = [*GRPO, "total_steps=100000", "--server", f"ray:{cluster.address}", "language.transport=gloo"]
    command = [sys.executable, "-m", "gaitway", "train", *words, "--out", str(tmp_path / "run"), "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: (tmp_path / "run/metrics.jsonl").exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            (server,) = engines(cluster)
            of = Path(f"/proc/{server}")
            secret = (of / "environ").read_text().split("GAITWAY_ENGINE_TOKEN=")[1].split("\0")[0]
            assert len(secret) == 64 and secret not in (of / "cmdline").read_text()
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == (143 if number == signal.SIGTERM else -9), said
    until(lambda: not engines(cluster))
    if number == signal.SIGTERM:
        assert RunFolder.open(tmp_path / "run").record["status"] == "interrupted"


@pytest.mark.slow
def test_two_processes_have_an_engine_on_a_node_each(cluster, tmp_path):
    found = []
    for engine in ([], ["--server", f"ray:{cluster.address}"]):
        words = [*GRPO, "device=cpu", "agent.optimizer.minibatches=1", *engine, "--cpus", "2", "--quiet"]
        command = [sys.executable, "-m", "gaitway", "train", *words, "--out", str(tmp_path / f"run{len(found)}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        rows = read_rows(tmp_path / f"run{len(found)}" / "metrics.jsonl")
        found.append([[row[name] for name in DRAWN] for row in rows])
    assert found[0] == found[1]
    until(lambda: not engines(cluster))


def refused(words, tmp_path, capsys) -> str:
    """The only line that a training says that is refused before it has a folder."""
    code, _, said = ours(["train", *GRPO, *words, "--out", tmp_path / "run"], capsys)
    assert code == 2 and said.count("\n") == 1 and not (tmp_path / "run").exists(), said
    return str(said)


@pytest.mark.slow
def test_what_the_nodes_lack_is_said_before_anything_is_written(cluster, tmp_path, capsys, monkeypatch):
    there = ["--server", f"ray:{cluster.address}"]
    said = refused([*there, "--rollout", "vllm", "language.tensor_parallel=2"], tmp_path, capsys)
    assert "room for 0 engines of 1 CPU and 2 GPUs, and 1 are needed" in said
    monkeypatch.setattr(on_ray, "version_line", lambda: "0.0.9, Python 3.9")
    said = refused(there, tmp_path, capsys)
    assert "has Gaitway" in said and "and this machine 0.0.9, Python 3.9: install the same on all" in said


def test_a_cluster_that_is_not_there_is_said_before_anything_is_written(tmp_path, capsys, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        there = f"ray:127.0.0.1:{probe.getsockname()[1]}"  # bound, and nobody listens
        said = refused(["--server", there], tmp_path, capsys)
        assert f"--server {there}: no cluster answers there" in said and "ray start --head" in said
    monkeypatch.setattr(on_ray, "RAY", Entry(("ray_that_is_not_there",), ("ray",)))
    assert "pip install 'gaitway[ray]'" in refused(["--server", there], tmp_path, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--server", "ray:head"], "write ray:HOST:PORT"),
        (["--server", "ray:"], "'ray:HOST:PORT'"),
        (["--server", "ray:a:1,ray:b:1"], "write ray:HOST:PORT"),
        (["--server", "ray:head:6379", "--rollout", "vllm-server"], "'vllm-server' needs an address"),
        (["--server", "ray:head:6379", "--rollout", "vllm", "language.sleep=true"], "only 'vllm' in this process"),
    ],
)
def test_a_cluster_is_named_by_its_head(tmp_path, capsys, words, message):
    assert message in refused(words, tmp_path, capsys)
