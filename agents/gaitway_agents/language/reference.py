"""The policy that learning is not to leave: the model without its adapters, or a frozen copy."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..core.batch import Batch
from ..models.causal_lm import CausalLMPolicy
from ..models.sequences import merged_weights


class Reference:
    """What ``policy`` says now, for ever, or until :meth:`follow`.

    A model with adapters of peft is its own reference once they are off: the model that they were put on. Of others a
    frozen copy is kept, in bfloat16 and on another device if asked for.
    """

    def __init__(
        self, policy: CausalLMPolicy, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ):
        self.adapted = hasattr(policy.model, "disable_adapter")
        if self.adapted and (dtype is not None or device is not None):
            raise ValueError("the reference of a model with adapters is that model: leave out dtype and device")
        self.policy = policy
        self._moved = False
        if not self.adapted:
            model = copy.deepcopy(policy.model).requires_grad_(False).to(device=device, dtype=dtype)
            self.policy = CausalLMPolicy(model, temperature=policy.temperature, entropy="none")

    @torch.no_grad()
    def log_probs(self, tokens: Tensor, lengths: Tensor, mask: Tensor, *, size: int = 4096) -> Tensor:
        """Log-probability of each masked token, shape (B, L), 0 elsewhere, at the policy's temperature.

        A forward pass has at most ``size`` tokens, padding included.
        """
        if not self.adapted:
            return self._log_probs(tokens, lengths, mask, size)
        model: Any = self.policy.model
        with model.disable_adapter():
            return self._log_probs(tokens, lengths, mask, size)

    def _log_probs(self, tokens: Tensor, lengths: Tensor, mask: Tensor, size: int) -> Tensor:
        home, there = tokens.device, next(self.policy.parameters()).device
        none = mask.new_zeros(mask.shape)
        batch = Batch(observations={"lengths": lengths}, actions=tokens, log_probs=none, advantages=none, mask=mask)
        found = torch.zeros(tokens.shape, dtype=torch.float32, device=home)
        for rows in self.policy.chunks(batch, size):
            part = batch[rows].map(lambda value: value.to(there))
            assert part.mask is not None
            found[rows] = self.policy.log_probs(part.actions, part.observations["lengths"], part.mask)[0].to(home)
        return found

    @torch.no_grad()
    def follow(self, policy: CausalLMPolicy, rate: float) -> None:
        """Move the copy by a share ``rate`` of the way to ``policy`` (TR-DPO, Gorbatovski et al. 2024); 1 takes it."""
        if self.adapted:
            raise ValueError("the reference of a model with adapters cannot follow it: it is the model without them")
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"rate {rate}: a share in (0, 1]")
        ours = self.policy.model.state_dict()
        seen = set()
        for name, value in merged_weights(policy.model):
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
