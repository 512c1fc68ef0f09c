"""Gaitway from Python: train, look at runs, export, validate, play. The command line is a thin face of it.

What is wrong with an argument is a :class:`gaitway.UserError`, and work that could not be done a
:class:`gaitway.NotDone`; their messages name options as the command line does, ``--out`` for ``out``.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError
from numpy.typing import NDArray

from . import falsifying, options, sources
from .catalogue import EXPORT, MUJOCO, PLAY, WORLDS, require
from .handles import Bundle, Film, Run, playable
from .runs.folder import RunFolder
from .terminal import in_notebook
from .vectors import typed

if TYPE_CHECKING:
    from gaitway_sim2real.trial import Verdict
    from gaitway_sim2real.trial.gate import Gate
    from gaitway_tasks.ground import Ground

    from .callback import Callback
    from .runs.choice import Which


Array = NDArray[Any]
Place = str | os.PathLike[str]


def train(
    task: str | Any,
    agent: str | None = None,
    preset: str | None = None,
    out: Place | None = None,
    seed: int | None = None,
    *,
    world: str | None = None,
    config: Place | None = None,
    resume: bool = False,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Train an agent on a task, a name or an object such as a :class:`gaitway_tasks.spec.Task`; returns its run.

    ``settings`` are those of ``gaitway train``: fields of the configuration, nested ones by dotted keys in a
    dictionary, and the options of one kind of task (``parameters``, ``model``, ``lora``, ...). ``preset`` None is the
    task's usual one, "none" is none. ``out`` is the run folder, by default ``runs/<task>/<time>-seed<k>``.

    ``callbacks`` are objects of :class:`gaitway.Callback`. With ``processes`` above 1 they run in this one, the first.

    The first Ctrl-C (a notebook's stop button) finishes the iteration and writes a checkpoint: the run that is returned
    has ``status`` "interrupted", and the same call with ``resume=True`` goes on. The second one raises
    KeyboardInterrupt. Progress is a line every ten seconds, or nothing with ``quiet``. Scripts that train with
    ``until="good"`` need ``if __name__ == "__main__":``, since the suite runs in processes.

    Raises :class:`gaitway.UserError` before anything is written if a name, setting or folder is wrong, and
    :class:`gaitway.NotDone` for a training that diverged.

    >>> run = gaitway.train("cartpole", total_steps=20_000, **{"agent.gamma": 0.98})
    """
    from .start import Order, begin
    from .training.callbacks import checked

    options = {name: settings.pop(name) for name in _option_names() & settings.keys()}
    if "parameters" in options:
        options["parameters"] = Path(options["parameters"])
    if isinstance(options.get("against"), str | os.PathLike):
        options["against"] = [options["against"]]
    order = Order(
        task=task,
        settings=typed(settings),
        agent=agent,
        preset=preset,
        world=world,
        config=None if config is None else Path(config),
        out=None if out is None else Path(out),
        seed=seed,
        resume=resume,
        quiet=quiet,
        callbacks=checked(callbacks),
        options=options,
    )
    with _own_threads():
        path, _ = begin(order)
    assert path is not None  # of a process that trains alone
    return Run(path)


def load_run(path: Place) -> Run:
    """Run in a folder that ``gaitway train`` or :func:`train` wrote.

    Raises :class:`gaitway.UserError` for a folder that is none.

    >>> gaitway.load_run("runs/walk").series("episodes/return")
    """
    return Run(RunFolder.open(Path(path)).path)


