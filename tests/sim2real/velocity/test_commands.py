"""Commands of every kind, and the corners of their box."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_sim2real.trial.commands import Told
from gaitway_sim2real.trial.needs import unmet
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_velocity.command_classes import CLASSES
from gaitway_velocity.commands import KINDS, WALK_BEFORE_STOP
from gaitway_velocity.corners import corner_commands, corner_of, fallen_corners, mirror_images
from gaitway_velocity.needs import NEEDS, Subject

BOX = np.array([[-1.0, 1.0], [-0.5, 0.5], [-1.0, 1.0]])
ONE_SIDED = np.array([[0.0, 1.0], [0.0, 0.0], [-0.6, 0.6]])


def commands(kind: str, ranges: np.ndarray = BOX, seed: int = 0, envs: int = 80) -> np.ndarray:
    scenario = Scenario(name="s", title="", about="", limits=(), commands=kind, envs=envs, seconds=4.0)
    told = Told(ranges=ranges, still=np.zeros(3), control_dt=0.02)
    return KINDS[kind].draw(scenario, told, np.random.default_rng(seed))


@pytest.mark.parametrize("ranges", [BOX, ONE_SIDED], ids=["box", "one-sided"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in CLASSES or kind == "forward_slow"])
def test_commands_stay_in_the_ranges(kind: str, ranges: np.ndarray) -> None:
    found = commands(kind, ranges)
    assert found.shape == (200, 80, 3)
    assert (found >= ranges[:, 0]).all() and (found <= ranges[:, 1]).all()


def test_stops_are_from_full_speed() -> None:
    found = commands("stops")
    walk = round(WALK_BEFORE_STOP / 0.02)
    assert not found[walk:].any() and (found[:walk] == found[0]).all()
    assert (np.abs(found[0]) == BOX[:, 1]).any(1).all()  # some component at its end
    assert (corner_of(found[0], BOX) >= 0).sum() == 16
    assert (np.abs(commands("stops", ONE_SIDED)[0]).max(1) >= 0.6).all()


def test_straight_commands_take_turns() -> None:
    first = commands("straight")[0]
    assert not first[:, 2].any() and ((first[:, :2] == 0).sum(1) == 1).all()
    assert {tuple(np.sign(row)) for row in first} == {(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)}


def test_what_a_contract_cannot_be_told() -> None:
    def lacking(ranges: np.ndarray) -> list[str]:
        subject = Subject(ranges=ranges, feet=4)
        return [name for name, kind in KINDS.items() if unmet(kind.needs, subject, NEEDS)]

    assert lacking(BOX) == []
    assert lacking(ONE_SIDED) == ["backward", "sideways"]
    assert lacking(np.array([[-0.1, 0.1]] * 3)) == ["straight", "ahead", "stops", *CLASSES]
    assert lacking(np.zeros((3, 2))) == ["grid", "straight", "small_grid", "ahead", "stops", *CLASSES]
    assert lacking(np.array([[-1.0, 1.0], [0.5, 1.5], [-1.0, 1.0]])) == [
        "standing",
        "ahead",
        "stops",
    ]  # always to the left


@pytest.mark.parametrize("kind", ["mixed", "random", "standing", "steps"])
def test_a_policy_without_commands_can_still_be_tried(kind: str) -> None:
    assert not commands(kind, np.zeros((3, 2))).any()


def test_corners_and_their_mirror_images() -> None:
    corners = corner_commands(BOX)
    assert len(corners) == 8 and len(corner_commands(ONE_SIDED)) == 4
    groups = [{tuple(corners[k]) for k in images} for images in mirror_images(corners)]
    assert [len(group) for group in groups] == [4, 4]
    assert {(1.0, 0.5, 1.0), (1.0, -0.5, -1.0), (-1.0, 0.5, -1.0), (-1.0, -0.5, 1.0)} in groups
    lopsided = corner_commands(np.array([[-0.5, 1.0], [-0.5, 0.5], [-1.0, 1.0]]))  # backward is slower
    assert sorted(len(images) for images in mirror_images(lopsided)) == [2, 2, 2, 2]


def test_a_fallen_corner_is_named_once_and_set_aside_with_its_images() -> None:
    corners = corner_commands(BOX)
    command = np.vstack([np.repeat(corners, 2, 0), np.full((5, 3), 0.3)])
    corner = corner_of(command, BOX)
    assert corner.tolist() == [*np.repeat(range(8), 2), *[-1] * 5]
    fell = np.zeros(21, bool)
    fell[-1] = True
    assert fallen_corners(corner, fell, BOX) == ([], pytest.approx(np.zeros(21)))
    fell |= (command == [1.0, 0.5, 1.0]).all(1)
    names, aside = fallen_corners(corner, fell, BOX)
    assert names == ["(1, 0.5, 1)"] and aside.sum() == 8 and not aside[16:].any()
    fell |= (command == [-1.0, -0.5, 1.0]).all(1) | (command == [-1.0, -0.5, -1.0]).all(1)
    names, aside = fallen_corners(corner, fell, BOX)
    assert sorted(names) == ["(-1, -0.5, -1)", "(1, 0.5, 1) and 1 mirror image"] and aside.sum() == 16


@pytest.mark.parametrize(("fell", "fact"), [((1, 0), False), ((1, 1), True), ((1, 1, 0, 0), True), ((1, 0, 0), False)])
def test_half_of_the_robots_and_two_make_a_fact(fell: tuple[int, ...], fact: bool) -> None:
    corner = np.array([*[0] * len(fell), -1])
    names, aside = fallen_corners(corner, np.array([*fell, 1.0]), BOX)
    assert bool(names) == fact and aside.sum() == fact * len(fell)
