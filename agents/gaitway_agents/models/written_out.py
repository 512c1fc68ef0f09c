"""The gradient of PPO's loss written out, for small fully connected networks.

With 64 units a layer most of an update is autograd's records of small operations, and not arithmetic. Losses and
statistics are those of ``core.losses``; only their derivatives stand here, and tests hold them against autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..core.advantage import normalise
from ..core.batch import Batch, rows
from ..core.losses import PolicyLoss
from ..core.policy import Evaluation
from ..core.surrogates import ClippedSurrogate
from .encoders import ACTOR_FEATURES, CRITIC_FEATURES
from .heads import ACTION_MASK, Categorical, Gaussian, Head, Parameters

ROWS = 1024
"""Largest minibatch: with more rows autograd's records take little of the time, and blocks of rows stay in caches."""
SLOPES: dict[type, Callable[[Tensor, Tensor], Tensor]] = {
    nn.Tanh: lambda grad, y: torch.ops.aten.tanh_backward.grad_input(grad, y, grad_input=grad),
    nn.ReLU: lambda grad, y: torch.ops.aten.threshold_backward.grad_input(grad, y, 0.0, grad_input=grad),
    nn.ELU: lambda grad, y: torch.ops.aten.elu_backward.grad_input(grad, 1.0, 1.0, 1.0, True, y, grad_input=grad),
}
"""The gradient before an activation, from that behind it and the activation's own outputs; in place."""


