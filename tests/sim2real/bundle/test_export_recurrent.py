"""A policy with a memory leaves simulation like any other: what it remembers is part of ``state``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from box_spaces import box, boxes
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.recurrent import RecurrentActorCritic
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_sim2real.bundle.export import export_bundle
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.velocity import blind, velocity_flat
from torch import nn

MEMORY = 16


def make_actor(observation_dim: int) -> nn.Module:
    torch.manual_seed(4)
    config = ActorCriticConfig(actor_hidden=(32,), critic_hidden=(8,), recurrent="gru", memory_size=MEMORY)
    policy = RecurrentActorCritic(boxes(policy=observation_dim), box(12), config)
    policy.update_normalizers({"policy": torch.randn(100, observation_dim)})
    return policy.export_actor().eval()


def test_the_exported_policy_remembers_as_the_actor_does(tmp_path: Path) -> None:
    task, actor = blind(velocity_flat(ANYMAL_C), 3), make_actor(45 * 3)
    bundle = export_bundle(task, actor, tmp_path / "bundle", checkpoint_sha256="ab" * 32)
    assert Contract.load(bundle).state_dim == 1 + 12 + 45 * 3 + MEMORY
    OnboardPolicy(bundle)  # replays the recording or refuses
    with np.load(bundle / "golden.npz") as archive:
        golden = {name: torch.from_numpy(archive[name]) for name in archive.files}
    policy, memory = SignalPolicy(task, actor), torch.zeros(1, MEMORY)
    names = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command", "state")
    resets = 0
    for step in range(len(golden["state"])):
        if golden["reset"][step]:
            memory, resets = torch.zeros(1, MEMORY), resets + 1
        torch.testing.assert_close(golden["state"][step][-MEMORY:], memory[0], rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            observation, _ = policy.observation(*(golden[name][step][None] for name in names))
            action, memory = actor(observation, memory)
        torch.testing.assert_close(golden["action"][step], action[0], rtol=1e-4, atol=1e-5)
    assert resets >= 1
    assert memory.abs().max() > 0.05


def test_without_history_it_remembers_and_without_its_memory_it_would_act_otherwise() -> None:
    """The recording can tell a memory that is carried on from one that is not."""
    task, actor = blind(velocity_flat(ANYMAL_C), 1), make_actor(45)
    policy = SignalPolicy(task, actor)
    assert policy.state_dim == 1 + 12 + MEMORY
    state, memory = torch.zeros(1, policy.state_dim), torch.zeros(1, MEMORY)
    for _ in range(5):
        signals = [torch.randn(1, dim) for dim in (12, 12, 4, 3, 3)]
        forgetful = state.clone()
        forgetful[:, -MEMORY:] = 0.0
        with torch.no_grad():
            action, memory = actor(policy.observation(*signals, state)[0], memory)
            _, found, following = policy(*signals, state)
            _, other, _ = policy(*signals, forgetful)
        torch.testing.assert_close(found, action)
        torch.testing.assert_close(following[:, -MEMORY:], memory)
        state = following
    assert (found - other).abs().max() > 1e-3
