"""The GPU of this machine, for tests that need one: ``pytest -m gpu`` runs them, and they are skipped without one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

CUDA = torch.device("cuda", 0)


def needs_gpu(test: Any) -> Any:
    """A test on :data:`CUDA`."""
    skipped = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")
    return pytest.mark.gpu(skipped(test))
