"""Published configurations for known tasks, by task name.

Source of both tables: rl-baselines3-zoo, hyperparams/dqn.yml and hyperparams/sac.yml (commit 22e3ff2, April 2026). Its
tasks that need generalised state-dependent exploration are left out.
"""

from __future__ import annotations

from dataclasses import replace

from .config import DQNConfig, NetworkConfig, SACConfig

WIDE = NetworkConfig(hidden=(256, 256))

_REPEATED = DQNConfig(
    learning_rate=6.3e-4,
    batch_size=128,
    buffer_size=50_000,
    learning_starts=0,
    target_update_interval=250,
    train_frequency=4,
    gradient_steps=-1,
    exploration_fraction=0.12,
    exploration_final=0.1,
    model=WIDE,
)

DQN_PRESETS: dict[str, DQNConfig] = {
    "cartpole": DQNConfig(  # 50,000 steps
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        target_update_interval=10,
        train_frequency=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final=0.04,
        model=WIDE,
    ),
    "acrobot": _REPEATED,  # 100,000 steps
    "lunar-lander": _REPEATED,  # 100,000 steps
    "mountain-car": DQNConfig(  # 120,000 steps
        learning_rate=4e-3,
        batch_size=128,
        buffer_size=10_000,
        learning_starts=1000,
        gamma=0.98,
        target_update_interval=600,
        train_frequency=16,
        gradient_steps=8,
        exploration_fraction=0.2,
        exploration_final=0.07,
        model=WIDE,
    ),
    "atari": DQNConfig(  # 10,000,000 steps
        learning_rate=1e-4,
        batch_size=32,
        buffer_size=100_000,
        learning_starts=100_000,
        target_update_interval=1000,
        train_frequency=4,
        exploration_fraction=0.1,
        exploration_final=0.01,
        checkpoint_replay=False,
        model=NetworkConfig(hidden=()),
    ),
}

SAC_PRESETS: dict[str, SACConfig] = {
    "pendulum": SACConfig(learning_rate=1e-3),  # 20,000 steps
    "lunar-lander-continuous": SACConfig(  # 500,000 steps
        learning_rate=7.3e-4,
        learning_rate_final=0.0,
        tau=0.01,
        learning_starts=10_000,
        actor=NetworkConfig(hidden=(400, 300)),
        critic=NetworkConfig(hidden=(400, 300)),
    ),
    "mujoco": SACConfig(learning_starts=10_000),  # 1,000,000 steps
}

FAST_SAC = SACConfig(
    buffer_size=131_072,
    learning_starts=1280,
    batch_size=512,
    train_frequency=128,
    gradient_steps=4,
    tau=0.05,
    initial_temperature=0.001,
    target_entropy=0.0,
    clipped_double=False,
    policy_frequency=2,
    log_std_range=(-5.0, 0.0),
    smooth_log_std=True,
    betas=(0.9, 0.95),
    weight_decay=0.001,
    iteration_steps=2560,
    actor=NetworkConfig(hidden=(256, 128), activation="silu", layer_norm=True, normalize_observations=True),
    critic=NetworkConfig(hidden=(256, 128), activation="silu", layer_norm=True, normalize_observations=True),
)
"""Many environments, large batches, few updates for each step: FastSAC (Seo et al. 2025, arXiv 2512.01996).

Theirs has 4096 environments and 8 updates of 8192 rows on a GPU; this one is cut down to 128 environments on a CPU and
as many rows for each step. Their critics predict distributions of values, these plain values.
"""

_ROBOT_NETWORK = replace(FAST_SAC.actor, hidden=(128, 128))

FAST_SAC_ROBOTS = replace(
    FAST_SAC,
    learning_rate=1e-3,
    learning_starts=4096,
    batch_size=512,
    gamma=0.97,
    n_step=6,
    train_frequency=256,
    gradient_steps=2,
    initial_temperature=0.002,
    target_entropy=-6.0,
    action_limit=1.5,
    symmetry="canonical",
    average_steps=100_000,
    iteration_steps=4096,
    checkpoint_replay=False,
    actor=_ROBOT_NETWORK,
    critic=_ROBOT_NETWORK,
)
"""FastSAC for a robot on a few cores: 256 environments, and updates that cost about twice as much as physics.

Chosen on flat ANYmal C by trainings of 200,000 steps (docs/off_policy.md). Updates have a quarter of the paper's rows
for each step, and rewards summed over 6 steps make up for it. A checkpoint with its buffer takes 0.5 GB.
"""
