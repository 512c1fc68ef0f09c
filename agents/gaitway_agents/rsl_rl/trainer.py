"""rsl_rl's own runner, algorithm and models as an agent, with the same weights as rsl_rl by itself.

Source: Schwarke et al. 2025, "RSL-RL: A Learning Library for Robotics Research", arXiv 2509.10771.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.errors import UserError
from gaitway_files.reading import FileError
from gaitway_files.writing import whole_file
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from ..core.finite import check_given
from ..restored import box
from ..rollout import means
from ..trainer import Observation, episodes_from
from ..with_env import WithEnv
from .config import RslRlConfig

PACKAGE, OLDEST = "rsl-rl-lib", (5, 5)
INSTALL = "pip install 'rsl-rl-lib>=5.5.1'"


class RslRlTrainer(WithEnv):
    """``iterate()`` is one iteration of ``rsl_rl.runners.OnPolicyRunner.learn``.

    Box actions and vector observations only. rsl_rl draws from torch's global generators: here they hold its random
    numbers while it works and are given back as they were.
    """

    def __init__(self, env: VectorEnv, config: RslRlConfig, *, seed: int, total_steps: int | None = None):
        super().__init__(env, total_steps)
        self.config = config
        groups = _check_environment(env, config)
        runner_class = _import_runner()
        from .env import RslRlVecEnv

        self.vec_env = RslRlVecEnv(env, groups["actor"] + groups["critic"])
        device = self.vec_env.device
        self._cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(self._cuda), contextlib.redirect_stdout(io.StringIO()):
            torch.manual_seed(seed)
            self.runner = runner_class(self.vec_env, config.train_cfg(groups), log_dir=None, device=str(device))
            self._random = self._random_state()
        self.algorithm = self.runner.alg
        self.policy = nn.ModuleDict({"actor": self.algorithm.actor, "critic": self.algorithm.critic})
        self.iterations = 0

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """One rollout and one update. Returns metrics, with the seconds spent under ``time/``."""
        with self._own_random_numbers():
            return self._iterate()

    def _iterate(self) -> dict[str, float]:
        start = time.perf_counter()
        if self.steps == 0:
            self.config.check_rows(self.num_envs)
            if self.config.init_at_random_ep_len:
                high = int(self.vec_env.max_episode_length)
                self.vec_env.episode_length_buf = torch.randint_like(self.vec_env.episode_length_buf, high=high)
        self.algorithm.train_mode()
        metrics = self._collect()
        collected = time.perf_counter()
        losses = self.algorithm.update()
        self.iterations += 1
        metrics |= {
            "learn/policy_loss": losses["surrogate"],
            "learn/value_loss": losses["value"],
            "learn/entropy": losses["entropy"],
            "learn/learning_rate": float(self.algorithm.learning_rate),
            "learn/std": float(self.algorithm.get_policy().output_std.detach().mean()),
            "learn/explained_variance": _explained_variance(self.algorithm.storage),
        }
        end = time.perf_counter()
        metrics["time/learning"] += end - collected
        return metrics | {"time/total": end - start}

    # The runner says inference_mode here. That would mark the environment's tensors for good, and nothing outside of
    # it, a reset for one, could write to them any more.
    @torch.no_grad()
    def _collect(self) -> dict[str, float]:
        """One rollout in rsl_rl's storage, with returns and advantages."""
        algorithm, env = self.algorithm, self.vec_env
        observations = env.get_observations()
        rewards_seen, logs, stepping = [], [], 0.0
        start = time.perf_counter()
        for _ in range(self.config.num_steps_per_env):
            while True:
                actions = algorithm.act(observations)
                before = time.perf_counter()
                observations, rewards, dones, extras = env.step(actions)
                stepping += time.perf_counter() - before
                if not extras["restarted"]:
                    break
            check_given(rewards[None], {name: observations[name][None] for name in env.names})
            algorithm.process_env_step(observations, rewards, dones, extras)
            rewards_seen.append(rewards)
            logs += [extras["log"]] if "log" in extras else []
            self.steps += env.num_envs
            self._episodes += episodes_from(extras["info"], self.steps)
        collected = time.perf_counter()
        algorithm.compute_returns(observations)
        metrics = {"rollout/reward": float(torch.stack(rewards_seen).mean())}
        metrics |= {f"rollout/{name}": value for name, value in means(logs).items()}
        metrics |= {"time/environment": stepping, "time/policy": collected - start - stepping}
        return metrics | {"time/learning": time.perf_counter() - collected}

    # ---- policies --------------------------------------------------------------------------------------------------

    def actor(self) -> nn.Module:
        """The deterministic policy as rsl_rl exports it, a copy: what the actor reads (N, D) to action (N, A)."""
        return self.algorithm.get_policy().as_jit().eval()

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """Deterministic actions as environments take them; there is no memory."""
        return self.algorithm.get_policy()(observations).reshape(-1, *self.vec_env.action_shape), {}

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.algorithm.optimizer.state_dict(),
            "random": self._random,
            "steps": self.steps,
            "iterations": self.iterations,
            "environment": self.vec_env.state_dict(),
        }

    def load_policy(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.algorithm.optimizer.load_state_dict(state["optimizer"])
        self.algorithm.learning_rate = self.algorithm.optimizer.param_groups[0]["lr"]
        self._random = state["random"]
        self.steps, self.iterations = state["steps"], state["iterations"]
        self.vec_env.load_state_dict(state["environment"])

    def save_rsl_rl_checkpoint(self, path: str | Path) -> None:
        """Write a ``model_*.pt`` as rsl_rl's runner does after as many iterations; its ``load`` reads it back."""
        self.runner.current_learning_iteration = max(0, self.iterations - 1)
        with whole_file(path) as partial:
            self.runner.save(str(partial))

    def load_rsl_rl_checkpoint(self, path: str | Path) -> None:
        """Take over networks, normalisers, optimiser and iteration count of a ``model_*.pt`` of rsl_rl 5.

        ``steps`` stay those of this training. Raises ValueError where the file is something else or holds other
        networks than the configuration says. Nothing but tensors and plain data is unpickled.
        """
        state = _read_checkpoint(path, self.vec_env.device)
        for network in ("actor", "critic"):
            _check_fit(path, network, state[f"{network}_state_dict"], self.policy[network].state_dict())
        self.algorithm.load(state, None, True)
        self.iterations = int(state["iter"]) + 1

    # ---- random numbers --------------------------------------------------------------------------------------------

    def _random_state(self) -> dict[str, Tensor]:
        state = {"cpu": torch.get_rng_state()}
        return state | ({"cuda": torch.cuda.get_rng_state(self._cuda[0])} if self._cuda else {})

    @contextlib.contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        with torch.random.fork_rng(self._cuda):
            torch.set_rng_state(self._random["cpu"])
            if self._cuda:
                torch.cuda.set_rng_state(self._random["cuda"], self._cuda[0])
            yield
            self._random = self._random_state()


class _Shapes(VectorEnv):
    """The spaces of one environment, which is all that networks need to be made, and no environment."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, sizes: Mapping[str, int], num_actions: int):
        self.num_envs, self.sizes = 1, sizes
        self.single_observation_space = spaces.Dict({name: box(size) for name, size in sizes.items()})
        self.single_action_space = box(num_actions)

    def reset(self, **_: Any) -> tuple[Observation, dict[str, Any]]:
        return {name: torch.zeros(1, size) for name, size in self.sizes.items()}, {}


def restored(state: dict[str, Any], config: RslRlConfig, *, num_actions: int, **_: Any) -> tuple[nn.Module, nn.Module]:
    """Networks and actor of a trainer's ``state``, without environments; observations and actions are vectors."""
    seen = {name: x.shape[-1] for name, x in state["environment"]["observations"].items()}
    trainer = RslRlTrainer(_Shapes(seen, num_actions), config, seed=0)
    trainer.load_policy(state)
    return trainer.policy, trainer.actor()


def _check_environment(env: VectorEnv, config: RslRlConfig) -> dict[str, list[str]]:
    """Observations that each network reads; refuses an environment that rsl_rl cannot learn from."""
    action_space, observation_space = env.single_action_space, env.single_observation_space
    if not isinstance(action_space, spaces.Box):
        raise UserError(f"agent rsl_rl takes actions in a Box, not {action_space}: use ppo or dqn")
    if not isinstance(observation_space, spaces.Dict):
        raise UserError(f"agent rsl_rl takes a Dict of observations, not {observation_space}: adapt the environment")
    groups = config.obs_groups(list(observation_space.spaces))
    for name in groups["actor"] + groups["critic"]:
        space = observation_space[name]
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype != np.float32:
            raise UserError(f"agent rsl_rl takes vectors of float32, and observation {name!r} is {space}: use ppo")
    return groups


def _import_runner() -> Any:
    """``rsl_rl.runners.OnPolicyRunner`` of a release that this module knows."""
    try:
        version = importlib.metadata.version(PACKAGE)
        from rsl_rl.runners import OnPolicyRunner
    except ImportError as error:
        raise ImportError(f"agent rsl_rl needs {PACKAGE}: {INSTALL} ({error})") from error
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ImportError(f"agent rsl_rl needs {PACKAGE} {OLDEST[0]}.{OLDEST[1]} or later, not {version}: {INSTALL}")
    return OnPolicyRunner


def _explained_variance(storage: Any) -> float:
    variance = storage.returns.var()
    return float(1.0 - (storage.returns - storage.values).var() / variance) if variance > 0 else 0.0


def _read_checkpoint(path: str | Path, device: torch.device) -> dict[str, Any]:
    try:
        state = load_checkpoint(path, device)
    except FileError as error:
        raise UserError(f"{path} is no checkpoint that can be read: {error.reason}") from None
    needed = ("actor_state_dict", "critic_state_dict", "optimizer_state_dict", "iter")
    missing = [name for name in needed if not isinstance(state, dict) or name not in state]
    if missing:
        older = " It was written by an older rsl_rl." if isinstance(state, dict) and "model_state_dict" in state else ""
        raise UserError(f"{path} is no checkpoint of rsl_rl 5: it has no {missing[0]}.{older}")
    return state


def _check_fit(path: str | Path, network: str, theirs: dict[str, Tensor], ours: dict[str, Tensor]) -> None:
    for name in dict.fromkeys((*theirs, *ours)):
        found, wanted = (tuple(state[name].shape) if name in state else "none" for state in (theirs, ours))
        if found != wanted:
            raise UserError(
                f"{path} does not fit: {network} {name} is {found} there and {wanted} here. Set agent.{network} "
                "(hidden_dims, obs_normalization, std_type) to what it was trained with, and mind the observations"
            )
