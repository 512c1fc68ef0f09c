"""Checkpoints of a model: the parameters that learn, and no copy of those that never change."""

from __future__ import annotations

from gaitway_files.adapters import packed_weights
from gaitway_files.errors import UserError
from torch import Tensor, nn

from ..core import distributed
from ..core.parts import copy_part_, whole


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
    if getattr(module, "in_parts", False):
        own = module.state_dict()
        for name, value in state.items():
            copy_part_(own[name], value)
    else:
        module.load_state_dict(state, strict=False)


def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """The :func:`trainable_state` of a module that lies in parts in several processes, all of which have to ask: in the
    memory of the machine and the precision of forward passes, in the first process; nothing in the others."""
    found = {}
    for name, value in trainable_state(module).items():
        together = whole(value).detach()
        if distributed.rank() == 0:
            found[name] = together.to("cpu", copy=True)
    return found
