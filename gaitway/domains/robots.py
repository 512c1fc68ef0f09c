"""Legged robots, in MuJoCo and in Isaac Lab."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, RunError
from .environments import Environments
from .request import Request

if TYPE_CHECKING:
    from gaitway_agents.models.estimator import EstimatorColumns
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.trainer import Learner, Trainer
    from gaitway_sim2real.validate.examiner import Examination
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv

    from ..config.train_config import TrainConfig
    from ..runs.folder import RunFolder
    from ..training.evaluator import Evaluator
    from ..training.tracking import RobotMeasures

ISAACLAB = "isaaclab"


class Robots(Environments):
    """Tasks of :mod:`gaitway_tasks.registry`."""

    has_presets = True
    settings = ("physics", ISAACLAB)
    watched = "walk"
    evaluation_envs = 64

    # ---- tasks -----------------------------------------------------------------------------------------------------

    def names(self) -> Iterable[str]:
        from gaitway_tasks.registry import task_names

        return task_names()

    def find(self, name: str, preset: str | None = None) -> Task | None:
        from gaitway_tasks.registry import find_task

        return find_task(name, preset)

    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        from gaitway_tasks.registry import entries

        tasks = [(name, entry.presets, entry.summary) for name, entry in entries().items()]
        return [*tasks, ("MODULE:OBJECT", (), "a robot's task of a module of your own")]

    # ---- configuration ---------------------------------------------------------------------------------------------

    def defaults(self, task: Task, request: Request) -> dict[str, Any]:
        from .robot_presets import robot_settings

        if request.agent not in self.agents():
            raise self.wrong_agent(request.agent, task)
        device = self.device(request.world, str(request.asked("device") or "auto"))
        settings = robot_settings(task, self.agents()[request.agent].defaults(), request, device)
        if (parameters := request.options.get("parameters")) is not None:
            settings["task"] = _identified(settings.get("task", task), parameters)
        return settings

    def needs(self, world: str) -> Collection[str]:
        return self.settings if world == ISAACLAB else ("physics",)

    def learns_on_gpu(self, world: str) -> bool:
        return world == ISAACLAB

    def has_mirrors(self, task: Task) -> bool:
        return bool(task.robot.mirrors)

    def check(self, config: TrainConfig) -> None:
        if config.world == ISAACLAB:
            _check_isaaclab(config)
        super().check(config)
        _check_task(config.task)

    def check_continued(self, config: TrainConfig, options: Mapping[str, Any], path: Path) -> None:
        if (parameters := options.get("parameters")) is None:
            return
        task = self.find(config.task.name, config.preset) or config.task
        given = _identified(task, parameters)
        if given.robot.parameters != config.task.robot.parameters:
            raise RunError(f"{path} was not started with --parameters {parameters}: choose another --out")

    def as_begun(self, config: TrainConfig, record: Mapping[str, Any]) -> TrainConfig:
        if config.isaaclab is None or ISAACLAB not in record:
            return config
        begun = {name: record[ISAACLAB][name] for name in ("asset", "physics") if name in record[ISAACLAB]}
        return dataclasses.replace(config, isaaclab=dataclasses.replace(config.isaaclab, **begun))

    # ---- training --------------------------------------------------------------------------------------------------

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        if config.world == ISAACLAB:
            from gaitway_isaaclab import launch

            return launch.make_env(config.task, num_envs, device=config.device, seed=seed, options=config.isaaclab)
        import gaitway_mujoco

        assert config.physics is not None
        physics = dataclasses.asdict(config.physics)
        return gaitway_mujoco.make_env(config.task, num_envs, seed=seed, num_threads=config.num_threads, **physics)

    def symmetry(self, config: TrainConfig) -> Symmetry | None:
        if getattr(config.agent, "symmetry", "none") == "none":
            return None
        from gaitway_agents.symmetry import Symmetry
        from gaitway_mujoco.mirrors import verify_mirrors
        from gaitway_tasks.symmetry import mirror_group

        verify_mirrors(config.task.robot)
        group = mirror_group(config.task)
        return Symmetry(group.observations, group.actions, group.selectors)

    def columns(self, config: TrainConfig, signals: Sequence[str]) -> EstimatorColumns:
        from gaitway_agents.models.estimator import EstimatorColumns
        from gaitway_tasks.layout import newest_columns

        groups = config.task.observations
        if "critic" not in groups:
            raise ConfigError(
                f"agent.model.estimator: {config.task.name} has no observation group 'critic' with signals of its own; "
                "train its '-blind' variant, or use agent.model.estimator=null"
            )
        critic, policy = groups["critic"].terms, groups["policy"].terms
        for signal in signals:
            hidden = [name for name in critic if name not in policy]
            if signal not in hidden:
                why = "the actor reads it already" if signal in policy and signal in critic else "the critic lacks it"
                raise ConfigError(
                    f"agent.model.estimator.signals names {signal!r}: {why}; only the critic of {config.task.name} "
                    f"sees {', '.join(hidden) or 'nothing'}"
                )
        try:
            newest = newest_columns(config.task, groups["policy"])
            found = newest_columns(config.task, groups["critic"])
        except ValueError as error:
            raise ConfigError(f"agent.model.estimator: {error}") from None
        return EstimatorColumns(
            tuple(column for part in newest.values() for column in part),
            {signal: tuple(found[signal]) for signal in signals},
        )

    def check_examination(self, config: TrainConfig) -> None:
        from gaitway_agents.registry import ENVIRONMENTS, load
        from gaitway_sim2real.bundle.contracts import ExportError, exportable

        if config.task.terrain.kind != "plane":
            raise ConfigError(
                f"until={config.until}: {config.task.name} walks on generated terrain, and the examination is on flat "
                "ground; leave --until out"
            )
        if not hasattr(load(ENVIRONMENTS[config.algorithm].trainer), "actor"):
            raise ConfigError(
                f"until={config.until}: policies of agent {config.algorithm!r} are not exported, so none can be "
                "examined; use --agent ppo or leave --until out"
            )
        try:
            exportable(_estimating(config.task))
        except ExportError as error:
            raise ConfigError(f"until={config.until}: {error}") from None

    def examiner(self, config: TrainConfig) -> Callable[[Learner], Examination]:
        from gaitway_sim2real.validate.examiner import Examiner

        from ..training.evaluator import EVALUATION_SEED

        task, seed = _estimating(config.task), config.seed + EVALUATION_SEED
        examine = Examiner(task, seed=seed, threads=config.num_threads)
        return lambda learner: examine(learner.actor())  # type: ignore[attr-defined]

    def preflight(self, config: TrainConfig) -> None:
        """As in other environments. Isaac Lab takes minutes to start, once in a process: it is looked for only."""
        if config.isaaclab is None:
            return super().preflight(config)
        from gaitway_isaaclab import launch, preflight

        preflight.check(config.isaaclab.physics)
        launch.resolve_device(config.device)

    def try_out(self, env: Any) -> None:
        import torch

        env.reset()
        env.managers.events.apply("interval", torch.tensor([0]))
        env.step(torch.zeros(env.action_space.shape))

    def measures(self, env: Any) -> RobotMeasures:
        from ..training.tracking import RobotMeasures

        return RobotMeasures(env)

    def player(self, config: TrainConfig, path: Path, num_envs: int) -> Trainer:
        return super().player(in_mujoco(config), path, num_envs)

    def build(self, config: TrainConfig, run: RunFolder) -> tuple[Learner, Evaluator]:
        trainer, evaluator = super().build(config, run)
        if config.world == ISAACLAB:
            # What was chosen now is what the run goes on with.
            simulation = trainer.env.simulation  # type: ignore[attr-defined]
            run.update(isaaclab=simulation)
            version = simulation["versions"].get(ISAACLAB, "of unknown version")
            print(f"Isaac Lab {version}, {simulation['engine']}; robot: {simulation['asset']}", flush=True)
        return trainer, evaluator

    def start(self, config: TrainConfig) -> None:
        """Say what may stop Isaac Sim, and start it now where it has to be the first thing that runs."""
        if config.isaaclab is None:
            return
        from gaitway_isaaclab import application, launch, preflight

        if application.is_running():
            return
        for line in preflight.advice(preflight.check(config.isaaclab.physics)):
            print(f"note: {line}")
        launch.start_first(config.device)

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        if continued and config.world == ISAACLAB:
            yield (
                "the learner goes on exactly where it was; Isaac Lab's simulations cannot be saved, so episodes start "
                "anew"
            )
        if config.until == "good":
            yield (
                f"training ends when all checks of an examination hold twice in a row, after {config.total_steps:,} "
                "steps at the latest"
            )
        if not continued and config.world == "mujoco" and config.preset is None:
            yield (
                "these are Isaac Lab's settings, meant for a GPU; --preset cpu learns to walk in minutes on two cores"
            )


def in_mujoco(config: TrainConfig) -> TrainConfig:
    """Configuration of a robot's run for MuJoCo, with flat ground, for a run in any world."""
    if config.world != ISAACLAB:
        return config
    from gaitway_tasks.spec import Terrain

    flat = config.task.replace(terrain=Terrain(friction=config.task.terrain.friction), curriculum={})
    return dataclasses.replace(config, world="mujoco", isaaclab=None, device="auto", task=flat)


