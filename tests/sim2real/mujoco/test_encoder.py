"""Films that are given up."""

import subprocess
import sys

import imageio_ffmpeg
import numpy as np
import pytest
from gaitway_files.writing import whole_file
from gaitway_sim2real.mujoco.encoder import encoder

PICTURE = np.arange(64 * 48 * 3, dtype=np.uint8).reshape(48, 64, 3)

GIVEN_UP = """
import sys
import numpy as np
from gaitway_files.writing import whole_file
from gaitway_sim2real.mujoco.encoder import encoder

quick = {"output_params": ["-movflags", "+faststart"]}
with whole_file(sys.argv[1]) as partial, encoder(partial, (64, 48), 25, **quick) as add:
    for _ in range(50):
        add(np.zeros((48, 64, 3), np.uint8))
    raise SystemExit(130)
"""


def test_a_film_has_its_pictures(tmp_path):
    with whole_file(tmp_path / "film.mp4") as partial, encoder(partial, (64, 48), 25) as add:
        for _ in range(10):
            add(PICTURE)
    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "film.mp4")) == (10, pytest.approx(0.4))


def test_ffmpeg_says_nothing_of_a_film_that_is_given_up(tmp_path):
    command = [sys.executable, "-c", GIVEN_UP, str(tmp_path / "film.mp4")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "") and not list(tmp_path.iterdir())
