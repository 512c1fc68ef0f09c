"""Configurations, as far as they do not need Isaac Lab: releases, assets, terrains."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from gaitway_isaaclab import assets, compat
from gaitway_isaaclab.compat import IsaacLabError
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Task

from gaitway.config.tree import from_tree, to_tree

ROUGH = "velocity-rough-anymal-c"


@pytest.mark.parametrize(("version", "release"), [("0.54.2", "2.3"), ("2.3.2.post1", "2.3"), ("3.0.0", "3.0")])
def test_releases(version, release):
    assert compat.release_of(version) == release


@pytest.mark.parametrize(("release", "quat"), [("2.3", (1.0, 0.0, 0.0, 0.0)), ("3.0", (0.0, 0.0, 0.0, 1.0))])
def test_no_rotation_in_either_order(monkeypatch, release, quat):
    monkeypatch.setattr(compat, "release", lambda: release)
    assert compat.identity_quat() == quat
    columns = compat.quat_columns() or (0, 1, 2, 3)
    assert [quat[i] for i in columns] == [1.0, 0.0, 0.0, 0.0]


def test_which_asset(monkeypatch):
    assert assets.choose_asset(ANYMAL_C, "mjcf") == "mjcf"
    assert assets.choose_asset(ANYMAL_C, "nucleus") == "nucleus"
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    assert assets.choose_asset(ANYMAL_C, None) == "mjcf"
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "cloud")
    with pytest.raises(IsaacLabError, match=r"'cloud' \(GAITWAY_ISAACLAB_ASSET\): use one of auto, nucleus, mjcf"):
        assets.choose_asset(ANYMAL_C, None)
    own = replace(ANYMAL_C, name="my-robot")
    with pytest.raises(IsaacLabError, match="no asset of 'my-robot': use asset 'mjcf'"):
        assets.choose_asset(own, "nucleus")
    assert assets.choose_asset(own, "auto") == "mjcf"


def test_what_can_be_reached(tmp_path):
    (tmp_path / "there.usd").touch()
    assert assets.reachable(str(tmp_path / "there.usd"))
    assert not assets.reachable(str(tmp_path / "gone.usd"))
    assert not assets.reachable("http://127.0.0.1:9/robot.usd")  # nothing listens there


def test_rough_task_reads_back():
    task = get_task(ROUGH)
    assert from_tree(Task, to_tree(task)) == task
    shares = [sub.proportion for sub in task.ground.generator.sub_terrains.values()]
    assert sum(shares) == pytest.approx(1.0)
    assert task.unmeasurable_signals() == {"base_lin_vel": ["root_lin_vel_b"], "height_scan": ["height_scan"]}


def test_newton_gets_room_for_every_contact_its_solver_takes():
    """With the number of environments that the command line settled on."""
    collisions, solver = SimpleNamespace(rigid_contact_max=None), SimpleNamespace(nconmax=100)
    physics = SimpleNamespace(collision_cfg=collisions, solver_cfg=solver)
    compat.make_room_for_contacts(SimpleNamespace(physics=physics), 64)
    assert collisions.rigid_contact_max == 6400
    physics.collision_cfg = None  # PhysX has none
    compat.make_room_for_contacts(SimpleNamespace(physics=physics), 64)
    compat.make_room_for_contacts(SimpleNamespace(physx=None), 64)  # 2.3 has no Newton
