"""Models without adapters, as engines have them."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn


def merged(model: nn.Module) -> nn.Module:
    """``model``, or where it has peft's adapters a copy with these merged into its weights."""
    base: Any = model
    return copy.deepcopy(base).merge_and_unload() if hasattr(base, "merge_and_unload") else model
