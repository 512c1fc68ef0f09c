"""Processes killed with -9, files cut off or written over: what was stored is read."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.flight import file
from gaitway_onboard.flight.messages import FlightError
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight, recover
from gaitway_onboard.flight.ring import RESERVE, Ring
from gaitway_sim2real.replay.summary import summarise, text
from mcap.reader import make_reader
from mcap.writer import Writer
from tree import IMPORTABLE

from .flights import JOINTS, fly, states

CONTROLLER = """
import os, sys, time
sys.path[:0] = {tests!r}.split(os.pathsep)
from sim2real.onboard.flight.flights import JOINTS, fly
from gaitway_onboard.flight.opening import open_flight
log = open_flight({path!r}, JOINTS, {{"robot": "x"}}, realtime=True)
fly(log, 2000)
{then}
print(log.recorder_pid, flush=True)
{forked}
time.sleep(60)
"""


def controller(path: Path, then: str = "", forked: str = "") -> tuple[subprocess.Popen[bytes], int]:
    """A process that has logged 2000 periods and waits to be killed; and its recorder."""
    code = CONTROLLER.format(tests=IMPORTABLE, path=str(path), then=then, forked=forked)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.kill()
        raise AssertionError("the controller did not start")
    return process, int(line)


def wait_for_end(pid: int, seconds: float = 20.0) -> None:
    """Of all its threads: the first may be gone while others are not, and then the process has not ended."""
    end, process = time.monotonic() + seconds, Path(f"/proc/{pid}")

    def ended() -> bool:
        try:
            return (process / "stat").read_text().split(") ")[1][0] == "Z" and len(
                list((process / "task").iterdir())
            ) == 1
        except (FileNotFoundError, ProcessLookupError):
            return True

    while not ended():
        assert time.monotonic() < end, f"process {pid} did not end"
        time.sleep(0.02)


def wait_until_stored(path: Path, states: int, seconds: float = 20.0) -> None:
    """The recorder hands on what it has every half second, on an idle machine. A state's frame follows it."""
    end, found = time.monotonic() + seconds, 0
    while found < states:
        assert time.monotonic() < end, f"{found} states are stored"
        time.sleep(0.1)
        with contextlib.suppress(FlightError):  # there is no record yet
            found = min(len((flight := read_flight(path)).state), len(flight.frame))


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("forked", ["", "if os.fork() == 0: time.sleep(3); os._exit(0)"], ids=["alone", "with a child"])
def test_kill_9_of_the_controller_loses_nothing(tmp_path: Path, forked: str) -> None:
    """A child that a controller forked holds the recorder's pipe open beyond its death."""
    process, recorder = controller(tmp_path / "a.mcap", forked=forked)
    kill(process)
    wait_for_end(recorder)
    flight = read_flight(tmp_path / "a.mcap")
    assert len(flight.state) == len(flight.frame) == 2000 and len(flight.policy) == 200
    assert not flight.truncated and flight.dropped == {"state": 0, "frame": 0, "policy": 0}
    assert flight.events[-1].kind == "killed"
    last = list(states(2000))[-1]
    assert flight.signals(1999).joint_pos.tobytes() == last.joint_pos.tobytes()


