"""The table of ``calibration.py``, from the rows in benchmarks/calibrated/."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
ROWS = HERE / "calibrated"


def write_table() -> str:
    """For now a line a policy."""
    rows = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    lines = []
    for row in rows:
        word = row.get("verdict", {}).get("word", "-")
        survived = row["walk"]["survived"]
        lines.append(f"{row['name']:32s} {row['half']:7s} {word:5s} {100 * survived.count('1') / len(survived):.0f} %")
    return "\n".join(lines)
