"""The policy optimiser: epochs of minibatches over one batch, for any policy that can evaluate a batch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import torch
import torch.distributed as dist
from gaitway_files.blame import blamed
from gaitway_files.errors import UserError
from gaitway_files.ranges import Betas, NonNegativeFloat, PositiveFloat, PositiveInt, one_of
from torch import Tensor, nn

from . import distributed, objective
from .advantage import normalise
from .batch import Batch
from .critic import CriticConfig, CriticOptimizer
from .finite import NonFiniteError, first_bad
from .losses import Loss, PolicyLoss, PolicyLossConfig
from .policy import Epochs, Evaluation, Policy, computing, idle_passes
from .store import STORES, FlatStore, Groups, ParameterStore, ShardedStore
from .threads import result_of

AddedLoss: TypeAlias = Callable[[Any, Evaluation, Batch], Tensor]
"""Of a policy, what it says of a batch, and the batch: a loss of each decision."""


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(PolicyLossConfig):
    """Settings of the update. Defaults are rsl_rl's for legged robots."""

    epochs: PositiveInt = 5
    """Passes over each rollout; typically 3 to 10."""
    minibatches: PositiveInt = 4
    """Minibatches of each epoch; typically 4 to 32."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate, with "adaptive" the initial one; typically 1e-4 to 1e-3."""
    schedule: Annotated[str, one_of("adaptive", "constant")] = "adaptive"
    """"adaptive" steers the learning rate to ``desired_kl``; "constant" keeps it."""
    desired_kl: PositiveFloat = 0.01
    """KL divergence of an update that "adaptive" aims at, in nats; typically 0.005 to 0.02."""
    learning_rate_range: tuple[float, float] = (1e-5, 1e-2)
    """Lowest and highest learning rate of "adaptive"."""
    max_kl: PositiveFloat | None = None
    """KL divergence, in nats, at which an update stops, typically 0.01 to 0.05; None never stops."""
    normalize_advantages: Annotated[str, one_of("batch", "minibatch", "none")] = "batch"
    """Normalisation of advantages to mean 0 and standard deviation 1: over the "batch", as rsl_rl does, over each
    "minibatch", or "none"."""
    max_grad_norm: PositiveFloat = 1.0
    """Largest norm of a gradient; typically 0.5 to 1."""
    clip_groups: bool = True
    """Clip the gradients of actor and critic apart, as rsl_rl does; False clips them as one."""
    algorithm: Annotated[str, one_of("adam", "rmsprop")] = "adam"
    """"adam" or "rmsprop"."""
    betas: Betas = (0.9, 0.999)
    """Decay rates of Adam's moments; RMSprop uses only the second."""
    eps: PositiveFloat = 1e-8
    """Constant in the denominator of the step; typically 1e-8 to 1e-5."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay, decoupled from the gradient (AdamW, Loshchilov and Hutter 2019); typically 0 to 0.1."""
    chunk_size: PositiveInt = 4096
    """Rows per forward pass: small enough for activations to stay in the cache."""
    workers: PositiveInt = 1
    """Threads that share each minibatch, each with a replica of the policy."""
    precision: Annotated[str, one_of("float32", "bfloat16")] = "float32"
    """"bfloat16" runs the networks' forward and backward passes in bfloat16."""
    offload: bool = False
    """Keep Adam's moments in the machine's memory and take parts of them to the GPU in every step: the same numbers
    for 8 bytes less a parameter, and a copy both ways for every step. A language training that does not fit otherwise
    sets it by itself."""
    store: Annotated[str, one_of(*STORES)] = "flat"
    """Where parameters, gradients and moments are. "flat": whole in every process. "sharded": weights to compute with
    and gradients in every process, Adam's moments and the weights in float32 in parts. "fsdp": everything in parts, by
    torch's fully_shard, once every process has read the whole model."""
    critic: CriticConfig | None = None
    """Fit the critic further after the policy's epochs, by itself and at a rate of its own."""

    @property
    def needs_distribution(self) -> bool:
        """True if the exact KL divergence is needed; otherwise an estimate from samples suffices for the statistics."""
        return self.schedule == "adaptive" or self.max_kl is not None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_decay and self.algorithm != "adam":
            raise UserError(f"weight_decay {self.weight_decay} with algorithm {self.algorithm!r}: only 'adam' has it")
        if self.offload and self.algorithm != "adam":
            raise UserError(f"offload with algorithm {self.algorithm!r}: only 'adam' has moments to offload")
        if self.store != "flat":
            self._check_store()
        low, high = self.learning_rate_range
        if not 0.0 < low <= high:
            raise UserError(f"learning_rate_range {self.learning_rate_range}: must be (low, high), 0 < low <= high")

    def _check_store(self) -> None:
        for name, usual in (("workers", 1), ("critic", None), ("algorithm", "adam")):
            if (value := getattr(self, name)) != usual:
                raise UserError(f"store {self.store!r} with {name} {value!r}: only 'flat' has that; use {usual!r}")


