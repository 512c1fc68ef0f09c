"""``gaitway demo``: a walking robot from a bundle that comes with Gaitway."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request

import pytest
from gaitway_files.yaml_files import read_yaml
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.bundle.verdict import VERDICT_FILE, read_verdict
from gaitway_sim2real.trial.suites import suite_of
from gaitway_tasks.robots import ROBOTS
from tree import ROOT

from gaitway.cli import main, parse
from gaitway.demo import MADE_FILE, bundle_of, shipped

MOST = 1_000_000  # [bytes] of a bundle, half of it the graph with its estimator


@pytest.fixture(autouse=True)
def _nothing_pulled(tmp_path, monkeypatch):
    monkeypatch.setenv("GAITWAY_HOME", str(tmp_path / "home"))


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ours(argv, capsys):
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


def test_anymal_c_is_shipped():
    assert "anymal-c" in shipped()


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_bundle_is_whole_small_and_judged(name):
    """The Go2 ignores small commands, which suite 3.0 judges."""
    bundle = bundle_of(name)
    verify_files(bundle)
    verdict = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")
    contract = Contract.load(bundle)
    robot = contract.robot
    assert verdict["verdict"] == ("FAIL" if name == "go2" else "PASS")
    assert verdict["suite_version"] == suite_of(contract).version
    assert (bundle / "robot_license.txt").read_bytes() == ROBOTS[robot].mjcf.with_name("LICENSE").read_bytes()
    assert sum(path.stat().st_size for path in bundle.iterdir()) < MOST


@pytest.mark.parametrize("name", shipped())
def test_the_commands_that_made_a_shipped_bundle_are_ours(name):
    made = read_yaml(bundle_of(name) / MADE_FILE)
    programs = [command.split() for command in made["commands"]]
    assert [words[:2] for words in programs] == [["gaitway", word] for word in ("train", "export", "validate")]
    for words in programs:
        parse(words[1:])
    assert made["steps"] > 100_000 and made["cpu_seconds"] > 10


def test_it_says_how_its_bundle_was_made(capsys):
    code, out, _ = ours(["demo", "--about"], capsys)
    assert code == 0
    assert "gaitway train velocity-flat-anymal-c-blind" in out
    assert "verdict PASS of validation suite" in out


def test_a_robot_without_a_bundle_is_named(capsys):
    code, _, err = ours(["demo", "spot"], capsys)
    assert code == 2
    assert "'spot'" in err and "choose anymal-c" in err and "gaitway pull" in err
    assert len(err.splitlines()) == 1


def test_a_port_in_use_is_refused(port, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        code, _, err = ours(["demo", "--port", port, "--no-browser"], capsys)
    assert code == 2
    assert f"port {port} on 127.0.0.1 is in use: choose another with --port" in err


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr("gaitway.catalogue.Entry.missing", lambda self: ["viser"])
    code, _, err = ours(["demo"], capsys)
    assert code == 2
    assert "demo needs viser, not installed here: pip install 'gaitway[mujoco]'" in err


def test_a_page_answers_without_torch_and_ctrl_c_ends_it(port):
    code = (
        "import sys; from gaitway.cli import main\n"
        f"code = main(['demo', '--port', '{port}', '--no-browser'])\n"
        "sys.exit(3 if 'torch' in sys.modules else code)"
    )
    hidden = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    demo = subprocess.Popen(
        [sys.executable, "-uc", code],
        env=os.environ | hidden,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as jobs in the background begin
    )
    assert demo.stdout
    lines = [demo.stdout.readline() for _ in range(2)]
    assert f"ssh -L {port}:localhost:{port}" in lines[0]
    address = re.search(r"open (\S+) \(Ctrl-C ends\)\n", lines[1])[1]
    assert lines[1].startswith("velocity-flat-anymal-c-blind: ")
    assert address.startswith(f"http://127.0.0.1:{port}/?token=")
    with urllib.request.urlopen(address) as answer:
        assert answer.status == 200
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=30)
    assert (demo.returncode, err) == (0, "")
    assert "Traceback" not in out


def test_the_wheel_takes_the_bundles_along():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "gaitway" in built["packages"] and "exclude" not in built
