"""``gaitway replay`` from the command line."""

import re
import socket
import time
import urllib.request
import xml.etree.ElementTree as ElementTree
from threading import Thread

import numpy as np
import pytest
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight
from gaitway_onboard.interface import Decision, Signals
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import RobotParameters
from gaitway_tasks.robots.parameters_file import save_parameters
from sim2real.replay.leaning import lean_bundle, record
from stand_bundle import make_stand_bundle

from gaitway.cli import main


def ours(argv, capsys):
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def lean(tmp_path_factory):
    return lean_bundle(tmp_path_factory.mktemp("lean") / "bundle")


@pytest.fixture(scope="module")
def flown(lean, tmp_path_factory):
    path = tmp_path_factory.mktemp("flown") / "flight.mcap"
    record(path, lean, 1.0)
    return path


def made_up(path, robot="toaster", joints=("a_joint", "b_joint"), pose=(0.0, 0.0)):
    """Half a second of standing, with an event that is no HTML."""
    pose = np.array(pose)
    log = open_flight(path, joints, {"robot": robot}, realtime=False)
    for k in range(26):
        log.state(Signals(pose, 0.0 * pose, np.array([1.0, 0, 0, 0]), np.zeros(3), 0.02 * k))
        log.frame(0.02 * k, "hold", pose, pose**0, pose**0, pose)
    log.event(0.5, "trip", "<script>alert('tilt')</script>")
    log.close()
    return path


def test_a_log_of_another_program_is_summarised_and_written_as_a_flight(tmp_path, capsys):
    now = 0.01 * np.arange(200)
    angles = 0.3 * np.sin(9.0 * now[:, None] + np.arange(12))
    rates = 2.7 * np.cos(9.0 * now[:, None] + np.arange(12))
    np.savez(tmp_path / "log.npz", t=now, q=angles, dq=rates, joints=GO2.joint_names)
    words = ["replay", str(tmp_path / "log.npz"), "--recover", str(tmp_path / "log.mcap"), "--robot"]
    assert main([*words, "unitree-go2"]) == 0
    said = capsys.readouterr().out
    assert "200 at 100 Hz" in said and "level and still" in said and "go2" in said
    np.testing.assert_array_equal(read_flight(tmp_path / "log.mcap").state.joint_pos, angles)
    assert main(["replay", str(tmp_path / "log.mcap"), "--gains", "20,0.5"]) == 2
    assert "leave out --gains" in capsys.readouterr().err
    assert main(["identify", str(tmp_path / "log.npz"), "--robot", "go2", "--out", str(tmp_path / "p.yaml")]) == 2
    assert "no commands" in capsys.readouterr().err


def test_a_summary(flown, capsys):
    code, out, err = ours(["replay", flown], capsys)
    assert code == 0 and not err
    for part in ("stand, go2 on unitree-go2", "at 500 Hz", "policy 1.00 s", "finished", "not recorded: nothing"):
        assert part in out, part


def test_against_its_own_bundle_with_a_page(flown, lean, tmp_path, capsys):
    parameters = save_parameters(RobotParameters(robot="go2", delay=0.0), tmp_path / "params.yaml")
    code, out, _ = ours(
        ["replay", flown, "--against", lean, "--parameters", parameters, "--report", tmp_path / "out"], capsys
    )
    assert code == 0
    assert "actions as recorded" in out and "identified parameters" in out and "leg-inertial filter" in out
    page = (tmp_path / "out" / "replay.html").read_text()
    plots = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(plots) > 30
    for plot in plots:
        ElementTree.fromstring(plot)
    for part in ("FR_calf_joint [rad]", "as recorded", "Recorded frames through MuJoCo", "policy in the loop"):
        assert part in page, part
    assert "nan" not in re.sub(r"<title>.*?</title>", "", "".join(plots)).lower()


def test_a_changed_record_is_exit_code_one(flown, lean, tmp_path, capsys):
    """Record of the very bundle that flew, which that bundle does not reproduce."""
    flight = read_flight(flown)
    log = open_flight(tmp_path / "a.mcap", flight.joint_names, {"hardware": "x"}, realtime=False, bundle=lean)
    for k in range(len(flight.state)):
        log.state(flight.signals(k))
    frame, policy = flight.frame, flight.policy
    for k in range(len(frame)):
        log.frame(frame.time[k], str(frame.mode[k]), *(frame.values[n][k] for n in ("targets", "stiffness", "damping")),
                  frame.asked[k])  # fmt: skip
    for k in range(len(policy)):
        action, command = policy.action[k] + np.float32(0.01 * (k == 30)), tuple(policy.command[k])
        log.policy(Decision(policy.time[k], command, policy.memory[k], action, {}, policy.targets[k], 0.0), False)
    log.close()
    code, out, _ = ours(["replay", tmp_path / "a.mcap", "--against", lean], capsys)
    assert code == 1 and "actions differ from step 30 on" in out


