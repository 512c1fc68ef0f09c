"""The policy that learning is not to leave: the model without its adapters, or a frozen copy."""

from __future__ import annotations

import copy
from collections import Counter
from contextlib import nullcontext
from typing import Any

import torch
from gaitway_files.adapters import MergedWeights
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.optimizer import OptimizerConfig
from ..models.causal_lm import CausalLMPolicy
from .evaluation import evaluate


class Reference:
    """The policy as it is now, until :meth:`move_towards` moves it.

    A model with adapters of peft is its own reference while they are off. Of other models a frozen copy is kept. One
    that never moves has its linear layers in the ``precision`` that they compute in: half the memory, the same numbers.
    """

    def __init__(self, policy: CausalLMPolicy, precision: str = "float32"):
        self.adapted = hasattr(policy.model, "disable_adapter")
        self._moved = False
        model: nn.Module = policy.model
        if not self.adapted:
            model = copy.deepcopy(model).requires_grad_(False)
        # Of the same kind, so that its forward passes are the policy's, with the same rounding.
        self.policy: CausalLMPolicy = type(policy)(model, temperature=policy.temperature, entropy="none")
        if precision == "bfloat16" and not self.adapted:
            _halve_linear(model)

    def into_parts(self, config: OptimizerConfig) -> None:
        """Let every process have a part of the copy, as of a policy in the store "fsdp"."""
        from ..core.fully_sharded import shard_

        shard_(self.policy, config)

    def evaluate(self, batch: Batch, config: OptimizerConfig) -> Tensor:
        """Log-probability of each decision of ``batch``, in the shape of the policy's ``evaluate``; 0 elsewhere.

        Forward passes and precision are those of ``config``: a policy that has not moved gives exactly the same.
        """
        model: Any = self.policy.model
        with model.disable_adapter() if self.adapted else nullcontext():
            return evaluate(self.policy, batch, config).log_probs

    @torch.no_grad()
    def move_towards(self, policy: CausalLMPolicy, rate: float) -> None:
        """Move the copy by a share ``rate`` of the way to ``policy`` (TR-DPO, Gorbatovski et al. 2024); 1 takes it."""
        if self.adapted:
            raise UserError("the reference of a model with adapters cannot follow it: it is the model without them")
        if not 0.0 < rate <= 1.0:
            raise UserError(f"rate {rate}: a share in (0, 1]")
        ours = self.policy.model.state_dict()
        seen = set()
        for name, value in MergedWeights(policy.model):
            own = ours[name]
            if own.data_ptr() not in seen and own.is_floating_point():
                own.lerp_(value.to(own), rate)
            seen.add(own.data_ptr())
        self._moved = True

    def state_dict(self) -> dict[str, Any]:
        """The copy, if it has moved since it was made."""
        return {"model": self.policy.model.state_dict()} if self._moved else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self.policy.model.load_state_dict(state["model"])
            self._moved = True


def _halve_linear(model: nn.Module) -> None:
    """Put weights of linear layers, but those that something else reads too, such as tied embeddings, into bfloat16."""
    readers = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            for parameter in module.parameters(recurse=False):
                if readers[id(parameter)] == 1:
                    parameter.data = parameter.data.to(torch.bfloat16)