def _estimating(task: Task) -> Task:
    """The task whose policy gets all inputs that a bundle can have, as ``gaitway validate RUN`` gives them."""
    from gaitway_sim2real.bundle.contracts import ESTIMATES

    return task.replace(estimators=tuple(ESTIMATES.values()))


def _identified(task: Task, path: Path) -> Task:
    """The task on the one robot that a parameter file describes; a network's file goes by its full path."""
    from gaitway_tasks.identified import identified_task
    from gaitway_tasks.robots.parameters_file import load_parameters

    parameters = load_parameters(path, task.robot.name)
    if parameters.actuator_network is not None:
        network = str((path.parent / parameters.actuator_network).resolve())
        parameters = dataclasses.replace(parameters, actuator_network=network)
    return identified_task(task, parameters)


def _check_isaaclab(config: TrainConfig) -> None:
    from gaitway_agents.presets import PPOConfig

    if not isinstance(config.agent, PPOConfig):
        raise ConfigError(
            f"agent {config.algorithm!r} does not learn in Isaac Lab: use ppo or one of its kin, or Isaac Lab's own "
            "scripts for rsl_rl"
        )
    if config.agent.decoupled:
        raise ConfigError(
            f"agent {config.algorithm!r} with agent.decoupled=true: a process has one simulation of Isaac Lab on the "
            "GPU that also learns, so nothing can be gathered meanwhile; use --agent ppo with agent.decoupled=false"
        )
    if config.evaluation_episodes:
        raise ConfigError(
            f"evaluation_episodes={config.evaluation_episodes}: a process has one simulation of Isaac Lab; use "
            "evaluation_episodes=0"
        )


def _check_task(task: Task) -> None:
    if task.timing.max_episode_length < 1:
        raise ConfigError(
            f"task.timing.episode_length_s={task.timing.episode_length_s} is shorter than one control step "
            f"of {task.timing.step_dt} s"
        )
    if "policy" not in task.observations:
        raise ConfigError("task.observations has no group 'policy', which the actor reads")
    if not any(reward.weight for reward in task.rewards.values()):
        raise ConfigError("every weight in task.rewards is 0: there is nothing to learn from")
    for name, command in task.commands.items():
        for axis in ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading", "resampling_time_range"):
            low, high = getattr(command, axis)
            if low > high:
                raise ConfigError(f"task.commands.{name}.{axis}=[{low}, {high}]: the lower end comes first")
