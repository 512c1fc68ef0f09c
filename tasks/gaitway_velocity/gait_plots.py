"""Plots for a locomotion engineer: feet over time, their paths, and spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.pages.model import Figure, Group, heading, note
from gaitway_sim2real.pages.svg import Axes

from .gait import runs
from .showcase import WINDOW, Showcase

HIGHEST = 0.12  # [m], full height of a foot's row
SIDES = ("LF", "RF", "LH", "RH", "FL", "FR", "RL", "RR", "HL", "HR", "LEFT", "RIGHT", "L", "R", "JOINT")
MOST_TYPES = 6
LONGEST_NAME = 10
LOWEST_FREQUENCY = 1 / WINDOW  # [Hz]


def gait_figures(showcase: Showcase, contract: Contract, limits: Mapping[str, float]) -> list[Any]:
    """Feet over time and from the side for each kind of walking, and the spectrum, with ``limits`` by metric."""
    windows = showcase.windows()
    if not windows:
        return []
    clearance, slip, rate = (limits.get(name) for name in ("clearance", "slip", "step_rate"))
    feet = [Figure(feet_over_time(showcase, *ends, clearance=clearance, slip=slip), name) for name, *ends in windows]
    sides = [Figure(side_view(showcase, *ends, clearance=clearance), name) for name, *ends in windows[:2]]
    required = ("limit", "height that is required")
    stands = ("stance", "on the ground"), ("slide", "slips more than is allowed"), ("command", "height"), required
    return [
        heading("Feet over time"),
        Figure("", legend=stands),
        Group(*feet),
        note(
            f"Every physics step ({1000 * showcase.feet.dt:g} ms) of one undisturbed robot. Height: "
            f"lowest point of the foot; a full row is {100 * HIGHEST:.0f} cm. Right: time on the ground."
            + " The lower half of a bar is the heel, the upper half the toe."
            * bool(showcase.feet.soles.any())
        ),
        heading("Feet from the side"),
        Figure("", legend=[("command", "left"), ("measured", "right"), required]),
        Group(*sides),
        heading("Spectrum of the joint torques"),
        torque_spectrum(showcase, contract.joint_names, step_rate=rate),
        note("A walk peaks at its step rate and falls off above it. Peaks at 5 Hz and more are pattering."),
    ]


def feet_over_time(showcase: Showcase, start: float, end: float, *, clearance: float | None, slip: float | None) -> str:
    """For each foot, bars where it stands, red where it slips by more than ``slip`` [m/s], and its height between.

    ``clearance`` [m] is the height that a swing must reach.
    """
    feet = showcase.feet
    span = slice(round(start / feet.dt), round(end / feet.dt))
    count = len(feet.names)
    axes = Axes(
        x=(0.0, end - start), y=(0.0, float(count)), width=440, height=40 + 40 * count, left=74, right=48, top=4,
        bottom=36,
    )  # fmt: skip
    time = np.arange(span.stop - span.start) * feet.dt
    for k, name in enumerate(short_names(feet.names)):
        row = count - 1 - k
        down = feet.contact[span, 0, k]
        slides = down & (feet.slip[span, 0, k] > (np.inf if slip is None else slip))
        axes.box(0.0, end - start, row + 0.06, row + 0.94, "swing")
        halves = [(down, 0.06, 0.26, "stance")]
        if feet.soles[k]:
            halves = [(feet.heel[span, 0, k], 0.06, 0.16, "stance"), (feet.toe[span, 0, k], 0.16, 0.26, "stance")]
        for mask, low, high, css in (*halves, (slides, 0.06, 0.26, "slide")):
            for a, b in zip(*runs(mask), strict=True):
                axes.box(a * feet.dt, b * feet.dt, row + low, row + high, css)
        height = np.clip(feet.clearance[span, 0, k], 0.0, HIGHEST) / HIGHEST
        axes.line(time[::2], row + 0.26 + 0.66 * height[::2], "command")
        if clearance is not None:
            axes.level(row + 0.26 + 0.66 * min(clearance / HIGHEST, 1.0))
        axes.name(row + 0.5, name, f"{100 * down.mean():.0f} %")
    axes.grid("time [s]", x=np.arange(0.0, end - start + 0.01, 0.5), y=())
    return axes.render("contacts and heights of the feet over time")


def short_names(names: Sequence[str]) -> list[str]:
    """Names of feet that fit beside a plot: long ones without the last words that all share."""
    parts = [name.split("_") for name in names]
    while max(map(len, names)) > LONGEST_NAME and min(map(len, parts)) > 1 and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    return ["_".join(each) for each in parts]


def side_view(showcase: Showcase, start: float, end: float, *, clearance: float | None) -> str:
    """Height of each foot against how far it is ahead of the base; left and right in two colours."""
    feet, rec = showcase.feet, showcase.recording
    span = slice(round(start / feet.dt), round(end / feet.dt))
    at = (np.arange(len(feet.contact)) + 1) * feet.dt
    steps = (np.arange(len(rec.command)) + 1) * rec.control_dt
    x = np.stack([np.interp(at, steps, path)[span] for path in showcase.foot_x.T], 1)
    height = 100 * feet.clearance[span, 0]
    ends = (float(x.min()) - 0.03, float(x.max()) + 0.03)
    heights = (min(-0.5, float(height.min()) - 0.3), max(8.0, 1.1 * float(height.max())))
    axes = Axes(x=ends, y=heights, width=440, height=210, bottom=40)
    axes.grid("ahead of the base [m]", "height [cm]")
    for k in range(len(feet.names)):
        axes.line(x[::2, k], height[::2, k], "command" if feet.places[k, 1] > 0 else "measured")
    if clearance is not None:
        axes.level(100 * clearance)
    return axes.render("paths of the feet from the side")


def torque_spectrum(showcase: Showcase, joint_names: Sequence[str], *, step_rate: float | None) -> Figure:
    """Amplitude of the torques over frequency, a curve for each type of joint.

    Mean over the windows of :meth:`.Showcase.windows`, Hann window, at control steps. ``step_rate`` [1/s] is drawn.
    """
    rec = showcase.recording
    count = round(WINDOW / rec.control_dt)
    shape = np.hanning(count)[:, None]
    power = np.zeros((count // 2 + 1, len(joint_names)))
    windows = showcase.windows()
    for _, _, end in windows:
        last = round(end / rec.control_dt)
        torque = rec.torque[last - count : last, 0].astype(float)
        power += (2 * np.abs(np.fft.rfft((torque - torque.mean(0)) * shape, axis=0)) / shape.sum()) ** 2
    power /= max(len(windows), 1)
    frequency = np.fft.rfftfreq(count, rec.control_dt)
    curves = {name: np.sqrt(power[:, of].mean(1)) for name, of in joint_types(joint_names).items()}
    chosen = sorted(curves, key=lambda name: -float(curves[name][1:].sum()))[:MOST_TYPES]
    kept = frequency >= LOWEST_FREQUENCY
    logs = [np.log10(np.maximum(curves[name][kept], 1e-3)) for name in chosen]
    high = float(np.ceil(np.max(logs)))
    low = float(max(np.floor(np.min(logs)), high - 4))
    axes = Axes(x=(0.0, float(frequency[-1])), y=(low, high), height=260, bottom=40, left=56)
    decades = range(int(low), int(high) + 1)
    axes.grid("frequency [Hz]", "amplitude [N m]", y=decades, said=lambda decade: f"{10.0**decade:g}")
    for k, values in enumerate(logs):
        axes.line(frequency[kept], np.maximum(values, low), f"series s{k}")
    if step_rate is not None:
        axes.line((step_rate, step_rate), axes.y, "limit dashed")
        axes.text(axes.px(step_rate) + 5, axes.top + 9, f"fastest stepping allowed, {step_rate:.1f} Hz", anchor="start")
    legend = [(f"s{k}", name) for k, name in enumerate(chosen)]
    return Figure(axes.render("spectrum of the joint torques"), legend=legend, wide=True)


def joint_types(names: Sequence[str]) -> dict[str, list[int]]:
    """Joints that differ only in the leg or side that they are on: a name for each type, and their numbers."""
    types: dict[str, list[int]] = {}
    for number_, name in enumerate(names):
        parts = [part for part in name.split("_") if part.upper() not in SIDES]
        types.setdefault(" ".join(parts) or name, []).append(number_)
    return types