def evaluate(run: Run | Place, episodes: int = 64, seed: int | None = None, checkpoint: Which = None) -> dict[str, Any]:
    """Deterministic episodes of a run's policy: ``returns`` and ``lengths``, lists of ``episodes`` numbers.

    A robot's result also has ``falls``, the number of episodes that a fall ended, and ``tracking``, the mean errors
    from each command, ``linear`` [m/s] and ``yaw`` [rad/s]. ``seed`` is by default that of the training's own
    evaluations, and ``checkpoint`` is as in :meth:`Run.policy`. Language models have ``gaitway evaluate``.

    >>> statistics.mean(gaitway.evaluate("runs/cartpole", 100)["returns"])
    """
    from .training.evaluator import EVALUATION_SEED, played
    from .training.load import trainer_of

    if episodes < 1:
        raise UserError(f"episodes={episodes}: must be at least 1")
    folder = RunFolder.open(Path(run))
    config = playable(folder.config())
    seed = config.seed + EVALUATION_SEED if seed is None else seed
    with _own_threads():
        config.domain.prepare(config)
        env = config.environments.make_env(config, min(episodes, config.environments.evaluation_envs), seed)
        try:
            return played(config, trainer_of(folder, env, checkpoint), env, episodes, seed)
        finally:
            env.close()


def export(
    run: Run | Place,
    out: Place,
    estimate: Mapping[str, str | None] | Sequence[str] | str = (),
    checkpoint: Which = None,
) -> Bundle:
    """Bundle of a robot's run: a policy as a folder for a robot, in ``out``.

    ``estimate`` names the inputs without a sensor that the robot estimates, as ``--estimate`` does: "base_lin_vel", or
    ``{"base_lin_vel": "robot"}`` for the robot's own software. Raises :class:`gaitway.UserError` if the policy reads
    such an input and it is not named, or another is. ``checkpoint`` is as in :meth:`Run.policy`.

    >>> bundle = gaitway.export(run, "bundles/walk", checkpoint="best")
    """
    from .commands.export import estimated

    require("export", EXPORT)
    names = [estimate] if isinstance(estimate, str) else estimate
    named = names if isinstance(names, Mapping) else dict.fromkeys(names)
    try:
        inputs = dict(estimated(name if by is None else f"{name}={by}") for name, by in named.items())
    except ArgumentTypeError as error:
        raise UserError(f"estimate: {error}") from None
    return Bundle(sources.export_run(Path(run), Path(out), inputs, checkpoint))


def validate(
    source: Run | Bundle | Place,
    *,
    checkpoint: Which = None,
    robot: str | None = None,
    model: Place | None = None,
    seed: int = 0,
    seeds: int = 1,
    rough: bool = False,
    report: Place | None = None,
    video: bool = True,
    engines: Sequence[Any] = (),
    falsify: float | None = None,
    quiet: bool = False,
    after: Callable[[Path, Path, Verdict], None] | None = None,
) -> Verdict:
    """Verdict of the validation suite in plain MuJoCo on a bundle, a run's policy, or one to import.

    It takes minutes; ``report`` gets ``report.html`` (default: ``validation/`` beside the bundle), and a bundle judged
    on its own robot gets its ``validation.json``. ``robot``, ``model``, ``seed``, ``seeds`` and ``rough`` are as in
    ``gaitway validate``, ``checkpoint`` is as in :meth:`Run.policy`. ``falsify`` searches for the smallest failing case
    for so many minutes; its files are in ``falsified/`` beside the report. Scenarios that are done and the time left
    are printed unless ``quiet``. ``after(bundle, judged, verdict)`` is called while ``judged``, the files that were
    validated, is there. Scripts need ``if __name__ == "__main__":``, since scenarios run side by side in processes.

    Raises :class:`gaitway.UserError` for a bundle or model that cannot be used.

    >>> verdict = gaitway.validate("runs/walk")
    >>> verdict.passed, verdict.summary()
    """
    require("validate", MUJOCO)
    bundle = sources.bundle_of(Path(source), robot, checkpoint)
    lines: list[str] = []
    if falsify is not None:
        falsifying.check(bundle, model)
    from gaitway_onboard.bundle.reading import one_reading
    from gaitway_sim2real.trial import validate_bundle

    from .advice import advise, short
    from .runs.files import refuse_links
    from .runs.judgements import note_verdict
    from .training.progress import Scenarios

    folder = report_folder(bundle) if report is None else Path(report)
    if report is None:
        refuse_links(folder)
    run = run_of(bundle)
    with one_reading(bundle) as judged, nullcontext() if quiet else Scenarios() as said:
        verdict: Verdict = validate_bundle(
            judged,
            model=None if model is None else Path(model),
            seed=seed,
            seeds=seeds,
            report_dir=folder,
            progress=None if said is None else said.show,
            video=video,
            processes=0,
            engines=engines,
            courses=rough,
            more=None if falsify is None else functools.partial(
                falsifying.falsified, judged, folder, 60.0 * falsify, seed, video,
                None if said is None else said.show, lines,
            ),
            advise=None if run is None else functools.partial(advise, bundle, run),
            called=short(bundle.absolute()),
        )  # fmt: skip
        if model is None:
            for place in (bundle, judged):
                verdict.save(place / "validation.json")
            if run is not None:
                note_verdict(run, verdict)
        if after is not None:
            after(bundle, judged, verdict)
    if not quiet:
        print(*lines, sep="\n", end="\n" * bool(lines))
    return verdict


