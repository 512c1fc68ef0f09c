"""Parts that all verdicts share: plain JSON with a seal, rounded numbers, and versions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.versions import versions
from gaitway_files.writing import write_text
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.verdict import seal


def plain(value: Any) -> Any:
    """Plain data; what is not finite becomes None, since JSON has neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_verdict(path: str | Path, body: dict[str, Any]) -> Path:
    """Write plain data as JSON with its seal, atomically."""
    data = {**body, "seal": seal(body)}
    return write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def rounded(value: float) -> str:
    """A number with about three significant digits."""
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 10 else 1}f}"


def software(contract: Contract) -> dict[str, str]:
    """Versions that produced the numbers; the policy's own are the contract's."""
    found = versions("gaitway", "mujoco", "numpy", "onnxruntime")
    return found | {f"export/{name}": value for name, value in contract.software.items()}
