"""Trainings on a cluster of Ray: two nodes on this machine, one of them lost; and one message for each obstacle."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import ray_nodes
import torch
from gaitway_files.errors import UserError
from optuna.trial import TrialState
from pretended_trainings import Pretended, plan, sweep

from gaitway import on_ray
from gaitway.catalogue import Entry
from gaitway.cli import main
from gaitway.commands.common import place_of
from gaitway.on_ray import Node, OnRay, disagreements
from gaitway.runs.folder import RunFolder
from gaitway.sweep.search import Search
from gaitway.train_config import resolve


def wait_for(condition, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_nodes.cluster() as made:
        yield made


@pytest.mark.slow
def test_a_sweep_on_a_cluster_is_one_of_ordinary_run_folders(cluster, tmp_path, capsys):
    out = tmp_path / "s"
    words = ["sweep", "cartpole", "total_steps=256", "evaluation_episodes=1", "--space", "agent.gamma=0.9..1"]
    assert main([*words, "--trials", "1", "--out", str(out), "--ray", cluster.address]) == 0
    said = capsys.readouterr().out
    assert "more than the trainings" in said and "[1 of 1]" in said
    assert RunFolder.open(out / "trial-0000").record["status"] == "finished"


@pytest.mark.slow
def test_a_trial_on_a_node_that_is_lost_goes_on_on_another_and_counts_once(cluster, tmp_path, capsys):
    """The trainings are pretended ones, that the nodes start."""
    out = tmp_path / "s"
    lost: list[Any] = []

    def lose() -> None:
        wait_for(lambda: all((out / f"trial-{number:04d}" / "metrics.jsonl").exists() for number in range(2)))
        lost.append(cluster.gaitway_nodes.pop())
        cluster.remove_node(lost[0], allow_graceful=False)

    with OnRay(cluster.address, out) as place:
        assert place.room == 2 and not out.exists()
        place.here = Pretended(pause=0.5)
        with ThreadPoolExecutor(1) as other:
            losing = other.submit(lose)
            assert sweep(out, 3, place, workers=2) == 0
            losing.result()
    assert lost and capsys.readouterr().out.count("continuing from its checkpoint") == 1
    begun = [(out / f"trial-{number:04d}" / "starts").read_text().split() for number in range(3)]
    assert sorted(map(len, begun)) == [1, 1, 2], "one was continued, from where it was"
    assert all(starts[0] == "0" and "0" not in starts[1:] for starts in begun)
    states = [trial.state for trial in Search(plan(), out).trials()]
    assert states == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("head", "--ray head: write HOST:PORT"),
        ("auto", "write HOST:PORT"),
        ("ray://head:10001", "write HOST:PORT"),
        ("127.0.0.1:99999", "no cluster answers there"),
    ],
)
@pytest.mark.parametrize("command", [["bench", "cartpole"], ["sweep", "cartpole", "--space", "agent.gamma=0.9..1"]])
def test_a_cluster_that_cannot_be_reached_is_one_message(command, address, message, tmp_path, capsys):
    assert main([*command, "--out", str(tmp_path / "s"), "--ray", address]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1 and not (tmp_path / "s").exists()


def test_a_port_where_nothing_listens_is_named(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"  # bound, and nobody listens
        with pytest.raises(UserError, match=f"{address}: no cluster answers there.*refused.*ray start --head"):
            OnRay(address, tmp_path)


def test_a_missing_ray_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(on_ray, "RAY", Entry(("ray_that_is_not_there",), ("ray",)))
    with pytest.raises(UserError, match=r"pip install 'gaitway\[ray\]'"):
        OnRay("10.0.0.1:6379", tmp_path)


@pytest.mark.parametrize(
    ("world", "device", "gpus"), [("mujoco-warp", "auto", 1), ("mujoco-warp", "cpu", 0), ("mujoco", "auto", 0)]
)
def test_a_training_that_learns_on_a_gpu_gets_one(world, device, gpus, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "OnRay", lambda address, out, **room: room)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    config = resolve("velocity-flat-go2-blind", world=world, overrides=[f"device={device}", "processes=1"])
    assert place_of("10.0.0.1:6379", tmp_path, [config]) == {"cpus": max(config.num_threads, 1), "gpus": gpus}


def test_nodes_with_another_version_or_without_the_folder_are_named():
    same, mine = Node("10.0.0.1:1", "0.1.0, Python 3.11.7", True), "0.1.0, Python 3.11.7"
    assert disagreements([same, same], mine) == []
    (said,) = disagreements([same, Node("10.0.0.2:1", "0.0.9, Python 3.11.7", True)], mine)
    assert "node 10.0.0.2:1 has Gaitway 0.0.9, Python 3.11.7" in said and mine in said
    (said,) = disagreements([same, Node("10.0.0.3:1", mine, False)], mine)
    assert "node 10.0.0.3:1 does not have the folder" in said and "share" in said