def gate(
    source: Run | Bundle | Place,
    baseline: Run | Bundle | Place,
    *,
    checkpoint: Which = None,
    twins: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    report: Place | None = None,
    video: bool = True,
    quiet: bool = False,
) -> Gate:
    """Comparison of a policy with a ``baseline`` of the same robot: "better", "worse" or "no difference shown".

    Both go through the suite, and walk the same twins of their robot, ``twins`` at most (4000). ``source`` is validated
    as by :func:`validate`, with the same arguments; nothing is written about the baseline.

    Raises :class:`gaitway.UserError` for policies that cannot be compared.

    >>> gate = gaitway.gate("runs/walk", "released/bundle")
    >>> gate.word, gate.why, gate.power()
    """
    require("validate", MUJOCO)
    from gaitway_onboard.bundle.reading import one_reading
    from gaitway_sim2real.trial import gate as rules
    from gaitway_sim2real.trial import validate_bundle

    from .training.progress import Scenarios

    bundle, other = sources.bundle_of(Path(source), None, checkpoint), sources.bundle_of(Path(baseline))
    suite, *kinds = rules.rivals(bundle, other)
    assert suite.tour is not None
    most = rules.MOST_TWINS if twins is None else twins
    new = validate(bundle, seed=seed, seeds=seeds, report=report, video=video, quiet=quiet)
    with one_reading(bundle) as mine, one_reading(other) as theirs, nullcontext() if quiet else Scenarios() as said:

        def show(done: int, total: int, title: str, left: float | None = None) -> None:
            if said is not None:
                said.show(done, total, title if title == "Done" else f"baseline: {title}", left)

        def walked(pairs: int) -> None:
            if said is not None:
                said.show(pairs, most, "pairs of twins", None)

        old = validate_bundle(theirs, seed=seed, seeds=seeds, progress=show, processes=0)
        survived, fell = rules.walked(mine, theirs, suite.tour, kinds, seed=seed, most=most, progress=walked)
        show(survived.count, survived.count, "Done")
    return rules.decide(new, old, suite, survived, fell)


def validate_all(
    run: Run | Place,
    checkpoints: Sequence[int | str] = (),
    *,
    model: Place | None = None,
    seed: int = 0,
    seeds: int = 1,
    rough: bool = False,
    engines: Sequence[Any] = (),
    quiet: bool = False,
) -> dict[int, Verdict]:
    """Verdicts by steps: :func:`validate` of several checkpoints of a run, by default of all that were kept.

    Each has a folder ``validated/step_<steps>/`` in the run, with its bundle and its report without a video; the run's
    own bundle stays as it is. A damaged checkpoint is left out, with a warning. Raises :class:`gaitway.UserError` for
    more than twelve, unless they are named.

    >>> [steps for steps, verdict in gaitway.validate_all("runs/walk").items() if verdict.passed]
    """
    from .runs.choice import VALIDATED, several
    from .runs.files import refuse_links
    from .runs.folder import DamagedCheckpoint
    from .runs.rows import RunWarning

    require("validate", MUJOCO)
    require("export", EXPORT)
    folder = RunFolder.open(Path(run))
    bundles: dict[int, Path] = {}
    damaged: DamagedCheckpoint | None = None
    # All are exported first: a training that goes on removes its older checkpoints meanwhile.
    for steps in several(folder, checkpoints, seeds):
        place = folder.path / VALIDATED / f"step_{steps:012d}"
        refuse_links(place.parent, place)
        try:
            bundles[steps] = sources.bundle_in(place / "bundle", folder.path, steps)
        except DamagedCheckpoint as error:
            damaged = error
            warnings.warn(f"{error}; it is left out", RunWarning, stacklevel=2)
    if damaged is not None and not bundles:
        raise damaged
    verdicts = {}
    for number, (steps, bundle) in enumerate(bundles.items(), 1):
        if not quiet:
            print(f"checkpoint of {steps:,} steps, {number} of {len(bundles)}", flush=True)
        verdicts[steps] = validate(
            bundle, model=model, seed=seed, seeds=seeds, rough=rough, video=False, engines=engines, quiet=quiet
        )
    return verdicts


