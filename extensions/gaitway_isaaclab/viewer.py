"""Viewers of Isaac Lab's simulations: visualizers, livestreams and films."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .preflight import NVIDIA, SIM, Installation, IsaacLabError

MODULES = {
    "newton_gl": ("pyglet", "'pyglet<3'"),
    "newton_rtx": ("ovrtx", "'isaaclab[ovrtx]==3.0.0'"),
    "rerun": ("rerun", "'isaaclab[rerun]==3.0.0'"),
    "viser": ("viser", "'isaaclab[viser]==3.0.0'"),
}
"""Modules that each visualizer imports beside Isaac Lab, and the packages that pip installs for them."""
VISUALIZERS = ("kit", *MODULES)
"""Isaac Lab 3.0's visualizers; "kit" is Isaac Sim's window, which 2.3 has too."""
FILMING = ("kit", "newton_gl", "newton_rtx")
"""Visualizers that can record a film."""
LIVESTREAMS = {"public": 1, "local": 2}
"""Isaac Sim's WebRTC streams, and Isaac Lab's numbers of them."""


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """Viewer settings of a simulation; by default nothing is shown."""

    visualizer: str | None = None
    livestream: str | None = None
    """"public" or "local": the network that can reach Isaac Sim's stream."""
    video: Path | None = None
    """An mp4 file to write, of the first ``video_steps`` steps."""
    video_steps: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("--viz", self.visualizer, VISUALIZERS),
            ("--livestream", self.livestream, LIVESTREAMS),
        ):
            if value is not None and value not in known:
                raise IsaacLabError(f"{name} {value}: use one of {', '.join(known)}")
        if self.video is not None and self.video.suffix != ".mp4":
            raise IsaacLabError(f"--video {self.video}: name a file that ends in .mp4")

    @property
    def is_live(self) -> bool:
        """True if the simulation is shown while it runs."""
        return self.visualizer is not None or self.livestream is not None

    def check(self, here: Installation, physics: str) -> None:
        """Raise :class:`IsaacLabError` before anything starts if this cannot be shown here."""
        film = self.film_source(here, physics)
        shown = {self.visualizer, "kit" if self.livestream else None, film}
        if here.release == "2.3" and self.visualizer not in (None, "kit"):
            raise IsaacLabError(f"--viz {self.visualizer} came with Isaac Lab 3.0; 2.3 has kit, Isaac Sim's window")
        if film not in (None, *FILMING):
            raise IsaacLabError(f"--video cannot film {film}: use --viz {', '.join(FILMING)}, or leave --viz out")
        if "kit" in shown and here.versions["isaacsim"] is None:
            what = "--livestream" if self.livestream else "the visualizer kit"
            line = f"pip install 'isaacsim[all,extscache]=={SIM[here.release or '3.0']}' {NVIDIA}"
            raise IsaacLabError(f"{what} is Isaac Sim's, which is missing: {line}; --viz viser does without")
        for name in sorted(MODULES.keys() & shown):
            module, package = MODULES[name]
            if importlib.util.find_spec(module) is None:
                raise IsaacLabError(f"the visualizer {name} needs {module}: pip install {package}")
        if film is not None and importlib.util.find_spec("moviepy") is None:
            raise IsaacLabError("Isaac Lab writes films with moviepy, which is missing: pip install 'moviepy<2'")

    def film_source(self, here: Installation, physics: str) -> str | None:
        """The visualizer that the film is made of; None without a film."""
        if self.video is None:
            return None
        in_isaac_sim = self.livestream is not None or here.release == "2.3" or here.starts_isaac_sim(physics)
        return self.visualizer or ("kit" if in_isaac_sim else "newton_gl")

    # ---- for the launcher ------------------------------------------------------------------------------------------

    def settings(self, here: Installation) -> dict[str, Any]:
        """Settings for Isaac Lab's launcher besides device and processes."""
        told: dict[str, Any] = {
            "livestream": LIVESTREAMS[self.livestream] if self.livestream else 0,
            "enable_cameras": self.video is not None,
        }
        if here.release == "2.3":
            return told | {"headless": self.visualizer is None}
        return told | ({"visualizer": [self.visualizer]} if self.visualizer else {})

    def prepare(self, cfg: Any, here: Installation, physics: str) -> None:
        """Configure 3.0 to record the film, from the visualizer that is shown or else one without a window."""
        source = self.film_source(here, physics)
        if self.video is None or here.release == "2.3":
            return
        from isaaclab.envs.utils.video_recorder_cfg import VideoRecorderCfg

        if self.visualizer is None:
            from isaaclab_visualizers.kit import KitVisualizerCfg
            from isaaclab_visualizers.newton import NewtonGLVisualizerCfg

            cfg.sim.visualizer_cfgs = [(KitVisualizerCfg if source == "kit" else NewtonGLVisualizerCfg)(headless=True)]
        cfg.video_recorders = [
            VideoRecorderCfg(source=f"visualizer:{source}", output_dir=str(self._clips), video_length=self.video_steps)
        ]

    def render_mode(self, here: Installation) -> dict[str, str]:
        """Arguments with which 2.3's environments render frames."""
        return {"render_mode": "rgb_array"} if self.video is not None and here.release == "2.3" else {}

    def wrapped(self, env: Any, here: Installation) -> Any:
        """``env`` with Gymnasium's recorder around it, which is 2.3's way to make a film."""
        if self.video is None or here.release != "2.3":
            return env
        from gymnasium.wrappers import RecordVideo

        return RecordVideo(
            env,
            str(self._clips),
            step_trigger=lambda step: step == 0,
            video_length=self.video_steps,
            disable_logger=True,
        )

    @property
    def _clips(self) -> Path:
        """Folder in which Isaac Lab writes the film, under its own file names."""
        assert self.video is not None
        return self.video.with_name(f".{self.video.stem}-clips")

    @contextmanager
    def filmed(self) -> Iterator[None]:
        """Move the film to its path once the environments are closed."""
        yield
        if self.video is None:
            return
        clips = sorted(self._clips.glob("*.mp4"))
        if not clips:
            raise IsaacLabError(f"Isaac Lab has made no film for {self.video}: what it said above tells why")
        clips.pop().replace(self.video)
        for clip in clips:  # left over from earlier runs that did not finish
            clip.unlink()
        self._clips.rmdir()
