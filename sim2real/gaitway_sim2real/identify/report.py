"""One HTML page: what was found, how sure it is, how much better it predicts, and what could not be told."""

from __future__ import annotations

import numpy as np

from ..pages.model import Badge, Head, Report, Section, Table, bold
from ..pages.panels import stacked
from .hung_model import KINDS
from .identify import EXPLAINED, Identification
from .unknowns import COMMON

UNITS = {"armature": "kg m²", "friction": "N m", "viscous": "N m s/rad"}
MEANING = {
    "delay": "from a state to the torque that answers it [s]",
    "velocity_lag": "reported velocities are this old [s]",
    "torque_lag": "reported torques are this old [s]",
}
ERRORS = {
    "20 ms ahead [mrad]": ("step_pos", 1e3),
    "20 ms ahead [rad/s]": ("step_vel", 1.0),
    "1 s roll-out [mrad]": ("roll_pos", 1e3),
    "1 s roll-out [rad/s]": ("roll_vel", 1.0),
}


def report(found: Identification) -> Report:
    """The whole page."""
    return Report(
        f"{found.robot.name}: system identification",
        _head(found),
        _common(found),
        _joints(found),
        _errors(found),
        _traces(found),
        Section("What this motion cannot tell", found.weak or "Nothing was left open."),
    )


def _head(found: Identification) -> Head:
    good = found.missed <= EXPLAINED
    before, after = (
        bold(f"{1e3 * float(np.sqrt((each.roll_pos**2).mean())):.2f} mrad") for each in (found.before, found.after)
    )
    text = (
        f"Predicting a second of held-out motion, joints are off by {after} (rms); by {before} under the model as it "
        f"was. What is still missed is {found.missed:.1%} of the motion."
    )
    return Head(
        f"System identification, {found.seconds:.0f} s of motion of {', '.join(found.sources)}",
        found.robot.name,
        f"{len(found.unknowns)} numbers, {found.cpu_seconds:.0f} s of computing",
        Badge("IDENTIFIED" if good else "NOT EXPLAINED", text),
        css="pass" if good else "fail",
    )


def _common(found: Identification) -> Section:
    std = np.sqrt(np.diag(found.solution.covariance))
    rows = [
        [item.name, f"{1e3 * value:.2f} ± {2e3 * deviation:.2f} ms", MEANING[item.kind]]
        for item, value, deviation in zip(found.unknowns.items, found.solution.theta, std, strict=True)
        if item.kind in COMMON
    ]
    return _section("Common to all joints", ["", "value, ± 2 standard deviations", ""], rows)


def _joints(found: Identification) -> Section:
    deviation = {kind: np.zeros(found.robot.num_joints) for kind in KINDS}
    for item, std in zip(found.unknowns.items, np.sqrt(np.diag(found.solution.covariance)), strict=True):
        if item.kind in KINDS:
            deviation[item.kind][list(item.joints)] = std
    rows = [[name] for name in found.robot.joint_names]
    for kind in KINDS:
        columns = found.values.joints[kind], deviation[kind], found.nominal.joints[kind]
        for row, value, std, nominal in zip(rows, *columns, strict=True):
            row.append(f"{value:.3g} ± {2 * std:.2g}\nmodel {nominal:.3g}" if std else f"{value:.3g} held")
    heads = ["joint", *(f"{kind} [{UNITS[kind]}]" if kind in UNITS else kind for kind in KINDS)]
    return _section("Joints, ± 2 standard deviations", heads, rows)


def _errors(found: Identification) -> Section:
    columns = [(getattr(found.before, name), getattr(found.after, name), scale) for name, scale in ERRORS.values()]
    rows = [
        [name, *(f"{scale * before[i]:.3g} → {bold(f'{scale * after[i]:.3g}')}" for before, after, scale in columns)]
        for i, name in enumerate(found.robot.joint_names)
    ]
    title = "Prediction errors before → after (rms, on motion that was not fitted)"
    return _section(title, ["joint", *ERRORS], rows)


def _traces(found: Identification) -> Section:
    """A second of held-out motion of the first limb."""
    windows = found.held_out.roll_out
    one = windows.take(slice(len(windows) // 2, len(windows) // 2 + 1))
    before, after = (found.model.predict(values, one).pos for values in (found.nominal, found.values))
    series = {"measured": one.pos, "before": before, "after": after}
    time = one.period * np.arange(one.steps)
    rows = [
        (f"{found.robot.joint_names[joint]} [rad]", [(time, each[0, :, joint], css) for css, each in series.items()])
        for joint in found.model.trees[0]
    ]
    legend = ("measured", "measured"), ("before", "model as it was"), ("after", "as identified")
    return Section("A second that was not fitted", stacked(rows, legend=legend))


def _section(title: str, heads: list[str], rows: list[list[str]]) -> Section:
    return Section(title, Table(heads, rows, kinds=[""] * len(heads)))
