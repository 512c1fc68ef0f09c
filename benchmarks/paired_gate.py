"""How often does ``gaitway validate NEW --baseline OLD`` find a difference of survival, and how often one that is none?

    python benchmarks/paired_gate.py [--comparisons 2000] [--most 4000]

Simulated comparisons: in each pair of twins both policies survive, neither, or one of them, with given chances. The
rule is the gate's own, with its early looks and the number of pairs that it chooses.
"""

from __future__ import annotations

import argparse

import numpy as np
from gaitway_sim2real.trial.paired import POINTS, compare


def outcomes(rng: np.random.Generator, discordant: float, points: float, comparisons: int, most: int) -> np.ndarray:
    """Side found in each comparison, -1, 0 or 1, and its pairs, (comparisons, 2)."""
    better = (discordant + points) / 2

    def walk(numbers: range) -> tuple[np.ndarray, np.ndarray]:
        drawn = rng.random(len(numbers))
        return drawn < better, (drawn >= better) & (drawn < discordant)

    found = np.zeros((comparisons, 2), int)
    for i in range(comparisons):
        pairs = compare(walk, most)
        low, high = pairs.interval
        found[i] = int(low > 0) - int(high < 0), pairs.count
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--most", type=int, default=4000, help="most pairs")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| discordant pairs | difference | found | wrong side | pairs: mean | 95 % of comparisons up to |")
    print("|---|---|---|---|---|---|")
    for discordant in (0.02, 0.03, 0.05, 0.08, 0.12, 0.2):
        for points in (0.0, POINTS, 0.05):
            if points > discordant:
                continue
            found = outcomes(rng, discordant, points, options.comparisons, options.most)
            side, pairs = found.T
            shown = f"{100 * (side > 0).mean():.1f} % | {100 * (side < 0).mean():.1f} %"
            print(f"| {100 * discordant:.0f} % | {100 * points:.0f} points | {shown} | {pairs.mean():,.0f} "
                  f"| {np.quantile(pairs, 0.95):,.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
