"""EnvPool's environments, restarted within the step that ends an episode."""

from __future__ import annotations

import functools
import os
from typing import Any

import gymnasium
import numpy as np
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

CHEAP = ("envpool.classic_control", "envpool.toy_text")
"""Families whose step takes less time than waking a second thread."""


@functools.cache
def envpool_ids() -> frozenset[str]:
    """Ids of the installed EnvPool; empty if it is not installed."""
    try:
        import envpool
    except ImportError:
        return frozenset()
    return frozenset(envpool.list_all_envs())


class EnvPoolVectorEnv(VectorEnv):
    """``num_envs`` environments of an EnvPool id, NumPy, SAME_STEP.

    EnvPool itself restarts an environment in the step after its last one, and every trip to its threads costs more
    than a cheap step. So the pool is a little larger than ``num_envs``: an ended environment is replaced at once by a
    spare one that has been restarted already, and restarts itself during the next step of all. Only if more end
    together than there are spares, a second trip restarts the others.

    ``reset(seed=...)`` builds the pool anew, since EnvPool takes seeds only then.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        seed: int = 0,
        num_threads: int = 0,
        observation_space: spaces.Space[Any] | None = None,
        **kwargs: Any,
    ):
        from envpool.registration import registry

        if num_envs < 1:
            raise UserError(f"num_envs {num_envs}: at least one environment is needed")
        if registry.specs[env_id][0] in CHEAP:
            num_threads = num_threads or 1
        self.num_envs, self.env_id = num_envs, env_id
        self.num_spares = max(2, num_envs // 8)
        self._kwargs = {"num_threads": num_threads or min(num_envs, os.cpu_count() or 1), **kwargs}
        self._build(seed)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.spec = gymnasium.registry.get(env_id)
        self.single_observation_space = observation_space or self.pool.observation_space
        self.single_action_space = self.pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        keys = list(self.pool._state_keys)
        if "obs" not in keys or [key for key in keys if key.startswith("obs:")]:
            raise UserError(f"{env_id} of EnvPool observes more than one array: only single ones are supported")
        self._places = [keys.index(key) for key in ("obs", "reward", "done", "trunc")]
        self._action_dtype = self.pool.spec.action_array_spec["action"].dtype
        self._active: np.ndarray | None = None

    def _build(self, seed: int) -> None:
        import envpool

        size = self.num_envs + self.num_spares
        # EnvPool numbers the environments' seeds upwards from this one, in 32 bits.
        first = seed % (2**31 - size)
        self.pool = envpool.make(self.env_id, env_type="gymnasium", num_envs=size, seed=first, **self._kwargs)
        self._np_random_seed, self._pristine = seed, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None and not (self._pristine and seed == self._np_random_seed):
            self.pool.close()
            self._build(seed)
        self._pristine = False
        n, size = self.num_envs, self.num_envs + self.num_spares
        self._first = self._trip(None, np.arange(size, dtype=np.int32))[0]
        self._active, self._spare = np.arange(n, dtype=np.int32), np.arange(n, size, dtype=np.int32)
        self._ended = self._spare[:0]
        return self._first[:n].copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._active is None:
            raise gymnasium.error.ResetNeeded("step() before reset(): call env.reset() first")
        n, ended = self.num_envs, self._ended
        actions = np.asarray(actions, self._action_dtype)
        if not len(ended):
            obs, reward, done, truncated = self._trip(actions, self._active)
        else:
            ignored = np.zeros((len(ended), *actions.shape[1:]), actions.dtype)
            everybody = np.concatenate((self._active, ended))
            everything = self._trip(np.concatenate((actions, ignored)), everybody)
            self._first[ended] = everything[0][n:]
            self._spare, self._ended = np.concatenate((self._spare, ended)), ended[:0]
            obs, reward, done, truncated = (part[:n] for part in everything)
        if not np.count_nonzero(done):
            return obs, reward, done, truncated, {}
        final, obs = obs, obs.copy()
        rows = np.flatnonzero(done)
        replaced, alone = rows[: len(self._spare)], rows[len(self._spare) :]
        self._ended = self._active[replaced]
        self._active[replaced] = self._spare[: len(replaced)]
        self._spare = self._spare[len(replaced) :]
        obs[replaced] = self._first[self._active[replaced]]
        if len(alone):
            obs[alone] = self._trip(None, self._active[alone])[0]
        return obs, reward, done & ~truncated, truncated, {"final_obs": final, "_final_obs": done}

    def _trip(self, actions: np.ndarray | None, env_ids: np.ndarray) -> list[np.ndarray]:
        """Step, or restart if ``actions`` is None, the environments ``env_ids``; results are in their order.

        The pool's own ``step`` and ``reset`` do the same and spend 20 microseconds on packing results.
        """
        if actions is None:
            self.pool._reset(env_ids)
        else:
            self.pool._send([env_ids, env_ids, actions])
        state = self.pool._recv()
        return [state[place] for place in self._places]

    def close(self, **kwargs: Any) -> None:
        self.pool.close()