class PlainNetwork:
    """Forward and backward pass of linear layers, whose ``grad`` is overwritten."""

    def __init__(self, network: nn.Sequential):
        layers: list[Any] = list(network)
        self.linear, self.activations = layers[::2], layers[1::2]
        self.weights = [layer.weight.detach() for layer in self.linear]
        self.biases = [layer.bias.detach() for layer in self.linear]
        self.gradients: list[tuple[Tensor, Tensor]] = [(layer.weight.grad, layer.bias.grad) for layer in self.linear]
        self.slopes = [SLOPES[type(activation)] for activation in self.activations]
        self.inputs: list[Tensor] = []

    @staticmethod
    def takes(network: nn.Module) -> bool:
        """True for linear layers with activations between them whose slopes are known."""
        if not isinstance(network, nn.Sequential) or len(network) % 2 == 0:
            return False
        linear, activations = list(network)[::2], list(network)[1::2]
        return all(isinstance(layer, nn.Linear) for layer in linear) and all(type(a) in SLOPES for a in activations)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (B, O) of inputs (B, I)."""
        self.inputs = [x]
        for weight, bias, activation in zip(self.weights, self.biases, self.activations, strict=False):
            self.inputs.append(activation(torch.addmm(bias, self.inputs[-1], weight.t())))
        return torch.addmm(self.biases[-1], self.inputs[-1], self.weights[-1].t())

    def backward(self, grad: Tensor) -> None:
        """Write the gradients of weights and biases, from that of the outputs (B, O)."""
        for layer in reversed(range(len(self.weights))):
            weight, bias = self.gradients[layer]
            torch.mm(grad.t(), self.inputs[layer], out=weight)
            torch.sum(grad, 0, out=bias)
            if layer:
                grad = self.slopes[layer - 1](torch.mm(grad, self.weights[layer]), self.inputs[layer])


class WrittenOut:
    """Epochs of PPO over small minibatches, without autograd."""

    def __init__(self, actor: nn.Sequential, critic: nn.Sequential, head: Head, loss: PolicyLoss):
        self.actor, self.critic, self.head, self.loss = PlainNetwork(actor), PlainNetwork(critic), head, loss
        self._seen: list[tuple[Tensor, ...]] = []

    @staticmethod
    def takes(actor: nn.Module, critic: nn.Module, head: nn.Module, loss: object) -> bool:
        """True for networks, distributions and losses whose derivatives stand in this module."""
        known = PlainNetwork.takes(actor) and PlainNetwork.takes(critic)
        known &= type(head) is Gaussian or (type(head) is Categorical and head.single and not head.unimix)
        if not known or type(loss) is not PolicyLoss:
            return False
        config = loss.config
        surrogate = config.surrogate
        clipped = type(surrogate) is ClippedSurrogate and surrogate.dual_clip is None and surrogate.ratio == "decision"
        return clipped and config.aggregation == "decision" and config.reference_kl is None

    def is_for(self, batch: Batch, size: int) -> bool:
        """True if minibatches of ``size`` rows of a prepared batch need nothing else."""
        prepared = {ACTOR_FEATURES, CRITIC_FEATURES} <= batch.observations.keys() and batch.actions.device.type == "cpu"
        critic = batch.values is not None and batch.returns is not None
        simple = batch.mask is None and batch.weights is None and not batch.distribution
        return prepared and critic and simple and size <= ROWS

    @torch.no_grad()
    def epoch(self, batch: Batch, parts: Sequence[Tensor | slice], normalize: bool, step: Callable[[], None]) -> None:
        """Leave the gradient of each minibatch's mean loss in the parameters, and call ``step``.

        ``parts`` are the rows of the minibatches, whose advantages are normalised if told to.
        """
        observations = batch.observations
        assert batch.values is not None and batch.returns is not None
        table = torch.stack((batch.log_probs, batch.advantages, batch.values, batch.returns), 1)  # taken together
        for part in parts:
            old_log_probs, advantages, old_values, returns = rows(table, part).unbind(1)
            if normalize:
                advantages = normalise(advantages)
            actions = rows(batch.actions, part)
            mask = {ACTION_MASK: rows(observations[ACTION_MASK], part)} if ACTION_MASK in observations else {}
            outputs = self.actor.forward(rows(observations[ACTOR_FEATURES], part))
            values = self.critic.forward(rows(observations[CRITIC_FEATURES], part)).squeeze(1)
            parameters = self.head(outputs, mask)
            log_probs, entropy = self.head.log_prob(parameters, actions), self.head.entropy(parameters)
            by_log_prob = self._by_log_prob(log_probs, old_log_probs, advantages)
            if isinstance(self.head, Gaussian):
                by_outputs = self._through_gaussian(self.head, parameters, actions, by_log_prob)
            else:
                by_outputs = self._through_categorical(parameters, entropy, actions, by_log_prob)
            self.actor.backward(by_outputs)
            self.critic.backward(self._by_value(values, old_values, returns)[:, None])
            self._seen.append((log_probs, entropy, values, old_log_probs, advantages, old_values, returns))
            step()

    @torch.no_grad()
    def statistics(self) -> list[float]:
        """Sum over all minibatches since the last call of the means that the loss itself reports."""
        seen, self._seen = self._seen, []
        if not seen:
            return [0.0] * len(self.loss.statistics)
        joined = [torch.cat(column) for column in zip(*seen, strict=True)]
        log_probs, entropy, values, old_log_probs, advantages, old_values, returns = joined
        batch = Batch(
            observations={}, actions=log_probs, log_probs=old_log_probs, advantages=advantages, values=old_values,
            returns=returns,
        )  # fmt: skip
        _, columns = self.loss(Evaluation(log_probs=log_probs, entropy=entropy, values=values), batch)
        shares = [torch.full_like(part[0], 1.0 / len(part[0])) for part in seen]
        return (columns @ torch.cat(shares)).tolist()

    def _by_log_prob(self, log_probs: Tensor, old: Tensor, advantages: Tensor) -> Tensor:
        """Derivative of the mean loss by each log-probability: - r A, and 0 where the clip cuts it off."""
        surrogate = self.loss.config.surrogate
        assert isinstance(surrogate, ClippedSurrogate)
        ratio = (log_probs - old).exp_()
        gain = ratio * advantages
        kept = gain <= ratio.clamp_(1.0 - surrogate.clip, 1.0 + surrogate.high).mul_(advantages)
        return gain.mul_(kept).div_(-len(gain))

    def _by_value(self, values: Tensor, old: Tensor, returns: Tensor) -> Tensor:
        """Derivative of the mean loss by each value: 2 c (V - R), and 0 where the clip cuts it off."""
        config, error = self.loss.config, values - returns
        slope = error * (2.0 * config.value_coefficient / len(values))
        if config.clip_value_loss:
            limit = self.loss.value_limit
            moved = values - old
            clipped = moved.clamp(-limit, limit)
            # Within the clip both are the same value, but for the rounding of old + (V - old).
            slope *= (moved == clipped) | (error.square() >= clipped.add_(old).sub_(returns).square())
        return slope

    def _through_gaussian(self, head: Gaussian, parameters: Parameters, actions: Tensor, by_log_prob: Tensor) -> Tensor:
        """Derivative by the means (B, A); that by the standard deviations goes into their parameter."""
        mean, std = parameters[0], head.std
        z = (actions - mean).div_(std)
        # d log p / d std = (z^2 - 1) / std, and the entropy's is 1 / std
        by_std = torch.mv(z.square().t(), by_log_prob).sub_(by_log_prob.sum() + self.loss.config.entropy_coefficient)
        gradient, free = head.raw_std.grad, head.free_std >= head.min_std
        assert gradient is not None
        torch.mul(by_std if head.log_std else by_std.div_(std), free, out=gradient)
        return z.div_(std).mul_(by_log_prob[:, None])

    def _through_categorical(
        self, parameters: Parameters, entropy: Tensor, actions: Tensor, by_log_prob: Tensor
    ) -> Tensor:
        """Derivative by the logits (B, K)."""
        (log_probs,), weight = parameters, self.loss.config.entropy_coefficient / len(actions)
        probabilities = log_probs.exp()
        by_logits = probabilities * -by_log_prob[:, None]
        by_logits.scatter_add_(1, actions[:, None], by_log_prob[:, None])
        if weight:  # d H / d logit = - p (log p + H)
            by_logits.add_(probabilities.mul_(log_probs + entropy[:, None]), alpha=weight)
        return by_logits
