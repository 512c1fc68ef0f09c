"""Improve a policy on the rollouts that a source gathers."""

from __future__ import annotations

import io
import math
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch
from gaitway_files.blame import blamed
from gaitway_files.errors import UserError
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .additions import Addition, AdditionConfig
from .core import distributed
from .core.advantage import gae, monte_carlo
from .core.batch import Batch
from .core.finite import NonFiniteError, check_given
from .core.optimizer import OptimizerConfig, PolicyOptimizer
from .core.policy import Policy
from .core.scaling import PercentileScaler
from .core.together import LostProcess, OtherFailed
from .core.trust_region import TrustRegionConfig, TrustRegionOptimizer
from .core.vtrace import vtrace
from .estimation import EstimatorOptimizer
from .first_guess import FirstGuess, fit
from .imitation import Demonstrations, ImitationConfig
from .models.actor_critic import ActorCritic
from .models.estimator import EstimatorColumns
from .models.normalizer import RewardScaler
from .presets import PPOConfig
from .restored import actor_of, make_policy
from .rollout import EnvRollout
from .source import RolloutSource, check_source
from .symmetry import MirrorLoss, Symmetry
from .trainer import Episode, Observation

Answer = TypeVar("Answer")
BUILT_IN = ("estimator_optimizer", "reward_scaler", "advantage_scaler")
"""Names of additions that settings of their own ask for."""
IMAGES_AT_ONCE = 256
"""Images of a forward pass of the critic."""


class ScaledRewards(Addition):
    """Scaling of the rewards that are learnt from; each of several processes has statistics of its own environments."""

    def __init__(self, scaler: RewardScaler):
        self.scaler = scaler

    def rewards(self, rollout: EnvRollout) -> EnvRollout:
        done = rollout.terminated | rollout.truncated
        return replace(rollout, learnt_rewards=self.scaler(rollout.learnt_rewards, done, rollout.valid))

    def state_dict(self) -> dict[str, Any]:
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scaler.load_state_dict(state)


