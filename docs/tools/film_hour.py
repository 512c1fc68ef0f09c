"""Film what README.md and docs/first_hour.md show: a training, its verdict, a deployment to the twin.

    gaitway train velocity-flat-go2-blind --until good keep_checkpoints=100 --out runs/go2
    gaitway export runs/go2 --out runs/go2/bundle
    gaitway validate runs/go2/bundle
    python docs/tools/film_hour.py training runs/go2 docs/images/training.webp
    python docs/tools/film_hour.py verdict runs/go2/validation/report.html docs/images/verdict.webp --quality 45
    python docs/tools/film_hour.py twin runs/go2/bundle docs/images/twin.webp

The verdict needs Chromium. All else is simulated step by step, so the films show real time on any machine.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
from film_demo import Browser
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted
from gaitway_onboard.control.controller import ABOUT, Mode
from gaitway_onboard.control.loop import Period
from gaitway_sim2real.hardware import hardware_of
from gaitway_sim2real.mujoco.film import INK, film
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.rehearse.stage import Stage
from PIL import Image, ImageDraw, ImageFont

from gaitway.runs.folder import RunFolder
from gaitway.view.walkers import WorldWalker

STAGES = (0.2e6, 0.6e6, 1.0e6, 3.0e6)
"""Steps of the training that are shown side by side: the checkpoint next to each."""
WALK = [(0.0, (0.8, 0.0, 0.0)), (3.0, (0.5, 0.0, 0.8))]
"""Commands [m/s, m/s, rad/s] and the times [s] from which they hold."""
WALK_S, FLIGHT_S = 6.0, 7.0
WIDE, PANEL, SIZE = (848, 508), (360, 216), (720, 432)
"""Size of a film, of one walk of several, and of what is written [pixels]."""
MIDDLE = (255, 169, 594, 372)
"""Part of a film with the robot, and without the table of velocities: left, top, right, bottom [pixels]."""
EVERY = 2
"""Of 25 pictures a second one in so many is kept."""
LOADED_S, DRAWN_S = 10.0, 0.3
"""Until a busy machine has loaded a page, and drawn a part of it [s]."""
SCROLL, SCROLLS, REST = 30, 40, 20
"""Pixels between two pictures of a report, their number, and how many stand at either end."""


def pictures(mp4: Path) -> Iterator[np.ndarray]:
    """Pictures of a film, (H, W, 3)."""
    reader = imageio_ffmpeg.read_frames(str(mp4))
    width, height = next(reader)["size"]
    for data in reader:
        yield np.frombuffer(data, np.uint8).reshape(height, width, 3)


def walk(run: Path, checkpoint: Path, mp4: Path) -> list[Image.Image]:
    """Pictures of a walk of one checkpoint's policy."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "run"
        shutil.copytree(run, alone, ignore=shutil.ignore_patterns("checkpoints", "bundle", "validation", "tensorboard"))
        (alone / "checkpoints").mkdir()
        shutil.copy(checkpoint, alone / "checkpoints")
        walker = WorldWalker(alone)
    source, seen = scripted(WALK), []
    for step in range(round(WALK_S / walker.control_dt)):
        command = np.array(source(step * walker.control_dt))
        walker.step(command)
        seen.append((walker.qpos.copy(), command, walker.velocity()))
    save(walker.stage, seen, [""] * len(seen), mp4, walker.control_dt)
    walked = np.linalg.norm(seen[-1][0][:2] - seen[0][0][:2])
    print(f"{walker.caption}: {walked:.1f} m from the start, last velocity {seen[-1][2].round(2)}")
    return [titled(picture, walker.caption) for picture in pictures(mp4)]


def titled(picture: np.ndarray, text: str) -> Image.Image:
    """The middle of a picture, with a title."""
    panel = Image.fromarray(picture).crop(MIDDLE).resize(PANEL, Image.Resampling.LANCZOS)
    draw, font = ImageDraw.Draw(panel), ImageFont.load_default(17)
    draw.text((10, 8), text, fill=INK, font=font)
    return panel


def save(robot: Any, seen: list[Any], labels: list[str], mp4: Path, dt: float) -> None:
    qpos, commands, velocities = (np.array(part) for part in zip(*seen, strict=True))
    film(robot, qpos, commands, velocities, labels, mp4, control_dt=dt, size=WIDE)


def training(run: Path, folder: Path) -> list[Image.Image]:
    """A walk at each stage of a training, side by side."""
    checkpoints = RunFolder.open(run).checkpoints()
    nearest = [min(checkpoints, key=lambda path: abs(steps_of(path) - stage)) for stage in STAGES]
    walks = [walk(run, path, folder / f"{path.stem}.mp4") for path in nearest]
    shown = []
    for panels in list(zip(*walks, strict=True))[::EVERY]:
        shown.append(whole := Image.new("RGB", SIZE))
        for k, panel in enumerate(panels):
            whole.paste(panel, (k % 2 * PANEL[0], k // 2 * PANEL[1]))
    return shown


def steps_of(checkpoint: Path) -> int:
    return int(checkpoint.stem.removeprefix("step_"))


def twin(bundle: Path, folder: Path) -> list[Image.Image]:
    """A whole deployment in simulated time: standing up, the policy, lying down."""
    contract, hardware = Contract.load(bundle), hardware_of("unitree-go2")
    stage = Stage(bundle, hardware)
    seen: list[Any] = []
    labels: list[str] = []
    stride, periods = round(contract.control_dt / hardware.command_period), 0

    def look(period: Period) -> None:
        nonlocal periods
        periods += 1
        if periods % stride == 0:
            truth = stage.twin.truth()
            velocity = [*truth.base_lin_vel[:2], truth.base_ang_vel[2]]
            command = period.command if period.mode is Mode.POLICY else (0.0, 0.0, 0.0)
            seen.append((stage.twin.body.data.qpos.copy(), command, velocity))
            labels.append(ABOUT.get(period.mode, period.mode.value).partition(",")[0])

    print(stage.perform(scripted(WALK), FLIGHT_S, on_period=look).outcome)
    robot = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", visual=True)
    save(robot, seen, labels, mp4 := folder / "twin.mp4", contract.control_dt)
    return [Image.fromarray(picture) for picture in list(pictures(mp4))[::EVERY]]


def verdict(report: Path, chromium: str) -> list[Image.Image]:
    """The report from its top down to the pictures of a stride, as a browser shows it."""
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(chromium, report.absolute().as_uri(), profile)
        try:
            time.sleep(LOADED_S)
            shown = []
            for place in range(0, SCROLL * SCROLLS, SCROLL):
                browser.ask("Runtime.evaluate", expression=f"window.scrollTo(0, {place})")
                time.sleep(DRAWN_S)
                browser.drawn()
                shown.append(browser.picture())
        finally:
            browser.close()
    return [shown[0]] * REST + shown + [shown[-1]] * REST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("training", "verdict", "twin"))
    parser.add_argument("source", type=Path, help="run, report or bundle")
    parser.add_argument("out", type=Path, help="animated .webp")
    parser.add_argument("--quality", type=int, default=30, help="of the pictures, 0 to 100")
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.what == "verdict":
            shown = verdict(args.source, args.chromium)
        else:
            shown = {"training": training, "twin": twin}[args.what](args.source, Path(folder))
    shown = [picture.resize(SIZE, Image.Resampling.LANCZOS) for picture in shown]
    shown[0].save(
        args.out, save_all=True, append_images=shown[1:], duration=40 * EVERY, loop=0, quality=args.quality, method=4
    )
    print(f"{args.out}: {len(shown)} pictures, {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
