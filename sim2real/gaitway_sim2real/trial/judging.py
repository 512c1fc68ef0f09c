"""Validate a bundle: every scenario of its family's suite, a verdict, and on request a report with a video."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.trust import trust, trusted
from gaitway_files.writing import write_text
from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract, sha256
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_tasks.robots.mjcf import ModelError

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.estimates import estimates_note
from ..mujoco.model import help_in
from ..mujoco.plant import FixedFeet, Plant, build_plant
from ..pages.verdict import software
from .engines import Engine
from .evidence import Evidence, Strip
from .failing import Advise, reason, shown, walked_again
from .in_engines import engine_scenarios, walk
from .ladders import GAVE_UP, classes_of, ladder_title, on_tiles
from .levels import level_of
from .needs import LeftOut
from .result import ScenarioResult, SeedResult
from .running import Plants, conditions_of, run_scenarios
from .scenario import Scenario
from .schedule import MOST_REPETITIONS, Order, Progress, Task, run_all
from .sensitivity import sensitivity
from .studio import Frames, Pictures, Studio
from .suite import Suite, bodily, check_scenarios
from .suites import suite_of
from .tally import Run, Tally, joined, measured
from .verdict import Verdict
from .why import Shown
from .workers import Workers

STOPPED = "a required scenario failed before they were finished"
"""Why scenarios are left out after a failure that ended the suite."""
FIGURES = "figures"
"""Folder of a report's drawings."""


