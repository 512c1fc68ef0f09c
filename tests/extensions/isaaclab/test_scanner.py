"""Rows of a ray caster in the order of the environments, around a stand-in for the binding that Isaac Lab makes."""

import logging
import re

import pytest
from gaitway_isaaclab import scanner
from gaitway_isaaclab.compat import IsaacLabError

TEXT_ORDER = [f"/World/envs/env_{n}/Robot/base" for n in (0, 1, 10, 11, 2, 3)]
IN_ORDER = [f"/World/envs/env_{n}/Robot/base" for n in (0, 1, 2, 3, 10, 11)]


class Binding:
    def __init__(self, paths):
        self.prim_paths, self.gone = paths, False

    def destroy(self):
        self.gone = True


def caster(paths):
    """A ray caster as Isaac Lab's, whose bodies are bound as ``paths``; None if they do not move."""

    class Theirs:
        def _initialize_pose_tracking(self):
            self._ovphysx_body_view = paths and Binding(paths)

    return scanner._in_order(Theirs)()


def test_rows_in_the_order_of_text_are_bound_anew_and_that_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(scanner, "_bind", Binding)
    scanner._say.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ours = caster(TEXT_ORDER)
            ours._initialize_pose_tracking()
            assert ours._ovphysx_body_view.prim_paths == IN_ORDER
    assert len(caplog.records) == 1 and "env_0, env_1, env_10" in caplog.text


@pytest.mark.parametrize("paths", [IN_ORDER, IN_ORDER[:1], None])
def test_rows_that_are_right_are_left_alone(monkeypatch, paths):
    monkeypatch.setattr(scanner, "_bind", lambda paths: pytest.fail("bound anew"))
    ours = caster(paths)
    ours._initialize_pose_tracking()
    assert paths is None or not ours._ovphysx_body_view.gone


def test_an_order_that_cannot_be_mended_is_refused(monkeypatch):
    monkeypatch.setattr(scanner, "_bind", lambda paths: Binding(TEXT_ORDER))
    with pytest.raises(IsaacLabError, match=re.escape("use --physics newton")):
        caster(TEXT_ORDER)._initialize_pose_tracking()


def test_a_body_in_no_environment_is_refused():
    assert scanner.environments(TEXT_ORDER) == [0, 1, 10, 11, 2, 3]
    with pytest.raises(IsaacLabError, match="/World/tower is in no environment"):
        scanner.environments([*IN_ORDER, "/World/tower"])
