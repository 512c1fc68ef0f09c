"""Policy distillation: a student learns to act as a teacher would have acted in the states that the student visits.

The algorithm and its defaults are rsl_rl's ``Distillation`` (Schwarke et al. 2025, arXiv 2509.10771) with the settings
of Isaac Lab's ANYmal D. It is DAgger (Ross et al. 2011) without a data set that grows: each rollout is learnt from and
thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, one_of
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from .collector import Collector
from .core import distributed
from .core.distillation import ERRORS
from .core.finite import NonFiniteError, check_given
from .core.flat import FlatParameters
from .models.actor_critic import ActorCritic, ActorCriticConfig
from .models.heads import Gaussian
from .restored import actor_of, make_policy
from .rollout import EnvRollout
from .source import RolloutSource, check_source
from .teacher import OBSERVATION, Teacher
from .trainer import Episode, Observation


@dataclass(frozen=True, kw_only=True)
class PolicyDistillationConfig(Checked):
    """Settings of the agent ``distill``."""

    teacher: str = ""
    """Run folder of the teacher: ``--teacher``."""
    num_steps: PositiveInt = 120
    """Environment steps per rollout; typically 24 to 120."""
    num_learning_epochs: PositiveInt = 2
    """Passes over each rollout; typically 1 to 5."""
    gradient_length: PositiveInt = 15
    """Steps of one gradient: a recurrent student's gradients reach back as far; typically 10 to 30."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate of Adam; typically 1e-4 to 1e-3."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Largest norm of a gradient; None does not clip."""
    loss_type: Annotated[str, one_of(*ERRORS)] = "mse"
    """Error of the student's mean action: "mse", squared, or "huber", linear beyond 1."""
    random_episode_start: bool = True
    """Start episodes at random ages, so that time-outs do not come all at once."""
    model: ActorCriticConfig = field(default_factory=lambda: ActorCriticConfig(init_std=0.1))
    """Network of the student: its ``init_std`` is the noise with which it acts. The critic stays as it was made."""

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = self.num_steps * self.num_learning_epochs
        if lost := steps % self.gradient_length:
            raise UserError(
                f"gradient_length {self.gradient_length}: num_steps {self.num_steps} times num_learning_epochs "
                f"{self.num_learning_epochs} are {steps} steps, of which the last {lost} would be "
                f"lost; choose a divisor of {steps}"
            )
        if self.model.estimator is not None:
            raise UserError("model.estimator with distillation: the teacher knows no estimates; set it to null")
        if self.model.share_encoder:
            raise UserError("model.share_encoder with distillation: there is no critic to share with; set it false")


def source_of(env: VectorEnv, config: PolicyDistillationConfig) -> RolloutSource:
    """The source that steps environments with the student."""
    return Collector(env, num_steps=config.num_steps, random_episode_start=config.random_episode_start)


