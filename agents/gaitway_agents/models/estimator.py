"""Estimates, from the actor's history, of signals that only the critic sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, LayerSizes, PositiveFloat, PositiveInt
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.policy import Evaluation, Policy
from .mlp import mlp


@dataclass(frozen=True, kw_only=True)
class EstimatorConfig(Checked):
    """A network that estimates signals, learnt by supervision beside the policy.

    G. Ji, J. Mun, H. Kim and J. Hwangbo, "Concurrent Training of a Control Policy and a State Estimator for Dynamic and
    Robust Legged Locomotion", RA-L 2022.
    """

    signals: tuple[str, ...] = ("base_lin_vel",)
    """Terms of the observation ``critic`` to estimate for the actor."""
    hidden: LayerSizes = (128, 64)
    """Sizes of hidden layers; typically two of 64 to 256."""
    epochs: PositiveInt = 2
    """Passes over each rollout; typically 1 to 4."""
    minibatches: PositiveInt = 4
    """Minibatches of each pass."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate; typically 1e-4 to 1e-3."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.signals or len(set(self.signals)) < len(self.signals):
            raise UserError(f"estimator signals {self.signals}: name one or more, each once")


@dataclass(frozen=True)
class EstimatorColumns:
    """Columns of the observations that an estimator reads and predicts."""

    newest: tuple[int, ...]
    """Columns of ``policy`` that are not history: what the actor reads beside the estimates."""
    signals: Mapping[str, tuple[int, ...]]
    """Columns of ``critic`` that hold each signal."""


class Estimator(Policy):
    """Features of the whole history (B, D) to what the actor reads (B, F + E): its newest frame, and E estimates.

    Features and estimates are normalised as actor and critic see them. To an optimiser it is a policy whose decisions
    are the estimates, so :class:`SquaredError` fits it.
    """

    newest: Tensor
    targets: Tensor

    def __init__(self, inputs: int, critic_inputs: int, config: EstimatorConfig, columns: EstimatorColumns, act: str):
        super().__init__()
        targets = [column for name in config.signals for column in columns.signals[name]]
        for what, chosen, dim in (("policy", columns.newest, inputs), ("critic", targets, critic_inputs)):
            if not 0 <= min(chosen) <= max(chosen) < dim:
                raise UserError(f"estimator: observation {what!r} has {dim} columns, and column {max(chosen)} is asked")
        self.widths = {name: len(columns.signals[name]) for name in config.signals}
        """Numbers of each signal."""
        self.net = mlp([inputs, *config.hidden, len(targets)], act)
        self.register_buffer("newest", torch.tensor(columns.newest), persistent=False)
        self.register_buffer("targets", torch.tensor(targets), persistent=False)
        self.dim = len(columns.newest) + len(targets)

    def forward(self, features: Tensor) -> Tensor:
        """Estimates; no gradient reaches the network from the actor."""
        with torch.no_grad():
            estimates = self.net(features)
        return torch.cat((features.index_select(1, self.newest), estimates.to(features.dtype)), 1)

    def wanted(self, critic_features: Tensor) -> Tensor:
        """Targets of the estimates, (B, E)."""
        return critic_features.index_select(1, self.targets)

    def evaluate(self, batch: Batch) -> Evaluation:
        estimates = self.net(batch.observations["features"]).float()
        return Evaluation(log_probs=estimates[:, 0], entropy=estimates[:, 0], distribution=(estimates,))


class EstimatingActor(nn.Module):
    """Observation (N, D) to action (N, A); :meth:`with_estimates` also gives the estimates."""

    def __init__(self, encoder: nn.Module, estimator: Estimator, actor: nn.Module, scale: Tensor, mean: Tensor):
        super().__init__()
        self.encoder, self.estimator, self.actor = encoder, estimator, actor
        self.widths = estimator.widths
        self.register_buffer("scale", scale.clone())
        self.register_buffer("mean", mean.clone())

    def forward(self, observation: Tensor) -> Tensor:
        return self.actor(self.estimator(self.encoder(observation)))

    def with_estimates(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Action (N, A) and estimates (N, E), signal after signal as in ``widths``, in the units of their terms."""
        read = self.estimator(self.encoder(observation))
        estimates = read[:, -len(self.estimator.targets) :]
        return self.actor(read), estimates * self.get_buffer("scale") + self.get_buffer("mean")


class SquaredError:
    """Mean squared error of the estimates ``distribution[0]`` (B, E) of a batch's ``actions``.

    Its statistics are the errors of each signal in the squared unit of its term: ``scales`` (E,) leads there.
    """

    def __init__(self, widths: Mapping[str, int]):
        self.widths = list(widths.values())
        self.statistics = tuple(widths)
        self.scales = torch.ones(sum(self.widths))

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        (estimates,) = new.distribution
        squares = (estimates - batch.actions).square()
        scaled = squares.detach() * self.scales.square()
        return squares.mean(1), torch.stack([part.mean(1) for part in scaled.split(self.widths, 1)])
