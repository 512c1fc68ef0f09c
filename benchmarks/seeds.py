"""What few seeds carry: coverage of bootstrap intervals, and errors of the gate of ``gaitway compare``.

    python benchmarks/seeds.py [--trials 4000] [--reps 500]

Scores of one task are drawn from a normal distribution, or from two humps: three of ten trainings fail, and the others
lie four standard deviations higher. Printed are how often the 95 % percentile interval of the IQM contains its true
value, how often that of the probability of improvement excludes 0.5 though there is no difference, and how often the
gate says FAIL for a version that is worse by so many standard deviations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from gaitway.compare.statistics import Array, chance_of_fewer, interquartile_mean, probability_of_improvement

Draw = Callable[[tuple[int, ...]], Array]
COUNTS = (3, 5, 8, 10, 20)
GATES = [(bound, n) for bound in (0.05, 0.2) for n in (3, 5, 10)]


def distributions(rng: np.random.Generator) -> dict[str, Draw]:
    return {
        "normal": lambda shape: rng.standard_normal(shape),
        "two humps": lambda shape: np.where(rng.random(shape) < 0.3, 0.0, 4.0) + rng.standard_normal(shape),
    }


def coverage(draw: Draw, n: int, trials: int, reps: int, rng: np.random.Generator) -> tuple[float, float]:
    """Share of IQM intervals with the true value, and of probability intervals that exclude 0.5, with ``n`` seeds."""
    truth = interquartile_mean(draw((100_000, n))).mean()
    inside = wrong = 0
    for _ in range(trials):
        x, y = draw((n,)), draw((n,))
        i, j = rng.integers(n, size=(2, reps, n))
        low, high = np.percentile(interquartile_mean(x[i]), [2.5, 97.5])
        inside += low <= truth <= high
        low, high = np.percentile(probability_of_improvement([x[i]], [y[j]]), [2.5, 97.5])
        wrong += not low <= 0.5 <= high
    return inside / trials, wrong / trials


def failures(bound: float, n: int, worse: float, trials: int, rng: np.random.Generator) -> float:
    """Share of gates with ``n`` seeds on each side that say FAIL to scores that are lower by ``worse``."""
    if worse == 0.0:
        return chance_of_fewer([(n, n)], round(bound * n * n, 6))
    x, y = rng.standard_normal((trials, n)) - worse, rng.standard_normal((trials, n))
    return float((probability_of_improvement([x], [y]) < bound).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--reps", type=int, default=500)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| scores | seeds | IQM interval holds the truth | probability excludes 0.5 wrongly |\n|---|---|---|---|")
    for name, draw in distributions(rng).items():
        for n in COUNTS:
            inside, wrong = coverage(draw, n, args.trials, args.reps, rng)
            print(f"| {name} | {n} | {inside:.0%} | {wrong:.0%} |")
    print("\n| bound | seeds on each side | 0 | 1 | 2 | 3 |\n|---|---|---|---|---|---|")
    for bound, n in GATES:
        shares = [failures(bound, n, worse, 25 * args.trials, rng) for worse in (0.0, 1.0, 2.0, 3.0)]
        print(f"| {bound} | {n} | {' | '.join(f'{share:.2%}' for share in shares)} |")


if __name__ == "__main__":
    main()
