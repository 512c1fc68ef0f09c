"""Records come back bit by bit, in a file that other programs read, within its bound."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.flight.log import FlightLog
from gaitway_onboard.flight.messages import FlightError, MessageType
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import Flight, read_flight
from gaitway_onboard.interface import Decision, Health, Signals
from mcap.reader import make_reader
from stand_bundle import make_stand_bundle

from .flights import JOINTS, fly, states

META = {"robot": "unitree_go2", "hardware": "unitree-go2"}


@pytest.fixture(scope="module", params=[False, True], ids=["direct", "process"])
def flight(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Flight:
    path = tmp_path_factory.mktemp("flight") / "flight.mcap"
    log = open_flight(path, JOINTS, META, realtime=request.param)
    fly(log, 300)
    log.event(1300.0, "trip", "tilt: the base is tilted by 1.10 rad – über alles")
    log.close()
    assert log.dropped == 0 and log.trouble is None
    return read_flight(path)


def same(a: object, b: object) -> bool:
    """Equal in type and bits, NaNs too."""
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(a == b)


def test_every_state_comes_back_bit_by_bit(flight: Flight) -> None:
    sent = list(states(300))
    assert len(flight.state) == 300 and not flight.truncated
    for k, signals in enumerate(sent):
        assert same(signals, flight.signals(k)), k


def test_frames_and_policy_steps_come_back(flight: Flight) -> None:
    rng = np.random.default_rng(1)
    targets = rng.normal(size=12)
    assert same(flight.frame.targets[0], targets) and same(flight.frame.asked[0], targets + 0.1)
    assert flight.frame.mode.tolist() == ["ramp"] * 150 + ["policy"] * 150
    assert same(flight.frame.time, flight.state.time)
    assert flight.policy.command.tolist() == [[0.5, 0.0, 0.1]] * 30
    assert flight.policy.memory.shape == (30, 46) and flight.policy.memory.dtype == np.float32
    assert flight.policy.memory[:, 0].tolist() == list(range(0, 300, 10))
    assert flight.policy.late.tolist() == [k == 2 for k in range(30)]
    assert flight.dropped == {"state": 0, "frame": 0, "policy": 0}


def test_events_and_metadata(flight: Flight) -> None:
    kinds = [(event.kind, event.text) for event in flight.events]
    assert kinds[:2] == [("mode", "ramp"), ("mode", "policy")]
    assert kinds[2] == ("trip", "tilt: the base is tilted by 1.10 rad – über alles")
    assert flight.events[2].time == pytest.approx(1300.0, abs=2e-9)
    assert flight.joint_names == JOINTS and flight.robot == "unitree_go2" and flight.hardware == "unitree-go2"
    assert "mcap" in json.loads(flight.metadata["software"])
    assert flight.seconds == pytest.approx(1300.0 - 1234.5, abs=1e-6)


def test_other_programs_can_read_it(flight: Flight) -> None:
    """By MCAP's own reader: standard encodings, a definition for each topic, an index, and times of this year."""
    with open(flight.path, "rb") as stream:
        summary = make_reader(stream, validate_crcs=True).get_summary()
    assert summary is not None and summary.statistics is not None
    topics = {channel.topic: summary.schemas[channel.schema_id] for channel in summary.channels.values()}
    assert {topic: schema.encoding for topic, schema in topics.items()} == dict.fromkeys(
        ("/state", "/frame", "/policy", "/event"), "ros2msg"
    )
    assert {channel.message_encoding for channel in summary.channels.values()} == {"cdr"}
    assert topics["/event"].name == "foxglove_msgs/msg/Log"
    assert "float32[12] joint_pos  # [rad]" in topics["/state"].data.decode()
    assert summary.statistics.message_count == 300 + 300 + 30 + 3
    assert summary.statistics.message_start_time > 1.7e18


def test_contract_travels_along(tmp_path: Path) -> None:
    exported = make_stand_bundle(tmp_path / "bundle")
    log = open_flight(tmp_path / "a.mcap", JOINTS, {}, realtime=False, bundle=exported)
    fly(log, 2)
    log.close()
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.contract is not None and flight.contract == Contract.load(exported)
    assert flight.robot == flight.contract.robot == "anymal-c"
    assert json.loads(flight.metadata["files_sha256"]) == dict(flight.contract.files)
    assert "host" not in flight.metadata and "/" not in flight.metadata["bundle"]


def test_a_layout_is_what_ros_would_make_of_its_definition() -> None:
    """By hand: XCDR1 puts each number on a multiple of its size, counted from behind the header."""
    text = "uint32 HAS_B=1\nuint8 a\nfloat64 b\nuint16 c\nfloat32[3] d\nbool[3] e\nint64 f\nstring mode\n"
    layout = MessageType.parse("x", text)
    offsets = {name: layout.dtype.fields[name][1] for name in "abcdef"}
    assert offsets == {"a": 0, "b": 8, "c": 16, "d": 20, "e": 32, "f": 40}
    assert layout.dtype.itemsize == 48 and layout.optional == ("b",) and layout.text == "mode"
    assert MessageType.parse("x", layout.schema) == layout


