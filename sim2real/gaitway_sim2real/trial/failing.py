"""The worst failure of a FAIL, walked once more: its film, its pictures, and the reason in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.camera import RenderingError
from ..mujoco.film import COMPONENTS, film
from ..mujoco.plant import build_plant
from .running import Plants, run_scenarios
from .scenario import Scenario
from .showcase import Showcase
from .suite import Suite
from .verdict import Verdict
from .why import Advice, Explanation, FailedWalk, Shown, Why, in_common

CLIP = "failed.mp4"
Advise = Callable[[Verdict], Advice]


def walked_again(
    suite: Suite, verdict: Verdict, scenarios: Sequence[Scenario], bundle: Path, contract: Contract, plants: Plants
) -> FailedWalk | None:
    """The robot that does worst by the check that fails worst; None if none of ``scenarios`` failed.

    Robots have the numbers of the verdict's first run.
    """
    known = {scenario.name: scenario for scenario in scenarios}
    pair = next(((r, c) for r, c in verdict.failures() if r.name in known and not r.engine), None)
    if pair is None:
        return None
    (result, check), scenario = pair, known[pair[0].name]
    feet = not contract.fixed_base
    scenario = replace(scenario, gait=feet)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs)
    (rec,) = run_scenarios(suite, policy, contract, plants, [scenario], verdict.seed, keep_qpos=True)
    robot = suite.worst(scenario, rec, contract, check.metric.name, check.at_least)
    return FailedWalk(
        result=result, check=check, scenario=scenario, robot=robot,
        recording=rec.of(slice(robot, robot + 1)), plant=plants.of(scenario),
    )  # fmt: skip


def reason(suite: Suite, verdict: Verdict, walk: FailedWalk | None, contract: Contract, advise: Advise | None) -> Why:
    """The reason in words; of a FAIL without a walk, such as in another engine, only what limits have in common."""
    failures = verdict.failures()
    advice = Advice() if advise is None else advise(verdict)
    first = failures[0][0]
    return Why(
        scenario=walk.result.title if walk else first.title,
        robot=walk.robot + 1 if walk else 0,
        seen=suite.explain(walk, contract).seen if walk else (),
        common=in_common(failures, suite.themes),
        cause=advice.cause,
        command=advice.command,
    )


def shown(
    suite: Suite, walk: FailedWalk, contract: Contract, model: Path, reference: Path, folder: Path, *, video: bool
) -> Shown:
    """The walk with its explanation, and a film of the time to look at."""
    told = suite.explain(walk, contract)
    made = Shown(walk=walk, explanation=told)
    if video:
        try:
            made.clip = _film(suite, walk, told, contract, model, reference, folder / CLIP)
        except RenderingError as error:
            made.why_no_clip = str(error)
    return made


def _film(
    suite: Suite, walk: FailedWalk, told: Explanation, contract: Contract, model: Path, reference: Path, out: Path
) -> Path:
    rec, scenario = walk.recording, walk.scenario
    assert rec.qpos is not None
    dt = rec.control_dt
    last = min(int(rec.alive[:, 0].sum()), round(told.end / dt))
    first = min(round(told.start / dt), max(last - 2, 0))
    rows = slice(first, max(last, first + 1))
    followed = suite.followed(Showcase(recording=rec, labels=("",) * len(rec.alive)))
    shown: Any = COMPONENTS
    if followed is None:
        shown = tuple(zip(contract.command_names, contract.command_units, strict=True))
    labels = [f"{walk.result.title}, {(first + k) * dt:.1f} s" for k in range(rows.stop - rows.start)]
    plant = build_plant(contract, model, reference, ground=scenario.ground, physics=scenario.physics, visual=True)
    return film(
        plant, np.asarray(rec.qpos[rows, 0]), rec.command[rows, 0],
        None if followed is None else followed[rows], labels, out, control_dt=dt, components=shown,
    )  # fmt: skip
