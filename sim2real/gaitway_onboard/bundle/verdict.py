"""``validation.json`` and ``rehearsal.json`` as the robot's computer reads them: whole, and about this policy?"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.json_files import read_json
from gaitway_files.reading import SENTENCE, FileError, MissingFile, check_texts, read_bytes

VERDICT_FILE, REHEARSAL_FILE = "validation.json", "rehearsal.json"
SCHEMA = 1
WORDS = ("PASS", "FAIL")
"""What a verdict can be."""


@dataclass(frozen=True)
class Kind:
    """Kind of verdict: its subject, and the command that gives it."""

    key: str
    command: str
    texts: tuple[str, ...]
    """Required texts."""
    rows: tuple[str, Mapping[str, type]]
    """The list of what was tried, and what each row must say."""

    @property
    def again(self) -> str:
        """Fix for a verdict that cannot be used."""
        return f"run {self.command} again"


ABOUT = "policy_sha256", "contract_sha256", "verdict"
VALIDATION = Kind(
    "gaitway_validation", "gaitway validate", (*ABOUT, "model", "suite_version"),
    ("scenarios", {"title": str, "required": bool, "passed": bool}),
)  # fmt: skip
REHEARSAL = Kind(
    "gaitway_rehearsal", "gaitway rehearse", (*ABOUT, "robot"), ("trials", {"name": str, "mode": str, "passed": bool})
)
AGAIN = VALIDATION.again


class VerdictError(UserError):
    """A verdict that cannot be trusted or read."""


def read_verdict(path: str | Path, *, policy: Path | None = None, kind: Kind = VALIDATION) -> dict[str, Any]:
    """The content of a verdict whose seal is right; with ``policy``, also of one that is about that policy.onnx.

    A seal can be computed by anyone: who wrote the verdict is what :mod:`.signature` tells.
    """
    path, again = Path(path), kind.again
    try:
        data = check_texts(read_json(path, nan=True), path, 2 * SENTENCE)
    except MissingFile:
        raise VerdictError(f"no verdict at {path}: run {kind.command} first") from None
    except FileError as error:
        raise VerdictError(f"{error}: {again}") from None
    if not isinstance(data, dict) or data.get(kind.key) != SCHEMA:
        raise VerdictError(f"{path} is not a verdict of schema {SCHEMA}: {again}")
    if data.pop("seal", None) != seal(data):  # no secret: what it takes to compute one is in the file
        raise VerdictError(f"{path} has been edited since it was written: {again}")
    name, wanted = kind.rows
    rows = data.get(name)
    if (
        not all(isinstance(data.get(text), str) for text in kind.texts)
        or data["verdict"] not in WORDS
        or not isinstance(rows, list)
        or not all(
            isinstance(row, dict) and all(isinstance(row.get(key), form) for key, form in wanted.items())
            for row in rows
        )
    ):
        raise VerdictError(f"{path} does not say what a verdict says: {again}")
    try:
        digest = None if policy is None else hashlib.sha256(read_bytes(policy)).hexdigest()
    except FileError as error:
        raise VerdictError(str(error)) from None
    if digest not in (None, data["policy_sha256"]):
        raise VerdictError(f"{path} is about another policy than {policy}: {again}")
    return data


NOT_JUDGED = (
    ((2, 0), "the gait"),
    ((2, 1), "how the robot stands, stops and keeps straight"),
    ((3, 0), "small commands"),
)
"""First suite version that judged each subject."""


def old_suite(version: str) -> str | None:
    """Warning about a verdict of this suite version, if later suites judge more; else None."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    found = tuple(map(int, numbers.groups())) if numbers else NOT_JUDGED[-1][0]
    missing = [what for since, what in NOT_JUDGED if found < since]
    return f"is of suite {version}, which did not judge {' or '.join(missing)}: {AGAIN}" if missing else None


def seal(body: dict[str, Any]) -> str:
    """Keyed by the policy's hash: shows an accidental edit or a mix-up of policies, not a forgery."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key = str(body.get("policy_sha256", "")).encode("utf-8", "surrogatepass")
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
