"""Spaces that a table can index."""

from __future__ import annotations

import math

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..trainer import Observation

MAX_STATES = 10_000_000
OTHERS = "use an agent with a network, such as ppo or dqn"


class TableSpaces:
    """Numbers the states and actions of an environment from zero."""

    def __init__(self, env: VectorEnv):
        """Raises ValueError for environments whose states or actions cannot be counted."""
        space, actions = env.single_observation_space, env.single_action_space
        states = space.spaces.get("policy") if isinstance(space, spaces.Dict) else None
        if not isinstance(states, spaces.Discrete | spaces.MultiDiscrete):
            raise UserError(f"observation space {space}: a table needs Discrete or MultiDiscrete states; {OTHERS}")
        if not isinstance(actions, spaces.Discrete):
            raise UserError(f"action space {actions}: a table needs Discrete actions; {OTHERS}")
        sizes = [int(states.n)] if isinstance(states, spaces.Discrete) else [int(n) for n in states.nvec.flatten()]
        self.num_states, self.num_actions = math.prod(sizes), int(actions.n)
        if self.num_states > MAX_STATES:
            raise UserError(f"observation space {space}: {self.num_states:,} states do not fit a table; {OTHERS}")
        self._strides = torch.tensor([math.prod(sizes[i + 1 :]) for i in range(len(sizes))])
        self._first_state = torch.as_tensor(states.start).flatten()
        self.first_action = int(actions.start)

    def states(self, observations: Observation) -> Tensor:
        """State numbers (N,) of a batch of observations."""
        states = observations["policy"]
        return ((states.reshape(len(states), -1) - self._first_state) * self._strides).sum(1)
