"""A Gaussian actor-critic with a memory: gated recurrent units between the observations and the networks.

What the policy remembers travels with the observations it is given, as further entries of the same dictionary, and a
row of a batch is a whole piece of an environment's history. So collector and optimiser treat it like any other policy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.optimizer import Evaluation
from .linear import Linear
from .mlp import LOG_2PI, ActorCritic, ActorCriticConfig, gaussian_log_prob, make_normalizer

MEMORIES = ("actor_memory", "critic_memory")
CONTINUES = "continues"
"""1 where an episode goes on, 0 at its first step: memories of an earlier episode are not for this one."""


class GRU(nn.Module):
    """``nn.GRU``'s unit. Takes the input products of all steps at once; its memory can be cleared midway."""

    def __init__(self, input_dim: int, size: int):
        super().__init__()
        self.input, self.recurrent = Linear(input_dim, 3 * size), Linear(size, 3 * size)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Memory after seeing ``x`` (B, D), from the one before, (B, H)."""
        return self._step(self.input(x), memory)

    def sequence(self, x: Tensor, memory: Tensor, continues: Tensor) -> Tensor:
        """Memories (B, T, H) after each step of ``x`` (B, T, D); ``continues`` (B, T, 1) is 0 where one is cleared."""
        gates = self.input(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        memories = []
        for t in range(x.shape[1]):
            memory = self._step(gates[:, t], memory * continues[:, t])
            memories.append(memory)
        return torch.stack(memories, 1)

    def _step(self, gates: Tensor, memory: Tensor) -> Tensor:
        reset_x, update_x, new_x = gates.to(memory.dtype).chunk(3, -1)
        reset_h, update_h, new_h = self.recurrent(memory).to(memory.dtype).chunk(3, -1)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
        return new + update * (memory - new)


class RecurrentActorCritic(ActorCritic):
    """Actor and critic, each behind a memory of its own. Gradients reach back to the beginning of a rollout."""

    def __init__(self, observation_dims: dict[str, int], action_dim: int, config: ActorCriticConfig):
        size = config.memory_size
        super().__init__({"policy": size}, action_dim, config)  # the networks read memories
        self.critic_group = "critic" if "critic" in observation_dims else "policy"
        actor_dim, critic_dim = observation_dims["policy"], observation_dims[self.critic_group]
        self.actor_normalizer = make_normalizer(actor_dim, config)
        self.critic_normalizer = make_normalizer(critic_dim, config)
        self.actor_gru, self.critic_gru = GRU(actor_dim, size), GRU(critic_dim, size)

    def initial_memory(self, num_envs: int) -> dict[str, Tensor]:
        size = self.config.memory_size
        return {name: torch.zeros(num_envs, size) for name in MEMORIES} | {CONTINUES: torch.zeros(num_envs, 1)}

    def act(self, observations: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        actor, critic = self._remember_actor(observations), self._remember_critic(observations)
        memory = dict(zip(MEMORIES, (actor, critic), strict=True)) | {CONTINUES: torch.ones(len(actor), 1)}
        return self.actor(actor).to(self.std.dtype), self.action_std(), memory

    def rows(self, x: Tensor) -> Tensor:
        """(T, N, ...) to one row for each environment, (N, T, ...)."""
        return x.transpose(0, 1).contiguous()

    def distribution(self, observations: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return self.actor(self._remember_actor(observations)).to(self.std.dtype), self.action_std()

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        return self.critic(self._remember_critic(observations)).to(self.std.dtype).squeeze(-1)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Sequences (B, T, ...) played again from the memories that their first steps began with."""
        seen = batch.observations
        actor_input = self.actor_normalizer(seen["policy"])
        actor = self.actor_gru.sequence(actor_input, seen["actor_memory"][:, 0], seen[CONTINUES])
        critic_input = self.critic_normalizer(seen[self.critic_group])
        critic = self.critic_gru.sequence(critic_input, seen["critic_memory"][:, 0], seen[CONTINUES])
        shape, std = actor.shape[:2], self.action_std()
        mean = self.actor(actor.flatten(0, 1)).to(self.std.dtype).unflatten(0, shape)
        return Evaluation(
            log_probs=gaussian_log_prob(mean, std, batch.actions),
            entropy=(0.5 + 0.5 * LOG_2PI + std.log()).sum().expand(shape),
            values=self.critic(critic.flatten(0, 1)).to(self.std.dtype).reshape(shape),
            distribution=(mean, std.expand_as(mean)),
        )

    def _remember_actor(self, observations: dict[str, Tensor]) -> Tensor:
        return self.actor_gru(self.actor_normalizer(observations["policy"]), observations["actor_memory"])

    def _remember_critic(self, observations: dict[str, Tensor]) -> Tensor:
        return self.critic_gru(self.critic_normalizer(observations[self.critic_group]), observations["critic_memory"])

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        actor, critic = super().parameter_groups()
        return [[*actor, *self.actor_gru.parameters()], [*critic, *self.critic_gru.parameters()]]

    def export_actor(self) -> nn.Module:
        """Policy observation (N, D) and memory (N, H), first zero, to deterministic action (N, A) and next memory."""
        return RecurrentActor(self.actor_normalizer, self.actor_gru, self.actor)


class RecurrentActor(nn.Module):
    """One step of a recurrent actor, whose memory is ``memory_size`` wide."""

    def __init__(self, normalizer: nn.Module, gru: GRU, actor: nn.Module):
        super().__init__()
        self.normalizer, self.gru, self.actor = normalizer, gru, actor
        self.memory_size = gru.recurrent.in_features

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.gru(self.normalizer(observation), memory)
        return self.actor(memory), memory


POLICIES: dict[str, type[ActorCritic]] = {"none": ActorCritic, "gru": RecurrentActorCritic}
"""The policy for each ``ActorCriticConfig.recurrent``."""
