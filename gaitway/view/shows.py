"""Ways to look at a run or bundle: a walker to steer, its film, or the film of a game."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

if TYPE_CHECKING:
    from gaitway_tasks.ground import Ground

    from ..runs.choice import Which
    from .walkers import Walker


def is_filmed(run: Path) -> bool:
    """True if a run can only be filmed; raises if it cannot be watched."""
    from ..domains.table import domain_in
    from ..runs.folder import RunFolder

    watched = domain_in(RunFolder.open(run).record["world"]).watched
    if watched == "chat":
        raise UserError(f"{run} is a run of a language model: talk with it, gaitway chat {run}")
    return watched == "film"


def film_of_game(run: Path, out: Path | None, seconds: float, which: Which = None) -> None:
    """Write a film of a game or classic task to ``out``, and print what was achieved in it."""
    from gaitway_sim2real.mujoco.film import check_video_path

    from .film import film_game

    if out is None:
        raise UserError(f"{run} is a run of a game or classic task, which can only be filmed: add --video FILE.mp4")
    check_video_path(out)
    told = film_game(run, out, seconds, which)
    print(f"video: {out}; {told}")


def walker_of(path: Path, kind: str, model: Path | None, ground: Ground | None, which: Which = None) -> Walker:
    """The robot of a "run" or a "bundle" on a ground; without one, a run's own or level ground."""
    from gaitway_tasks.ground import LEVEL

    from .walkers import BundleWalker, WorldWalker

    return BundleWalker(path, model, ground or LEVEL) if kind == "bundle" else WorldWalker(path, ground, which)


def film_of_walk(walker: Walker, out: Path, seconds: float) -> None:
    """Write a film of a tour of the commands to ``out``, an ``.mp4``."""
    import numpy as np
    from gaitway_onboard.control.commands import scripted
    from gaitway_sim2real.mujoco.film import COMPONENTS, check_video_path, film

    from ..runs.files import make_folder
    from ..training.progress import Counter

    check_video_path(out)
    make_folder(out.absolute().parent)
    source = scripted(walker.tour(seconds))
    qpos, commands, velocities = [], [], []
    for step in Counter("walk", "steps").each(range(round(seconds / walker.control_dt))):
        command = np.array(source(step * walker.control_dt))
        walker.step(command)
        qpos.append(walker.qpos.copy())
        commands.append(command)
        velocities.append(walker.velocity())
    labels = [walker.caption] * len(qpos)
    film(
        walker.stage,
        np.array(qpos),
        np.array(commands),
        np.array(velocities) if walker.steers else None,
        labels,
        out,
        control_dt=walker.control_dt,
        components=COMPONENTS if walker.steers else tuple((label, "") for label in walker.labels),
        frames=Counter("film", "frames").each,
    )
    print(f"video: {out}")
