"""``gaitway deploy``: over loopback to a twin, and what is refused before anything is sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.reading import one_reading
from gaitway_onboard.control.loop import LoopReport
from gaitway_onboard.interface import Health, Remote
from gaitway_sim2real.hardware import hardware_of
from gaitway_tasks.robots import GO2 as GO2_ROBOT
from stand_bundle import make_stand_bundle

from gaitway.cli import main
from gaitway.commands import deploy

pytest.importorskip("cyclonedds")

from gaitway_onboard.flight.opening import open_flight

GO2 = ["--robot", "unitree-go2", "--interface", "lo"]
PATIENT = [
    "--i-know",
    *(
        f"--limit={name}"
        for name in (
            "max_state_age=0.5",
            "max_stall=1",
            "max_overruns=2000",
            "max_policy_overruns=50",
            "max_silence=0.5",
        )
    ),
]
"""A busy machine is no fault here, as far as limits may be loosened."""


def refused(capsys: Any, *words: str) -> str:
    assert main(["deploy", *words]) == 2
    return str(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*GO2], "give a bundle, or --excite without one"),
        (["b", "--excite", "30", *GO2], "give a bundle, or --excite without one"),
        (["b", "--seconds", "0", *GO2], "--seconds 0: must be above 0"),
        (["--excite", "30", "--command", "0.5,0,0", *GO2], "--excite has its own motion"),
        (["b", "--limit", "max_tild=1", *GO2], "write NAME=VALUE with one of max_state_age"),
        (
            ["--excite", "30", "--yes", "--i-know", "--limit", "max_state_age=1000", *GO2],
            "safety limit max_state_age = 1000: give at most 0.5 s, beyond which it would protect nothing",
        ),
        (
            ["--excite", "30", "--yes", "--limit", "max_tilt=1.2", *GO2],
            "max_tilt is loosened to 1.2 rad, the default is 1: leave --limit out, or take the risk with --i-know",
        ),
        (["b", *GO2], "no bundle at b: no such folder"),
        (["b", "--robot", "spot", "--interface", "lo"], "unknown robot 'spot': known are unitree-g"),
        (["b", "--robot", "ros2", "--interface", "lo"], "--config robot.yaml"),
        (["--excite", "30", "--robot", "unitree-go2", "--interface", "eth99", "--yes"], "no network interface 'eth99'"),
        (["--excite", "30", *GO2], "--auto --yes stands up and starts"),
        (["--excite", "5", "--yes", *GO2], "give it at least 10 s"),
        (["--excite", "30", "--yes", "--log", "no.txt", *GO2], "no.txt"),
        (["--excite", "30", "--yes", *GO2], "no program offers rt/lowstate"),
    ],
)
def test_refused_before_anything_is_sent(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dds_domain: int, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    assert message in refused(capsys, *words, "--domain", str(dds_domain))


def test_doubts_name_the_bundle_that_was_given(tmp_path: Path) -> None:
    """A private copy is what is checked and run; its path would say nothing to the user."""
    bundle = make_stand_bundle(tmp_path / "mine", GO2_ROBOT, stiffness=60.0, damping=2.0)
    args = Namespace(bundle=bundle, robot="unitree-go2", i_know=True)
    with one_reading(bundle) as copy:
        doubts = deploy._check(args, copy, hardware_of("unitree-go2"))
    for name, command in (("validation.json", "gaitway validate"), ("rehearsal.json", "gaitway rehearse")):
        assert any(f"{bundle / name}: run {command} first" in doubt for doubt in doubts), doubts
    assert str(copy) not in "".join(doubts)


@pytest.mark.hostile("durability")
def test_a_flight_that_is_not_whole_is_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """However well the robot was driven."""
    well = LoopReport(
        ok=True, cause="finished", reason="finished", policy_periods=0, overruns=0, policy_overruns=0, clamped=0,
        compute_us=np.zeros(0),
    )  # fmt: skip

    def drive(args: Any, config: Any, stack: ExitStack) -> Any:
        flight = open_flight(args.log, ("hip",), {"robot": "go2"}, realtime=True)
        stack.callback(flight.close)
        flight.event(1.0, "note", "it flies")
        assert flight.recorder_pid is not None
        if args.auto:
            os.kill(flight.recorder_pid, signal.SIGKILL)
        return well, flight

    monkeypatch.setattr(deploy, "_deploy", drive)
    words = ["deploy", "--excite", "30", *GO2, "--log"]
    assert main([*words, str(tmp_path / "whole.mcap")]) == 0
    assert "NOT ALL" not in capsys.readouterr().out
    assert main([*words, str(tmp_path / "cut.mcap"), "--auto"]) == 1
    said = capsys.readouterr().out
    assert "ENDED: finished\nRECORDING INCOMPLETE: the recorder of flight" in said and "ended with code -9" in said


@pytest.fixture
def twin(dds_domain: int) -> Iterator[subprocess.Popen[str]]:
    pytest.importorskip("mujoco")
    words = [sys.executable, "-m", "gaitway", "twin", "unitree-go2", "--hung", "--domain", str(dds_domain)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and "hung on a stand" in process.stdout.readline()
    yield process
    process.terminate()
    process.wait(120)


@pytest.mark.parametrize(
    ("given", "remote", "said"),
    [
        ({}, Remote(), "'start' on the transmitter; without a terminal, --auto needs none"),
        ({"velocity": "gamepad"}, None, "'start' on the gamepad; without a terminal, --auto needs none"),
        ({}, None, "add --auto"),
    ],
)
def test_without_a_terminal_the_way_to_start_is_named(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], remote: Remote | None, said: str
) -> None:
    """--yes alone once waited for an Enter that could not come, without a word."""
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    args = Namespace(**({"velocity": None, "auto": False} | given))
    seen: Any = Namespace(signals=Namespace(health=Health(remote=remote)))
    if said.startswith("add"):
        with pytest.raises(UserError, match=said):
            deploy._start(args, seen)
        args.auto = True
        deploy._start(args, seen)
    else:
        assert deploy._start(args, seen) == said


@pytest.mark.slow
def test_a_deployment_that_waits_for_the_transmitter_says_so(twin: subprocess.Popen[str], dds_domain: int) -> None:
    words = [sys.executable, "-m", "gaitway", "deploy", "--excite", "30", *GO2, "--domain", str(dds_domain), "--yes"]
    process = subprocess.Popen([*words, *PATIENT], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    waiting = next((line for line in process.stdout if line.startswith("passive")), "it never came to wait")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert "waits for 'start' on the transmitter" in waiting and "--auto" in waiting


@pytest.mark.slow
def test_a_deployment_ends_well_and_leaves_a_flight(
    twin: subprocess.Popen[str], dds_domain: int, tmp_path: Path
) -> None:
    flight = tmp_path / "flight.mcap"
    words = [
        sys.executable,
        "-m",
        "gaitway",
        "deploy",
        "--excite",
        "600",
        *GO2,
        "--domain",
        str(dds_domain),
        "--auto",
        "--yes",
        *PATIENT,
    ]
    deploy = subprocess.Popen(
        [*words, "--log", str(flight)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert deploy.stdout is not None
    said = []
    for line in deploy.stdout:
        said.append(line)
        if line.startswith("policy: the policy drives"):
            break
    time.sleep(1.0)
    deploy.send_signal(signal.SIGTERM)
    rest, _ = deploy.communicate(timeout=300)
    text = "".join(said) + rest
    assert deploy.returncode == 0, text
    assert "WARNING    max_stall is loosened to 1 s, the default is 0.05" in text
    for part in ("states at", "battery 90 %", "passive: ready", "ENDED: stopped by SIGTERM", "500 Hz: period error"):
        assert part in text
    from gaitway_onboard.flight.reading import read_flight

    found = read_flight(flight)
    modes = [event.text for event in found.events if event.kind == "mode"]
    assert modes == ["passive", "ramp", "hold", "policy", "damp"] and found.robot == "go2"
    assert not found.frame.stiffness[-100:].any()
