"""``Task`` -> ``ManagerBasedRLEnvCfg``, term by term.

Isaac Lab's managers, sensors, terrains, commands, actions and events; Gaitway's observation, reward, termination and
curriculum functions, through :mod:`gaitway_isaaclab.world`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaitway_tasks.spec import ObservationGroup, ObservationTerm, Task
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import (
    CurriculumTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from isaaclab.utils import configclass

from . import compat
from .actions import action_cfg
from .assets import choose_asset
from .commands import command_cfg
from .events import event_cfgs
from .scene import scene_cfg
from .terms import isaac_term
from .world import TASK

PLAY_ENVS, PLAY_TILES = 50, 5


@configclass
class TermsCfg:
    """Terms of one manager, by name."""


@configclass
class GaitwayEnvCfg(ManagerBasedRLEnvCfg):
    """An environment of a Gaitway task."""

    gaitway_task: str = ""
    """Name of the task."""
    gaitway_asset: str = ""
    """Source of the robot, ``"nucleus"`` or ``"mjcf"``."""

    def validate_config(self) -> None:
        """Check the configuration; Isaac Lab 3.0 calls this when it makes the environment, after all user changes."""
        if self.gaitway_asset == "mjcf":
            compat.make_room_for_contacts(self.sim, self.scene.num_envs)
        compat.do_without_gpu(self.sim)

    def play_mode(self) -> None:
        """Change to the variant for watching; called by Isaac Lab 3.0's ``play``."""
        for_play(self)


def env_cfg(
    task: Task,
    num_envs: int = 4096,
    device: str = "cuda:0",
    seed: int | None = None,
    physics: str | None = None,
    *,
    asset: str | None = None,
    actuators: str = "task",
) -> GaitwayEnvCfg:
    """The configuration of ``num_envs`` environments of ``task`` for Isaac Lab's ``ManagerBasedRLEnv``.

    ``physics`` is ``"physx"`` or, on Isaac Lab 3.0, ``"newton"``; None leaves the choice to Isaac Lab's scripts.
    ``asset`` is ``"nucleus"`` (Isaac Lab's own robot), ``"mjcf"`` (converted from Gaitway's) or ``"auto"``, the
    default, which takes Isaac Lab's if it can be reached; scripts use the environment variable
    GAITWAY_ISAACLAB_ASSET. ``actuators="isaaclab"`` replaces the task's actuator laws by those of Isaac Lab's
    robot (ANYmal C: an LSTM network).

    Raises :class:`gaitway_isaaclab.compat.IsaacLabError` for a task that Isaac Lab cannot run, with the reason.
    """
    compat.release()
    events = event_cfgs(task)
    asset = choose_asset(task.robot, asset)
    cfg = GaitwayEnvCfg(gaitway_task=task.name, gaitway_asset=asset)
    setattr(cfg, TASK, task)
    cfg.seed = seed
    cfg.scene = scene_cfg(task, num_envs, asset, actuators)
    cfg.observations = _terms({name: _observations(group) for name, group in task.observations.items()})
    cfg.actions = _terms({"joint_pos": action_cfg(task)})
    cfg.commands = _terms({name: command_cfg(c, debug_vis=asset == "nucleus") for name, c in task.commands.items()})
    cfg.rewards = _terms(
        {
            name: RewardTermCfg(func=isaac_term(term.func), weight=term.weight, params=dict(term.params))
            for name, term in task.rewards.items()
        }
    )
    cfg.terminations = _terms(
        {
            name: TerminationTermCfg(func=isaac_term(term.func), params=dict(term.params), time_out=term.time_out)
            for name, term in task.terminations.items()
        }
    )
    cfg.events = _terms(events)
    cfg.curriculum = _terms(
        {
            name: CurriculumTermCfg(func=isaac_term(term.func), params=dict(term.params))
            for name, term in task.curriculum.items()
        }
    )
    cfg.decimation = task.timing.decimation
    cfg.episode_length_s = task.timing.episode_length_s
    cfg.sim.dt = task.timing.physics_dt
    cfg.sim.render_interval = task.timing.decimation
    cfg.sim.device = device
    cfg.sim.physics_material = cfg.scene.terrain.physics_material
    compat.set_physics(cfg.sim, task.robot.name, rough=not task.ground.flat)
    return compat.choose_physics(cfg, physics)


def for_play(cfg: GaitwayEnvCfg) -> GaitwayEnvCfg:
    """``cfg`` for watching a policy, as Isaac Lab's ``_PLAY`` variants: few environments, no noise, no pushes."""
    cfg.scene.num_envs, cfg.scene.env_spacing = min(cfg.scene.num_envs, PLAY_ENVS), 2.5
    for group in vars(cfg.observations).values():
        group.enable_corruption = False
    for name, event in vars(cfg.events).items():
        if getattr(event, "mode", None) == "interval":
            setattr(cfg.events, name, None)
    terrain = cfg.scene.terrain
    if terrain.terrain_generator is not None:
        terrain.max_init_terrain_level = None  # anywhere in the grid
        terrain.terrain_generator.num_rows = terrain.terrain_generator.num_cols = PLAY_TILES
        terrain.terrain_generator.curriculum = False
    return cfg


def _terms(terms: Mapping[str, Any]) -> TermsCfg:
    cfg = TermsCfg()
    for name, term in terms.items():
        setattr(cfg, name, term)
    return cfg


def _observations(group: ObservationGroup) -> Any:
    cfg = ObservationGroupCfg(
        concatenate_terms=True,
        enable_corruption=group.enable_corruption,
        history_length=group.history_length if group.history_length > 1 else None,
    )
    for name, term in group.terms.items():
        setattr(cfg, name, _observation(term))
    return cfg


def _observation(term: ObservationTerm) -> Any:
    return ObservationTermCfg(
        func=isaac_term(term.func),
        params=dict(term.params),
        noise=None if term.noise is None else compat.noise_cfg(term.noise.low, term.noise.high),
        clip=term.clip,
        scale=None if term.scale == 1.0 else term.scale,
    )
