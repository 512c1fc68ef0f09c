"""Ways to show a simulation, and their requirements: decided before one starts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gaitway_isaaclab.preflight import PACKAGES, Installation, IsaacLabError
from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
from gaitway_isaaclab.viewer import Viewer
from isaac_like import IsaacLike
from torch import Tensor

VIDEO = Path("walk.mp4")


def installed(release: str, **versions: str) -> Installation:
    return Installation(versions=dict.fromkeys(PACKAGES) | {"isaaclab": release} | versions, python=(3, 12))


KITLESS, BOTH = installed("3.0.0", ovphysx="0.6.4"), installed("3.0.0", isaacsim="6.2.0", ovphysx="0.6.4")
SIM, OLDER = installed("3.0.0", isaacsim="6.2.0"), installed("2.3.2", isaacsim="5.1.0")


@pytest.fixture
def modules(monkeypatch):
    """The modules that can be found, of those that visualizers and films need."""
    found = {"pyglet", "moviepy"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in found else None)
    return found


def test_the_launcher_is_told_in_the_words_of_its_release():
    assert Viewer().settings(KITLESS) == {"livestream": 0, "enable_cameras": False}
    assert Viewer(livestream="local").settings(BOTH)["livestream"] == 2
    assert Viewer(visualizer="viser", video=VIDEO).settings(KITLESS) == {
        "livestream": 0, "enable_cameras": True, "visualizer": ["viser"]
    }  # fmt: skip
    assert Viewer(livestream="public").settings(OLDER) == {"livestream": 1, "enable_cameras": False, "headless": True}
    assert Viewer(visualizer="kit").settings(OLDER)["headless"] is False


@pytest.mark.parametrize(
    ("viewer", "here", "source"),
    [
        ({}, KITLESS, "newton_gl"),
        ({}, BOTH, "newton_gl"),
        ({}, SIM, "kit"),
        ({}, OLDER, "kit"),
        ({"livestream": "local"}, BOTH, "kit"),
        ({"visualizer": "newton_gl"}, SIM, "newton_gl"),
    ],
)
def test_a_film_is_made_of_what_is_there(viewer, here, source, modules):
    film = Viewer(video=VIDEO, **viewer)
    film.check(here, "physx")
    assert film.film_source(here, "physx") == source and Viewer(**viewer).film_source(here, "physx") is None
    assert film.render_mode(here) == ({"render_mode": "rgb_array"} if here is OLDER else {})


@pytest.mark.parametrize(
    ("viewer", "here", "said"),
    [
        ({"visualizer": "viser"}, OLDER, "--viz viser came with Isaac Lab 3.0; 2.3 has kit"),
        ({"visualizer": "kit"}, KITLESS, "the visualizer kit is Isaac Sim's, which is missing: pip install 'isaacsim"),
        ({"livestream": "local"}, KITLESS, "--livestream is Isaac Sim's, which is missing: pip install 'isaacsim"),
        ({"visualizer": "viser"}, KITLESS, "the visualizer viser needs viser: pip install 'isaaclab"),
        ({"visualizer": "viser", "video": VIDEO}, KITLESS, "--video cannot film viser: use --viz kit, newton_gl"),
        ({"video": VIDEO}, KITLESS, "Isaac Lab writes films with moviepy, which is missing: pip install"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_line_that_mends_it(viewer, here, said, modules):
    modules.discard("moviepy")
    with pytest.raises(IsaacLabError) as error:
        Viewer(**viewer).check(here, "physx")
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("viewer", [{"visualizer": "window"}, {"livestream": "world"}, {"video": Path("walk.gif")}])
def test_words_that_mean_nothing_are_refused(viewer):
    with pytest.raises(IsaacLabError, match=r"--\w+ (window|world|walk\.gif): (use one of|name a file)"):
        Viewer(**viewer)


def test_the_film_goes_to_its_place(tmp_path):
    viewer = Viewer(video=tmp_path / "walk.mp4", video_steps=10)
    with viewer.filmed():
        folder = tmp_path / ".walk-clips"
        folder.mkdir()
        (folder / "clip_0000.mp4").write_bytes(b"of an earlier time")
        (folder / "clip_0001.mp4").write_bytes(b"film")
    assert [path.name for path in tmp_path.iterdir()] == ["walk.mp4"] and viewer.video.read_bytes() == b"film"
    with pytest.raises(IsaacLabError, match="has made no film"), viewer.filmed():
        pass


def test_steps_go_through_the_recorder_around_the_environment():
    class Recorder(gymnasium.Wrapper[Any, Tensor, Any, Tensor]):
        calls = 0

        def step(self, action: Tensor) -> Any:
            self.calls += 1
            return super().step(action)

        def close(self) -> None:
            self.calls += 100
            super().close()

    recorder = Recorder(IsaacLike(2))
    env = IsaacLabVectorEnv(recorder)
    env.reset(seed=0)
    for _ in range(3):
        env.step(env.isaac.position.new_zeros(2, 3))
    env.close()
    assert recorder.calls == 103 and env.isaac.closed