def test_a_robot_without_a_model_has_its_plots(tmp_path, capsys):
    path = made_up(tmp_path / "toast.mcap")
    code, out, _ = ours(["replay", path, "--report", tmp_path / "out"], capsys)
    assert code == 0 and "trip after 0.50 s" in out
    page = (tmp_path / "out" / "replay.html").read_text()
    assert "a_joint [rad]" in page and "<script>" not in page and "&lt;script&gt;" in page
    code, _, err = ours(["replay", path, "--video", tmp_path / "x.mp4"], capsys)
    assert code == 2 and "'toaster' is not one of" in err


def test_a_cut_flight_is_recovered(flown, tmp_path, capsys):
    whole = flown.read_bytes()
    (tmp_path / "cut.mcap").write_bytes(whole[: len(whole) * 3 // 4])
    code, out, _ = ours(["replay", tmp_path / "cut.mcap", "--recover", tmp_path / "whole.mcap"], capsys)
    assert code == 0 and "the file was not finished" in out and "no reason was recorded" in out
    cut, recovered = read_flight(tmp_path / "cut.mcap"), read_flight(tmp_path / "whole.mcap")
    assert not recovered.truncated and 0 < len(recovered.state) == len(cut.state) < len(read_flight(flown).state)
    code, _, err = ours(["replay", tmp_path / "cut.mcap", "--recover", tmp_path / "whole.mcap"], capsys)
    assert code == 2 and "no flight is overwritten" in err


def test_a_film(tmp_path, capsys):
    flight = made_up(tmp_path / "a.mcap", "go2", GO2.joint_names, GO2.default_joint_pos)
    code, _, err = ours(["replay", flight, "--video", tmp_path / "v" / "x.mp4", "--report", tmp_path / "r"], capsys)
    if code == 1 and "libegl1" in err:
        pytest.skip("this machine has no OpenGL")
    assert code == 0 and (tmp_path / "v" / "x.mp4").stat().st_size > 1000
    assert 'src="../v/x.mp4"' in (tmp_path / "r" / "replay.html").read_text()


def test_the_viewer_serves_the_flight(flown, capsys, monkeypatch):
    pytest.importorskip("viser")
    monkeypatch.setattr("gaitway.view.scene.token_urlsafe", lambda size: "known")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pages = []

    def look():
        end = time.monotonic() + 60.0
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/?token=known", timeout=1.0) as answer:
                    pages.append(answer.status)
                    return
            except OSError:
                time.sleep(0.05)

    reader = Thread(target=look)
    reader.start()
    code, out, _ = ours(["replay", flown, "--viewer", "--port", port, "--seconds", "3"], capsys)
    reader.join()
    assert code == 0 and f"http://127.0.0.1:{port}" in out and pages == [200]


def test_the_player_goes_through_the_flight_and_around(flown):
    viser = pytest.importorskip("viser")
    from gaitway_sim2real.replay.compare import motion_of
    from gaitway_sim2real.replay.summary import spans

    from gaitway.view.flight import Player

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = viser.ViserServer(host="127.0.0.1", port=probe.getsockname()[1] + 1, verbose=False)
    try:
        flight = read_flight(flown)
        motion = motion_of(flight)
        player = Player(flight, motion, server)
        assert np.array_equal(player.advance(0.0), motion.qpos[0])
        player.go(next(s.start for s in spans(flight) if s.mode == "policy"))
        pose = player.advance(0.5)
        at = int(np.searchsorted(motion.time - flight.start, player.slider.value, side="right")) - 1
        assert np.array_equal(pose, motion.qpos[at]) and "policy" in player.told.content
        player.speed.value = "2"
        player.advance(100.0)
        assert player.slider.value == player.slider.min
        player.playing.value = False
        player.go(1.0)
        player.advance(5.0)
        assert player.slider.value == pytest.approx(1.0)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["replay", "{tmp}/none.mcap"], "no flight at"),
        (["replay", "{tmp}/text.mcap"], "not an MCAP file"),
        (["replay", "{flown}", "--against", "{tmp}"], "neither a run folder"),
        (["replay", "{flown}", "--against", "{anymal}"], "is for another robot"),
        (["replay", "{flown}", "--parameters", "{tmp}/p.yaml"], "add --against BUNDLE"),
        (["replay", "{flown}", "--video", "{tmp}/x.avi"], "must end in .mp4"),
        (["replay", "{flown}", "--viewer", "--port", "0"], "--port 0"),
        (["replay", "{flown}", "--seconds", "3"], "add --viewer"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(argv, why, flown, tmp_path, capsys):
    (tmp_path / "text.mcap").write_text("this is no flight, it is a text")
    if "{anymal}" in argv:
        make_stand_bundle(tmp_path / "anymal")
    words = [word.format(tmp=tmp_path, flown=flown, anymal=tmp_path / "anymal") for word in argv]
    code, _, err = ours(words, capsys)
    assert code == 2 and why in err and len(err.strip().splitlines()) == 1, err


def test_a_missing_library_is_named_with_its_install_line(flown, capsys, monkeypatch):
    from gaitway import catalogue

    gone = catalogue.Entry(summary="", modules=("mcap_that_is_not_there",), extras=("robot",))
    monkeypatch.setattr("gaitway.commands.replay.FLIGHT", gone)
    code, _, err = ours(["replay", flown], capsys)
    assert code == 2 and "pip install 'gaitway[robot]'" in err