class PolicyOptimizer:
    """``update(batch)`` improves ``policy`` by the gradient of ``loss``: unless told otherwise, a policy gradient's.

    Each minibatch is cut into chunks that are shared out to the workers; gradients are summed in a fixed order, so
    the result does not depend on thread timing. Processes of one torch.distributed group start from the parameters of
    the first, take every step with the mean of their gradients and so stay equal.
    """

    def __init__(
        self,
        policy: Policy,
        config: OptimizerConfig,
        generator: torch.Generator | None = None,
        loss: Loss | None = None,
        added: Mapping[str, AddedLoss] | None = None,
    ):
        """``added`` losses by name, shaped like those of ``loss``, see the policy too; statistics have their means."""
        self.policy, self.config, self.generator = policy, config, generator
        self.loss = PolicyLoss(config) if loss is None else loss
        self.added = dict(added or {})
        self.statistics = (*self.loss.statistics, *(f"{name}_loss" for name in self.added))
        for name in self.added:
            if f"{name}_loss" in self.loss.statistics:
                raise UserError(f"the statistic {name}_loss is the optimiser's own: give the added loss another name")
        self.learning_rate = config.learning_rate
        groups = policy.parameter_groups()
        self._check_groups(groups)
        self.store = _store(policy, groups if config.clip_groups else [[p for group in groups for p in group]], config)
        self.critic = None if config.critic is None else CriticOptimizer(policy, groups, config.critic, generator)
        self._written_out = self._without_autograd()
        self._pool = (
            ThreadPoolExecutor(config.workers - 1, "learner", initializer=torch.set_num_threads, initargs=(1,))
            if config.workers > 1
            else None
        )

    def _check_groups(self, groups: list[list[nn.Parameter]]) -> None:
        known = {id(parameter) for group in (*groups, self.policy.learnt_apart()) for parameter in group}
        for name, parameter in self.policy.named_parameters():
            if parameter.requires_grad and id(parameter) not in known:
                raise UserError(f"parameter {name} is in none of the policy's parameter_groups()")

    def _without_autograd(self) -> Epochs | None:
        """The policy's own epochs of small minibatches, if it has them for this loss and nothing else is asked for."""
        cfg = self.config
        plain = cfg.workers == 1 and cfg.precision == "float32" and not self.added and not cfg.needs_distribution
        plain &= cfg.store == "flat"
        return self.policy.written_out(self.loss) if plain and distributed.size() == 1 else None

    def update(self, batch: Batch, refresh: Callable[[], Batch] | None = None) -> dict[str, float]:
        """Optimise the policy on ``batch`` and return the statistics of the update, averaged over minibatches.

        ``refresh`` returns the batch for each further epoch, its advantages estimated anew by the policy of then.
        """
        cfg, names = self.config, self.statistics
        if len(batch) < cfg.minibatches:
            raise UserError(f"a batch of {len(batch)} rows cannot be split into {cfg.minibatches} minibatches")
        totals, grad_norm, steps, stopped = [0.0] * len(names), 0.0, 0, False
        data = self._prepared(batch)
        # Then a minibatch has as many decisions in every process, and none needs to be told.
        self._even = batch.mask is None and distributed.same_everywhere(len(batch), batch.actions.device)

        def quick_step() -> None:
            nonlocal grad_norm, steps
            norm, steps = float(self.store.clip(cfg.max_grad_norm, look=True)), steps + 1
            grad_norm += norm
            self._step(norm, batch)

        for epoch in range(cfg.epochs):
            if epoch and refresh is not None:
                data = self._prepared(refresh())
            order = self._shuffled(data)
            # One in its own order has the forward passes of whatever else evaluated it, and their very numbers.
            parts = [slice(None)] if cfg.minibatches == 1 else order.tensor_split(cfg.minibatches)
            if self._written_out is not None and self._written_out.is_for(data, -(-len(data) // cfg.minibatches)):
                self._written_out.epoch(data, parts, cfg.normalize_advantages == "minibatch", quick_step)
                continue
            for rows in parts:
                minibatch = data[rows]
                if cfg.normalize_advantages == "minibatch":
                    minibatch = minibatch.replace(advantages=normalise(minibatch.advantages, minibatch.mask))
                # g = d/dtheta mean of the losses; over processes, the mean of theirs
                sums = self._accumulate(minibatch)
                self.store.reduce(sums)
                # g <- g min(1, max_grad_norm / |g|). One copy a minibatch is all that the host of a GPU waits for.
                *statistics, norm = torch.cat((sums, self.store.clip(cfg.max_grad_norm)[None])).tolist()
                totals = [total + value for total, value in zip(totals, statistics, strict=True)]
                steps += 1
                kl = statistics[names.index("kl")] if cfg.needs_distribution else 0.0
                if stopped := cfg.max_kl is not None and kl > cfg.max_kl:
                    break
                if cfg.schedule == "adaptive":
                    self._adapt(kl)
                if not norm < float("inf"):
                    for name, value in zip(names, statistics, strict=True):
                        if name.removesuffix("_loss") in self.added and not math.isfinite(value):
                            raise NonFiniteError(f"training diverged: {name}, which was added, is not finite")
                self._step(norm, batch)
                grad_norm += norm
            if stopped:
                break
        if self._written_out is not None:
            totals = [total + value for total, value in zip(totals, self._written_out.statistics(), strict=True)]
        result: dict[str, float] = {name: total / steps for name, total in zip(names, totals, strict=True)}
        result |= {"grad_norm": grad_norm / steps, "learning_rate": self.learning_rate, "minibatches": steps}
        return result if self.critic is None else result | self.critic.update(batch)

    def _step(self, norm: float, batch: Batch) -> None:
        """theta <- Adam(theta, g)"""
        if not norm < float("inf"):
            raise NonFiniteError(f"training diverged: {first_bad(self.policy, batch)} is not finite")
        self.store.step(self.learning_rate)
        self.policy.after_step()

    def _shuffled(self, batch: Batch) -> Tensor:
        """Rows in random order, those beside each other that a policy computes together for less."""
        order = batch.shuffled(self.generator)
        return order if self.config.minibatches == 1 else self.policy.grouped(batch, order)

    def _prepared(self, batch: Batch) -> Batch:
        """The batch of an epoch: with what stays the same in it computed, by policies that can, and A normalised."""
        with computing(batch.actions.device, self.config.precision):
            batch = self.policy.prepared(batch)
        if self.config.normalize_advantages == "batch":
            batch = batch.replace(advantages=normalise(batch.advantages, batch.mask))
        return batch

    def _accumulate(self, batch: Batch) -> Tensor:
        """Leave the gradient of the mean loss over a minibatch in the policy; return its statistics.

        In chunks of rows, which the workers share. Counts are means over processes: then the mean of the processes'
        gradients is that over all of their decisions.
        """
        count = batch.decisions
        if distributed.size() > 1 and not self._even:
            count = distributed.mean_(torch.as_tensor(count, dtype=torch.float32, device=batch.actions.device))
        total = self._total(batch, count)
        self.store.zero()
        for _, gradient in self._replicas[1:]:
            gradient.zero_()
        parts = self._parts(batch)
        idle = idle_passes(self.policy, batch, len(parts))

        def work(worker: int) -> Tensor:
            policy = self._replicas[worker][0]
            shares = [self._chunk(policy, batch[part], count, total) for part in parts[worker :: self.config.workers]]
            return sum(shares, start=torch.zeros(len(self.statistics), device=batch.actions.device))

        if self._pool is None:
            statistics = work(0)
            for row in idle:
                statistics += self._chunk(self.policy, row, count, total)
            return statistics
        assert isinstance(self.store, FlatStore)
        pool = self._pool
        futures = [pool.submit(work, worker) for worker in range(1, self.config.workers)]
        statistics = work(0) + sum(result_of(future, pool) for future in futures)
        for _, gradient in self._replicas[1:]:
            self.store.gradient.add_(gradient)
        return statistics

    def _chunk(self, policy: Policy, batch: Batch, count: Tensor | float, total: Tensor | float) -> Tensor:
        """Add the gradient of one chunk's share of the minibatch loss to ``policy``; return its statistics."""
        cfg, mask = self.config, batch.mask
        with computing(batch.actions.device, cfg.precision):
            new = policy.evaluate(batch)
            added = [_checked(name, loss, policy, new, batch) for name, loss in self.added.items()]
        losses, columns = self.loss(new, batch)
        if added:
            losses = losses + sum(added)
            columns = torch.cat((columns, torch.stack(added).detach()))
        if cfg.aggregation == "sequence":
            losses = objective.sequence_means(losses, mask)
            objective.masked_mean(losses, None, total).backward()
        else:
            objective.masked_mean(losses, mask, total).backward()
        return ((columns if mask is None else columns * mask).flatten(1).sum(1) / count).float()

    def _parts(self, batch: Batch) -> Sequence[Tensor | slice]:
        """The rows of each forward pass."""
        size, workers = self.config.chunk_size, self.config.workers
        if (own := self.policy.chunks(batch, size)) is not None:
            return own
        if workers == 1 and len(batch) <= size:
            return [slice(None)]
        chunks = -(-len(batch) // (size * workers)) * workers
        bounds = [len(batch) * i // chunks for i in range(chunks + 1)]
        return [slice(a, b) for a, b in pairwise(bounds) if a < b]

    def _total(self, batch: Batch, count: Tensor | float) -> Tensor | float:
        """Divisor of the sum of a minibatch's aggregated losses; its mean over distributed processes."""
        if self.config.aggregation == "decision":
            return count
        rows: Tensor | float = float(len(batch))
        if distributed.size() > 1:
            rows = distributed.mean_(torch.tensor(rows, device=batch.actions.device))
        return rows * (self.config.horizon or 1)

    def _adapt(self, kl: float) -> None:
        """Schulman's rule as in rsl_rl: keep the KL of an update within a factor two of the desired one."""
        low, high = self.config.learning_rate_range
        if kl > 2.0 * self.config.desired_kl:
            self.learning_rate = max(low, self.learning_rate / 1.5)
        elif 0.0 < kl < 0.5 * self.config.desired_kl:
            self.learning_rate = min(high, self.learning_rate * 1.5)

    @cached_property
    def _replicas(self) -> list[tuple[Policy, Tensor]]:
        """The policy for each worker, with the buffer of its gradients. All share the memory of the parameters."""
        if not isinstance(self.store, FlatStore):
            return [(self.policy, torch.empty(0))]
        replicas = [(self.policy, self.store.gradient)]
        for _ in range(self.config.workers - 1):
            replica = _replica(self.policy)
            parameters = [p for group in replica.parameter_groups() for p in group]
            replicas.append((replica, self.store.attach_gradients(parameters)))
        return replicas

    def state_dict(self) -> dict[str, Any]:
        critic = None if self.critic is None else self.critic.state_dict()
        return {"inner": self.store.state_dict(), "learning_rate": self.learning_rate, "critic": critic}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.store.load_state_dict(state["inner"])
        self.learning_rate = state["learning_rate"]
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])


def _store(policy: Policy, groups: Groups, config: OptimizerConfig) -> ParameterStore:
    """The store that ``config`` names, with the parameters of the first process; ``groups`` are clipped apart."""
    if config.store == "flat":
        return FlatStore(groups, config)
    if distributed.size() > 1 and not dist.is_initialized():
        raise UserError(
            f"optimizer.store {config.store!r} with processes that share memory: use 'flat', or start processes with "
            "--gpus or --cpus"
        )
    if config.store == "sharded":
        return ShardedStore(groups, config)
    from .fully_sharded import FullySharded

    return FullySharded(policy, groups, config)


def _checked(name: str, loss: AddedLoss, policy: Policy, new: Evaluation, batch: Batch) -> Tensor:
    with blamed(f"added loss {name!r}", loss):
        losses = loss(policy, new, batch)
    shape = tuple(new.log_probs.shape)
    if not isinstance(losses, Tensor) or tuple(losses.shape) != shape:
        found = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"type {type(losses).__name__}"
        raise UserError(f"added loss {name!r} has {found}: expected a tensor of shape {shape}, a loss of each decision")
    if not losses.requires_grad:
        raise UserError(f"added loss {name!r} depends on no parameter of the policy, so that it would change nothing")
    return losses.float() if losses.dtype == torch.bfloat16 else losses


def _replica(policy: Policy) -> Policy:
    """A copy that shares the memory of parameters and buffers and has gradients of its own."""
    replica = copy.deepcopy(policy)
    for mine, theirs in zip(replica.buffers(), policy.buffers(), strict=True):
        mine.data = theirs.data
    for mine, theirs in zip(replica.parameters(), policy.parameters(), strict=True):
        mine.data = theirs.data
    return replica
