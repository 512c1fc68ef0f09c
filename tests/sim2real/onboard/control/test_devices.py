"""Buttons and sticks of real device formats, and what becomes of the commands they give."""

from __future__ import annotations

import dataclasses
import os
import pty
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import CommandError, follow
from gaitway_onboard.control.controller import Request
from gaitway_onboard.control.devices import LET_GO, Gamepad, Keyboard, RemoteOperator, first_gamepad
from gaitway_onboard.interface import Health, Remote, Signals
from hypothesis import given
from hypothesis import strategies as st

EVENT = struct.Struct("IhBB")


@pytest.fixture(scope="module")
def contract(exported: Path) -> Contract:
    ranges = {"lin_vel_x": (-0.5, 1.0), "lin_vel_y": (-0.4, 0.4), "ang_vel_z": (-1.0, 1.0)}
    return dataclasses.replace(Contract.load(exported), commands={"base_velocity": ranges})


def state(remote: Remote | None = None) -> Signals:
    health = Health(remote=remote)
    return Signals(np.zeros(12), np.zeros(12), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), 0.0, health=health)


def buttons(*names: str) -> Signals:
    return state(Remote(buttons=frozenset(names)))


def test_buttons_of_the_transmitter_count_when_they_go_down(contract: Contract) -> None:
    operator = RemoteOperator(contract)
    asked = [
        operator.poll(signals, 0.0)
        for signals in (
            buttons("start"), buttons("start"), buttons(), buttons("start"), state(), buttons("start"),
            buttons("L2"), buttons("L2", "A"), buttons("L2", "A"), buttons("A"), buttons("B"), buttons("L2", "B"),
            buttons("L2", "B"), buttons("select"),
        )
    ]  # fmt: skip
    start, lower, stop = Request.START, Request.LOWER, Request.STOP
    # Held from the beginning is not pressed; a stop counts for as long as it is held.
    assert asked == [None, None, None, start, None, start, None, lower, None, None, None, stop, stop, stop]


def test_sticks_reach_the_ends_of_the_trained_range_and_go_stale(contract: Contract) -> None:
    operator = RemoteOperator(contract)
    for left, right, expected in (
        ((0.0, 1.0), (0.0, 0.0), (1.0, 0.0, 0.0)),  # up is forward
        ((0.0, -1.0), (0.0, 0.0), (-0.5, 0.0, 0.0)),
        ((1.0, 0.0), (1.0, 0.0), (0.0, -0.4, -1.0)),  # right is to the right, and clockwise
        ((0.0, 0.09), (-0.09, 0.0), (0.0, 0.0, 0.0)),
        ((float("nan"), 7.0), (0.0, 0.0), (1.0, 0.0, 0.0)),
    ):
        operator.poll(state(Remote(left, right)), 5.0)
        np.testing.assert_allclose(operator.sticks.command(5.1), expected, atol=1e-9)
    operator.poll(state(), 5.3)  # out of reach
    assert operator.sticks.command(5.4)[0] == 1.0 and operator.sticks.command(5.6) == (0.0, 0.0, 0.0)


@pytest.fixture
def pad(contract: Contract, tmp_path: Path) -> Iterator[tuple[Gamepad, int]]:
    path = tmp_path / "js0"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    gamepad = Gamepad(first_gamepad(tmp_path), contract)
    yield gamepad, writer
    gamepad.close()


def test_a_gamepad(pad: tuple[Gamepad, int]) -> None:
    gamepad, writer = pad

    def send(*events: tuple[int, int, int]) -> Request | None:
        for value, kind, number in events:
            os.write(writer, EVENT.pack(0, value, kind, number))
        return gamepad.poll(state(), 0.0)

    assert send((0, 0x82, 1), (1, 0x81, 7)) is None  # what it says of itself when it is opened
    assert send() is None and gamepad.sticks.command(0.0) == (0.0, 0.0, 0.0)
    assert send((-32767, 2, 1), (32767, 2, 3)) is None
    np.testing.assert_allclose(gamepad.sticks.command(0.1), (1.0, 0.0, -1.0))
    assert gamepad.poll(state(), 0.9) is None and gamepad.sticks.command(0.9)[0] == 1.0  # held sticks send nothing
    assert send((1, 1, 7)) is Request.START and send((0, 1, 7)) is None
    assert send((1, 1, 0)) is Request.LOWER
    assert send((1, 1, 1), (1, 1, 7)) is Request.STOP
    os.close(writer)
    assert gamepad.poll(state(), 0.0) is Request.STOP  # unplugged


