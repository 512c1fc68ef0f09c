"""Legged robots, in every simulator of :mod:`gaitway.backends`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.table import BACKENDS, backend, options
from ..errors import ConfigError, RunError, UserError
from .environments import Environments
from .request import Request

if TYPE_CHECKING:
    from gaitway_agents.first_guess import FirstGuess
    from gaitway_agents.models.estimator import EstimatorColumns
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.teacher import Teacher
    from gaitway_agents.trainer import Learner
    from gaitway_sim2real.trial.candidate import Trial
    from gaitway_sim2real.trial.examination import Examination
    from gaitway_sim2real.trial.schedule import Progress
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv
    from torch import Tensor, nn

    from ..runs.folder import RunFolder
    from ..train_config import TrainConfig
    from ..training.evaluator import Evaluator
    from ..training.tracking import RobotMeasures


TRIAL_SEED, TRIALS = 1_000_000, 1_000
"""Seed of the suite's first trial of a training with seed 0, and seeds for each training: no verdict's own, which is 0
unless its user says otherwise, so a policy is not chosen by the draws that it is judged on."""
MUJOCO_BYTES = 10_000
"""Bytes of a robot in MuJoCo at least. Measured: Go2 12,000, ANYmal C 17,000 and on rough ground 37,000, G1 33,000."""


class Robots(Environments):
    """Tasks of :mod:`gaitway_tasks.registry`."""

    has_presets = True
    watched = "walk"
    evaluation_envs = 64
    teachers = "a run folder of the same robot"
    unlimited = "the task has no time-out: add task.terminations.time_out"

    # ---- tasks -----------------------------------------------------------------------------------------------------

    def names(self) -> Iterable[str]:
        from gaitway_tasks.registry import task_names

        return task_names()

    def find(self, name: str, preset: str | None = None) -> Task | None:
        from gaitway_tasks.registry import find_task

        return find_task(name, preset)

    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        from gaitway_tasks.registry import entries

        tasks = [(name, list(entry.presets), entry.summary) for name, entry in entries().items()]
        return [*tasks, ("MODULE:OBJECT", (), "a robot's task of a module of your own")]

    def usual_preset(self, name: str, world: str) -> str | None:
        """``cpu`` in MuJoCo, which simulates on the CPU: Isaac Lab's own numbers, for a GPU, take an hour there.

        A preset changes a task, and one that the user calls ``module:object`` stays as it was written.
        """
        from gaitway_tasks.registry import is_outside, presets

        return "cpu" if world == "mujoco" and not is_outside(name) and "cpu" in presets(name) else None

    # ---- configuration ---------------------------------------------------------------------------------------------

    def defaults(self, task: Task, request: Request) -> dict[str, Any]:
        from .robot_presets import robot_settings

        device = self.device(request.world, str(request.asked("device") or "auto"))
        learner = self.agents()[request.agent].defaults()
        if (teacher := request.options.get("teacher")) is not None:
            self.check_teacher(request.agent, teacher)
            learner = dataclasses.replace(learner, teacher=str(Path(teacher).resolve()))
        settings = robot_settings(task, learner, request, device)
        if (parameters := request.options.get("parameters")) is not None:
            settings["task"] = _identified(settings.get("task", task), parameters)
        if paths := request.options.get("against"):
            from .against import Against

            cases = Against(settings.get("task", task), paths)
            settings |= {"task": cases.joined(settings.get("task", task)), "against": cases.paths}
        return settings

    def needs(self, world: str) -> Collection[str]:
        return ("simulator",) if BACKENDS[world].options else ()

    def learns_on_gpu(self, world: str) -> bool:
        return backend(world).gpu

    def has_mirrors(self, task: Task) -> bool:
        return bool(task.robot.mirrors)

    def check(self, config: TrainConfig) -> None:
        backend(config.world).check(config)
        super().check(config)
        _check_task(config.task)

    def check_continued(self, config: TrainConfig, options: Mapping[str, Any], path: Path) -> Sequence[str]:
        if paths := options.get("against"):
            from .against import Against

            if Against(config.task, paths).paths != config.against:
                raise RunError(f"{path} was not started with these cases of --against: choose another --out")
        if (teacher := options.get("teacher")) and str(Path(teacher).resolve()) != (had := self.teacher_of(config)):
            raise RunError(f"{path} was started with --teacher {had!r}, not {teacher}: choose another --out")
        if (parameters := options.get("parameters")) is None:
            return ()
        task = self.find(config.task.name, config.preset) or config.task
        given = _identified(task, parameters)
        if given.robot.parameters != config.task.robot.parameters:
            raise RunError(f"{path} was not started with --parameters {parameters}: choose another --out")
        return ()

    def as_begun(self, config: TrainConfig, record: Mapping[str, Any]) -> TrainConfig:
        return backend(config.world).as_begun(config, record)

    # ---- training --------------------------------------------------------------------------------------------------

    def environment_bytes(self, config: TrainConfig) -> int:
        return MUJOCO_BYTES if config.world == "mujoco" else super().environment_bytes(config)

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        return backend(config.world).make_env(config, num_envs, seed)

    def symmetry(self, config: TrainConfig) -> Symmetry | None:
        if (group := _mirrors(config)) is not None:
            from gaitway_mujoco.mirrors import verify_mirrors

            verify_mirrors(config.task.robot)
        return group

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

    def first_guess(self, config: TrainConfig) -> FirstGuess:
        from gaitway_agents.first_guess import FirstGuess
        from gaitway_tasks.lift import states
        from gaitway_tasks.mdp.pose import UniformPoseCommand
        from gaitway_tasks.reach.poses import FIT, poses_held
        from gaitway_tasks.velocity.steps import steps_by_the_clock

        try:
            if config.task.objects:
                columns, seen, actions = states.grasps(config.task)
                return FirstGuess(columns, actions, seen, alone=True, steps=states.FIT, decay=True)
            if any(isinstance(command, UniformPoseCommand) for command in config.task.commands.values()):
                columns, poses, actions = poses_held(config.task)
                return FirstGuess(columns, actions, poses, alone=True, steps=FIT)
            return FirstGuess(*steps_by_the_clock(config.task))
        except UserError as error:
            raise ConfigError(f"agent.first_guess: {error}; use agent.first_guess=false") from None

    def reach(self, config: TrainConfig) -> Tensor | None:
        """Of joint targets: to the farther end of each joint's range, in units of the action."""
        import torch

        robot, action = config.task.robot, config.task.actions.as_joint_positions()
        if action is None:
            return None
        offsets, scales = action.offsets(robot), action.scales(robot)
        farthest = [
            max(high - offset, offset - low) for (low, high), offset in zip(robot.joint_limits, offsets, strict=True)
        ]
        return torch.tensor([farthest[joint] / abs(scales[joint]) for joint in action.acting(robot)])

    def check_examination(self, config: TrainConfig) -> None:
        from gaitway_agents.registry import ENVIRONMENTS
        from gaitway_sim2real.bundle.contracts import exportable
        from gaitway_tasks.commands import check_suite

        if not config.task.ground.flat:
            raise ConfigError(
                f"until={config.until}: {config.task.name} walks on {type(config.task.ground).__name__}, and the "
                "examination is on flat ground; leave --until out"
            )
        if ENVIRONMENTS[config.algorithm].restored is None:
            raise ConfigError(
                f"until={config.until}: policies of agent {config.algorithm!r} are not exported, so none can be "
                "examined; use --agent ppo or leave --until out"
            )
        try:
            exportable(_estimating(config.task))
            check_suite(config.task)
        except UserError as error:
            raise ConfigError(f"until={config.until}: {error}") from None

    def examiner(self, config: TrainConfig) -> Callable[[Learner], Examination]:
        from gaitway_sim2real.trial.examination import Examiner

        from ..training.evaluator import EVALUATION_SEED

        task, seed = _estimating(config.task), config.seed + EVALUATION_SEED
        further = None
        if config.against:
            from .against import Against

            further = Against(task, config.against).checks(config.num_threads)
        examine = Examiner(task, seed=seed, threads=config.num_threads, further=further)
        return lambda learner: examine(learner.actor())  # type: ignore[attr-defined]

    def judge(self, config: TrainConfig) -> Callable[[Learner, int, Sequence[str], Progress], Trial]:
        from gaitway_sim2real.trial.candidate import tried

        task, first_seed = _estimating(config.task), TRIAL_SEED + config.seed * TRIALS

        def judge(learner: Any, number: int, first: Sequence[str], progress: Progress) -> Trial:
            actor, seed = learner.actor(), first_seed + number
            return tried(task, actor, seed=seed, first=first, processes=config.num_threads, progress=progress)

        return judge

    def preflight(self, config: TrainConfig) -> TrainConfig:
        """As in other environments, where the simulator may be started to try; the robot is checked first."""
        from .motions import imitating, with_motions

        if backend(config.world).steps_model:
            from gaitway_tasks.robots.check import check_robot

            check_robot(config.task.robot)
            _check_suites(config.task)
        if self.teacher_of(config):
            from .teachers import with_teacher

            config = with_teacher(config)
        if imitating(config):
            config = with_motions(config)
        return super().preflight(config) if backend(config.world).preflight(config) else config

    def teacher(self, config: TrainConfig) -> Teacher:
        from .teachers import teacher_for

        return teacher_for(config)

    def demonstrations(self, config: TrainConfig) -> dict[str, Tensor]:
        from .motions import demonstrations

        return demonstrations(config)

    def try_out(self, env: Any) -> None:
        import torch

        from ..training.tracking import tracking_errors

        env.reset()
        env.managers.events.apply("interval", torch.tensor([0], device=env.device))
        env.step(torch.zeros(env.action_space.shape))
        tracking_errors(env)

    def evaluated(self, config: TrainConfig) -> TrainConfig:
        from gaitway_tasks.mdp.curriculums import ungrown

        return dataclasses.replace(config, task=ungrown(config.task))

    def time_limit(self, task: Task) -> int | None:
        from gaitway_tasks.mdp.terminations import time_out

        limited = any(termination.func is time_out for termination in task.terminations.values())
        return task.timing.max_episode_length if limited else None

    def measures(self, env: Any) -> RobotMeasures:
        from ..training.tracking import RobotMeasures

        return RobotMeasures(env)

    def restored(self, config: TrainConfig, state: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        from gaitway_agents.registry import ENVIRONMENTS, load

        make = ENVIRONMENTS[config.algorithm].restored
        assert make is not None
        arguments: dict[str, Any] = {"symmetry": _mirrors(config)}
        if (estimator := getattr(getattr(config.agent, "model", None), "estimator", None)) is not None:
            arguments["columns"] = self.columns(config, estimator.signals)
        task = config.task
        arguments |= {"groups": task.observations, "num_actions": task.actions.num(task.robot)}
        found: tuple[nn.Module, nn.Module] = load(make)(state, config.agent, **arguments)
        return found

    def build(self, config: TrainConfig, run: RunFolder) -> tuple[Learner, Evaluator]:
        trainer, evaluator = super().build(config, run)
        if chosen := backend(config.world).record(evaluator.trainer.env):
            run.update(**chosen)  # the run goes on with them
        return trainer, evaluator

    def start(self, config: TrainConfig) -> None:
        backend(config.world).start(config)

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        from gaitway_tasks.commands import check_exported, steering

        if config.until == "good":
            yield (
                "training ends when a policy passes an examination and then the whole suite, after "
                f"{config.total_steps:,} steps at the latest"
            )
        if config.against:
            yield f"cases that are among the disturbances and must be survived: {len(config.against)}"
        walks = not config.task.robot.fixed_base
        if config.preset and walks and not self.has_mirrors(config.task) and hasattr(config.agent, "symmetry"):
            yield f"{config.task.robot.name} has no mirrors: each direction is learnt from steps in it alone"
        try:
            check_exported(*steering(config.task))
        except UserError as error:
            yield f"policies of {config.task.name} cannot be exported: {error}"
        yield from backend(config.world).notes(config, continued=continued)


def _mirrors(config: TrainConfig) -> Symmetry | None:
    """The mirror group that the agent uses, unverified; None if it uses none."""
    if getattr(config.agent, "symmetry", "none") == "none":
        return None
    from gaitway_agents.symmetry import Symmetry
    from gaitway_tasks.symmetry import mirror_group

    group = mirror_group(config.task)
    return Symmetry(group.observations, group.actions, group.selectors)


def in_mujoco(config: TrainConfig) -> TrainConfig:
    """Configuration of a robot's run for MuJoCo, for a run in any world."""
    if backend(config.world).portable:
        return config
    return dataclasses.replace(config, world="mujoco", device="auto", simulator=options("mujoco"))


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


def _check_suites(task: Task) -> None:
    """Raise :class:`UserError` for a suite of another package that is not where its command says."""
    named = [command.suite for command in task.commands.values() if command.suite]
    if not named:
        return
    from gaitway_files.trust import trust
    from gaitway_sim2real.trial.suites import suite_named

    for path in named:
        trust(path)
        suite_named(path)


def _check_task(task: Task) -> None:
    from gaitway_tasks.commands import check_numbers

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
        for key, value in vars(command).items():
            if key in ("acceleration", "rest"):  # a value for each number
                continue
            if isinstance(value, tuple) and len(value) == 2 and value[0] > value[1]:
                raise ConfigError(f"task.commands.{name}.{key}=[{value[0]}, {value[1]}]: the lower end comes first")
        try:
            check_numbers(name, command)
        except UserError as error:
            raise ConfigError(f"task.commands: {error}") from None
