"""Grounds of another package, of which nothing of ours knows: trained on, scanned, climbed and validated on."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from gaitway_files import trust as trusting
from gaitway_mujoco import make_env
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.trial.running import Plants, run_scenario
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_tasks.ground import LEVEL, Ground, Plane, Slope
from gaitway_tasks.mdp import curriculums, rewards, terminations
from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import Curriculum, HeightScanner, Reward, Termination
from gaitway_tasks.terrain import Tiles
from gaitway_velocity.suite import SUITE
from quiet import quiet_task
from stand_bundle import make_stand_bundle
from step_ground import Step, Terraces
from tree import TESTS

from gaitway.cli import main
from gaitway.config.overrides import read_settings
from gaitway.config.tree import from_tree, to_tree
from gaitway.errors import ConfigError
from gaitway.train_config import load

STEP = Step(start=2.0, end=4.0, rise=0.1)
ALL = torch.arange(3)
SMALL = ["num_envs=2", "agent.num_steps=4", "total_steps=8", "agent.optimizer.minibatches=1", "num_threads=1"]


def standing(env, x):
    """The environments at ``x`` [m] in their default pose, after half a second."""
    world = env.world
    place = world.ground.origin(torch.arange(len(x)), torch.stack((x, 0.0 * x), 1))
    place[:, 2] += world.spec.init_height
    upright, zero = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(len(x), 1), torch.zeros(len(x), 3)
    world.write_root_state(torch.arange(len(x)), place, upright, zero, zero)
    world.finish_events()
    for _ in range(25):
        _, reward, terminated, _, _ = env.step(torch.zeros(len(x), world.spec.num_joints))
    return reward, terminated


def test_a_robot_stands_and_is_scanned_and_judged_on_a_step():
    low = Termination(func=terminations.root_height_below_minimum, params={"minimum_height": 0.4})
    height = Reward(func=rewards.base_height_l2, weight=1.0, params={"target_height": 0.0})
    changes = {"terminations": {"low": low}, "rewards": {"height": height}}
    scanner = HeightScanner(resolution=0.2, size=(0.4, 0.4))
    env = make_env(quiet_task(ground=STEP, height_scanners={"scan": scanner}, **changes), 3, num_threads=1)
    env.reset()
    reward, terminated = standing(env, torch.tensor([0.0, 3.0, 8.0]))
    assert not terminated.any() and (reward - reward[0]).abs().max() < 1e-4 * reward[0]
    z = env.world.robot.root_pos_w[:, 2]
    torch.testing.assert_close(z - z[0], torch.tensor([0.0, 0.1, 0.0]), atol=1e-4, rtol=0.0)
    torch.testing.assert_close(env.world.height_scan("scan")[1], z[0].expand(9), atol=1e-4, rtol=0.0)
    env.world.set_friction(torch.tensor([1]), torch.tensor([0.3]))
    env.world.set_ground_impedance(torch.tensor([1]), torch.tensor([0.92]))
    friction = env.world.batch.expand("geom_friction")[:, env.world.model.geom("ground_1").id, 0]
    np.testing.assert_allclose(friction, [1.0, 0.3, 1.0], rtol=1e-6)


def test_environments_climb_terraces_and_a_checkpoint_keeps_theirs():
    climbing = {"levels": Curriculum(func=curriculums.terrain_levels_vel, params={"command_name": "base_velocity"})}
    env = make_env(quiet_task(ground=Terraces(), curriculum=climbing), 3, num_threads=1)
    env.reset()
    far = env.world.ground.origin(ALL) + torch.tensor([[5.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 5.0, 1.0]])
    upright, zero = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(3, 1), torch.zeros(3, 3)
    env.world.write_root_state(ALL, far, upright, zero, zero)
    env.world.finish_events()
    env.reset()
    assert env.world.ground.level.tolist() == [1, 0, 1]
    expected = torch.tensor([[8.0, 0.0, 0.1], [0.0, 0.0, 0.0], [8.0, 0.0, 0.1]])
    expected[:, 2] += env.world.spec.init_height
    torch.testing.assert_close(env.world.robot.root_pos_w, expected)
    other = make_env(quiet_task(ground=Terraces(), curriculum=climbing), 3, num_threads=1)
    other.load_state_dict(env.state_dict())
    assert other.world.ground.level.tolist() == [1, 0, 1]


def test_a_scenario_runs_on_a_step(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path)
    contract, model = Contract.load(bundle), bundle / "robot.xml"
    limits = (Limit(metric="falls", value=0.0),)
    for ground in (STEP, Step(start=-1.0, end=1.0, rise=0.3)):
        scenario = Scenario(
            name="step", title="", about="", limits=limits, envs=4, seconds=1.0, commands="standing", ground=ground,
            gait=True,
        )  # fmt: skip
        recording = run_scenario(SUITE, bundle, contract, Plants(contract, model, model), scenario, seed=0)
        assert (recording.fall_step == -1).all()
        level = build_plant(contract, model, model).start_height
        np.testing.assert_allclose(recording.base_pos[0, :, 2], level + ground.height(np.zeros((4, 2))), atol=0.02)
        assert recording.feet is not None and np.abs(recording.feet.clearance[-1]).max() < 0.01


@pytest.mark.parametrize("ground", [LEVEL, Slope(angle=0.2), STEP, Terraces()])
@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_every_kind_answers_in_numpy_and_in_torch(ground: Ground, convert):
    xy = convert([[0.0, 1.0], [3.0, -1.0]])
    normal, tilt = ground.normal(xy), ground.tilt(xy)
    assert type(ground.height(xy)) is type(normal) is type(tilt) is type(xy)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1.0)
    w, x, y, _ = np.moveaxis(np.asarray(tilt), -1, 0)
    np.testing.assert_allclose(np.stack((2 * w * y, -2 * w * x, 1 - 2 * x**2 - 2 * y**2), -1), normal, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(ground.lie(xy, 0.3), axis=-1), 1.0)
    assert (np.asarray(ground.higher(xy, 0.3)) >= 0.0).all()
    pos = convert([[0.0, 0.0, 1.0], [3.0, 0.0, 1.0]])
    scan = ground.scan(convert([[0.0, 0.0], [0.1, 0.0]]), pos, convert([0.0, np.pi / 2]))
    np.testing.assert_allclose(scan[:, 0], ground.above(pos))
    np.testing.assert_allclose(scan[1, 1], ground.above(convert([[3.0, 0.1, 1.0]]))[0])


def test_training_on_it_needs_its_name_alone(tmp_path, monkeypatch, capsys):
    shutil.copy(TESTS / "helpers/step_ground.py", tmp_path / "my_ground.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trusting, "_trusted", set())
    words = ["train", "velocity-flat-anymal-c", "--preset", "cpu", "--out", "run", *SMALL]
    assert main([*words, "task.ground={kind: 'my_ground:Step', rise: 0.05}"]) == 0
    ground = load(Path("run/config.yaml")).robot_task.ground
    assert type(ground).__name__ == "Step" and ground.rise == 0.05
    monkeypatch.setattr(trusting, "_trusted", set())
    with pytest.raises(ValueError, match=r"my_ground:Step.*--trust my_ground"):
        load(Path("run/config.yaml"))
    capsys.readouterr()
    with Path("my_ground.py").open("a") as file:
        file.write("\n\n@dataclass(frozen=True)\nclass Fog(Ground):\n    def build(self, spec):\n        return []\n")
    del sys.modules["my_ground"]
    assert main([*words, "task.ground.kind=my_ground:Fog"]) == 2
    assert "my_ground:Fog': it lacks height" in capsys.readouterr().err
    assert main([*words, "task.ground.kind=my_ground:torch"]) == 2
    assert "my_ground:torch': this is no dataclass derived from Ground" in capsys.readouterr().err


def test_kinds_are_written_and_read():
    for ground in (Plane(friction=0.7), Slope(angle=0.1), get_task("velocity-rough-go2").ground):
        tree = to_tree(ground, Ground)
        assert tree["kind"] == type(ground).__name__ and to_tree(from_tree(Ground, tree), Ground) == tree
    with pytest.raises(ConfigError, match="'Moon': use one of Plane, Slope, Tiles"):
        from_tree(Ground, {"kind": "Moon"}, "task.ground")


def test_configurations_of_earlier_versions_read(tmp_path):
    tiles = to_tree(get_task("velocity-rough-go2").ground)
    path = tmp_path / "config.yaml"

    def read(terrain):
        path.write_text(yaml.safe_dump({"task": {"terrain": terrain}}))
        return from_tree(Ground, read_settings(path)["task"]["ground"])

    assert read({"kind": "plane", "friction": 0.7, "generator": None, "max_init_level": 5}) == Plane(friction=0.7)
    found = read({**tiles, "kind": "generator"})
    assert isinstance(found, Tiles) and to_tree(found) == tiles
