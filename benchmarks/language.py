"""Effect of a reward after demonstrations: the table of several ``make reason``.

    for seed in 0 1 2; do make reason SEED=$seed REASON=runs/reason-$seed; done
    python benchmarks/language.py runs/reason-*

Every row is one way to ask a run 500 held-out problems: accuracy of the likeliest answer, of an answer sampled at
temperature 1, of the vote over all samples, whether one of them is right, and tokens of the likeliest answer. CPU
seconds are those of the training, evaluations on the way included; rounds of expert iteration also sample, which is
not in them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SHARES = ("greedy accuracy", "sampled accuracy", "majority@64", "pass@64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="folders of make reason")
    options = parser.parse_args()
    print(f"| folder | run | {' | '.join(SHARES)} | tokens | CPU |\n|---|---{'|---' * (len(SHARES) + 2)}|")
    for folder in options.folders:
        for run in sorted(folder.glob("*/run.json"), key=lambda path: path.stat().st_mtime):
            spent = json.loads(run.read_text("utf-8"))["cpu_time_s"]
            for evaluation in sorted((run.parent / "evaluations").glob("*.json")):
                tree = json.loads(evaluation.read_text("utf-8"))
                begun = f", answers begun with `{tree['prefill']}`" if tree["prefill"] else ""
                print(f"| {folder.name} | {run.parent.name}{begun} | {said(tree['measures'])} | {spent:.0f} s |")


def said(measures: dict[str, Any]) -> str:
    shares = [f"{100 * measures[name]['value']:.1f} %" if name in measures else "" for name in SHARES]
    return " | ".join([*shares, f"{measures['greedy length']['value']:.1f}"])


if __name__ == "__main__":
    main()
