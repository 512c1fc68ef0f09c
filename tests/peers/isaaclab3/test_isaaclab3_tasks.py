"""Every registered task steps, and Isaac Lab's own training script trains one with rsl_rl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gaitway_isaaclab.registration import env_id
from gaitway_tasks.registry import get_task, task_names

ROOT = Path(__file__).parents[3]
NUM_ENVS = 4


@pytest.mark.parametrize("task_name", task_names())
def test_the_registered_task_steps_with_zero_and_random_actions(lab, make, monkeypatch, task_name):
    monkeypatch.setenv("GAITWAY_ISAACLAB_ASSET", "mjcf")
    task = get_task(task_name)
    env = make(lab.env_cfg(env_id(task_name), NUM_ENVS))
    observations, _ = env.reset()
    generator, shape = torch.Generator().manual_seed(0), (NUM_ENVS, task.robot.num_joints)
    for step in range(20):
        actions = torch.zeros(shape) if step < 10 else torch.randn(shape, generator=generator)
        observations, rewards, terminated, truncated, _ = env.step(actions)
        assert rewards.isfinite().all() and rewards.any()
        assert terminated.shape == truncated.shape == (NUM_ENVS,)
        assert set(observations) == set(task.observations)
        for group in observations.values():
            assert group.shape[0] == NUM_ENVS and group.isfinite().all()
    assert torch.equal(env.action_manager.action, actions)
    assert env.action_manager.get_term("joint_pos").processed_actions.shape == shape
    feet = env._gaitway_world.robot.contact_force_w[:, [task.robot.body_names.index(n) for n in task.robot.foot_names]]
    assert feet.norm(dim=-1).sum() > 0.0


def test_isaac_labs_training_script_trains_our_task_with_rsl_rl(lab, tmp_path):
    """``./isaaclab.sh train`` calls this script; nothing of the configuration is touched."""
    script = Path(os.environ["ISAACLAB3_PATH"]) / "scripts" / "reinforcement_learning" / "train.py"
    folders = ["", "tasks", "agents", "extensions", "sim2real"]
    done = subprocess.run(
        [
            *(sys.executable, script, "--rl_library", "rsl_rl", "--task", "Gaitway-Velocity-Flat-Anymal-C-v0"),
            *("--external_callback", "gaitway_isaaclab.register", "--num_envs", "16", "--max_iterations", "2"),
            *("--device", "cpu", "agent.device=cpu", "physics=newton_mjwarp"),
        ],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([*(str(ROOT / folder) for folder in folders), *sys.path]),
            "GAITWAY_ISAACLAB_ASSET": "mjcf",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (checkpoint,) = tmp_path.glob("logs/rsl_rl/gaitway_velocity_flat_anymal_c/*/model_1.pt")
    weights = torch.load(checkpoint, weights_only=False)
    assert weights["iter"] == 1
    assert "Learning iteration 1/2" in done.stdout