def test_a_gamepad_that_fell_silent_stands_still(pad: tuple[Gamepad, int]) -> None:
    gamepad, writer = pad
    os.write(writer, EVENT.pack(0, -32767, 2, 1))
    for now in np.arange(0.0, 5.0, 0.002):
        assert gamepad.poll(state(), now) is None
        assert gamepad.sticks.command(now)[0] == (1.0 if now <= LET_GO else 0.0)
    os.write(writer, EVENT.pack(0, -32766, 2, 1))
    assert gamepad.poll(state(), 5.0) is None and gamepad.sticks.command(5.0)[0] > 0.99


def test_no_gamepad_is_said_clearly(contract: Contract, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"no gamepad: {tmp_path} has no js0"):
        first_gamepad(tmp_path)
    with pytest.raises(CommandError, match=r"no gamepad at .*/js7 \(No such file"):
        Gamepad(tmp_path / "js7", contract)


def test_a_keyboard(contract: Contract) -> None:
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with os.fdopen(theirs, "r") as terminal:
        keyboard = Keyboard(contract, terminal)

        def press(keys: str) -> Request | None:
            os.write(ours, keys.encode())
            return keyboard.poll(state(), 0.0)

        assert keyboard.poll(state(), 0.0) is None
        assert press("ww") is None
        np.testing.assert_allclose(keyboard.sticks.command(0.0), (0.4, 0.0, 0.0))
        assert press("wwwwwwwsaq") is None
        np.testing.assert_allclose(keyboard.sticks.command(0.0), (0.8, 0.08, 0.2))
        assert press("0") is None and keyboard.sticks.command(0.0) == (0.0, 0.0, 0.0)
        press("ww")
        for now in np.arange(0.0, 3.0, 0.002):  # the connection is lost, say
            assert keyboard.poll(state(), now) is None
            assert keyboard.sticks.command(now)[0] == pytest.approx(0.4 if now <= LET_GO else 0.0)
        os.write(ours, b".")  # which keeps what there is, and that is nothing now
        assert keyboard.poll(state(), 3.0) is None and keyboard.sticks.command(3.0) == (0.0, 0.0, 0.0)
        os.write(ours, b"w")
        keyboard.poll(state(), 3.0)
        os.write(ours, b".")
        keyboard.poll(state(), 3.9)
        assert keyboard.sticks.command(4.5)[0] == pytest.approx(0.2)
        assert press("\n") is Request.START and press("x") is Request.LOWER
        assert press("w \n") is Request.STOP  # whatever comes after
        keyboard.close()
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


@given(
    wanted=st.lists(
        st.tuples(*3 * [st.floats(-9.0, 9.0) | st.just(float("nan")) | st.just(float("inf"))]), min_size=1, max_size=30
    ),
    pause=st.floats(0.001, 0.5),
)
def test_commands_stay_in_range_and_change_slowly_where_the_graph_does_not_limit_them(
    exported: Path, wanted: list[tuple[float, float, float]], pause: float
) -> None:
    contract = dataclasses.replace(Contract.load(exported), control_dt=pause, command_acceleration=None)
    told = [(0.0, 0.0, 0.0)]
    for command in wanted:
        told.append(follow(command, told[-1], contract))
    given_ = np.array(told)
    low, high = np.array(contract.command_ranges).T
    assert np.isfinite(given_).all() and (given_ >= low).all() and (given_ <= high).all()
    assert (np.abs(np.diff(given_, axis=0)) <= np.array([2.0, 2.0, 4.0]) * pause + 1e-9).all()


def test_a_graph_that_limits_the_change_is_told_at_once_and_others_in_time(contract: Contract) -> None:
    command, wanted = (0.0, 0.0, 0.0), (9.0, 0.0, -0.5)
    assert follow(wanted, command, dataclasses.replace(contract, command_acceleration=(0.1, 0.1, 0.1))) == (
        1.0,
        0.0,
        -0.5,
    )
    for _ in range(50):
        command = follow(wanted, command, dataclasses.replace(contract, command_acceleration=None))
    assert command == pytest.approx((1.0, 0.0, -0.5))
