"""Checkpoints of a model: the parameters that learn, and no copy of those that never change."""

from __future__ import annotations

from gaitway_files.adapters import packed_weights
from gaitway_files.errors import UserError
from torch import Tensor, nn


def trainable_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters of ``module`` that require a gradient, shared ones once, and the buffers of its ``state_dict``."""
    learning = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    fixed = {name for name, _ in module.named_parameters(remove_duplicate=False)} - learning
    scales = tuple(f"{name}." for name in packed_weights(module))  # of parameters that are fixed
    found = {name: value for name, value in module.state_dict().items() if name not in fixed}
    return {name: value for name, value in found.items() if not name.startswith(scales)} if scales else found


def load_trainable_state(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Raises ``ValueError`` if ``state`` comes from a model with other parameters that learn."""
    own = trainable_state(module)
    if own.keys() != state.keys():
        name = min(own.keys() ^ state.keys())
        where = "the checkpoint lacks" if name in own else "the model has not"
        raise UserError(f"{where} {name}: load into the same model, with the same adapters and frozen parameters")
    module.load_state_dict(state, strict=False)
