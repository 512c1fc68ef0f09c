"""A policy and a value function, for any observation and action space."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, cast

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, LayerSizes, PositiveFloat, PositiveInt, ShareBelowOne, one_of
from gymnasium import spaces
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.losses import PolicyLoss
from ..core.policy import Evaluation, Policy, computing, in_precision
from .critics import VALUE_HEADS, DreamerTricks, frozen_copy, update_average
from .encoders import ACTOR_FEATURES, CRITIC_FEATURES, IMAGES, Encoder
from .estimator import EstimatingActor, Estimator, EstimatorColumns, EstimatorConfig
from .heads import ACTION_MASK, Gaussian, Observations, Parameters, make_head
from .mlp import ACTIVATIONS, mlp
from .normalizer import RunningNormalizer
from .written_out import WrittenOut


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(Checked):
    """Actor and critic networks. Defaults are for legged robots, close to rsl_rl's."""

    actor_hidden: LayerSizes = (128, 128, 128)
    """Sizes of the actor's hidden layers; typically two or three of 64 to 512."""
    critic_hidden: LayerSizes = (128, 128, 128)
    """Sizes of the critic's hidden layers; typically two or three of 64 to 512."""
    activation: Annotated[str, one_of(*ACTIVATIONS)] = "elu"
    """Activation of hidden layers."""
    init_std: PositiveFloat = 1.0
    """Initial standard deviation of actions; typically 0.5 to 1."""
    min_std: PositiveFloat = 1e-3
    """Smallest standard deviation of actions."""
    log_std: bool = False
    """True learns the logarithm of a Gaussian's standard deviation, False the deviation itself."""
    unimix: ShareBelowOne = 0.0
    """Share of the uniform distribution mixed into discrete actions; typically 0 or 0.01."""
    orthogonal: bool = False
    """Orthogonal initial weights with gain sqrt(2), 0.01 at the action and 1 at the value; False keeps torch's own."""
    actor_output_gain: float | None = None
    """Gain of the orthogonal weights of the actor's last layer alone; typically 0.01."""
    share_encoder: bool = False
    """One encoder for actor and critic, as is usual for images; their gradients are then clipped together."""
    images: Annotated[str, one_of(*IMAGES)] = "nature"
    """Network of observed images: "nature", of Mnih et al. (2015), or "impala", the residual one of Espeholt et al.
    (2018), with six times the multiplications."""
    normalize_observations: bool = True
    """Running normalisation of observed vectors."""
    clip_observations: float | None = None
    """Clip of normalised observations to +- this, typically 5 to 10; None does not clip."""
    recurrent: Annotated[str, one_of("none", "gru")] = "none"
    """"gru" puts a memory of ``memory_size`` in front of each network; "none" is feed-forward."""
    memory_size: PositiveInt = 64
    """Units of the memory; typically 64 to 512."""
    estimator: EstimatorConfig | None = None
    """Estimator of signals that only the critic observes, for the actor. Of its history, the actor then reads the
    newest frame."""
    dreamer: DreamerTricks = field(default_factory=DreamerTricks)
    """Tricks of DreamerV3 against rewards of unknown scale."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_encoder and self.recurrent != "none":
            raise UserError("share_encoder with a recurrent policy: use only one of them")
        if self.estimator is not None and self.recurrent != "none":
            raise UserError(f"estimator with recurrent {self.recurrent!r}: a memory estimates by itself; use only one")
        if self.estimator is not None and self.dreamer.symlog_observations:
            raise UserError("estimator with dreamer.symlog_observations: estimates would have no unit; use only one")


class ActorCritic(Policy):
    """The actor reads the observation ``policy``, or all there are; the critic reads ``critic`` or what the actor does.

    ``act`` and ``evaluate`` are all that collector and optimiser need of a policy.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space,
        config: ActorCriticConfig,
        columns: EstimatorColumns | None = None,
    ):
        """``columns`` are needed by an estimator, and by nothing else."""
        super().__init__()
        self.config = config
        self.plays_in = "float32"
        """Type of products in rollouts; evaluations and exports are in float32."""
        self.head = make_head(
            action_space, init_std=config.init_std, min_std=config.min_std, log_std=config.log_std, unimix=config.unimix
        )
        names = observation_space.spaces
        actor_keys = ["policy"] if "policy" in names else [n for n in names if n not in ("critic", ACTION_MASK)]
        critic_keys = ["critic"] if "critic" in names else actor_keys
        if config.share_encoder and critic_keys != actor_keys:
            raise UserError("share_encoder: the critic has an observation of its own, so it needs its own encoder")
        self.actor_encoder = self._encoder(observation_space, actor_keys)
        self.critic_encoder = (
            self.actor_encoder if config.share_encoder else self._encoder(observation_space, critic_keys)
        )
        self.value_head = VALUE_HEADS[config.dreamer.critic]()
        self.estimator = None if config.estimator is None else self._estimator(config.estimator, columns)
        inputs = self.actor_encoder.dim if self.estimator is None else self.estimator.dim
        self._make_networks(inputs, self.critic_encoder.dim)

    def _encoder(self, space: spaces.Dict, keys: list[str]) -> Encoder:
        config = self.config
        return Encoder(
            space,
            keys,
            normalize=config.normalize_observations,
            clip=config.clip_observations,
            symlog=config.dreamer.symlog_observations,
            images=config.images,
        )

    def _estimator(self, config: EstimatorConfig, columns: EstimatorColumns | None) -> Estimator:
        actor, critic = self.actor_encoder, self.critic_encoder
        if columns is None or (actor.keys, critic.keys) != (["policy"], ["critic"]):
            raise UserError(
                f"model.estimator for {', '.join(config.signals)}: the environment has no observation 'critic' whose "
                "signals are known; set it to null"
            )
        return Estimator(actor.dim, critic.dim, config, columns, self.config.activation)

    def _make_networks(self, actor_inputs: int, critic_inputs: int) -> None:
        config = self.config
        self.actor = self._network(actor_inputs, config.actor_hidden, self.head.num_outputs, 0.01)
        self.critic = self._network(critic_inputs, config.critic_hidden, self.value_head.num_outputs, 1.0)
        if config.actor_output_gain is not None:
            last = cast(nn.Linear, self.actor[-1])
            nn.init.orthogonal_(last.weight, config.actor_output_gain)
            nn.init.zeros_(last.bias)
        if config.dreamer.critic_zero_init:
            last = cast(nn.Linear, self.critic[-1])
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.slow_critic = frozen_copy(self.critic) if config.dreamer.critic_ema else None

    def _network(self, inputs: int, hidden: tuple[int, ...], outputs: int, gain: float) -> nn.Sequential:
        output_gain = gain if self.config.orthogonal else None
        return mlp([inputs, *hidden, outputs], self.config.activation, output_gain=output_gain)

    # ---- what a collector needs ------------------------------------------------------------------------------------

    def playing(self) -> AbstractContextManager[object]:
        """Context of the forward passes that a rollout is made of, and its values."""
        return computing(next(self.parameters()).device, self.plays_in)

    def initial_memory(self, num_envs: int) -> Observations:
        """The policy's memory at the start of an episode: further observations, (N, ...), all zero."""
        return {}

    def act(self, observations: Observations) -> tuple[Parameters, Observations]:
        """Parameters of the action distribution, and the policy's memory for the next step."""
        return self.distribution(observations), {}

    def distribution(self, observations: Observations) -> Parameters:
        """Parameters of the action distribution, each (B, ...)."""
        return self.head(self.actor(self.actor_features(observations)), observations)

    def actor_features(self, observations: Observations) -> Tensor:
        """Input of the actor's network."""
        if ACTOR_FEATURES in observations:
            return observations[ACTOR_FEATURES]
        features = self.actor_encoder(observations)
        return features if self.estimator is None else self.estimator(features)

    def value(self, observations: Observations) -> Tensor:
        """State values, (B,)."""
        return self._values(self.critic, self.critic_encoder(observations))

    def rows(self, x: Tensor) -> Tensor:
        """A rollout's (T, N, ...) as rows of a batch; here every step is one, (T * N, ...)."""
        return x.flatten(0, 1)

    def update_normalizers(self, observations: Observations) -> None:
        """Feed observations (B, ...) to the running statistics."""
        self.actor_encoder.update(observations)
        if self.critic_encoder is not self.actor_encoder:
            self.critic_encoder.update(observations)

    # ---- what the optimiser needs ----------------------------------------------------------------------------------

    @torch.no_grad()
    def prepared(self, batch: Batch) -> Batch:
        """The batch with features in place of the vectors that they are made from, for :meth:`evaluate`.

        Statistics of observations do not change within an update, nor does an estimator, so features need to be
        computed only once. They are in the type that the networks compute in.
        """
        actor, critic = self.actor_encoder, self.critic_encoder
        if not (actor.only_vectors and critic.only_vectors):
            return batch
        kept = {name: value for name, value in batch.observations.items() if name not in (*actor.keys, *critic.keys)}
        features = {ACTOR_FEATURES: in_precision(self.actor_features(batch.observations))}
        if critic is not actor:
            features[CRITIC_FEATURES] = in_precision(critic(batch.observations))
        return batch.replace(observations=kept | features)

    def evaluate(self, batch: Batch) -> Evaluation:
        observations = batch.observations
        features = self.actor_features(observations)
        if self.critic_encoder is self.actor_encoder:
            critic_features = features
        elif CRITIC_FEATURES in observations:
            critic_features = observations[CRITIC_FEATURES]
        else:
            critic_features = self.critic_encoder(observations)
        return self._evaluation(self.head(self.actor(features), observations), critic_features, batch)

    def written_out(self, loss: object) -> WrittenOut | None:
        alone = self.critic_encoder is not self.actor_encoder and not self.config.dreamer.own_value_losses
        if not alone or not WrittenOut.takes(self.actor, self.critic, self.head, loss):
            return None
        assert isinstance(loss, PolicyLoss)
        return WrittenOut(self.actor, self.critic, self.head, loss)

    def _evaluation(self, parameters: Parameters, critic_features: Tensor, batch: Batch) -> Evaluation:
        """Evaluation of the batch's decisions (...) from features (decisions, D)."""
        outputs = self._outputs(self.critic, critic_features)
        shape = batch.log_probs.shape
        kl = None
        if batch.distribution:
            with torch.no_grad():
                kl = self.head.kl(batch.distribution, parameters)
        return Evaluation(
            log_probs=self.head.log_prob(parameters, batch.actions),
            entropy=self.head.entropy(parameters),
            values=self.value_head.values(outputs).view(shape),
            distribution=parameters,
            kl=kl,
            value_losses=self._value_losses(outputs, critic_features, batch),
        )

    def _value_losses(self, outputs: Tensor, features: Tensor, batch: Batch) -> Tensor | None:
        """The critic's losses where they are its own; None for the squared error, which the optimiser knows."""
        if batch.returns is None or not self.config.dreamer.own_value_losses:
            return None
        losses = self.value_head.losses(outputs, batch.returns.flatten())
        if self.slow_critic is not None:
            with torch.no_grad():
                slow = self._values(self.slow_critic, features)
            losses = losses + self.value_head.losses(outputs, slow)
        return losses.view(batch.returns.shape)

    def after_step(self) -> None:
        """Update the slow critic."""
        if self.slow_critic is not None:
            update_average(self.slow_critic, self.critic)

    def _values(self, critic: nn.Module, features: Tensor) -> Tensor:
        return self.value_head.values(self._outputs(critic, features))

    def _outputs(self, critic: nn.Module, features: Tensor) -> Tensor:
        # Undoes what reduced precision did to the type.
        return critic(features).to(next(self.critic.parameters()).dtype)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Actor and critic are clipped apart, as in rsl_rl: a value explosion leaves the policy's step alone."""
        actor = [*self.actor.parameters(), *self.actor_encoder.parameters(), *self.head.parameters()]
        if self.critic_encoder is self.actor_encoder:
            return [[*actor, *self.critic.parameters()]]
        return [actor, [*self.critic.parameters(), *self.critic_encoder.parameters()]]

    def learnt_apart(self) -> list[nn.Parameter]:
        return [] if self.estimator is None else list(self.estimator.parameters())

    def export_actor(self) -> nn.Module:
        """``policy`` observation (N, D) to deterministic action (N, A), with the normaliser inside.

        With an estimator its ``with_estimates`` also gives the estimates (N, E), in the units of ``critic``.
        """
        encoder = self.actor_encoder
        if encoder.keys != ["policy"] or not isinstance(self.head, Gaussian):
            raise UserError("only a policy from the observation 'policy' to continuous actions can be exported")
        if self.estimator is None:
            return nn.Sequential(encoder.parts["policy"], self.actor)
        return EstimatingActor(encoder.parts["policy"], self.estimator, self.actor, *self.estimate_units())

    def estimate_units(self) -> tuple[Tensor, Tensor]:
        """Scale and mean (E,) that lead from normalised estimates to the units of the observation ``critic``."""
        assert self.estimator is not None
        (part,) = self.critic_encoder.parts.values()
        normalizer = part.normalizer
        if not isinstance(normalizer, RunningNormalizer):
            targets = self.estimator.targets
            return torch.ones_like(targets, dtype=torch.float32), torch.zeros_like(targets, dtype=torch.float32)
        scale, mean = (self.estimator.wanted(values[None])[0] for values in (normalizer.scale, normalizer.mean))
        return scale, mean
