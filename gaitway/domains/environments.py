"""Common part of robots, Gymnasium's environments and games: an agent learns in vector environments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gaitway_agents.registry import ENVIRONMENTS, Algorithm

from ..errors import ConfigError
from ..terminal import say
from .domain import Domain, Plays

if TYPE_CHECKING:
    from gaitway_agents.first_guess import FirstGuess
    from gaitway_agents.models.estimator import EstimatorColumns
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.teacher import Teacher
    from gaitway_agents.trainer import Learner, Trainer
    from gymnasium.vector import VectorEnv
    from torch import Tensor

    from ..runs.folder import RunFolder
    from ..train_config import TrainConfig
    from ..training.evaluator import Evaluator

PROCESS_SEEDS = 1_000
"""Every process of a training is seeded this much above the one before."""


class Environments(Plays, Domain):
    """A domain whose tasks are environments."""

    kind = "an environment"
    unfit = "learns from texts"

    def environments(self, task: Any) -> Environments:
        return self

    def symmetry(self, config: TrainConfig) -> Symmetry | None:
        """The mirror group that the agent uses; None if it uses none."""
        return None

    def columns(self, config: TrainConfig, signals: Sequence[str]) -> EstimatorColumns:
        """Columns of the observations that an estimator of ``signals`` reads and predicts; refuses missing signals."""
        raise ConfigError(
            f"agent.model.estimator: {config.task.name} has no critic that sees more than the actor; use "
            "agent.model.estimator=null"
        )

    def first_guess(self, config: TrainConfig) -> FirstGuess:
        """What a policy begins with; refuses a task of which nothing is known."""
        raise ConfigError(
            f"agent.first_guess: nothing is known of how {config.task.name} is done; use agent.first_guess=false"
        )

    def reach(self, config: TrainConfig) -> Tensor | None:
        """Distances (A,) from action 0 to the ends of what actions can do; None if there are no such ends."""
        return None

    def demonstrations(self, config: TrainConfig) -> dict[str, Tensor]:
        """Observations (P, D) of the motions that additions imitate, by the addition's name."""
        raise ConfigError(
            f"agent.additions: motions are of robots, and {config.task.name} is none; leave the addition out"
        )

    def teacher(self, config: TrainConfig) -> Teacher:
        """The teacher that ``--teacher`` names."""
        raise NotImplementedError

    def agents(self) -> Mapping[str, Algorithm]:
        return ENVIRONMENTS

    def check(self, config: TrainConfig) -> None:
        super().check(config)
        if (processes := config.processes) > 1:
            self.check_together(config, f"processes={processes}", "use processes=1")
            if config.num_envs % processes:
                raise ConfigError(
                    f"processes={processes}: num_envs={config.num_envs} cannot be shared equally; use a multiple"
                )
        from gaitway_agents.distillation import PolicyDistillationConfig
        from gaitway_agents.presets import PPOConfig
        from gaitway_agents.rsl_rl.config import RslRlConfig

        agent = config.agent
        if (symmetry := getattr(agent, "symmetry", "none")) != "none" and not self.has_mirrors(config.task):
            raise ConfigError(
                f"agent.symmetry={symmetry!r} needs a robot with mirrors, and {config.task.name} has none: "
                "use agent.symmetry=none"
            )
        if isinstance(agent, PPOConfig | PolicyDistillationConfig):
            _check_rollout(config, agent)
        if isinstance(agent, PPOConfig):
            _check_minibatches(config, agent)
            if agent.model.estimator is not None:
                self.columns(config, agent.model.estimator.signals)
            if agent.first_guess:
                self.first_guess(config)
        if isinstance(agent, RslRlConfig):
            agent.check_rows(config.num_envs)
        if (store := getattr(getattr(agent, "optimizer", None), "store", "flat")) != "flat":
            raise ConfigError(
                f"agent.optimizer.store={store!r} is for language models, whose parameters fill a GPU: use 'flat'"
            )

    def check_together(self, config: TrainConfig, asked: str, remedy: str) -> None:
        from gaitway_agents.on_policy import undistributed
        from gaitway_agents.presets import PPOConfig

        if not isinstance(config.agent, PPOConfig):
            raise ConfigError(f"{asked}: agent {config.algorithm!r} learns in one process; {remedy}")
        if (name := undistributed(config.agent)) is not None:
            raise ConfigError(
                f"{asked}: agent {config.algorithm!r} with agent.{name} learns in one process; {remedy}, or use "
                "--agent ppo without it"
            )

    def has_mirrors(self, task: Any) -> bool:
        """True if the task's robot is symmetric."""
        return False

    def preflight(self, config: TrainConfig) -> TrainConfig:
        """Build one environment and the learner, and use them once."""
        from ..training import memory

        memory.check(config)
        try:
            trainer = self.trainer(config, num_envs=1)
            env = trainer.env
            memory.check(config, memory.bytes_of(env.single_observation_space))
            self.try_out(env)
            env.close()
        except ConfigError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and type(error) is not RuntimeError:
                raise  # one of ours says more than that it cannot run
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise ConfigError(f"{config.task.name} cannot run: {reason}") from error
        return config

    def try_out(self, env: Any) -> None:
        """Use an environment as a training will."""

    def trainer(self, config: TrainConfig, num_envs: int | None = None) -> Trainer:
        from gaitway_agents.core import distributed

        seed, own = config.seed + PROCESS_SEEDS * distributed.rank(), part_of(config)
        teacher = self.teacher(own) if ENVIRONMENTS[own.algorithm].taught else None
        return self.trainer_in(self.make_env(own, num_envs or own.num_envs, seed), own, seed, teacher)

    def trainer_in(self, env: VectorEnv, config: TrainConfig, seed: int, teacher: Teacher | None = None) -> Trainer:
        """``teacher`` is for the training of an agent that has one; such an agent plays without it."""
        from gaitway_agents.registry import load
        from gymnasium import spaces

        from .motions import imitating

        name, observations, actions = config.algorithm, env.single_observation_space, env.single_action_space
        assert isinstance(observations, spaces.Dict)
        if objection := ENVIRONMENTS[name].objection(observations, actions):
            rows = [row for row in ENVIRONMENTS.values() if self.teachers or not row.taught]
            able = [row.name for row in rows if row.objection(observations, actions) is None]
            raise ConfigError(f"agent {name!r} {objection}: use one of {', '.join(able)}")
        arguments: dict[str, Any] = {"seed": seed, "total_steps": config.total_steps}
        if (symmetry := self.symmetry(config)) is not None:
            arguments["symmetry"] = symmetry
        if (estimator := getattr(getattr(config.agent, "model", None), "estimator", None)) is not None:
            arguments["columns"] = self.columns(config, estimator.signals)
        if getattr(config.agent, "first_guess", False):
            arguments["guess"] = self.first_guess(config)
        if getattr(config.agent, "action_limit", None) is not None and (reach := self.reach(config)) is not None:
            arguments["reach"] = reach
        if imitating(config):
            arguments["demonstrations"] = self.demonstrations(config)
        if teacher is not None:
            arguments["teacher"] = teacher
        row = ENVIRONMENTS[name]
        learnt_from = env if row.source is None else load(row.source)(env, config.agent)
        trainer: Trainer = load(row.trainer)(learnt_from, config.agent, **arguments)
        return trainer

    def prepare(self, config: TrainConfig) -> None:
        import torch

        torch.set_num_threads(1)  # the matrices are small: threads inside an operation cost more than they save

    def learner_along(self, config: TrainConfig, run: RunFolder | None) -> Trainer:
        self.prepare(config)
        return self.trainer(config if run is None else self.as_begun(config, run.record))

    def build(self, config: TrainConfig, run: RunFolder) -> tuple[Learner, Evaluator]:
        from ..training.evaluator import EpisodeEvaluator

        self.prepare(config)
        trainer = self.trainer(config)
        for line in getattr(trainer.env, "notes", ()):
            say(line)
        return trainer, EpisodeEvaluator(config, run, trainer)


