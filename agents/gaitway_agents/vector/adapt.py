"""Any vector environment of Gymnasium in the one shape that agents know."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium
import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_files.foreign import CALL_LIMIT, THEIRS, BrokenEnvironmentError, begin, calling, end, named
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from torch import Tensor

from .spaces import MASK, ActionReader, Entries, Masks

__all__ = ["BrokenEnvironmentError", "TorchVectorEnv", "adapt"]

OWN_INFO = "gaitway_info"
"""Entry of ``metadata``, true where ``info["valid"]`` and ``info["episode"]`` mean what they mean here."""
Arrays = dict[str, np.ndarray]
Info = dict[str, Any]


def adapt(env: VectorEnv, call_limit: float = CALL_LIMIT) -> VectorEnv:
    """``env`` as agents take it: torch, dictionary observations, SAME_STEP autoreset; see :class:`TorchVectorEnv`.

    A ``reset`` or ``step`` of more than ``call_limit`` seconds is given up. An environment that already is of that
    shape, as those that declare a torch ``device`` are, is returned as it is.
    Raises ValueError for spaces that agents do not know and for an autoreset mode that is not declared.
    """
    mode = env.metadata.get("autoreset_mode")
    if isinstance(getattr(env, "device", None), torch.device):
        if mode == AutoresetMode.SAME_STEP and isinstance(env.single_observation_space, spaces.Dict):
            return env
        raise UserError(f"{env} is in torch, but not with SAME_STEP autoreset and a Dict observation space")
    if not isinstance(mode, AutoresetMode):
        raise UserError(f'{env} declares no autoreset mode: set metadata["autoreset_mode"] to an AutoresetMode')
    return TorchVectorEnv(env, call_limit)


class TorchVectorEnv(VectorWrapper):
    """A NumPy vector environment in torch on the CPU, with SAME_STEP autoreset whatever its own mode is.

    - SAME_STEP and DISABLED environments, EnvPool's and Gymnasium's own NEXT_STEP ones are converted exactly: where an
      episode ends, its environment is restarted at once, and ``info["final_obs"]`` holds what it last saw.
    - Other NEXT_STEP environments cannot restart alone. The step in which they do is no transition; its rows are
      False in ``info["valid"]``, and until then ``obs`` repeats the final observation.

    ``info`` holds ``final_obs`` (dictionary of full (N, ...) tensors) and ``_final_obs`` (N,) where an episode ended,
    ``episode`` (``r`` float32, ``l`` int64, both (N,)), ``_episode`` (N,) and the indices ``ended`` (K,) where one is
    over: the environment's own account if it gives one, else sums counted here. Where it gives
    ``info["action_mask"]``, that is an observation. Other entries of its ``info`` are its own business. Its account is
    ``episode`` with ``r`` and ``l``, given only where an episode ends, as Gymnasium's RecordEpisodeStatistics does.
    ``valid`` is read only where ``metadata`` has :data:`OWN_INFO`.
    Box actions are clipped to their bounds on the way in.

    The first step that returns anything not finite, of a wrong shape or type, or an end without a final observation
    raises :class:`BrokenEnvironmentError`.

    **State.** If the environment has ``state_dict()``, saving and loading are exact. Neither Gymnasium's nor EnvPool's
    have: then ``load_state_dict`` restarts all episodes, seeded by the run's seed and its number of steps. Resuming
    twice gives the same, but not what an uninterrupted run would have given. The next ``step`` after such a load
    ignores its actions and says so: all its rows are truncated and not valid.
    """

    def __init__(self, env: VectorEnv, call_limit: float = CALL_LIMIT):
        super().__init__(env)
        self._limit = call_limit
        self.device = torch.device("cpu")
        self._name = str(getattr(env.spec, "id", env))  # EnvPool's own have specs of another kind
        self._n = env.num_envs  # EnvPool's own attribute takes microseconds
        self._row = (self._n,)
        mode = env.metadata["autoreset_mode"]
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._by_ids = "env_id" in inspect.signature(env.reset).parameters
        alone = mode == AutoresetMode.DISABLED or self._by_ids or type(env) in (SyncVectorEnv, AsyncVectorEnv)
        self._ends_at_once = mode == AutoresetMode.SAME_STEP
        self._end = (
            self._end_same_step if self._ends_at_once else (self._end_partial_reset if alone else self._end_next_step)
        )
        self._actions = ActionReader(env.single_action_space, env.num_envs)
        actions = env.single_action_space
        masks = Masks(actions) if isinstance(actions, spaces.Discrete | spaces.MultiDiscrete) else None
        self._entries = Entries(env.single_observation_space, env.num_envs, masks)
        self._own_info = bool(env.metadata.get(OWN_INFO))
        self._accounts = True
        self._mask = self._find_mask(masks)
        self._never_masked = masks is not None and self._mask is None and MASK not in self._entries.space.spaces
        target = dict(self._entries.space.spaces)
        if self._mask is not None:
            target[MASK] = self._mask.space
        self.single_observation_space = spaces.Dict(target)
        self.single_action_space = self._actions.target
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, np.int64)
        self._restarting = np.zeros(env.num_envs, np.bool_)
        self._any_restarting = self._started = self._loaded = False
        self._seed: int | None = None
        self._seeds: Any = None
        self._steps = 0

    def _find_mask(self, masks: Masks | None) -> Masks | None:
        """An environment does not declare that it gives masks: it shows when it is reset."""
        if masks is None or MASK in self._entries.space.spaces:
            return None
        with calling(self._name, "reset", self._limit):
            _, info = self.env.reset()
        return masks if MASK in info else None

    @property
    def notes(self) -> list[str]:
        """Lines about how its observations are read, where their owner may expect otherwise."""
        return [] if self._own_info else self._entries.notes()

    # ---- reset and step --------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Restart every environment. ``random_episode_step`` has no meaning here and is left out of the options."""
        options = {name: value for name, value in (options or {}).items() if name != "random_episode_step"}
        if seed is not None:
            self._seed = seed
        call = f"reset after step {self._steps}" if self._steps else "reset"
        with calling(self._name, call, self._limit):
            observation, info = self.env.reset(seed=seed, options=options or None)
            self._seeds = self._seed if self._seed is not None else self.env.np_random_seed
        try:
            parts = self._read(observation, info)
            self._entries.check_finite(parts)
        except BrokenEnvironmentError as error:
            raise named(error, self._name, call) from None
        self._returns[:], self._lengths[:], self._restarting[:] = 0.0, 0, False
        self._any_restarting, self._started, self._loaded = False, True, False
        return _tensors(parts), {}

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        """Observations, rewards, terminations and truncations (N, ...), and what else is known, after ``actions``.

        The class tells when environments restart.
        """
        if not self._started:
            raise gymnasium.error.ResetNeeded("step() before reset(): call env.reset() first")
        choice = self._actions.read(actions.numpy(force=True))
        if self._loaded:
            return self._first_step_after_load()
        self._steps += 1
        begin(self._name, "step", self._limit)
        try:
            observation, reward, terminated, truncated, info = self.env.step(choice)
        except THEIRS as error:
            raise named(error, self._name, f"step {self._steps}") from error
        finally:
            end()
        try:
            parts = self._read(observation, info)
            self._check_rows(reward, terminated, truncated)
            reward = reward.astype(np.float32)
            self._entries.check_finite(parts, reward)
            out = self._count(reward, info)
            # Most steps end nothing, and an operation on a short array takes as long as one on a long one.
            if np.count_nonzero(terminated) or np.count_nonzero(truncated):
                done, truncated = terminated | truncated, truncated & ~terminated
                final, parts = self._end(parts, done, info)
                out["final_obs"], out["_final_obs"] = _tensors(final), torch.from_numpy(done)
                self._report(out, done, info)
            elif self._accounts and ("_episode" in info or "final_info" in info):
                self._report(out, np.zeros(self._n, np.bool_), info)
        except BrokenEnvironmentError as error:
            raise named(error, self._name, f"step {self._steps}") from None
        flags = torch.from_numpy(terminated.copy()), torch.from_numpy(truncated.copy())
        return _tensors(parts), torch.from_numpy(reward), *flags, out

    def _first_step_after_load(self) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        observation, self._loaded = self._loaded_observation, False
        n = self._n
        everywhere, nowhere = torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
        info = {"final_obs": observation, "_final_obs": everywhere, "valid": nowhere.clone()}
        return observation, torch.zeros(n), nowhere, everywhere.clone(), info

    def _count(self, reward: np.ndarray, info: dict[str, Any]) -> dict[str, Any]:
        """Count the step in the running episodes; returns the start of its ``info``."""
        if not self._any_restarting and not (self._own_info and "valid" in info):
            self._returns += reward
            self._lengths += 1
            return {}
        valid = ~self._restarting if self._any_restarting else np.array(info["valid"], np.bool_)
        self._restarting, self._any_restarting = np.zeros_like(valid), False
        self._returns += reward * valid
        self._lengths += valid
        return {"valid": torch.from_numpy(valid)}

    def _report(self, out: dict[str, Any], done: np.ndarray, info: dict[str, Any]) -> None:
        """Returns and lengths of finished episodes: the environment's own, wherever it keeps them, or ours."""
        over, returns, lengths = self._account(done, info) or (done, self._returns, self._lengths)
        if np.count_nonzero(over):
            out["_episode"] = torch.from_numpy(over.copy())
            out["ended"] = out["_episode"].nonzero().flatten()
            out["episode"] = {
                "r": torch.from_numpy(returns.astype(np.float32)),
                "l": torch.from_numpy(lengths.astype(np.int64)),
            }
        self._returns[done] = 0.0
        self._lengths[done] = 0

    def _account(self, done: np.ndarray, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Which episodes (N,) are over, their returns and lengths, as the environment tells; None if it does not.

        What somebody else's environment gives in the midst of an episode is no account, then nor later.
        """
        places = (info.get("final_info") if self._ends_at_once else None, info)
        for told in places if self._accounts else ():
            if not isinstance(told, dict) or "_episode" not in told:
                continue
            if (found := _account(told, self._row)) is None or (not self._own_info and (found[0] & ~done).any()):
                self._accounts = False
                return None
            return found
        return None

    # ---- ends of episodes: what was last seen, and what is seen next -----------------------------------------------

    def _end_partial_reset(self, parts: Arrays, done: np.ndarray, info: Info) -> tuple[Arrays, Arrays]:
        rows = np.flatnonzero(done)
        with calling(self._name, f"reset after step {self._steps}", self._limit):
            if self._by_ids:
                observation, new_info = self.env.reset(rows)  # type: ignore[arg-type, call-arg]
            else:
                observation, new_info = self.env.reset(options={"reset_mask": done})
        if self._by_ids:
            rows = np.asarray(new_info["env_id"])
            first = self._entries.read(observation, len(rows)) | self._read_mask(new_info, len(rows))
        else:
            first = {name: value[rows] for name, value in self._read(observation, new_info).items()}
        self._entries.check_finite(first, rows=rows)
        return parts, _with_rows(parts, rows, first)

    def _end_next_step(self, parts: Arrays, done: np.ndarray, info: Info) -> tuple[Arrays, Arrays]:
        self._restarting, self._any_restarting = done.copy(), True
        return parts, {name: value.copy() for name, value in parts.items()}

    def _end_same_step(self, parts: Arrays, done: np.ndarray, info: Info) -> tuple[Arrays, Arrays]:
        given: Any = info.get("final_obs")
        one_by_one = isinstance(given, np.ndarray) and given.dtype == object
        present = info["_final_obs"] if "_final_obs" in info else np.full(self._n, given is not None)
        if one_by_one:
            present = present & np.array([value is not None for value in given])
        if np.count_nonzero(done > present):
            row = int(np.flatnonzero(done > present)[0])
            raise BrokenEnvironmentError(f'the episode of environment {row} ended, but info["final_obs"] lacks its end')
        if one_by_one:
            rows = np.flatnonzero(done)
            final = _with_rows(parts, rows, self._entries.read_list([given[row] for row in rows]))
        else:
            final = self._entries.read(given)
        if not self._entries.finite(final):  # which may be due to the other rows
            rows = np.flatnonzero(done)
            last = {name: final[name][rows] for name in self._entries.floats}
            self._entries.check_finite(last, rows=rows, what="final observation")
        return final if self._mask is None else final | self._read_mask(info.get("final_info", {}), self._n), parts

    # ---- reading and checking --------------------------------------------------------------------------------------

    def _read(self, observation: Any, info: dict[str, Any]) -> Arrays:
        parts = self._entries.read(observation)
        if self._never_masked and MASK in info:
            raise BrokenEnvironmentError(
                f'info["{MASK}"] comes from step() and did not come from the first reset(): give one in every info, or '
                "have a method action_masks()"
            )
        return parts if self._mask is None else parts | self._read_mask(info, self._n)

    def _read_mask(self, info: dict[str, Any], num_envs: int) -> Arrays:
        """The action mask; everything is allowed where the environment gave none."""
        if self._mask is None:
            return {}
        if MASK not in info:
            return {MASK: np.ones((num_envs, *self._mask.space.shape), np.bool_)}
        return {MASK: self._mask.read(info[MASK], num_envs, info.get(f"_{MASK}"))}

    def _check_rows(self, reward: Any, terminated: Any, truncated: Any) -> None:
        for name, value, kinds in (
            ("reward", reward, "fiub"),
            ("terminated", terminated, "b"),
            ("truncated", truncated, "b"),
        ):
            if not isinstance(value, np.ndarray) or value.shape != self._row or value.dtype.kind not in kinds:
                kind = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value)
                raise BrokenEnvironmentError(
                    f"{name} is {kind}, it must be an array of one {'flag' if kinds == 'b' else 'number'} for each of "
                    f"{self._n} environments"
                )

    def close(self, **settings: Any) -> None:
        """Close the environment; what it raises is named."""
        with calling(self._name, "close", self._limit):
            self.env.close(**settings)

    # ---- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Exact only if the wrapped environment's is; else what :meth:`load_state_dict` needs to start afresh."""
        if hasattr(self.env, "state_dict"):
            return {
                "env": self.env.state_dict(),
                "returns": torch.from_numpy(self._returns.copy()),
                "lengths": torch.from_numpy(self._lengths.copy()),
                "restarting": torch.from_numpy(self._restarting.copy()),
                "seed": self._seed,
                "steps": self._steps,
            }
        seeds: Any = self._seeds if self._started else self.env.np_random_seed
        return {"seeds": [int(seed) for seed in np.atleast_1d(seeds)], "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`state_dict` was, or afresh from a seed derived from it."""
        if "env" in state:
            self.env.load_state_dict(state["env"])  # type: ignore[attr-defined]
            self._returns, self._lengths = state["returns"].numpy().copy(), state["lengths"].numpy().copy()
            self._restarting = state["restarting"].numpy().copy()
            self._any_restarting = bool(self._restarting.any())
            self._seed, self._steps, self._started, self._loaded = state["seed"], state["steps"], True, False
            return
        entropy = [abs(seed) for seed in state["seeds"]] + [state["steps"]]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
        self._loaded_observation, _ = self.reset(seed=seed)
        self._steps, self._loaded = state["steps"], True


def _tensors(parts: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in parts.items()}


def _account(told: Info, row: tuple[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rows that have an account of an episode, returns and lengths, each (N,); None if it is of another kind."""
    given, account = np.asarray(told["_episode"]), told.get("episode")
    if not isinstance(account, dict) or not {"r", "l"} <= account.keys():
        return None
    returns, lengths = np.asarray(account["r"]), np.asarray(account["l"])
    numbers = all(part.shape == row and part.dtype.kind in "fiu" for part in (returns, lengths))
    if not numbers or given.shape != row or given.dtype != np.bool_:
        return None
    return (given, returns, lengths) if (lengths[given] >= 1).all() and np.isfinite(returns[given]).all() else None


def _with_rows(parts: Arrays, rows: np.ndarray, new: Arrays) -> Arrays:
    """Copies of ``parts`` with ``new`` in the given rows."""
    result = {name: value.copy() for name, value in parts.items()}
    for name, value in new.items():
        result[name][rows] = value
    return result
