"""Estimates of the policy stand beside the truth on the pages of walkers and flights."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimating import estimating_bundle
from gaitway_onboard.flight.reading import read_flight
from gaitway_sim2real.lockstep.run import run_bundle
from gaitway_sim2real.replay.compare import motion_of
from gaitway_tasks.layout import newest_columns
from gaitway_tasks.registry import get_task
from once import exported_once
from torch import nn

from gaitway.cli import main
from gaitway.view.flight import Player
from gaitway.view.scene import Scene, page, velocity_table
from gaitway.view.steering import Panel, panel_of
from gaitway.view.walkers import BundleWalker, WorldWalker


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return estimating_bundle(tmp_path_factory)


@pytest.fixture
def server() -> Iterator[Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with page("test", "127.0.0.1", port, "URL") as server:
        yield server


def test_a_table_leaves_out_what_there_is_not() -> None:
    assert velocity_table({"command": (0.5, 0.0, -0.2), "own": np.array([0.4, 0.1, np.nan]), "none": None}) == [
        "| | command | own | |", "|---|---|---|---|",
        "| forward | +0.50 | +0.40 | m/s |", "| left | +0.00 | +0.10 | m/s |", "| turn | -0.20 | - | rad/s |",
    ]  # fmt: skip


def test_a_bundle_in_the_viewer(bundle: Path, server: Any) -> None:
    walker = BundleWalker(bundle)
    panel = panel_of(walker, server, Scene(walker.model, server, walker.base_qpos))
    for _ in range(5):
        walker.step(np.array([0.3, 0.0, 0.0]))
    panel.look()
    panel.show()
    own, lines = walker.policy.estimates["estimated_base_lin_vel"], panel.measured.content.splitlines()
    assert lines[0].split(" | ")[1:] == ["command", "measured", "policy's estimate", "|"]
    true = walker.velocity()[0]
    assert lines[2] == f"| forward | +0.00 | {true:+.2f} | {own[0]:+.2f} | m/s |"


def test_a_bundle_that_estimates_nothing_has_no_column(server: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    task = get_task("velocity-flat-anymal-c-blind")
    group = task.observations["policy"]
    columns = [column for part in newest_columns(task, group).values() for column in part]
    actor = nn.Linear(len(columns) * group.history_length, task.robot.num_joints)
    walker = BundleWalker(exported_once(tmp_path_factory, task, actor, checkpoint_sha256="ab" * 32))
    panel = Panel(walker, server, Scene(walker.model, server, walker.base_qpos))
    walker.step(np.zeros(3))
    panel.show()
    assert walker.own() is None and panel.measured.content.splitlines()[0] == "| | command | measured | |"


def test_a_flight_in_the_viewer(bundle: Path, server: Any, tmp_path: Path) -> None:
    run_bundle(bundle, 1.0, log=tmp_path / "a.mcap", echo=lambda line: None)
    flight = read_flight(tmp_path / "a.mcap")
    player = Player(flight, motion_of(flight), server)
    player.go(float(flight.policy.time[20] - flight.start) + 0.001)
    player.advance(0.0)
    lines, own = player.told.content.splitlines(), flight.policy.estimated_base_lin_vel[20]
    assert lines[2] == "| | command | truth | policy's estimate | |"
    assert lines[5].split(" | ")[3] == f"{own[1]:+.2f}"


def test_a_run_in_the_world_it_learns_in(tmp_path: Path) -> None:
    sizes = ["num_envs=4", "agent.num_steps=4", "total_steps=32", "num_threads=1", "evaluation_episodes=0"]
    task = ("velocity-flat-anymal-c-blind", "--preset", "cpu")
    assert main(["train", *task, "--out", str(tmp_path / "run"), "--quiet", *sizes]) == 0
    walker = WorldWalker(tmp_path / "run")
    walker.step(np.array([0.3, 0.0, 0.0]))
    first = walker.own()
    walker.step(np.array([0.3, 0.0, 0.0]))
    second = walker.own()
    assert first is not None and second is not None and np.isnan(first[2]) and (first[:2] != second[:2]).all()
