"""Numbers that the data do not determine: as uncertain as before, or correlated with others."""

from __future__ import annotations

import numpy as np

from .least_squares import Solution, correlated
from .unknowns import COMMON, FACTORS, Unknowns

UNTOLD = 0.5  # share of its prior spread that a number's uncertainty keeps, above which the data said little of it
WEAK = 0.1  # share of its value that a number's standard deviation is, above which it is named
TOGETHER = 0.95  # correlation above which only a combination of two numbers is known
ON_A_STAND = "base_mass, base_com: not identifiable, the base is held by the stand and does not move"
WITHOUT_TORQUE = (
    "strength: not identifiable, the drives report no torque. It is held at 1: stiffness_scale and damping_scale are "
    "the products with it"
)


def weaknesses(unknowns: Unknowns, solution: Solution, *, has_torque: bool) -> list[str]:
    """One sentence for each number that must not be relied on, the most doubtful first, and for what was not asked."""
    std = np.sqrt(np.diag(solution.covariance))
    kept = std / unknowns.prior_std
    lines = []
    for number in np.argsort(-kept):
        item = unknowns.items[number]
        value = solution.theta[number]
        if item.kind in COMMON[1:]:
            continue
        if kept[number] > UNTOLD:
            lines.append(f"{item.name}: not identifiable from this motion, left near {item.prior:.3g}")
        elif std[number] > WEAK * abs(value) and (item.kind in FACTORS or std[number] > WEAK * item.prior):
            lines.append(f"{item.name}: weak, {value:.3g} with a standard deviation of {std[number]:.2g}")
    for a, b, how in correlated(solution.covariance, TOGETHER):
        if std[a] > WEAK * abs(solution.theta[a]) or std[b] > WEAK * abs(solution.theta[b]):
            sign = "sum" if how < 0 else "difference"
            names = f"{unknowns.items[a].name} and {unknowns.items[b].name}"
            lines.append(f"{names}: told apart poorly, mainly their {sign} is known (correlation {how:.2f})")
    if not has_torque:
        lines.append(WITHOUT_TORQUE)
    return [*lines, ON_A_STAND]
