"""The pictures of a report: its showcase, film and strip, made beside the scenarios."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gaitway_onboard.bundle.contract import Contract

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import build_plant
from .evidence import Strip
from .scenario import Scenario
from .showcase import Showcase
from .suite import Suite

Frames = Callable[[range], Iterable[int]]
"""Goes through the numbers of the frames, as ``iter`` does."""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Pictures of a report, or the reason why there are none."""

    showcase: Showcase
    clip: Path | None
    why_no_clip: str
    strip: Strip


class Studio:
    """Makes the pictures in a thread, if ``beside`` others work; otherwise when they are asked for."""

    def __init__(
        self,
        suite: Suite,
        bundle: Path,
        contract: Contract,
        model: Path,
        folder: Path,
        *,
        video: bool,
        frames: Frames,
        beside: bool,
    ) -> None:
        self._suite, self._bundle, self._contract, self._model, self._folder = suite, bundle, contract, model, folder
        self._video, self._frames, self._beside = video, frames, beside
        self._stopped = threading.Event()

    def __enter__(self) -> Studio:
        self._thread = ThreadPoolExecutor(1)
        self._made = self._thread.submit(self._make) if self._beside else None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stopped.set()
        self._thread.shutdown()

    def pictures(self) -> Pictures:
        return self._make() if self._made is None else self._made.result()

    def climbs(self, rungs: Sequence[Scenario]) -> dict[str, Strip]:
        """A strip of one robot on each of ``rungs``, by title; none without a video."""
        from ..mujoco.camera import RenderingError
        from .video import climb_strip

        found: dict[str, Strip] = {}
        for rung in rungs if self._video else ():
            policy = BatchedPolicy(self._bundle / "policy.onnx", self._contract, 1)
            try:
                found[rung.title] = climb_strip(
                    self._suite, rung, self._contract, policy, self._model, self._bundle / "robot.xml"
                )
            except RenderingError as error:
                found[rung.title] = str(error)
        return found

    def _make(self) -> Pictures:
        from ..mujoco.camera import RenderingError
        from .video import film_strip, render_episode

        reference, contract = self._bundle / "robot.xml", self._contract
        policy = BatchedPolicy(self._bundle / "policy.onnx", contract, 1)
        plant = build_plant(contract, self._model, reference, physics=self._suite.film_physics, gait=True)
        showcase = self._suite.showcase(plant, contract, policy)
        clip, why = None, "not asked for"
        strip: Strip = why
        if self._video:
            try:
                strip = film_strip(showcase, self._suite.strip(showcase), contract, self._model, reference)
                out = self._folder / "validation.mp4"
                clip = render_episode(
                    self._suite, showcase, contract, self._model, reference, out, frames=self._until_stopped
                )
            except RenderingError as error:
                why = str(error)
                strip = why if isinstance(strip, str) else strip
        return Pictures(showcase=showcase, clip=clip, why_no_clip=why, strip=strip)

    def _until_stopped(self, parts: range) -> Iterator[int]:
        for part in self._frames(parts):
            if self._stopped.is_set():
                raise InterruptedError("the validation was given up")
            yield part
