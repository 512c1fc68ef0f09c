"""An actor-critic with a memory: gated recurrent units between the observations and the networks.

What the policy remembers travels with the observations it is given, as further entries of the same dictionary, and a
row of a batch is a whole piece of an environment's history. So collector and optimiser treat it like any other policy.
"""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.policy import Evaluation
from .actor_critic import ActorCritic, ActorCriticConfig
from .heads import Observations, Parameters
from .linear import Linear

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

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Space, config: ActorCriticConfig):
        super().__init__(observation_space, action_space, config)
        size = config.memory_size
        self.actor_gru, self.critic_gru = GRU(self.actor_encoder.dim, size), GRU(self.critic_encoder.dim, size)
        self._make_networks(size, size)  # they read memories, not features

    def initial_memory(self, num_envs: int) -> Observations:
        zeros = self.actor_gru.input.weight.new_zeros
        sizes = dict.fromkeys(MEMORIES, self.config.memory_size) | {CONTINUES: 1}
        return {name: zeros(num_envs, size) for name, size in sizes.items()}

    def act(self, observations: Observations) -> tuple[Parameters, Observations]:
        actor, critic = self._remember_actor(observations), self._remember_critic(observations)
        memory = dict(zip(MEMORIES, (actor, critic), strict=True)) | {CONTINUES: actor.new_ones(len(actor), 1)}
        return self.head(self.actor(actor), observations), memory

    def rows(self, x: Tensor) -> Tensor:
        """(T, N, ...) to one row for each environment, (N, T, ...)."""
        return x.transpose(0, 1).contiguous()

    def distribution(self, observations: Observations) -> Parameters:
        return self.head(self.actor(self._remember_actor(observations)), observations)

    def value(self, observations: Observations) -> Tensor:
        return self._values(self.critic, self._remember_critic(observations))

    def prepared(self, batch: Batch) -> Batch:
        """The batch as it is: :meth:`evaluate` reads observations."""
        return batch

    def evaluate(self, batch: Batch) -> Evaluation:
        """Sequences (B, T, ...) played again from the memories that their first steps began with."""
        seen = batch.observations
        shape = seen[CONTINUES].shape[:2]
        flat = {name: value.flatten(0, 1) for name, value in seen.items()}
        features = self.actor_encoder(flat).unflatten(0, shape)
        actor = self.actor_gru.sequence(features, seen["actor_memory"][:, 0], seen[CONTINUES])
        features = self.critic_encoder(flat).unflatten(0, shape)
        critic = self.critic_gru.sequence(features, seen["critic_memory"][:, 0], seen[CONTINUES])
        parameters = self.head(self.actor(actor.flatten(0, 1)), flat)
        return self._evaluation(tuple(p.unflatten(0, shape) for p in parameters), critic.flatten(0, 1), batch)

    def _remember_actor(self, observations: Observations) -> Tensor:
        return self.actor_gru(self.actor_encoder(observations), observations["actor_memory"])

    def _remember_critic(self, observations: Observations) -> Tensor:
        return self.critic_gru(self.critic_encoder(observations), observations["critic_memory"])

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        actor, critic = super().parameter_groups()
        return [[*actor, *self.actor_gru.parameters()], [*critic, *self.critic_gru.parameters()]]

    def export_actor(self) -> nn.Module:
        """Policy observation (N, D) and memory (N, H), first zero, to deterministic action (N, A) and next memory."""
        encoder, actor = super().export_actor().children()
        return RecurrentActor(encoder, self.actor_gru, actor)


class RecurrentActor(nn.Module):
    """One step of a recurrent actor, whose memory is ``memory_size`` wide."""

    def __init__(self, encoder: nn.Module, gru: GRU, actor: nn.Module):
        super().__init__()
        self.encoder, self.gru, self.actor = encoder, gru, actor
        self.memory_size = gru.recurrent.in_features

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.gru(self.encoder(observation), memory)
        return self.actor(memory), memory


POLICIES: dict[str, type[ActorCritic]] = {"none": ActorCritic, "gru": RecurrentActorCritic}
"""The policy for each ``ActorCriticConfig.recurrent``."""
