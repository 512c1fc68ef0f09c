"""``validation.json`` as the robot's computer reads it: is it whole, and is it about this policy?"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

VERDICT_FILE = "validation.json"
SCHEMA = 1
AGAIN = "run gaitway validate again"


class VerdictError(ValueError):
    """A validation.json that cannot be trusted or read."""


def read_verdict(path: str | Path, *, policy: Path | None = None) -> dict[str, Any]:
    """The content of a verdict whose seal is right; with ``policy``, also of one that is about that policy.onnx."""
    path = Path(path)
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise VerdictError(f"no verdict at {path}: run gaitway validate first") from None
    except ValueError as error:
        raise VerdictError(f"{path} is truncated or not JSON ({error}): {AGAIN}") from None
    if not isinstance(data, dict) or data.get("gaitway_validation") != SCHEMA:
        raise VerdictError(f"{path} is not a verdict of schema {SCHEMA}: {AGAIN}")
    if not hmac.compare_digest(str(data.pop("seal", "")), seal(data)):
        raise VerdictError(f"{path} has been edited since it was written: {AGAIN}")
    if policy is not None and hashlib.sha256(policy.read_bytes()).hexdigest() != data["policy_sha256"]:
        raise VerdictError(f"{path} is about another policy than {policy}: {AGAIN}")
    return data


def seal(body: dict[str, Any]) -> str:
    """Keyed by the policy's hash: shows an accidental edit or a mix-up of policies, not a forgery."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(str(body.get("policy_sha256", "")).encode(), text.encode(), hashlib.sha256).hexdigest()