class OnPolicyTrainer:
    """PPO's outer loop: ``iterate()`` is one rollout and one update.

    With canonical symmetry the whole learner lives in the canonical domain and only what enters an environment is
    mirrored back. Everything lives on the source's ``device``. In a torch.distributed group each process has a source
    of its own and they learn as one; steps are those of all.
    """

    def __init__(
        self,
        source: RolloutSource,
        config: PPOConfig,
        *,
        seed: int,
        symmetry: Symmetry | None = None,
        total_steps: int | None = None,
        columns: EstimatorColumns | None = None,
        guess: FirstGuess | None = None,
        demonstrations: Mapping[str, Tensor] | None = None,
    ):
        """``columns`` of the observations are for a policy with an estimator; ``guess`` is what it begins with.

        ``demonstrations`` are observations (P, D) by the name of the addition that imitates them.
        """
        check_source(source)
        if (config.symmetry != "none") != (symmetry is not None):
            raise UserError(f"symmetry is {config.symmetry!r} but {'no' if symmetry is None else 'a'} group was given")
        if config.learning_rate_final is not None and not (config.anneal_steps or total_steps):
            raise UserError("learning_rate_final needs total_steps: how long the training over which to anneal is")
        if distributed.size() > 1 and (name := undistributed(config)) is not None:
            raise UserError(f"{name} is not for several processes: train in one, or use plain PPO")
        self.source, self.num_envs = source, source.num_envs
        self.config, self.total_steps, self.guess = config, total_steps, guess
        self.device = source.device
        self.symmetry = None if symmetry is None else symmetry.to(self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            seen, done = source.single_observation_space, source.single_action_space
            self.policy = make_policy(seen, done, config.model, columns).to(self.device)
        optimizer = config.optimizer
        if isinstance(optimizer, OptimizerConfig) and self.policy.actor_encoder.has_images:
            self.policy.plays_in = optimizer.precision if config.model.recurrent == "none" else "float32"
        self._canonical = self.symmetry if config.symmetry == "canonical" else None
        source.begin(self.policy, self.generator, self._canonical)
        self._demonstrations = dict(demonstrations or {})
        self.additions = {name: self._made(name, each) for name, each in config.additions.items()}
        """By name; those that change rewards do so in this order."""
        for name, addition in self._built_in().items():
            if name in self.additions:
                raise UserError(f"agent.additions.{name}: one of PPO's own has this name; choose another")
            self.additions[name] = addition
        self.optimizer = make_optimizer(self.policy, config.optimizer, self.generator, self.additions)
        for buffer in self.policy.buffers():
            distributed.from_first_(buffer)
        self._average = None if config.average_steps is None else self._averaged(config.average_steps)
        self.steps = 0
        self._episodes: list[Episode] = []
        self._publish()

    def _made(self, name: str, settings: AdditionConfig) -> Addition:
        """An addition of another package, whose state can be kept."""
        shown: dict[str, Demonstrations] = {}
        if isinstance(settings, ImitationConfig) and name in self._demonstrations:
            shown["demonstrations"] = Demonstrations(self._demonstrations[name], self._canonical)
        with blamed(f"addition {name!r}", type(settings)):
            made = settings.make(self.policy, self.source, self.generator, **shown)
        if not isinstance(made, Addition):
            raise UserError(f"addition {name!r}: its make returned a {type(made).__name__}, no Addition")
        self._kept(name, made)
        return made

    def _asked(self, name: str, method: str, kind: type[Answer], call: Callable[..., Any], *args: Any) -> Answer:
        """What an addition's method returns; what goes wrong in one of another package is told with its place."""
        if name not in self.config.additions:
            return call(*args)
        with blamed(f"addition {name!r}, {method},", type(self.additions[name])):
            answer = call(*args)
        if not isinstance(answer, kind):
            raise UserError(f"addition {name!r}: its {method} returned a {type(answer).__name__}, no {kind.__name__}")
        return answer

    def _kept(self, name: str, addition: Addition) -> dict[str, Any]:
        """State of an addition of another package, which a checkpoint can hold and give back."""
        with blamed(f"addition {name!r}, state_dict,", type(addition)):
            state = addition.state_dict()
            torch.save(state, file := io.BytesIO())
            file.seek(0)
        try:
            torch.load(file, weights_only=True)
        except pickle.UnpicklingError as error:
            raise UserError(
                f"addition {name!r}: its state_dict holds more than tensors, numbers, texts, lists and mappings, and "
                "no checkpoint with it could be read"
            ) from error
        return state

    def _built_in(self) -> dict[str, Addition]:
        config, found = self.config, dict[str, Addition]()
        if (estimates := config.model.estimator) is not None:
            optimizer = EstimatorOptimizer(self.policy, estimates, config.optimizer, self.generator)
            found["estimator_optimizer"] = optimizer
        if config.scale_rewards:
            found["reward_scaler"] = ScaledRewards(RewardScaler(self.num_envs, config.gamma).to(self.device))
        if config.model.dreamer.percentile_scaling:
            found["advantage_scaler"] = PercentileScaler()
        if config.symmetry == "loss":
            assert self.symmetry is not None
            found["mirror"] = MirrorLoss(self.policy, self.symmetry, config.mirror_loss_coefficient)
        return found

    def _averaged(self, over: int) -> AveragedModel:
        """Exponential mean of the policy's parameters over the iterations, with the newest one's buffers."""
        decay = math.exp(-self.config.num_steps * self.num_envs * distributed.size() / over)
        return AveragedModel(self.policy, multi_avg_fn=get_ema_multi_avg_fn(decay))

    @property
    def env(self) -> Any:
        """Environments of the source, for watchers; None if they are in another process."""
        return getattr(self.source, "env", None)

    def _publish(self) -> None:
        self.source.publish(self.policy.state_dict(), self.steps)

    # ---- one iteration ---------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """One rollout and one update. Returns metrics, with the seconds spent under ``time/``."""
        start = time.perf_counter()
        if not self.steps:
            self._check_rows()
            if self.guess is not None:
                self._begin_with(self.guess)
        steps = self.steps + self.config.num_steps * self.num_envs * distributed.size()
        rollout = self._collected(last=self.total_steps is not None and steps >= self.total_steps)
        for name, addition in self.additions.items():
            rollout = self._asked(name, "rewards", EnvRollout, addition.rewards, rollout)
        collected = time.perf_counter()
        self._anneal()
        batch = self._prepare(rollout)
        for name, addition in self.additions.items():
            self._asked(name, "seen", object, addition.seen, batch)
        refresh = (lambda: self._scaled(self._prepare(rollout))) if self.config.recompute_advantages else None
        statistics = self.optimizer.update(self._scaled(batch), refresh)
        for name, addition in self.additions.items():
            found = self._asked(name, "update", dict, _numbers, addition.update, batch)
            if taken := sorted(found.keys() & statistics.keys()):
                raise UserError(f"addition {name!r}: its statistic {taken[0]!r} is there already: give it another name")
            statistics |= found
        self.policy.update_normalizers(rollout.valid_observations())
        if self._average is not None:
            self._average.update_parameters(self.policy)
        self.steps = steps
        self._publish()
        self._episodes += rollout.episodes
        end = time.perf_counter()
        metrics = {f"learn/{name}": value for name, value in statistics.items()}
        metrics |= {f"learn/{name}": value for name, value in self.policy.head.spread().items()}
        metrics["learn/explained_variance"] = _explained_variance(batch)
        metrics["rollout/reward"] = _mean_reward(rollout)
        metrics |= {f"rollout/{name}": value for name, value in rollout.log.items()}
        metrics |= {f"time/{name}": value for name, value in rollout.timing.items()}
        return metrics | {"time/learning": end - collected, "time/total": end - start}

    def _begin_with(self, guess: FirstGuess) -> None:
        """Fit the policy to a first guess, once a rollout has told how its observations are normalised."""
        rollout = self._collected(last=False)
        self.policy.update_normalizers(rollout.valid_observations())
        fit(self.policy, guess)
        if self.config.average_steps is not None:
            self._average = self._averaged(self.config.average_steps)
        self.steps = self.config.num_steps * self.num_envs * distributed.size()
        self._episodes += rollout.episodes
        self._publish()

    def _collected(self, *, last: bool) -> EnvRollout:
        """A rollout, once all processes have theirs: none begins an update that another cannot share."""
        try:
            rollout = self.source.collect(self.steps, last=last)
        except Exception:
            distributed.any_of(True, torch.device("cpu"))
            raise
        try:
            failed = distributed.any_of(False, torch.device("cpu"))
        except LostProcess as error:
            raise OtherFailed(str(error)) from error
        if failed:
            raise OtherFailed("another process of this training has failed, and its reason is above")
        return rollout

    def _check_rows(self) -> None:
        """A rollout must fill the minibatches; checked before the first one is collected."""
        cfg = self.config
        rows = len(self.policy.rows(torch.empty(cfg.num_steps, self.num_envs)))
        if rows < cfg.optimizer.minibatches:
            raise UserError(
                f"optimizer.minibatches {cfg.optimizer.minibatches}: a rollout of {cfg.num_steps} steps in "
                f"{self.num_envs} environments has {rows} rows with model.recurrent {cfg.model.recurrent!r}: take "
                "fewer minibatches or more environments"
            )

    @torch.no_grad()
    def _prepare(self, rollout: EnvRollout) -> Batch:
        """Values, advantages and returns of a rollout, as a batch."""
        cfg, policy = self.config, self.policy
        with policy.playing():
            values = self._values(rollout.flat_observations()).reshape(cfg.num_steps, -1)
            next_values = self._next_values(rollout, values)
        done = rollout.terminated | rollout.truncated
        rewards, terminated, distribution = rollout.learnt_rewards, rollout.terminated, rollout.distribution
        log_probs = policy.head.log_prob(distribution, rollout.actions)
        if cfg.advantage == "monte_carlo":
            advantages = returns = monte_carlo(rewards, next_values, terminated, done, cfg.gamma)
        elif cfg.advantage == "vtrace":
            # V-trace's weights lead from the behaviour to the policy as it is now; the surrogate's ratio starts there.
            with policy.playing():
                behaviour, distribution = log_probs, self._current(rollout)
            log_probs = policy.head.log_prob(distribution, rollout.actions)
            ratios = (log_probs - behaviour).exp()
            advantages, returns = vtrace(rewards, values, next_values, terminated, done, ratios, cfg.gamma, cfg.lam)
        else:
            advantages = gae(rewards, values, next_values, terminated, done, cfg.gamma, cfg.lam)
            returns = advantages + values
        batch = Batch(
            observations=rollout.observations,
            actions=rollout.actions,
            log_probs=log_probs,
            advantages=advantages,
            values=values,
            returns=returns,
            distribution=distribution if cfg.optimizer.needs_distribution else (),
            mask=None if rollout.all_valid else rollout.valid.to(values.dtype),
        ).map(policy.rows)
        if not torch.isfinite(batch.advantages).all():
            check_given(rollout.rewards, rollout.observations)
            bad = next(name for name, value in batch.named_tensors().items() if not torch.isfinite(value).all())
            raise NonFiniteError(f"the rollout holds a non-finite value: {bad}")
        if cfg.symmetry == "augment" and self.symmetry is not None:
            return self.symmetry.augment(batch, policy.distribution)
        return batch

    def _values(self, observations: Observation) -> Tensor:
        """Values of (B, ...) observations; of images in chunks, since a network makes 20 times as much of them."""
        count = len(next(iter(observations.values())))
        size = IMAGES_AT_ONCE if self.policy.critic_encoder.has_images else count
        parts = ({name: x[i : i + size] for name, x in observations.items()} for i in range(0, count, size))
        return torch.cat([self.policy.value(part) for part in parts])

    def _scaled(self, batch: Batch) -> Batch:
        for name, addition in self.additions.items():
            batch = self._asked(name, "advantages", Batch, addition.advantages, batch)
        return batch

    def _current(self, rollout: EnvRollout) -> tuple[Tensor, ...]:
        """Parameters (T, N, ...) of the distributions that the policy would draw the rollout's actions from now."""
        flat = self.policy.distribution(rollout.flat_observations())
        return tuple(parameter.unflatten(0, rollout.rewards.shape) for parameter in flat)

    def _anneal(self) -> None:
        final, length = self.config.learning_rate_final, self.config.anneal_steps or self.total_steps
        if final is not None and length:
            start, done = self.config.optimizer.learning_rate, min(1.0, self.steps / length)
            exponential = self.config.anneal == "exponential"
            rate = start * (final / start) ** done if exponential else start + (final - start) * done
            self.optimizer.learning_rate = rate

    def _next_values(self, rollout: EnvRollout, values: Tensor) -> Tensor:
        """Values (T, N) of what followed each step: the next observation's, or where an episode ended its last one's.

        The critic sees all final observations of the rollout at once; they are the rows that ended, and no more.
        """
        next_values = torch.cat((values[1:], self.policy.value(rollout.following)[None]))
        if not rollout.finals:
            return next_values
        steps, rows, finals = zip(*rollout.finals, strict=True)
        seen = {name: torch.cat([final[name] for final in finals]) for name in finals[0]}
        if self._canonical is not None:
            seen, _ = self._canonical.canonicalize(seen)
        ended = self.policy.value(seen).split([len(part) for part in rows])
        for t, row, part in zip(steps, rows, ended, strict=True):
            next_values[t].index_copy_(0, row, part)
        return next_values

    # ---- policies and checkpoints ----------------------------------------------------------------------------------

    @property
    def mature_policy(self) -> ActorCritic:
        """Policy that is evaluated and exported: the newest, or with ``average_steps`` the mean of the last ones."""
        if self._average is None:
            return self.policy
        mean = self._average.module
        assert isinstance(mean, ActorCritic)
        return mean

    def actor(self) -> nn.Module:
        """The deterministic policy, observation (N, D) to action (N, A), as it acts on the environment.

        That of a recurrent policy takes its memory as well and returns the next one.
        """
        return actor_of(self.mature_policy, self._canonical)

    def pop_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call; in the first of several processes those of all."""
        episodes, self._episodes = self._episodes, []
        return [episode for part in distributed.gathered(episodes) for episode in part]

    def initial_memory(self, num_envs: int) -> Observation:
        return self.policy.initial_memory(num_envs)

    @torch.no_grad()
    def predict(self, observations: Observation) -> tuple[Tensor, Observation]:
        """The most likely actions, as environments take them, and the policy's memory."""
        policy = self.mature_policy
        if self._canonical is not None:
            return policy.head.to_env(self.actor()(observations["policy"])), {}
        distribution, memory = policy.act(observations)
        return policy.head.to_env(policy.head.mode(distribution)), memory

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on; of several processes, their common part and its own."""
        return {
            "policy": self.policy.state_dict(),
            "average": None if self._average is None else self._average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **{name: None if (part := self.additions.get(name)) is None else part.state_dict() for name in BUILT_IN},
            "additions": {name: self._kept(name, self.additions[name]) for name in self.config.additions},
            "steps": self.steps,
        } | self.own_state()

    def own_state(self) -> dict[str, Any]:
        """Part of the state that each of several processes has for itself."""
        scaler = self.additions.get("reward_scaler")
        scaled = None if scaler is None else scaler.state_dict()
        return {"generator": self.generator.get_state(), "reward_scaler": scaled} | self.source.state_dict()

    def load_policy(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        for name, part in self.additions.items():
            part.load_state_dict(state[name] if name in BUILT_IN else state["additions"][name])
        generator = state["generator"]
        if generator is not None and len(generator) == len(self.generator.get_state()):
            self.generator.set_state(generator)
        else:  # of a process that was not there, or of another kind of device
            self.generator.manual_seed(self.generator.initial_seed() + state["steps"])
        self.steps = state["steps"]
        self._publish()
        self.source.load_state_dict(state)


def undistributed(config: PPOConfig) -> str | None:
    """Setting that keeps several processes from learning as one, since their updates would differ; None if none does.

    >>> undistributed(PPOConfig(decoupled=True))
    'decoupled'
    """
    asked = {
        "optimizer (a trust region)": isinstance(config.optimizer, TrustRegionConfig),
        "optimizer.critic": config.optimizer.critic is not None,
        "model.dreamer.percentile_scaling": config.model.dreamer.percentile_scaling,
        "decoupled": config.decoupled,
        "additions": bool(config.additions),
    }
    return next((name for name, there in asked.items() if there), None)


def make_optimizer(
    policy: Policy,
    config: OptimizerConfig | TrustRegionConfig,
    generator: torch.Generator,
    additions: Mapping[str, Addition],
) -> PolicyOptimizer | TrustRegionOptimizer:
    """The optimiser that goes with the class of its settings."""
    added = {name: addition.added_loss for name, addition in additions.items() if addition.has_loss}
    if not isinstance(config, TrustRegionConfig):
        return PolicyOptimizer(policy, config, generator, added=added)
    if added:
        raise UserError(f"addition {min(added)!r} has a loss, which a trust region cannot take: use plain PPO")
    return TrustRegionOptimizer(policy, config, generator)


def _numbers(update: Callable[[Batch], Any], batch: Batch) -> Any:
    """Statistics of an update as numbers."""
    statistics = update(batch)
    return {key: float(value) for key, value in statistics.items()} if isinstance(statistics, dict) else statistics


def _mean_reward(rollout: EnvRollout) -> float:
    if rollout.complete:
        return float(rollout.rewards.mean())
    return float(rollout.rewards[rollout.valid].sum() / rollout.valid.sum().clamp(min=1))


def _explained_variance(batch: Batch) -> float:
    assert batch.values is not None and batch.returns is not None
    returns, values = batch.returns, batch.values
    if batch.mask is not None:
        returns, values = returns[batch.mask.bool()], values[batch.mask.bool()]
    if returns.numel() < 2:
        return 0.0
    variance, left = torch.stack((returns.var(), (returns - values).var())).tolist()
    return 1.0 - left / variance if variance > 0.0 else 0.0
