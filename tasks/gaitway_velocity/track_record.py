"""Survival of policies with a PASS among robots that they had never seen: one sentence, from the calibration's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.json_files import read_json
from gaitway_files.reading import MIB

FILE = Path(__file__).with_name("track_record.json")
ENOUGH = 10
"""Policies with PASS below which nothing is promised of another one."""


def track_record(suite_version: str) -> str:
    """The sentence for policies that pass ``suite_version``; empty if none was calibrated."""
    record = read_json(FILE, limit=MIB)
    return in_words(record) if record["suite"] == suite_version and record["policies"] else ""


def in_words(record: Mapping[str, Any]) -> str:
    """The sentence of a record."""
    low, high = (round(100 * record[end]) for end in ("low", "high"))
    share = f"{low} %" if low == high else f"{low} to {high} %"
    few = "" if record["policies"] >= ENOUGH else "; too few to promise it of another one"
    return (
        f"on unseen robots: {record['policies']} policies with a PASS of suite {record['suite']} "
        f"({', '.join(record['robots'])}) survived on {share} of {record['twins']} twins each{few}"
    )
