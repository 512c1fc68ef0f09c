"""rsl_rl used without Gaitway, and small worlds and settings to compare the two in."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from typing import Any

import torch
from gaitway_agents.rsl_rl.config import RslRlActorConfig, RslRlAlgorithmConfig, RslRlConfig, RslRlModelConfig
from gaitway_agents.rsl_rl.trainer import RslRlTrainer
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from tiny_worlds import TinyWorld, signs
from torch import Tensor

SMALL = RslRlConfig(
    num_steps_per_env=8,
    init_at_random_ep_len=False,
    algorithm=RslRlAlgorithmConfig(num_learning_epochs=2, num_mini_batches=3, learning_rate=3e-3),
    actor=RslRlActorConfig(hidden_dims=(16, 8), obs_normalization=True, init_std=0.7),
    critic=RslRlModelConfig(hidden_dims=(12,), activation="tanh", obs_normalization=True),
)
RANDOM_AGES = dataclasses.replace(SMALL, init_at_random_ep_len=True)
LOG_STD = dataclasses.replace(
    SMALL,
    actor=RslRlActorConfig(hidden_dims=(16,), std_type="log"),
    critic=RslRlModelConfig(hidden_dims=(16,)),
    algorithm=RslRlAlgorithmConfig(
        num_learning_epochs=1,
        num_mini_batches=2,
        schedule="fixed",
        optimizer="rmsprop",
        use_clipped_value_loss=False,
        normalize_advantage_per_mini_batch=True,
    ),
)


class Privileged(TinyWorld):
    """The critic sees the state from another side, and episodes are counted as the environment contract wants it."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        box = self.single_observation_space["policy"]
        self.single_observation_space = spaces.Dict({"critic": box, "policy": box})
        self.taken: list[Tensor] = []

    def _observe(self, state: Tensor) -> dict[str, Tensor]:
        return super()._observe(state) | {"critic": 10.0 + 3.0 * state[:, :1]}

    def step(self, actions: Tensor) -> tuple[Any, ...]:
        self.taken.append(actions.clone())
        ages = self.age + 1
        observation, reward, terminated, truncated, info = super().step(actions)
        info |= {"episode": {"r": 10.0 * ages, "l": ages}, "_episode": terminated | truncated}
        info["log"] = {"age": float(ages[0])}
        return observation, reward, terminated, truncated, info


class Plain(VecEnv):
    """One environment for rsl_rl, written down a second time: what the trainer is compared with."""

    max_episode_length, device, cfg = 100, "cpu", {}

    def __init__(self, env: VectorEnv):
        self.env, self.num_envs = env, env.num_envs
        self.num_actions = env.single_action_space.shape[0]
        self.episode_length_buf = torch.zeros(env.num_envs, dtype=torch.int64)
        self.observation = env.reset()[0]

    def get_observations(self) -> TensorDict:
        return TensorDict(dict(self.observation), batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        self.observation, reward, terminated, truncated, _ = self.env.step(actions)
        time_outs = torch.where(terminated, False, truncated)
        return self.get_observations(), reward, (terminated | truncated).long(), {"time_outs": time_outs}


def walk(state: Tensor, action: Tensor, age: Tensor):
    state = 0.9 * state + 0.1 * action
    return state, -state.square()[:, 0], state[:, 0].abs() > 1.2


def make_world(seed: int = 0, num_envs: int = 32) -> Privileged:
    return Privileged(signs, walk, time_limit=6, num_envs=num_envs, seed=seed)


def trained(world: VectorEnv | list[Any], iterations: int, config: RslRlConfig = SMALL, seed: int = 0) -> RslRlTrainer:
    trainer = RslRlTrainer(world, config, seed=seed)
    for _ in range(iterations):
        trainer.iterate()
    return trainer


def make_runner(env: VecEnv, config: RslRlConfig, seed: int = 0) -> OnPolicyRunner:
    """rsl_rl by itself, as a script of its users would do it."""
    groups = {"actor": ["policy"], "critic": ["critic" if "critic" in env.get_observations() else "policy"]}
    torch.manual_seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        return OnPolicyRunner(env, config.train_cfg(groups), log_dir=None, device="cpu")


def bits(*states: Any) -> bytes:
    """Every tensor and number in nested states, as one string."""
    found: list[bytes] = []

    def collect(value: object) -> None:
        if isinstance(value, Tensor):
            found.append(value.detach().numpy().tobytes())
        elif isinstance(value, dict):
            [collect(v) for v in value.values()]
        elif isinstance(value, list | tuple):
            [collect(v) for v in value]
        else:
            found.append(repr(value).encode())

    collect(states)
    return b"|".join(found)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)