class PolicyDistillationTrainer:
    """``iterate()`` is one rollout of the student, its labels by the teacher, and one update.

    A rollout's first memories are those that the student acted with. Without a ``teacher`` it plays what it learnt.
    """

    def __init__(
        self,
        source: RolloutSource,
        config: PolicyDistillationConfig,
        *,
        seed: int,
        total_steps: int | None = None,
        teacher: Teacher | None = None,
    ):
        check_source(source)
        if distributed.size() > 1:
            raise UserError("distillation is not for several processes: train in one")
        self.source, self.num_envs, self.config, self.teacher = source, source.num_envs, config, teacher
        self.device, self.total_steps = source.device, total_steps
        self.generator = torch.Generator(self.device).manual_seed(seed)
        seen, done = source.single_observation_space, source.single_action_space
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = make_policy(seen, done, config.model, None).to(self.device)
        if teacher is not None:
            teacher.check(seen, self.policy.head.num_outputs, self.device)
        source.begin(self.policy, self.generator, None)
        self.optimizer = StudentOptimizer(self.policy, config)
        self.steps = 0
        self._episodes: list[Episode] = []

    @property
    def env(self) -> Any:
        """Environments of the source, for watchers; None if they are in another process."""
        return getattr(self.source, "env", None)

    def iterate(self) -> dict[str, float]:
        """Returns metrics, with the seconds spent under ``time/``."""
        if self.teacher is None:
            raise UserError("distillation has no teacher: give one")
        start = time.perf_counter()
        steps = self.steps + self.config.num_steps * self.num_envs
        rollout = self.source.collect(self.steps, last=self.total_steps is not None and steps >= self.total_steps)
        collected = time.perf_counter()
        check_given(rollout.rewards, rollout.observations)
        goes_on = (rollout.valid & ~(rollout.terminated | rollout.truncated))[..., None]
        labels = self.teacher.labels(rollout.observations[OBSERVATION], goes_on)
        statistics = self.optimizer.update(rollout, labels, goes_on)
        self.policy.update_normalizers(rollout.valid_observations())
        self.steps = steps
        self.source.publish(self.policy.state_dict(), steps)
        self._episodes += rollout.episodes
        end = time.perf_counter()
        metrics = {f"learn/{name}": value for name, value in (statistics | self.policy.head.spread()).items()}
        metrics["rollout/reward"] = float(rollout.rewards[rollout.valid].mean())
        metrics |= {f"rollout/{name}": value for name, value in rollout.log.items()}
        metrics |= {f"time/{name}": value for name, value in rollout.timing.items()}
        return metrics | {"time/learning": end - collected, "time/total": end - start}

    def pop_episodes(self) -> list[Episode]:
        episodes, self._episodes = self._episodes, []
        return episodes

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    def actor(self) -> nn.Module:
        """The deterministic student, observation (N, D) to action (N, A); a recurrent one has a memory as well."""
        return actor_of(self.policy, None)

    def initial_memory(self, num_envs: int) -> Observation:
        return self.policy.initial_memory(num_envs)

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The most likely actions, as environments take them, and the student's memory."""
        distribution, memory = self.policy.act(observations)
        return self.policy.head.to_env(self.policy.head.mode(distribution)), memory

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, the teacher's weights among it."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.inner.state_dict(),
            "teacher": None if self.teacher is None else self.teacher.state_dict(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
        } | self.source.state_dict()

    def load_policy(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.optimizer.inner.load_state_dict(state["optimizer"])
        if self.teacher is not None:
            self.teacher.load_state_dict(state["teacher"])
        self.generator.set_state(state["generator"])
        self.steps = state["steps"]
        self.source.load_state_dict(state)


class StudentOptimizer:
    """Adam on the error of the student's mean actions, ``gradient_length`` steps at a time, in the order of time.

    Only the actor learns. The standard deviation of its actions has no gradient and stays.
    """

    def __init__(self, policy: ActorCritic, config: PolicyDistillationConfig):
        if not isinstance(policy.head, Gaussian):
            raise UserError("distillation needs actions in a Box: teacher and student are compared by their means")
        self.policy, self.config = policy, config
        actor, critic = policy.parameter_groups()
        for parameter in critic:
            parameter.requires_grad_(False)
        self.flat = FlatParameters([actor])
        self.inner = torch.optim.Adam([self.flat.flat], config.learning_rate, fused=True)

    def update(self, rollout: EnvRollout, labels: Tensor, goes_on: Tensor) -> dict[str, float]:
        """Epochs over a rollout with its ``labels`` (T, N, A); ``goes_on`` (T, N, 1) is 0 where an episode ended."""
        config, policy, error = self.config, self.policy, ERRORS[self.config.loss_type]
        seen = [{name: value[t] for name, value in rollout.observations.items()} for t in range(len(labels))]
        first = {name: seen[0][name] for name in policy.initial_memory(1)}
        weights = (rollout.valid / rollout.valid.sum(1, keepdim=True).clamp(min=1))[..., None].to(labels.dtype)
        losses: list[Tensor] = []
        total, grad_norm, gradients = 0.0, 0.0, 0
        for _ in range(config.num_learning_epochs):
            memory: Mapping[str, Tensor] = first
            for observation, label, weight, on in zip(seen, labels, weights, goes_on, strict=True):
                (mean, _), memory = policy.act({**observation, **memory})
                # of each step the mean over environments and numbers of an action
                losses.append((error(mean, label) * weight).sum() / label.shape[-1])
                if len(losses) == config.gradient_length:
                    value, norm = self._step(torch.stack(losses).sum())
                    total, grad_norm, gradients = total + value, grad_norm + norm, gradients + 1
                    losses, memory = [], {name: part.detach() for name, part in memory.items()}
                memory = {name: part * on for name, part in memory.items()}
        steps = gradients * config.gradient_length
        return {
            "behavior_loss": total / steps,
            "grad_norm": grad_norm / gradients,
            "learning_rate": config.learning_rate,
        }

    def _step(self, loss: Tensor) -> tuple[float, float]:
        """One step of Adam; the loss and the norm of its gradient."""
        gradient = self.flat.flat.grad
        assert gradient is not None
        gradient.zero_()
        loss.backward()
        limit = self.config.max_grad_norm
        norm = self.flat.clip_gradients(float("inf") if limit is None else limit)
        value, length = torch.stack((loss.detach(), norm)).tolist()
        if not length < float("inf"):
            raise NonFiniteError("training diverged: the gradient of the behaviour loss is not finite")
        self.inner.step()
        return value, length
