"""The recorder over the stock task: rows are the moment of their observation, in Isaac Lab's own terms."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gaitway_isaaclab.recorder import RolloutRecorder
from gaitway_tasks.recording import Recording, RecordingError

STEPS, ENVS = 30, 3


class Bare(gym.Wrapper):
    """Isaac Lab's environment as ``gym.make`` would hand it out."""


def test_recorded_states_give_the_recorded_observation(lab, make, physics, tmp_path):
    cfg = lab.stock_cfg(lab.STOCK_FLAT, 4, physics)
    cfg.observations.policy.enable_corruption = False
    cfg.episode_length_s = 0.4
    env = make(cfg)
    with pytest.raises(RecordingError, match="no articulation 'dog'"):
        RolloutRecorder(Bare(env), tmp_path / "none", robot="dog")
    recorder = RolloutRecorder(Bare(env), tmp_path / "rollout", steps=STEPS, envs=ENVS)
    recorder.reset()
    generator = torch.Generator().manual_seed(0)
    actions = 0.3 * torch.randn(STEPS + 5, 4, 12, generator=generator)
    for action in actions:
        recorder.step(action)
    found = Recording.load(tmp_path / "rollout.npz")
    assert (found.steps, found.num_envs) == (STEPS, ENVS)
    assert found.quat_order == "xyzw" and found.flat_ground and not found.observation_noise and found.done.any()
    np.testing.assert_array_equal(found.action, actions[:STEPS, :ENVS].numpy())
    data = env.scene["robot"].data
    default = getattr(data.default_joint_pos, "torch", data.default_joint_pos)[0].numpy()
    expected = {
        "velocity_commands": (slice(9, 12), found.command),
        "joint_pos": (slice(12, 24), found.joint_pos - default),
        "joint_vel": (slice(24, 36), found.joint_vel),
        "gravity": (slice(6, 9), gravity(found.root_quat)),
        "base_lin_vel": (slice(0, 3), into_base(found.root_quat, found.root_com_lin_vel)),
        "base_ang_vel": (slice(3, 6), into_base(found.root_quat, found.root_ang_vel)),
    }
    # After a reset, Isaac Lab's derived quantities are still those of the ended episode.
    settled = np.concatenate([np.full((1, ENVS), False), ~found.done[:-1]])
    for name, (columns, value) in expected.items():
        np.testing.assert_allclose(found.observation[settled][:, columns], value[settled], atol=1e-5, err_msg=name)
    running = ~found.done
    target = default + 0.5 * found.action
    np.testing.assert_allclose(found.joint_pos_target[running], target[running], atol=1e-5)


def gravity(quat_xyzw):
    return into_base(quat_xyzw, np.broadcast_to(np.array([0.0, 0.0, -1.0]), (*quat_xyzw.shape[:-1], 3)))


def into_base(quat_xyzw, vector):
    u, w = -quat_xyzw[..., :3], quat_xyzw[..., 3:]
    t = 2.0 * np.cross(u, vector)
    return vector + w * t + np.cross(u, t)
