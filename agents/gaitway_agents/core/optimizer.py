"""The policy optimiser: epochs of minibatches over one batch, for any policy that can evaluate a batch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from . import objective
from .batch import Batch


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a policy says of a batch's decisions now."""

    log_probs: Tensor
    entropy: Tensor
    values: Tensor | None = None
    distribution: tuple[Tensor, ...] = ()


class Policy(Protocol):
    """What the optimiser needs of a policy, besides being an ``nn.Module``."""

    def evaluate(self, batch: Batch) -> Evaluation: ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Parameters whose gradients are clipped together."""
        ...


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Settings of the update. Defaults are rsl_rl's for legged robots."""

    epochs: int = 5
    minibatches: int = 4
    learning_rate: float = 1e-3
    schedule: str = "adaptive"
    """"adaptive" steers the rate to ``desired_kl``; "constant" keeps it."""
    desired_kl: float = 0.01
    learning_rate_range: tuple[float, float] = (1e-5, 1e-2)
    max_kl: float | None = None
    """Stop an update at the first minibatch whose KL divergence exceeds this; None never stops."""
    clip: float = 0.2
    value_coefficient: float = 1.0
    clip_value_loss: bool = True
    entropy_coefficient: float = 0.005
    max_grad_norm: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    adam_eps: float = 1e-8
    chunk_size: int = 4096
    """Rows per forward pass: small enough for activations to stay in the cache."""
    workers: int = 1
    """Threads that share each minibatch, each with a replica of the policy."""
    precision: str = "float32"
    """"bfloat16" runs the networks' forward and backward passes in bfloat16."""

    def __post_init__(self) -> None:
        if self.schedule not in ("adaptive", "constant"):
            raise ValueError(f"schedule {self.schedule!r}: use 'adaptive' or 'constant'")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision {self.precision!r}: use 'float32' or 'bfloat16'")
        for name in ("epochs", "minibatches", "chunk_size", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 1")
        for name in ("learning_rate", "desired_kl", "clip", "max_grad_norm", "adam_eps"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} {getattr(self, name)}: must be positive")
        if self.max_kl is not None and not self.max_kl > 0.0:
            raise ValueError(f"max_kl {self.max_kl}: must be positive; None never stops an update early")
        low, high = self.learning_rate_range
        if not 0.0 < low <= high:
            raise ValueError(f"learning_rate_range {self.learning_rate_range}: must be (low, high), 0 < low <= high")
        if not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"betas {self.betas}: must lie in [0, 1)")


class NonFiniteError(RuntimeError):
    """A tensor became NaN or infinite; the message names the first one."""


STATISTICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")


