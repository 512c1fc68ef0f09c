"""The search for a failing case in a validation: refused early, shown while it runs, and a section of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .catalogue import FALSIFY, require

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict


def check(bundle: Path, model: Any) -> None:
    """Refuse, before any long work, a search that cannot be made."""
    require("--falsify", FALSIFY)
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.falsify import knots_of

    if model is not None:
        raise UserError("--falsify searches on the bundle's own robot: leave out --model, or search without it")
    knots_of(Contract.load(bundle))


def falsified(
    bundle: Path, folder: Path, seconds: float, seed: int, video: bool, show: Any, lines: list[str], verdict: Verdict
) -> Any:
    """Section of a report about the smallest failing case; a stop request ends the search and keeps what was found."""
    from gaitway_sim2real.falsify import FOLDER, Budget, Search, save_cases, search, section

    from .training.interrupt import stop_requests
    from .training.progress import Throttle

    due = Throttle()

    def told(found: Search, left: float) -> None:
        if show is not None and due():
            size = f", smallest case of size {found.cases[0][0].size:.2f}" if found.cases else ""
            what = f"{verdict.word}; search for failing cases: {found.runs:,} runs{size}"
            show(round(found.seconds), round(seconds), what, left)

    with stop_requests() as stop:
        found = search(bundle, Budget(seconds=seconds, stopped=lambda: stop.signal), seed=seed, show=told)
    paths, why = save_cases(found, bundle, folder / FOLDER, video=video)
    lines += [found.words(), *(f"case: {path}" for path in paths)]
    return section(found, paths, why)
