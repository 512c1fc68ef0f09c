"""Models without adapters, as engines have them."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn


def merged(model: nn.Module, *, copied: bool = False) -> nn.Module:
    """``model``, or where it has peft's adapters a copy with these merged into its weights; ``copied``: always one."""
    base: Any = model
    if hasattr(base, "merge_and_unload"):
        return copy.deepcopy(base).merge_and_unload()
    return copy.deepcopy(model) if copied else model
