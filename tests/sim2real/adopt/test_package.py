"""Names of an adopted package."""

from __future__ import annotations

import pytest
from adoptable_robots import dog, written
from gaitway_files.errors import UserError
from gaitway_sim2real.adopt.adopt import Options, adopt


@pytest.mark.parametrize(
    ("out", "name", "word"),
    [("made", "go2", "--name"), ("my-robot", "x", "my_robot"), ("numpy", "x", "numpy"), (".", "x", "exists")],
)
def test_names_that_cannot_be_are_refused(tmp_path, out, name, word):
    with pytest.raises(UserError, match=word):
        adopt(written(tmp_path, dog()), tmp_path / out, name, Options())
