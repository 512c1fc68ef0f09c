"""Isaac Lab environments behind Gymnasium's vector API in torch, for agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.episodes import Accounts, Observation
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from .preflight import find

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

    from .world import IsaacLabWorld

LOG_NAMES = {
    "Episode_Reward": "reward",
    "Episode_Termination": "termination",
    "Curriculum": "curriculum",
    "Metrics": "metrics",
}
"""Isaac Lab's log names, and the names of the same values in Gaitway's other worlds."""


class IsaacLabVectorEnv(VectorEnv):
    """``env``, an Isaac Lab ``ManagerBasedRLEnv`` of 2.3 or 3.0 whose observation groups are concatenated.

    Observations are a dictionary of the groups, each float32 (N, D); everything is on ``device``, the simulator's.
    Isaac Lab restarts environments within the step that ends them and returns what follows, so the final observations
    are computed just before it does, in steps that end anything: ``info["final_obs"]``, of ``final_groups`` alone, in
    the rows of ``info["_final_obs"]``. They draw their noise from a stream of their own and leave no trace in
    histories, so the environment continues as if they had not been computed. A time-out that is also a failure counts
    as terminated only.

    ``info["ended"]`` and ``info["final_rows"]`` are the indices (K,) of the environments that ended.
    ``info["episode"]`` has the return ``r`` and the length ``l`` of their episodes, ``info["log"]`` what Isaac Lab logs
    of them, as tensors or numbers. Nothing here waits for the device or copies from it.

    **State.** The simulator's state cannot be saved. ``state_dict`` has the state of the curricula, and after
    ``load_state_dict`` the environments must be reset: every episode starts anew.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012
    restarts_on_load = True

    def __init__(self, env: Any, *, task: Task | None = None, seed: int = 0):
        self._outermost, env = env, env.unwrapped
        groups = getattr(env.single_observation_space, "spaces", {})
        if not groups or not all(isinstance(box, spaces.Box) and len(box.shape) == 1 for box in groups.values()):
            raise UserError(f"observations {env.single_observation_space}: every group must be concatenated, (N, D)")
        self.final_groups: Sequence[str] = list(groups)
        self.isaac, self.num_envs, self.task = env, env.num_envs, task
        self.device = torch.device(env.device)
        self.single_observation_space, self.single_action_space = env.single_observation_space, env.single_action_space
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._accounts = Accounts(self.num_envs, self.device)
        self._random_state = self._stream(seed)
        self._started = self._stepping = False
        self._levels: Tensor | None = None
        self._ended: Tensor | None = None
        self._final: Observation = {}
        self._reset_rows = env._reset_idx
        env._reset_idx = self._before_reset

    @property
    def world(self) -> IsaacLabWorld:
        """World that the terms read, for an environment of a Gaitway task."""
        from .world import world_of

        return world_of(self.isaac)

    @property
    def simulation(self) -> dict[str, Any]:
        """Choices made when the simulator started, for the run's record: robot, engine and the versions of both."""
        sim = self.isaac.cfg.sim
        engine = type(getattr(sim, "physics", None) or sim.physx).__name__  # 2.3 has PhysX only
        return {
            "asset": getattr(self.isaac.cfg, "gaitway_asset", None),
            "physics": "newton" if engine.startswith("Newton") else "physx",
            "engine": engine.removesuffix("Cfg"),
            "versions": {name: version for name, version in find().versions.items() if version is not None},
        }

    # ---- reset and step --------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict]:
        """Restart every environment.

        ``options={"random_episode_step": True}`` starts each episode at a random age, so that time-outs do not come
        all at once.
        """
        if seed is not None:
            self._random_state = self._stream(seed)
        with self._levels_kept():
            observation, _ = self._outermost.reset(seed=seed)
        if (options or {}).get("random_episode_step"):
            ages = self.isaac.episode_length_buf
            self.isaac.episode_length_buf = torch.randint_like(ages, high=self.isaac.max_episode_length)
        self._accounts.clear()
        self._started = True
        return dict(observation), {}

    def step(self, actions: Tensor) -> tuple[Observation, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Advance one control step with raw policy outputs ``actions`` (N, A), float32."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("step() before reset(): call env.reset() first")
        if actions.shape != self.action_space.shape:  # torch would quietly broadcast one row to all environments
            raise UserError(
                f"actions have shape {tuple(actions.shape)}, this environment takes {self.action_space.shape}"
            )
        self._ended, self._stepping = None, True
        try:
            observation, reward, terminated, time_out, extras = self._outermost.step(actions)
        finally:
            self._stepping = False
        # Isaac Lab writes the next step's rewards and flags into the same buffers.
        reward, terminated = reward.clone(), terminated.clone()
        truncated = time_out & ~terminated
        self._accounts.add(reward)
        return dict(observation), reward, terminated, truncated, self._info(terminated | truncated, extras)

    def _info(self, done: Tensor, extras: dict[str, Any]) -> dict[str, Any]:
        rows = self._ended
        if rows is None:
            nothing = torch.zeros(0, dtype=torch.int64, device=self.device)
            return {"ended": nothing, "final_rows": nothing}
        return {
            "ended": rows,
            "final_rows": rows,
            "final_obs": self._final,
            "_final_obs": done,
            **self._accounts.settle(rows, done),
            "log": {_log_name(name): value for name, value in extras.get("log", {}).items()},
        }

    # ---- final observations ----------------------------------------------------------------------------------------

    def _before_reset(self, env_ids: Any) -> None:
        """Replaces the environment's ``_reset_idx``, which its ``step`` calls when an episode has ended."""
        if self._stepping:
            # A state that is not finite ends the episode as a failure, so its final observation is not used.
            self._final = {name: torch.nan_to_num(value) for name, value in self._observe().items()}
            self._ended = torch.as_tensor(env_ids, device=self.device).long()
        self._reset_rows(env_ids)

    def _observe(self) -> Observation:
        """Current observation, as the next call of the observation manager would compute it without a reset."""
        manager = self.isaac.observation_manager
        with self._own_randomness(), _unchanged(_stateful(manager, self.final_groups)), _unread(self.isaac.scene):
            for term in self.isaac.command_manager._terms.values():
                if hasattr(term, "heading_target"):  # its turning rate follows the heading; doing so twice is free
                    term._update_command()
            return {name: manager.compute_group(name, update_history=True) for name in self.final_groups}

    def _stream(self, seed: int) -> Tensor:
        return torch.Generator(self.device).manual_seed(seed).get_state()

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Draw from this environment's own random stream. A CUDA generator keeps its state on the host: no waiting."""
        backend: Any = torch.cuda if self.device.type == "cuda" else torch
        where = (self.device,) if self.device.type == "cuda" else ()
        everybodys = backend.get_rng_state(*where)
        backend.set_rng_state(self._random_state, *where)
        try:
            yield
        finally:
            self._random_state = backend.get_rng_state(*where)
            backend.set_rng_state(everybodys, *where)

    # ---- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State of the environments that can be saved: the progress of their curricula."""
        levels = getattr(self._terrain(), "terrain_levels", None)
        return {
            "common_step_counter": self.isaac.common_step_counter,
            "terrain_levels": None if levels is None else levels.clone(),
            "final_obs_random_state": self._random_state.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the curricula; then the environments must be reset."""
        self.isaac.common_step_counter = state["common_step_counter"]
        self._random_state = state["final_obs_random_state"].cpu()
        self._levels, self._started = state["terrain_levels"], False

    @contextmanager
    def _levels_kept(self) -> Iterator[None]:
        """Reset onto the terrain levels of a state just loaded; curricula must not change them."""
        levels, self._levels = self._levels, None
        if levels is None or len(levels) != self.num_envs:  # another number of environments starts from the bottom
            yield
            return
        terrain, curriculum = self._terrain(), self.isaac.curriculum_manager
        terrain.terrain_levels[:] = levels.to(self.device)
        terrain.env_origins[:] = terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
        curriculum.compute = lambda env_ids=None: None
        try:
            yield
        finally:
            del curriculum.compute

    def _terrain(self) -> Any:
        return getattr(self.isaac.scene, "terrain", None)

    def close(self, **kwargs: Any) -> None:
        if not self.closed:
            self.closed = True
            self._outermost.close()


def _log_name(name: str) -> str:
    head, _, tail = name.partition("/")
    return f"{LOG_NAMES.get(head, head)}/{tail}" if tail else name


def _stateful(manager: Any, groups: Sequence[str]) -> list[Any]:
    """Objects that computing ``groups`` changes: histories, and terms, modifiers and noise with a state."""
    found = [buffer for group in groups for buffer in manager._group_obs_term_history_buffer[group].values()]
    found += [term.func for group in groups for term in manager._group_obs_class_term_cfgs[group]]
    return [*found, *manager._group_obs_class_instances]


@contextmanager
def _unread(scene: Any) -> Iterator[None]:
    """Discard the asset quantities that are computed within the block.

    Isaac Lab computes such quantities when they are first read in a step and, in 3.0, keeps them through a reset.
    """
    assets = [*getattr(scene, "articulations", {}).values(), *getattr(scene, "rigid_objects", {}).values()]
    clocks = [
        (buffer, buffer.timestamp)
        for asset in assets
        for buffer in vars(asset.data).values()
        if "timestamp" in getattr(buffer, "__dict__", ())
    ]
    try:
        yield
    finally:
        for buffer, timestamp in clocks:
            buffer.timestamp = timestamp


@contextmanager
def _unchanged(things: list[Any]) -> Iterator[None]:
    """Put the tensors and numbers of ``things`` back as they were."""
    before = [
        (thing, name, value, value.clone() if isinstance(value, Tensor) else value)
        for thing in things
        for name, value in vars(thing).items()
        if value is None or isinstance(value, Tensor | bool | int | float)
    ]
    try:
        yield
    finally:
        for thing, name, value, copy in before:
            if isinstance(value, Tensor) and isinstance(copy, Tensor):
                value.copy_(copy)
            setattr(thing, name, value)
