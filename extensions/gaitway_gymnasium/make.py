"""Vector environments of Gymnasium tasks."""

from __future__ import annotations

from typing import Any

import gymnasium
from gaitway_files.errors import UserError
from gaitway_files.foreign import calling
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from .envpool_env import EnvPoolVectorEnv, envpool_ids
from .single import Single
from .tasks import GymTask, check_id

TABLES = {"FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v3", "Blackjack-v1"}
"""Tasks for which "auto" uses Gymnasium: it has transition matrices and masks, and EnvPool's observations differ."""


class Seeded(VectorWrapper):
    """Wrapper that gives its seed to the first ``reset`` without one."""

    def __init__(self, env: VectorEnv, seed: int):
        super().__init__(env)
        self._first: int | None = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is None:
            seed = self._first
        self._first = None
        return self.env.reset(seed=seed, options=options)


def build(task: GymTask, num_envs: int, *, seed: int, num_threads: int) -> VectorEnv:
    """See :func:`gaitway_gymnasium.make_env`."""
    if num_envs < 1:
        raise UserError(f"num_envs {num_envs}: at least one environment is needed")
    check_id(task.env_id)
    limit: dict[str, Any] = {} if task.max_episode_steps is None else {"max_episode_steps": task.max_episode_steps}
    pooled = uses_envpool(task)
    with calling(task.env_id, "constructor", task.call_time_limit):
        if pooled:
            return EnvPoolVectorEnv(
                task.env_id,
                num_envs,
                seed=seed,
                num_threads=num_threads,
                observation_space=_observation_space(task.env_id),
                **task.kwargs,
                **limit,
            )
        env = gymnasium.make_vec(
            task.env_id,
            num_envs,
            vectorization_mode=task.vectorization,
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
            wrappers=[Single],
            disable_env_checker=True,
            **task.kwargs,
            **limit,
        )
        return Seeded(env, seed)


def uses_envpool(task: GymTask) -> bool:
    """True if EnvPool runs the task. Raises ValueError if the task requires EnvPool and it cannot run it."""
    has = task.env_id in envpool_ids()
    if task.backend == "envpool":
        if not has:
            reason = "it has no such id" if envpool_ids() else 'it is not installed: pip install "gaitway[gyms]"'
            raise UserError(f'{task.env_id} with backend "envpool": {reason}; or use backend "gymnasium"')
        return True
    if task.backend == "gymnasium":
        return False
    if task.env_id not in gymnasium.registry:
        return has
    return has and not task.kwargs and task.env_id not in TABLES


def time_limit(task: GymTask) -> int | None:
    """Steps after which every episode ends; None where neither the task nor its id says so."""
    if task.max_episode_steps is not None:
        return task.max_episode_steps
    if uses_envpool(task):
        import envpool

        return int(envpool.make_spec(task.env_id).config.max_episode_steps)
    return gymnasium.spec(task.env_id.rpartition(":")[2]).max_episode_steps


def _observation_space(env_id: str) -> Any:
    """Gymnasium's observation space, if it has the id: EnvPool's has no sensible bounds for Box2D."""
    if env_id not in gymnasium.registry:
        return None
    env = gymnasium.make(env_id, disable_env_checker=True)
    env.close()
    return env.observation_space