def test_a_log_never_fails_its_controller(tmp_path: Path) -> None:
    """Numbers of another length, nothing at all, a time that is none: told once, counted, and gone on."""
    log = open_flight(tmp_path / "a.mcap", JOINTS, META, realtime=False)
    good = list(states(4))
    log.state(good[0])
    log.state(dataclasses.replace(good[1], joint_pos=np.zeros(11, np.float32)))
    log.state(dataclasses.replace(good[2], joint_pos=None))
    log.frame(float("nan"), "policy", *(np.zeros(12),) * 4)
    log.state(good[3])
    log.close()
    flight = read_flight(tmp_path / "a.mcap")
    assert log.dropped == 2 and flight.dropped["state"] == 2
    assert [event.kind for event in flight.events] == ["drop"] and "joint_pos" in flight.events[0].text
    assert same(flight.signals(1), good[3]) and len(flight.frame) == 1


def test_wider_numbers_and_new_fields_may_come_later(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, META, realtime=False)
    plain = Signals(np.ones(12, np.float32), np.ones(12, np.float32), np.ones(4, np.float32), np.ones(3), 0.0)
    wide = dataclasses.replace(plain, joint_pos=np.full(12, 0.1), height_scan=np.arange(5.0), stamp=0.1)
    later = dataclasses.replace(plain, health=Health(tick=3), stamp=0.2)
    for signals in (plain, wide, later):
        log.state(signals)
    log.close()
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.state.joint_pos.dtype == np.float64 and flight.state.joint_pos[:, 0].tolist() == [1.0, 0.1, 1.0]
    assert flight.has("height_scan").tolist() == [False, True, False]
    assert flight.signals(0).height_scan is None and same(flight.signals(1).height_scan, np.arange(5.0))
    assert flight.signals(0).health is None and flight.signals(2).health == Health(tick=3)


def test_disk_is_bounded_and_events_are_kept(tmp_path: Path) -> None:
    log = open_flight(tmp_path / "a.mcap", JOINTS, META, realtime=True, max_bytes=1_000_000)
    log.event(1234.0, "note", "the very first")
    for lap in range(4):
        fly(log, 1200, seed=lap)
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files[-1] == "a.mcap" and "a.0001.mcap" not in files and len(files) > 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000_000
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.events[0].text == "the very first" and len(flight.events) == 9
    assert 1200 < len(flight.state) < 4800, "the oldest are gone, the newest are not"
    last = list(states(1200, seed=3))[-1]
    assert same(flight.signals(len(flight.state) - 1), last)
    part = read_flight(tmp_path / files[0])
    assert part.events[0].text == "the very first" and len(part.state) < len(flight.state)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_text("precious")
    for bad, why in (
        (path, "no flight is overwritten"),
        (tmp_path / "a.npz", "must end in .mcap"),
        (tmp_path / "no" / "a.mcap", "no folder"),
    ):
        with pytest.raises(FlightError, match=why):
            open_flight(bad, JOINTS, META, realtime=False)
    with pytest.raises(FlightError, match="1000000 or more"):
        open_flight(tmp_path / "b.mcap", JOINTS, META, realtime=False, max_bytes=10)
    assert path.read_text() == "precious"


def test_silence_is_a_log(tmp_path: Path) -> None:
    log = FlightLog()
    fly(log, 3)
    log.close()


def test_what_a_policy_estimates_for_itself_is_recorded(tmp_path: Path) -> None:
    """Of its own names and widths, which its first step decides; another policy's do not fit into the same flight."""
    log = open_flight(tmp_path / "a.mcap", JOINTS, META, realtime=False)
    action, found = np.zeros(12, np.float32), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for k, velocity in enumerate(found):
        own = {"estimated_base_lin_vel": velocity, "estimated_grip": np.float32([k])}
        log.policy(Decision(0.02 * k, (0.5, 0.0, 0.1), np.zeros(1), action, own, action, 0.0), False)
    grip = {"estimated_grip": np.float32([0])}
    log.policy(Decision(0.1, (0.5, 0.0, 0.1), np.zeros(1), action, grip, action, 0.0), False)
    log.close()
    flight = read_flight(tmp_path / "a.mcap")
    assert flight.estimates == ("estimated_base_lin_vel", "estimated_grip")
    assert same(flight.policy.estimated_base_lin_vel, found)
    assert flight.policy.estimated_grip[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert log.dropped == 1 and flight.dropped["policy"] == 1


def test_a_policy_without_estimates_records_none(flight: Flight) -> None:
    assert flight.estimates == () and "estimated_base_lin_vel" not in flight.policy
