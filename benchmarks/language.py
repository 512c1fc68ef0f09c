"""Effect of a reward: the table of several ``make reason`` or ``make follow``.

    for seed in 0 1 2; do make reason SEED=$seed REASON=runs/reason-$seed; done
    python benchmarks/language.py runs/reason-*
    for seed in 0 1 2; do make follow SEED=$seed FOLLOW=runs/follow-$seed; done
    python benchmarks/language.py runs/follow-*

Every row is one way to ask a model held-out problems: accuracy of the likeliest answer with its 95 % interval, of an
answer sampled at the training temperature, of the vote over all samples, whether one of them is right, perplexity of a
plain text, and tokens of the likeliest answer. CPU seconds are those of the training, evaluations on the way included;
rounds of expert iteration also sample, which is not in them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SHARES = ("greedy accuracy", "sampled accuracy", "majority@64", "pass@64", "pass@4", "greedy finished")
NUMBERS = ("perplexity", "greedy length")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="folders of make reason or make follow")
    options = parser.parse_args()
    rows = [(folder, *row) for folder in options.folders for row in found(folder)]
    columns = [name for name in (*SHARES, *NUMBERS) if any(name in tree["measures"] for *_, tree in rows)]
    print(f"| folder | run | evaluation | {' | '.join(columns)} | CPU |\n|---|---|---{'|---' * (len(columns) + 1)}|")
    for folder, run, name, spent, tree in rows:
        begun = f", answers begun with `{tree['prefill']}`" if tree["prefill"] else ""
        cells = [said(column, tree["measures"]) for column in columns]
        print(f"| {folder.name} | {run} | {name}{begun} | {' | '.join(cells)} | {spent} |")


def found(folder: Path) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Name of a run or published model, name of its evaluation, CPU time of its training and the evaluation's tree."""
    files = [*folder.glob("*/evaluations/*.json"), *folder.glob("*/*.json")]
    files = [path for path in files if path.name != "run.json" and not path.stem.endswith("-training")]
    rows = []
    for path in sorted(files, key=lambda file: file.stat().st_mtime):
        run = path.parent.parent if path.parent.name == "evaluations" else path.parent
        record = run / "run.json"
        spent = f"{json.loads(record.read_text('utf-8'))['cpu_time_s']:.0f} s" if record.exists() else ""
        rows.append((run.name, path.stem, spent, json.loads(path.read_text("utf-8"))))
    return rows


def said(name: str, measures: dict[str, Any]) -> str:
    if (measure := measures.get(name)) is None:
        return ""
    if name in NUMBERS:
        return f"{measure['value']:.1f}"
    between = f" [{100 * measure['low']:.0f}, {100 * measure['high']:.0f}]" if name == SHARES[0] else ""
    return f"{100 * measure['value']:.1f} %{between}"


if __name__ == "__main__":
    main()
