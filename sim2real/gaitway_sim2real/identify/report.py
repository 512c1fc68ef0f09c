"""One HTML page: what was found, how sure it is, how much better it predicts, and what could not be told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from gaitway_onboard.interface import Array

from ..pages.document import document
from ..pages.parts import figure, head, items, legend, section, table
from ..pages.svg import Axes
from .hung_model import KINDS, Values
from .identify import EXPLAINED, Identification
from .unknowns import COMMON

UNITS = {"armature": "kg m²", "friction": "N m", "viscous": "N m s/rad"}
MEANING = {
    "delay": "from a state to the torque that answers it [s]",
    "velocity_lag": "reported velocities are this old [s]",
    "torque_lag": "reported torques are this old [s]",
}


def render_page(found: Identification) -> str:
    """The whole page."""
    sections = [_head(found), _common(found), _joints(found), _errors(found), _traces(found), _weak(found)]
    return document(f"{found.robot.name}: system identification", sections)


def _head(found: Identification) -> str:
    good = found.missed <= EXPLAINED
    word = "IDENTIFIED" if good else "NOT EXPLAINED"
    before = float(np.sqrt((found.before.roll_pos**2).mean()))
    after = float(np.sqrt((found.after.roll_pos**2).mean()))
    text = (
        f"Predicting a second of held-out motion, joints are off by <b>{1e3 * after:.2f} mrad</b> (rms); by "
        f"<b>{1e3 * before:.2f} mrad</b> under the model as it was. What is still missed is {found.missed:.1%} of the "
        "motion."
    )
    kicker = f"System identification, {found.seconds:.0f} s of motion of {', '.join(found.sources)}"
    about = f"{len(found.unknowns)} numbers, {found.cpu_seconds:.0f} s of computing"
    return head("pass" if good else "fail", kicker, found.robot.name, about, word=word, text=text)


def _common(found: Identification) -> str:
    std = np.sqrt(np.diag(found.solution.covariance))
    rows = [
        [item.name, f"{1e3 * value:.2f} ± {2e3 * deviation:.2f} ms", MEANING[item.kind]]
        for item, value, deviation in zip(found.unknowns.items, found.solution.theta, std, strict=True)
        if item.kind in COMMON
    ]
    return _table("Common to all joints", ["", "value, ± 2 standard deviations", ""], rows)


def _joints(found: Identification) -> str:
    deviation = {kind: np.zeros(found.robot.num_joints) for kind in KINDS}
    for item, std in zip(found.unknowns.items, np.sqrt(np.diag(found.solution.covariance)), strict=True):
        if item.kind in KINDS:
            deviation[item.kind][list(item.joints)] = std
    rows = []
    for index, name in enumerate(found.robot.joint_names):
        row = [name]
        for kind in KINDS:
            value, std, nominal = (
                float(source[index])
                for source in (found.values.joints[kind], deviation[kind], found.nominal.joints[kind])
            )
            row.append(
                f"{value:.3g} ± {2 * std:.2g} <small>model {nominal:.3g}</small>" if std else f"{value:.3g} held"
            )
        rows.append(row)
    heads = ["joint", *(f"{kind}{f' [{UNITS[kind]}]' if kind in UNITS else ''}" for kind in KINDS)]
    return _table("Joints, ± 2 standard deviations", heads, rows)


def _errors(found: Identification) -> str:
    columns: list[tuple[Array, Array, float]] = [
        (getattr(found.before, name), getattr(found.after, name), scale)
        for name, scale in (("step_pos", 1e3), ("step_vel", 1.0), ("roll_pos", 1e3), ("roll_vel", 1.0))
    ]
    rows = [
        [name, *(f"{scale * before[i]:.3g} → <b>{scale * after[i]:.3g}</b>" for before, after, scale in columns)]
        for i, name in enumerate(found.robot.joint_names)
    ]
    heads = ["joint", "20 ms ahead [mrad]", "20 ms ahead [rad/s]", "1 s roll-out [mrad]", "1 s roll-out [rad/s]"]
    return _table("Prediction errors before → after (rms, on motion that was not fitted)", heads, rows)


def _traces(found: Identification) -> str:
    """A second of held-out motion of the first limb."""
    windows = found.held_out.roll_out
    one = windows.take(slice(len(windows) // 2, len(windows) // 2 + 1))
    predicted = [_positions(found, values, one) for values in (found.nominal, found.values)]
    time = one.period * np.arange(one.steps)
    figures = []
    for joint in found.model.trees[0]:
        series = [one.pos[0, :, joint], *(each[0, :, joint] for each in predicted)]
        low, high = min(map(np.min, series)), max(map(np.max, series))
        axes = Axes((0.0, float(time[-1])), (float(low) - 0.01, float(high) + 0.01))
        axes.grid("s", "rad")
        for values, css in zip(series, ("measured", "before", "after"), strict=True):
            axes.line(time[::4], values[::4], css)
        name = found.robot.joint_names[joint]
        figures.append(figure(axes.render(name), name))
    key = legend(("measured", "measured"), ("before", "model as it was"), ("after", "as identified"))
    return section("A second that was not fitted", key, *figures)


def _positions(found: Identification, values: Values, windows: object) -> Array:
    return found.model.predict(values, windows).pos  # type: ignore[arg-type]


def _weak(found: Identification) -> str:
    return section("What this motion cannot tell", items(found.weak) or "<ul></ul>")


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML."""
    return section(title, table([escape(text) for text in heads], rows, kinds=[""] * len(heads)))
