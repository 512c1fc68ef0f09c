"""The example with a depth camera: each robot sees the ground in front of itself, and rsl_rl learns from it."""

import sys
from pathlib import Path

import pytest
import torch
from gaitway_isaaclab import compat
from gaitway_isaaclab.world import world_of
from gaitway_tasks.math import quat_from_yaw
from test_isaaclab3_tasks import isaaclab
from test_isaaclab3_truth import put

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
ROBOTS = 24
"""From eleven on, names in the order of text are in another order than their numbers."""


@pytest.fixture
def example(lab, monkeypatch):
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import depth_walk

    yield depth_walk
    del sys.modules["depth_walk"]


@pytest.mark.quick
@pytest.mark.slow
def test_each_robot_sees_the_ground_in_front_of_itself(lab, make, physics, example):
    cfg = compat.choose_physics(example.DepthWalkEnvCfg(), physics)
    generator = cfg.scene.terrain.terrain_generator
    stairs = generator.sub_terrains["pyramid_stairs"]  # a plane's triangles are too large for slanting rays
    generator.sub_terrains = {"platform": stairs.replace(platform_width=7.0, step_height_range=(0.2, 0.2))}
    generator.num_rows = generator.num_cols = 3
    cfg.scene.height_scanner.update_period = cfg.scene.depth_camera.update_period = 0.0
    cfg.curriculum.terrain_levels = None
    env = make(lab.kitless(cfg, ROBOTS))
    observation, _ = env.reset()
    assert observation["depth"].shape == (ROBOTS, 1, 24, 32) and observation["proprioception"].shape == (ROBOTS, 48)
    world, number = world_of(env), torch.arange(float(ROBOTS))
    rest, joints = torch.zeros(ROBOTS, 3), world.default_joint_pos.expand(ROBOTS, -1)
    pos = env.scene.env_origins + torch.stack([0.0 * number, 0.0 * number, 0.6 + 0.03 * number], 1)
    put(env.scene["robot"], world.robot, pos, quat_from_yaw(0.1 * number), joints, 0.0 * joints, rest, rest)
    env.scene.write_data_to_sim()
    env.sim.forward()
    env.scene.update(dt=env.physics_dt)
    camera = env.scene.sensors["depth_camera"]
    camera.update(env.step_dt, force_recompute=True)
    forward = torch.stack([torch.cos(0.1 * number), torch.sin(0.1 * number), 0.0 * number], 1)
    seen_from = pos + 0.4 * forward + torch.tensor([0.0, 0.0, 0.1])
    torch.testing.assert_close(camera.data.pos_w.torch, seen_from, rtol=0.0, atol=1e-4)
    image = example.depth_image(env)[:, 0]
    middle = image[:, 11:13, 15:17].mean((1, 2))  # along the axis, 30 degrees below the horizon
    expected = ((seen_from - env.scene.env_origins)[:, 2] / 0.5 / example.FAR).clamp(max=1.0)
    torch.testing.assert_close(middle, expected, rtol=0.0, atol=0.02)
    assert (expected < 1.0).sum() > 20 and (image[:, -1].mean(1) < image[:, 0].mean(1)).all()


@pytest.mark.slow
def test_isaac_labs_own_command_learns_from_images(lab, physics, example, tmp_path):
    common = ["--rl_library", "rsl_rl", "--task", example.TASK, "--external_callback", "depth_walk.register"]
    common += ["--num_envs", "12", "--device", "cpu", "agent.device=cpu", f"physics={lab.PRESETS[physics]}"]
    shown = isaaclab("train", *common, "--max_iterations", "1", folder=tmp_path)
    assert "Learning iteration 0/1" in shown and "Conv2d" in shown
    assert list(tmp_path.glob("logs/rsl_rl/depth_walk/*/model_0.pt"))