def part_of(config: TrainConfig) -> TrainConfig:
    """The configuration of one of its processes: an equal part of environments and threads.

    The processes of torchrun have the same environments each, and share the cores of their machine.
    """
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if (count := config.processes) == 1 and (beside == 1 or config.num_threads):
        return config
    threads = max(1, (config.num_threads or len(os.sched_getaffinity(0))) // (count * beside))
    return replace(config, processes=1, num_envs=config.num_envs // count, num_threads=threads)


def _check_rollout(config: TrainConfig, agent: Any) -> None:
    rollout = config.num_envs * agent.num_steps
    if config.total_steps < rollout:
        raise ConfigError(
            f"total_steps={config.total_steps} is less than one rollout, num_envs={config.num_envs} x "
            f"agent.num_steps={agent.num_steps} = {rollout}: raise total_steps or lower num_envs"
        )


def _check_minibatches(config: TrainConfig, agent: Any) -> None:
    rows, unit, remedy = config.num_envs * agent.num_steps, "steps", "num_envs or agent.num_steps"
    if agent.model.recurrent != "none":
        rows, unit, remedy = config.num_envs, "sequences", "num_envs"
    if rows < agent.optimizer.minibatches:
        raise ConfigError(
            f"a rollout of {rows} {unit} cannot be split into "
            f"agent.optimizer.minibatches={agent.optimizer.minibatches}: raise {remedy}"
        )
