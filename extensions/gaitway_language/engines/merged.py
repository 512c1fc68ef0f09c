"""Models without adapters, as engines have them."""

from __future__ import annotations

import copy
from typing import Any

import torch
from gaitway_files.adapters import MergedWeights, packed_weights
from torch import nn


def merged(model: nn.Module, *, copied: bool = False) -> nn.Module:
    """``model``, or where it has peft's adapters a copy with these merged into its weights; ``copied``: always one."""
    base: Any = model
    if packed_weights(model):
        return _unpacked(base)
    if hasattr(base, "merge_and_unload"):
        return copy.deepcopy(base).merge_and_unload()
    return copy.deepcopy(model) if copied else model


def _unpacked(model: Any) -> nn.Module:
    """A copy of a model with adapters on weights in four bits, these in the type that they stand for."""
    base = model.get_base_model()
    config = copy.deepcopy(base.config)
    del config.quantization_config
    with torch.device(next(base.parameters()).device):
        found: Any = type(base)._from_config(config, dtype=base.dtype)
    found.load_state_dict(dict(MergedWeights(model)))
    if getattr(base, "generation_config", None) is not None:
        found.generation_config = base.generation_config
    return found.train(base.training)