def validate_bundle(
    bundle: Path,
    *,
    model: Path | None = None,
    seed: int = 0,
    seeds: int = 1,
    report_dir: Path | None = None,
    progress: Progress | None = None,
    video: bool = True,
    frames: Frames = iter,
    scenarios: Sequence[Scenario] | None = None,
    courses: bool | Sequence[Scenario] = False,
    processes: int = 1,
    engines: Sequence[Engine] = (),
    stop_at_failure: bool = False,
    first: Sequence[str] = (),
    more: Callable[[Verdict], Any] | None = None,
    advise: Advise | None = None,
    called: Path | None = None,
) -> Verdict:
    """Run the suite of its family on ``bundle`` and say whether its policy may leave simulation.

    ``model`` is another MJCF of the same robot. ``seeds`` is how many seeds are run, from ``seed`` on, and judged as
    one. ``report_dir`` receives ``validation.json``, ``report.html`` and, with
    ``video``, ``validation.mp4``; ``frames`` goes through its frames, as ``iter`` does, and may say how far it is.
    ``scenarios`` are run in place of the suite's. With ``courses``, its ladders of ground are walked, or those given:
    they give classes, and no PASS or FAIL.
    ``processes`` run scenarios side by side, 0 one on each core; results do not depend on it. A script that asks for
    more than one needs ``if __name__ == "__main__":``, as ``multiprocessing`` does. ``engines`` are judged as
    well, and first, since more can be wrong with them; they walk on the bundle's own robot.
    ``first`` names scenarios that are run before the others, such as those that failed last time; names of others are
    ignored. ``stop_at_failure`` ends the suite at the first required scenario that fails in MuJoCo: the verdict then
    has what was finished by then, which depends on ``processes``, says what was not, and is a FAIL. ``more`` gives a
    further section of the report once the verdict is known, and ``advise`` the likely cause of a FAIL. A report of a
    FAIL shows its worst failure, which :attr:`.Verdict.why` says. ``called`` is the path by which the user knows
    ``bundle``. Raises a
    ``ValueError`` subclass before anything is written if bundle or model cannot be used.
    """
    bundle = Path(bundle)
    contract = OnboardPolicy(bundle).contract  # as on a robot: files verified, golden.npz replayed
    suite = suite_of(contract)
    judged = suite.scenarios if scenarios is None else scenarios
    ladders = _courses(suite, courses)
    check_scenarios(suite, (*judged, *ladders))
    reference = bundle / "robot.xml"
    path = reference if model is None else Path(model)
    rows = list(range(seed, seed + seeds))
    alone: dict[int, list[ScenarioResult]] = {row: [] for row in rows}
    count = max(1, min(processes or len(os.sched_getaffinity(0)), len((*judged, *ladders)) * seeds))
    with ExitStack() as stack:
        workers = stack.enter_context(
            Workers[Task, tuple[list[Run], Evidence | None]](
                count, worker, trusted(), bundle, contract, path, int(count > 1)
            )
        )
        plants = Plants(contract, path, reference)
        chosen, left_out = usable(suite, (*judged, *ladders), contract, plants)
        notes = estimates_note(contract) + help_note(path, contract)
        if model is not None:
            notes += describe_model(plants.get(), build_plant(contract, reference, reference))
        if any(each.required for each in judged) and not any(each.required for each in chosen):
            raise nothing_to_judge(suite, contract, left_out)
        if report_dir is not None:
            report_dir = Path(report_dir)
            report_dir.mkdir(parents=True, exist_ok=True)
        elsewhere = [
            run_in(suite, engine, bundle, contract, plants.get(gait=True), chosen, alone) for engine in engines
        ]
        studio = None
        if report_dir is not None:
            studio = stack.enter_context(
                Studio(suite, bundle, contract, path, report_dir, video=video, frames=frames, beside=count > 1)
            )
        order = Order(first=first, stop_at_failure=stop_at_failure)
        tallies, evidence = run_all(
            suite, chosen, contract, rows, workers, plots=report_dir is not None, progress=progress, order=order
        )
        if progress and studio is not None:
            progress(len(chosen), len(chosen), "Report", None)
        pictures = None if studio is None else studio.pictures()
        results = [tally.result() for tally in tallies]
        names = suite.pictured(results)
        climbs = {} if studio is None else studio.climbs([rung for rung in chosen if rung.name in names])
    tried = {result.name for result in results}
    stopped = stop_at_failure and any(result.required and not result.passed for result in results)
    untried = tuple(
        LeftOut(what=each.title, why=STOPPED if stopped else GAVE_UP, kind="rung" if each.ladder else "scenario")
        for each in chosen
        if each.name not in tried
    )
    left_out += untried
    whole = judged is suite.scenarios and not (stopped and untried)
    everything = (*results, *(result for each in elsewhere for result in each))
    table = sensitivity(everything, suite)
    for row in rows:
        alone[row] += [tally.first(row) for tally in tallies]
    verdict = Verdict(
        ground_version=suite.courses_version if ladders else "",
        suite_version=suite.version if whole else f"{suite.version} (part)",
        seed=seed,
        task=contract.task,
        robot=contract.robot,
        policy_sha256=contract.files["policy.onnx"],
        contract_sha256=sha256((bundle / CONTRACT_FILE).read_bytes()),
        model="bundle" if model is None else path.name,
        model_sha256=sha256(path.read_bytes()),
        notes=notes,
        left_out=left_out,
        software=software(contract) | {name: text for engine in engines for name, text in engine.software.items()},
        scenarios=everything,
        metrics=suite.table,
        compared=suite.compared,
        said=remarks(suite, everything, whole),
        level=level_of(suite.levels, results) if whole else "",
        ground=classes_of(everything),
        sensitivity=table,
        seeds=tuple(closest(row, alone[row]) for row in rows) if seeds > 1 else (),
    )
    if report_dir is not None and pictures is not None:
        failed = None
        if not verdict.passed and verdict.failures():
            failed = walked_again(suite, verdict, chosen, bundle, contract, plants)
            verdict = replace(verdict, why=reason(suite, verdict, failed, contract, advise))
        seen = shown(suite, failed, contract, path, reference, report_dir, video=video) if failed else None
        write_report(
            suite, verdict, evidence, contract, called or bundle, path, report_dir, pictures, climbs, more, seen
        )
    if progress:
        progress(len(chosen), len(chosen), "Done", None)
    return verdict


