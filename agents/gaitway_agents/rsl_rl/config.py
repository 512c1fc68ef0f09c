"""The settings of rsl_rl's runner, algorithm and models, by rsl_rl's names. Needs neither torch nor rsl_rl."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, NonNegativeFloat, PositiveFloat, PositiveInt, Range, Share, one_of

ACTIVATIONS = (
    "elu", "selu", "relu", "crelu", "lrelu", "tanh", "sigmoid", "softplus", "gelu", "swish", "mish", "identity",
)  # fmt: skip
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")
_LAYERS = Range(lambda dims: dims and min(dims) >= 1, "give at least one layer, each of at least one unit")
_GROUPS = Range(lambda names: names != (), "name at least one observation, such as ('policy',)")


@dataclass(frozen=True, kw_only=True)
class RslRlModelConfig(Checked):
    """``rsl_rl.models.MLPModel`` without a distribution: the critic."""

    hidden_dims: Annotated[tuple[int, ...], _LAYERS] = (128, 128, 128)
    """Sizes of hidden layers; typically two or three of 64 to 512."""
    activation: Annotated[str, one_of(*ACTIVATIONS)] = "elu"
    """Activation of hidden layers."""
    obs_normalization: bool = False
    """Running normalisation of observations."""


@dataclass(frozen=True, kw_only=True)
class RslRlActorConfig(RslRlModelConfig):
    """``rsl_rl.models.MLPModel`` with a ``GaussianDistribution``."""

    init_std: PositiveFloat = 1.0
    """Initial standard deviation of actions; typically 0.5 to 1."""
    std_type: Annotated[str, one_of("scalar", "log")] = "scalar"
    """"scalar" learns the standard deviation, "log" its logarithm."""


@dataclass(frozen=True, kw_only=True)
class RslRlAlgorithmConfig(Checked):
    """Arguments of ``rsl_rl.algorithms.PPO``."""

    num_learning_epochs: PositiveInt = 5
    """Passes over each rollout; typically 3 to 10."""
    num_mini_batches: PositiveInt = 4
    """Minibatches of each epoch; typically 4 to 32."""
    clip_param: PositiveFloat = 0.2
    """Clip of the ratio; typically 0.1 to 0.3."""
    gamma: Share = 0.99
    """Discount factor; typically 0.97 to 0.999."""
    lam: Share = 0.95
    """Lambda of generalised advantage estimation; typically 0.9 to 0.98."""
    value_loss_coef: NonNegativeFloat = 1.0
    """Weight of the value loss; typically 0.5 to 1."""
    entropy_coef: NonNegativeFloat = 0.005
    """Weight of the entropy bonus; typically 0 to 0.01."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate, with "adaptive" the initial one; typically 1e-4 to 1e-3."""
    max_grad_norm: PositiveFloat = 1.0
    """Largest norm of a gradient; typically 0.5 to 1."""
    optimizer: Annotated[str, one_of(*OPTIMIZERS)] = "adam"
    """Name of the optimiser."""
    use_clipped_value_loss: bool = True
    """True clips the move of values, as PPO clips the policy's."""
    schedule: Annotated[str, one_of("adaptive", "fixed")] = "adaptive"
    """"adaptive" steers the learning rate to ``desired_kl``; "fixed" keeps it."""
    desired_kl: PositiveFloat = 0.01
    """KL divergence that "adaptive" aims at, in nats; typically 0.005 to 0.02."""
    normalize_advantage_per_mini_batch: bool = False
    """True normalises advantages in each minibatch, False over the rollout."""
    use_mixed_precision: bool = False
    """True runs the networks in mixed precision."""


@dataclass(frozen=True, kw_only=True)
class RslRlConfig(Checked):
    """rsl_rl's ``OnPolicyRunner`` with PPO. Defaults are Isaac Lab's for its flat ANYmal-C task."""

    num_steps_per_env: PositiveInt = 24
    """Environment steps per iteration; typically 16 to 64."""
    init_at_random_ep_len: bool = True
    """Start episodes at random ages, so that time-outs do not come all at once."""
    actor_groups: Annotated[tuple[str, ...], _GROUPS] = ("policy",)
    """Observations that the actor reads, one after the other."""
    critic_groups: Annotated[tuple[str, ...], _GROUPS] | None = None
    """Observations that the critic reads; None takes "critic" where there is one, else the actor's."""
    algorithm: RslRlAlgorithmConfig = field(default_factory=RslRlAlgorithmConfig)
    actor: RslRlActorConfig = field(default_factory=RslRlActorConfig)
    critic: RslRlModelConfig = field(default_factory=RslRlModelConfig)

    def check_rows(self, num_envs: int) -> None:
        """Refuse a rollout of ``num_envs`` environments that leaves a minibatch with less than two rows.

        rsl_rl divides advantages by their standard deviation, and would go on with a loss that is no number.
        """
        rows, minibatches = self.num_steps_per_env * num_envs, self.algorithm.num_mini_batches
        if rows < 2 * minibatches:
            raise UserError(
                f"algorithm.num_mini_batches {minibatches}: a rollout of {self.num_steps_per_env} steps in {num_envs} "
                f"environments has {rows} rows, and two for each minibatch are needed: take fewer minibatches or more "
                "environments"
            )

    def obs_groups(self, available: Sequence[str]) -> dict[str, list[str]]:
        """Groups of the ``available`` observations that each network reads, in rsl_rl's format."""
        default = ("critic",) if "critic" in available else self.actor_groups
        groups = {"actor": list(self.actor_groups), "critic": list(self.critic_groups or default)}
        for network, names in groups.items():
            if missing := [name for name in names if name not in available]:
                raise UserError(
                    f"{network}_groups {tuple(names)}: the environment has no observation {missing[0]!r}; "
                    f"it has {', '.join(available)}"
                )
        return groups

    def train_cfg(self, obs_groups: Mapping[str, list[str]]) -> dict[str, Any]:
        """The configuration that ``rsl_rl.runners.OnPolicyRunner`` takes; a new one each time, as it writes to it."""
        actor = dataclasses.asdict(self.actor)
        distribution = {name: actor.pop(name) for name in ("init_std", "std_type")}
        return {
            "num_steps_per_env": self.num_steps_per_env,
            "save_interval": 50,
            "obs_groups": {network: list(names) for network, names in obs_groups.items()},
            "algorithm": {"class_name": "PPO", **dataclasses.asdict(self.algorithm)},
            "actor": {
                "class_name": "MLPModel",
                **actor,
                "distribution_cfg": {"class_name": "GaussianDistribution", **distribution},
            },
            "critic": {"class_name": "MLPModel", **dataclasses.asdict(self.critic)},
        }