class PolicyOptimizer:
    """``update(batch)`` improves ``policy`` by a clipped surrogate, a value loss and an entropy bonus.

    Each minibatch is cut into chunks that are shared out to the workers; gradients are summed in a fixed order, so
    the result does not depend on thread timing.
    """

    def __init__(self, policy: nn.Module, config: OptimizerConfig, generator: torch.Generator | None = None):
        self.policy, self.config, self.generator = policy, config, generator
        self.learning_rate = config.learning_rate
        self.adam = torch.optim.Adam(
            policy.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.adam_eps, fused=True
        )
        self._pool = (
            ThreadPoolExecutor(config.workers - 1, "learner", initializer=torch.set_num_threads, initargs=(1,))
            if config.workers > 1
            else None
        )

    def update(self, batch: Batch) -> dict[str, float]:
        """Optimise the policy on ``batch`` and return the statistics of the update, averaged over minibatches."""
        cfg = self.config
        if len(batch) < cfg.minibatches:
            raise ValueError(f"a batch of {len(batch)} rows cannot be split into {cfg.minibatches} minibatches")
        replicas = [self.policy] + [_replica(self.policy) for _ in range(cfg.workers - 1)]
        totals = torch.zeros(len(STATISTICS))
        grad_norm, steps = 0.0, 0
        for rows in self._minibatches(batch):
            statistics = self._accumulate(batch, rows, replicas)
            kl = float(statistics[STATISTICS.index("kl")])
            totals += statistics
            steps += 1
            if cfg.max_kl is not None and kl > cfg.max_kl:
                break
            if cfg.schedule == "adaptive":
                self._adapt(kl)
            grad_norm += self._step(batch)
        result = dict(zip(STATISTICS, (totals / steps).tolist(), strict=True))
        return result | {"grad_norm": grad_norm / steps, "learning_rate": self.learning_rate, "minibatches": steps}

    def _minibatches(self, batch: Batch) -> Iterator[Tensor]:
        """Row indices of each minibatch of each epoch, in a new random order every epoch."""
        for _ in range(self.config.epochs):
            order = torch.randperm(len(batch), generator=self.generator).to(batch.actions.device)
            yield from order.tensor_split(self.config.minibatches)

    def _accumulate(self, batch: Batch, rows: Tensor, replicas: list[nn.Module]) -> Tensor:
        """Leave the gradient of the mean loss over ``rows`` in the policy; return its statistics."""
        workers = len(replicas)
        chunks = -(-len(rows) // self.config.chunk_size)
        chunks = -(-chunks // workers) * workers
        parts = rows.tensor_split(chunks)
        decisions = len(rows) * batch.log_probs[0].numel()
        count = float(decisions) if batch.mask is None else batch.mask[rows].sum().clamp(min=1.0)
        for replica in replicas:
            for parameter in replica.parameters():
                parameter.grad = None

        def work(worker: int) -> Tensor:
            return sum(  # type: ignore[return-value]
                (self._chunk(replicas[worker], batch[part], count) for part in parts[worker::workers]),
                start=torch.zeros(len(STATISTICS)),
            )

        if self._pool is None:
            return work(0)
        futures = [self._pool.submit(work, worker) for worker in range(1, workers)]
        statistics = work(0) + sum(future.result() for future in futures)
        for replica in replicas[1:]:
            for parameter, other in zip(self.policy.parameters(), replica.parameters(), strict=True):
                if other.grad is not None and parameter.grad is not None:
                    parameter.grad += other.grad
        return statistics

    def _chunk(self, policy: Any, batch: Batch, count: Tensor | float) -> Tensor:
        """Add the gradient of one chunk's share of the minibatch loss to ``policy``; return its statistics."""
        cfg, mask = self.config, batch.mask
        with torch.autocast(batch.actions.device.type, torch.bfloat16, enabled=cfg.precision == "bfloat16"):
            new: Evaluation = policy.evaluate(batch)
        log_ratio = new.log_probs - batch.log_probs
        ratio = log_ratio.exp()
        policy_loss = objective.masked_mean(
            objective.clipped_surrogate(ratio, batch.advantages, cfg.clip, cfg.clip), mask, count
        )
        entropy = objective.masked_mean(new.entropy, mask, count)
        loss = policy_loss - cfg.entropy_coefficient * entropy
        value_loss = torch.zeros(())
        if new.values is not None and batch.returns is not None:
            if cfg.clip_value_loss and batch.values is not None:
                errors = objective.clipped_value_loss(new.values, batch.values, batch.returns, cfg.clip)
            else:
                errors = objective.value_loss(new.values, batch.returns)
            value_loss = objective.masked_mean(errors, mask, count)
            loss = loss + cfg.value_coefficient * value_loss
        loss.backward()
        with torch.no_grad():
            if batch.distribution:
                kl = objective.gaussian_kl(*batch.distribution, *new.distribution)
            else:
                kl = objective.kl_k3(log_ratio)
            clipped = ((ratio - 1.0).abs() > cfg.clip).float()
            return torch.stack(
                [
                    policy_loss.detach(),
                    value_loss.detach(),
                    entropy.detach(),
                    objective.masked_mean(kl, mask, count),
                    objective.masked_mean(clipped, mask, count),
                ]
            ).cpu()

    def _adapt(self, kl: float) -> None:
        """Schulman's rule as in rsl_rl: keep the KL of an update within a factor two of the desired one."""
        low, high = self.config.learning_rate_range
        if kl > 2.0 * self.config.desired_kl:
            self.learning_rate = max(low, self.learning_rate / 1.5)
        elif 0.0 < kl < 0.5 * self.config.desired_kl:
            self.learning_rate = min(high, self.learning_rate * 1.5)

    def _step(self, batch: Batch) -> float:
        norms = [
            nn.utils.clip_grad_norm_(group, self.config.max_grad_norm)
            for group in self.policy.parameter_groups()  # type: ignore[operator]
        ]
        norm = float(torch.stack(norms).norm())
        if not norm < float("inf"):
            raise NonFiniteError(f"training diverged: {self._first_bad(batch)} is not finite")
        for group in self.adam.param_groups:
            group["lr"] = self.learning_rate
        self.adam.step()
        return norm

    def _first_bad(self, batch: Batch) -> str:
        """Name the first non-finite tensor, from the data through the parameters to the gradients."""
        named = {f"batch.{name}": value for name, value in batch.named_tensors().items()}
        named |= {f"policy.{name}": value for name, value in self.policy.state_dict().items()}
        gradients = {name: p.grad for name, p in self.policy.named_parameters() if p.grad is not None}
        named |= {f"gradient of policy.{name}": value for name, value in gradients.items()}
        return next((name for name, value in named.items() if not torch.isfinite(value).all()), "the gradient norm")

    def state_dict(self) -> dict[str, Any]:
        return {"adam": self.adam.state_dict(), "learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adam.load_state_dict(state["adam"])
        self.learning_rate = state["learning_rate"]


def _replica(policy: nn.Module) -> nn.Module:
    """A copy that shares the parameters' memory and has gradients of its own."""
    replica = copy.deepcopy(policy)
    for mine, theirs in zip(replica.parameters(), policy.parameters(), strict=True):
        mine.data = theirs.data
    return replica