def remarks(suite: Suite, results: Sequence[ScenarioResult], whole: bool) -> tuple[str, ...]:
    """The suite's remarks, and its track record after a PASS of the ``whole`` of it."""
    required = [result.passed for result in results if result.required]
    record = suite.track_record if whole and required and all(required) else ""
    return (*suite.remarks(results), *([record] if record else []))


def _courses(suite: Suite, asked: bool | Sequence[Scenario]) -> Sequence[Scenario]:
    """The ladders that are walked."""
    if isinstance(asked, bool):
        if asked and not suite.courses:
            raise UserError(f"suite {suite.version} has no ladders of ground: leave out --rough")
        return suite.courses if asked else ()
    return asked


def worker(
    modules: Sequence[str], bundle: Path, contract: Contract, model: Path, threads: int
) -> Callable[[Task], tuple[list[Run], Evidence | None]]:
    """Function that runs a task on ``threads``, 0 for all cores, and reuses policy and robots that it has opened.

    The user trusts ``modules``, one of which may have the suite.
    """
    trust(*modules)
    suite = suite_of(contract)
    plants = Plants(contract, model, bundle / "robot.xml")
    policy = BatchedPolicy(bundle / "policy.onnx", contract, 1)

    def run(task: Task) -> tuple[list[Run], Evidence | None]:
        runs: dict[str, list[Run]] = {scenario.name: [] for scenario in task.scenarios}
        seen = Evidence()
        for parts in zip(*map(on_tiles, task.scenarios), strict=True):
            recordings = run_scenarios(suite, policy, contract, plants, parts, task.seed, threads, task.repetition)
            for part, recording in zip(parts, recordings, strict=True):
                seen.add(suite.evidence(part, recording) if task.plots else None)
                runs[part.name].append(measured(suite, part, recording, contract))
        return [joined(found) for found in runs.values()], seen

    return run


def run_in(
    suite: Suite,
    engine: Engine,
    bundle: Path,
    contract: Contract,
    plant: Plant,
    scenarios: Sequence[Scenario],
    alone: dict[int, list[ScenarioResult]],
) -> list[ScenarioResult]:
    """Results of the ``scenarios`` that are repeated in ``engine``; ``alone`` gets the results of each seed."""
    repeated = engine_scenarios(engine, scenarios, suite.nominal)
    if not repeated:
        raise UserError(f"suite {suite.version} has no scenario for {engine.title}: leave out --engine")
    tallies = [Tally(suite, scenario, contract) for scenario in repeated]
    open_ones = tallies
    for repetition in range(MOST_REPETITIONS):
        asked = [(tally, row) for tally in open_ones for row in alone]
        scenes = [
            (tally.scenario, conditions_of(suite, contract, tally.scenario, row, repetition)) for tally, row in asked
        ]
        for (tally, row), recording in zip(asked, walk(engine, bundle, contract, plant, scenes), strict=True):
            tally.add(measured(suite, tally.scenario, recording, contract), repetition, row)
            if not repetition:
                alone[row].append(tally.first(row))
        open_ones = [tally for tally in open_ones if tally.worth_more()]
        if not open_ones:
            break
    return [tally.result() for tally in tallies]


def closest(seed: int, results: Sequence[ScenarioResult]) -> SeedResult:
    """The required check of one seed that used most of what is allowed."""
    pairs = [(result, check) for result in results if result.required for check in result.checks]
    result, check = max(pairs, key=lambda pair: pair[1].used)
    return SeedResult(
        seed=seed, scenario=result.title, metric=check.metric, value=check.value, limit=check.limit, used=check.used
    )


def nothing_to_judge(suite: Suite, contract: Contract, left_out: Sequence[LeftOut]) -> UserError:
    """Error of a robot for which no required scenario is left."""
    why = "; ".join(f"{row.what}: {row.why}" for row in left_out if row.kind != "metric")
    return UserError(f"no required scenario of suite {suite.version} is left for {contract.robot}: {why}")