def run_of(bundle: Place) -> Path | None:
    """Run folder that a bundle was exported into, as ``bundle/`` or below ``validated/``; None for another place."""
    return next((folder for folder in list(Path(bundle).resolve().parents)[:3] if sources.is_run(folder)), None)


def report_folder(bundle: Place) -> Path:
    """Folder of a bundle's validation report, unless another is asked for."""
    return Path(bundle).resolve().parent / "validation"


def play(
    source: Run | Bundle | Place,
    video: Place | None = None,
    seconds: float | None = None,
    *,
    port: int = 8080,
    host: str = "127.0.0.1",
    terrain: Ground | str | None = None,
    model: Place | None = None,
    checkpoint: Which = None,
) -> Film | None:
    """Page in a browser to watch and steer a run or a bundle, until Ctrl-C or for ``seconds``; or a film.

    The address is printed. With ``video``, an ``.mp4``, a film of ``seconds`` (20) of a tour of the commands is written
    instead and returned; games can only be filmed. In a notebook, where a page would hold the cell, there is a film
    unless ``seconds`` are given without ``video``. ``terrain`` is a ground such as "stairs-up:0.10", ``model`` another
    MJCF of a bundle's robot, ``checkpoint`` is as in :meth:`Run.policy`. Raises :class:`gaitway.UserError` for what
    cannot be played, and a port in use.

    >>> gaitway.play("runs/walk", video="walk.mp4")
    """
    path, film = Path(source), None if video is None else Path(video)
    kind = sources.run_or_bundle(path)
    sources.refuse_checkpoint(path, checkpoint)
    require("play", PLAY)
    if film is None and seconds is None and in_notebook():
        film = Path(tempfile.mkdtemp(prefix="gaitway-")) / "play.mp4"
    from .view import shows

    if kind == "run":
        require("playing a run", WORLDS["mujoco"])
        if model is not None:
            raise UserError("--model is for bundles: export the run first, then play the bundle")
    if kind == "run" and shows.is_filmed(path):
        if terrain is not None:
            raise UserError(f"{path} is a run of a game or classic task: leave out --terrain")
        shows.film_of_game(path, film, seconds or 20.0, checkpoint)
        assert film is not None  # or it was refused
        return Film(film)
    if film is None:
        from .view.scene import check_port
        from .view.steering import view

        check_port(host, port)
    another = None if model is None else Path(model)
    walker = functools.partial(shows.walker_of, path, kind, another, _ground(terrain), checkpoint)
    if film is None:
        view({path.name: walker}, host, port, seconds)
        return None
    shows.film_of_walk(walker(), film, seconds or 20.0)
    return Film(film)


def _ground(terrain: Ground | str | None) -> Ground | None:
    if not isinstance(terrain, str):
        return terrain
    try:
        return options.terrain(terrain)
    except ArgumentTypeError as error:
        raise UserError(f"terrain {str(error).removeprefix(options.GIVEN)}") from None


def _option_names() -> set[str]:
    from .domains.table import DOMAINS

    return {name for row in DOMAINS for name in row.options}


@contextmanager
def _own_threads() -> Iterator[None]:
    """The threads of torch are the caller's again at the end: a training has one for each operation."""
    try:
        import torch
    except ModuleNotFoundError:  # what needs it says so
        yield
        return
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