def test_kill_9_of_both_leaves_what_was_flushed(tmp_path: Path) -> None:
    process, recorder = controller(tmp_path / "a.mcap", then="time.sleep(1.5)")
    os.kill(recorder, signal.SIGKILL)
    kill(process)
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.truncated and len(flight.state) == 2000, "all of it was older than a flush"
    recover(tmp_path / "a.mcap", tmp_path / "b.mcap")
    whole = read_flight(tmp_path / "b.mcap")
    assert not whole.truncated and whole.metadata == flight.metadata and whole.events == flight.events
    assert whole.state.joint_pos.tobytes() == flight.state.joint_pos.tobytes()
    with open(tmp_path / "b.mcap", "rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None and summary.statistics is not None and summary.statistics.message_count == 4202


def test_a_controller_goes_on_without_its_recorder(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=True, ring_bytes=4 * RESERVE)
    assert log.recorder_pid is not None
    os.kill(log.recorder_pid, signal.SIGKILL)
    wait_for_end(log.recorder_pid)
    fly(log, 1000)
    assert log.dropped > 0
    assert "has ended" in (log.trouble or "")
    log.close()


@pytest.mark.hostile("durability")
def test_a_flight_whose_recorder_was_killed_says_what_is_missing(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=True)
    fly(log, 300)
    wait_until_stored(tmp_path / "a.mcap", 300)
    assert log.recorder_pid is not None and log.incomplete is None
    os.kill(log.recorder_pid, signal.SIGKILL)
    wait_for_end(log.recorder_pid)
    assert log.incomplete is not None and "ended with code -9" in log.incomplete
    fly(log, 500, seed=1)
    log.event(1300.0, "trip", "tilt: it fell")
    log.close()
    assert log.incomplete is not None and "ended with code -9" in log.incomplete
    flight = read_flight(tmp_path / "a.mcap")
    assert len(flight.state) == 300 and flight.dropped == {"state": 500, "frame": 500, "policy": 50}
    assert flight.events[-1].text == "tilt: it fell" and len(flight.events) == 5, "events are all there"
    assert "ended with code -9" in flight.trouble and not flight.truncated
    said = text(summarise(flight))
    assert "not recorded: 500 of state, 500 of frame, 50 of policy" in said
    assert "INCOMPLETE: the recorder of flight" in said and "it has 0.60 s of 65.50 s" in said
    with open(tmp_path / "a.mcap", "rb") as stream:
        messages = list(make_reader(stream).iter_messages())  # other programs read it
    assert len(messages) == 300 + 300 + 30 + 2 + 5
    recover(tmp_path / "a.mcap", tmp_path / "b.mcap")
    assert read_flight(tmp_path / "b.mcap").trouble == flight.trouble


@pytest.mark.hostile("durability")
def test_a_full_disk_ends_the_flight_and_not_the_controller(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A limit on the size of the recorder's files stands for the disk's."""
    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=True)
    assert log.recorder_pid is not None
    resource.prlimit(log.recorder_pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
    end = time.monotonic() + 20.0
    while log.trouble is None and time.monotonic() < end:
        fly(log, 500)
        time.sleep(0.1)
    assert log.trouble is not None and "cannot be written" in log.trouble
    log.close()
    assert "gaitway flight recorder: cannot write" in capfd.readouterr().err
    flight = read_flight(tmp_path / "a.mcap")
    assert len(flight.state) > 100 and flight.dropped["state"] > 100
    assert "cannot be written any further: File too large" in flight.trouble and not flight.truncated


@pytest.mark.hostile("durability")
def test_a_disk_that_stays_full_leaves_a_file_that_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=True)
    fly(log, 300)
    wait_until_stored(tmp_path / "a.mcap", 300)
    assert log.recorder_pid is not None
    os.kill(log.recorder_pid, signal.SIGKILL)
    wait_for_end(log.recorder_pid)
    with monkeypatch.context() as patch:
        patch.setattr(file, "finish_cut", full)
        log.close()
    assert log.incomplete is not None and "its end cannot be written: No space left" in log.incomplete
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.truncated and "how much is missing is not known" in text(summarise(flight))


def _removed(path: Path) -> None:
    path.unlink()


def _moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.mcap"))


def _exchanged(path: Path) -> None:
    path.unlink()
    path.write_text("somebody's own")


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.hostile("durability")
@pytest.mark.parametrize(
    ("harm", "late"),
    [(_removed, False), (_moved, False), (_exchanged, False), (_cut, False), (_removed, True), (_cut, True)],
)
def test_a_flight_whose_file_is_taken_away_is_not_recorded(tmp_path: Path, harm: Any, late: bool) -> None:
    path = tmp_path / "a.mcap"
    log = open_flight(path, JOINTS, {}, realtime=True)
    fly(log, 300)
    wait_until_stored(path, 300)
    harm(path)
    end = time.monotonic() + 20.0
    while not late and log.incomplete is None:
        assert time.monotonic() < end, "nobody has noticed"
        fly(log, 5)
        time.sleep(0.05)
    log.close()
    assert log.incomplete is not None and "cannot be written any further" in log.incomplete
    if harm is _exchanged:
        assert path.read_text() == "somebody's own"
    elif harm is _cut:
        assert read_flight(path).trouble
    else:
        assert not path.exists()


@pytest.mark.hostile("durability")
def test_a_part_of_a_flight_that_is_taken_away_is_noticed(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=True, max_bytes=1_000_000)
    part, end = tmp_path / "a.0001.mcap", time.monotonic() + 20.0
    while not part.exists():
        assert time.monotonic() < end, "the first part was never full"
        fly(log, 50)
        time.sleep(0.05)
    part.unlink()
    log.close()
    assert log.incomplete is not None and "No such file" in log.incomplete


@pytest.mark.hostile("untrusted files")
def test_the_recorder_runs_no_module_of_the_current_folder(
    hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile_folder)
    log = open_flight("a.mcap", JOINTS, {}, realtime=True)
    fly(log, 10)
    log.close()
    assert log.trouble is None and not (hostile_folder / "ran").exists()


def test_every_cut_is_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, {"robot": "x"}, realtime=False)
    fly(log, 600)
    log.close()
    whole = (tmp_path / "a.mcap").read_bytes()
    lengths = set()
    for size in [0, 5, 8, 60, 300, *range(1000, len(whole), 7001), len(whole) - 1]:
        (tmp_path / "cut.mcap").write_bytes(whole[:size])
        try:
            flight = read_flight(tmp_path / "cut.mcap")
        except FlightError as error:
            assert "cut.mcap" in str(error)
        else:
            assert flight.truncated
            lengths.add(len(flight.state))
    assert len(lengths) > 2 and max(lengths) == 600


def test_bits_that_changed_are_noticed(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, {"robot": "x"}, realtime=False)
    fly(log, 1500)
    log.close()
    data = bytearray((tmp_path / "a.mcap").read_bytes())
    data[len(data) // 2] ^= 0x10
    (tmp_path / "a.mcap").write_bytes(data)
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.truncated and 0 < len(flight.state) < 1500


def test_what_is_no_flight_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    for content, why in ((b"hello, this is text", "not an MCAP file"), (b"", "cut off before its first record")):
        path.write_bytes(content)
        with pytest.raises(FlightError, match=why):
            read_flight(path)
    with pytest.raises(FlightError, match="no flight at"):
        read_flight(tmp_path / "none.mcap")
    with pytest.raises(FlightError, match="it is a folder"):
        read_flight(tmp_path)
    for metadata, why in (({}, "no flight of Gaitway"), ({"version": "9"}, "version '9'")):
        with open(path, "wb") as stream:
            writer = Writer(stream)
            writer.start()
            if metadata:
                writer.add_metadata("gaitway_flight", metadata)
            writer.finish()
        with pytest.raises(FlightError, match=why):
            read_flight(path)
    path.unlink()
    open_flight(path, JOINTS, {}, realtime=False).close()
    with pytest.raises(FlightError, match="no record"):
        read_flight(path)


def test_a_ring_keeps_order_and_room_for_what_is_vital() -> None:
    """Many laps, all sizes; a full ring refuses, and what it took before is still right."""
    ring = Ring.create(4 * RESERVE)
    reader = Ring(os.dup(ring.descriptor), 4 * RESERVE)
    rng, sent, got = np.random.default_rng(0), 0, 0
    refused = vital = 0
    for _ in range(400):
        for _ in range(rng.integers(0, 60)):
            payload = rng.bytes(int(rng.integers(0, 9000)))
            if ring.write(3, sent, sent, payload + sent.to_bytes(4, "little"), False):
                sent += 1
            else:
                refused += 1
                vital += ring.write(3, sent, sent, sent.to_bytes(4, "little"), True)
                sent += 1
        for record in reader.read():
            assert record.sequence == record.log_time == int.from_bytes(record.payload[-4:], "little") == got
            got += 1
    assert sent == got and refused > 10 and vital == refused
    ring.release()
    reader.release()


def test_a_torn_record_is_waited_for() -> None:
    ring = Ring.create(4 * RESERVE)
    ring.write(1, 5, 7, b"abcdefgh", False)
    ring._data[24] ^= 1
    assert list(ring.read()) == []
    ring._data[24] ^= 1
    assert [record.payload for record in ring.read()] == [b"abcdefgh"]
    ring.release()