def usable(
    suite: Suite, scenarios: Sequence[Scenario], contract: Contract, plants: Plants
) -> tuple[list[Scenario], tuple[LeftOut, ...]]:
    """The scenarios that this robot's body and the contract's commands allow, and what is left out.

    Limits are in SI units. Plants are compiled, except those on ladders of ground; raises :class:`ModelError` for a
    model that cannot be used at all.
    """
    plant, metrics = plants.get(), suite.table
    subject = suite.subject(contract, plant)
    kept: list[Scenario] = []
    left_out: list[LeftOut] = []
    for scenario in scenarios:
        needs = (*suite.kinds[scenario.commands].needs, *scenario.needs)
        if why := bodily(scenario, plant) or suite.unmet(needs, subject):
            what = ladder_title(scenario.ladder) if scenario.ladder else scenario.title
            left_out.append(LeftOut(what=what, why=why))
            continue
        try:
            robot = plant if scenario.ladder else plants.of(scenario)
        except FixedFeet:
            left_out.append(LeftOut(what=scenario.title, why="its feet are not of a shape that can be altered so"))
            continue
        limits = [limit for limit in scenario.limits if not suite.unmet(limit.needs, subject)]
        judged = {limit.metric for limit in limits}
        left_out += [
            LeftOut(what=metrics[limit.metric].title, why=suite.unmet(limit.needs, subject), kind="limit")
            for limit in scenario.limits
            if limit.metric not in judged
        ]
        if limits or not scenario.limits:
            kept.append(for_robot(replace(scenario, limits=tuple(limits)), robot))
    left_out += [
        LeftOut(what=metric.title, why=why, kind="metric")
        for metric in metrics.values()
        if (why := suite.unmet(metric.needs, subject))
    ]
    return kept, tuple(dict.fromkeys(left_out))


def for_robot(scenario: Scenario, plant: Plant) -> Scenario:
    """The scenario with limits in SI units."""
    return replace(scenario, limits=tuple(limit.for_robot(plant.stand_height) for limit in scenario.limits))


def help_note(path: Path, contract: Contract) -> tuple[str, ...]:
    """A note about what the model gives its robot that no robot has."""
    found = help_in(path, contract.joint_names, fixed_base=bool(contract.fixed_base))
    return (f"Left out of {path.name}, since no robot has it: {'; '.join(found)}.",) if found else ()


def describe_model(plant: Plant, own: Plant) -> tuple[str, ...]:
    """Notes about a given model for readers of the verdict."""
    notes = [f"Mass {plant.mass:.2f} kg; the bundle's own robot has {own.mass:.2f} kg."]
    if not plant.frame.is_identity:
        angle = np.degrees(np.arccos(np.clip((np.trace(plant.frame.rotation) - 1) / 2, -1, 1)))
        notes.append(
            f"The model's base frame differs from the contract's by a rotation of {angle:.1f} degrees and a shift of "
            f"{np.linalg.norm(plant.frame.origin) * 1000:.0f} mm; sensors and commands were converted."
        )
    if plant.foot_names != own.foot_names:
        notes.append(f"Feet, found as the last link of each leg: {', '.join(plant.foot_names)}.")
    return tuple(notes)


def write_report(
    suite: Suite,
    verdict: Verdict,
    evidence: Evidence,
    contract: Contract,
    bundle: Path,
    model: Path,
    folder: Path,
    pictures: Pictures,
    climbs: Mapping[str, Strip],
    more: Callable[[Verdict], Any] | None,
    failed: Shown | None,
) -> None:
    """``validation.json``, the page that shows it, and its drawings as files of their own."""
    from .report import report

    verdict.save(folder / "validation.json")
    evidence.showcase, evidence.strip = pictures.showcase, pictures.strip
    further = None if more is None else more(verdict)
    clip, why = pictures.clip, pictures.why_no_clip
    page = report(suite, verdict, evidence, contract, bundle, model, clip, why, climbs, further, failed)
    write_text(folder / "report.html", page.html())
    (folder / FIGURES).mkdir(exist_ok=True)
    for old in (folder / FIGURES).glob("*.svg"):
        old.unlink()
    for name, drawing in page.drawings().items():
        write_text(folder / FIGURES / name, drawing)


__all__ = ["ModelError", "validate_bundle"]
