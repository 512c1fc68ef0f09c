"""The whole path: bundle in, verdict and page out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.camera import RenderingError
from gaitway_sim2real.trial import Verdict, schedule, validate_bundle
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.video import record_video
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.small_commands import SMALL_KINDS
from stand_bundle import make_stand_bundle

ROBOTS = {"command_grid": 114, "standing": 272}
SECONDS = {
    "standing_pushed": 6.5,
    "standing": 2.1,
    "standing_slope": 2.1,
    "command_grid": 3.1,
    "straight": 3.1,
    "stops": 5.1,
}
SHORT = tuple(
    replace(s, seconds=SECONDS.get(s.name, 4.0 if s.push or s.gait else 1.0), envs=ROBOTS.get(s.name, 4))
    for s in SCENARIOS
)


FEW = tuple(
    replace(s, envs=12 if s.name == "command_grid" else 2, seconds=0.5 if s.seconds == 1.0 else s.seconds)
    for s in SHORT
)
"""Too few robots that stand for a PASS."""


def pick(*names: str, of: tuple[Scenario, ...] = SHORT) -> tuple[Scenario, ...]:
    return tuple(s for s in of if s.name in names)


@pytest.fixture(scope="module", autouse=True)
def no_repetitions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "MOST_REPETITIONS", 1)
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def reported(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, Path]:
    """A verdict on three scenarios, and the folder with its page."""
    folder = tmp_path_factory.mktemp("reported") / "deep" / "report"
    chosen = pick("standing", "command_grid", "friction_0.3")
    return validate_bundle(bundle, scenarios=chosen, report_dir=folder, video=False, processes=1), folder


def test_standing_still_is_not_walking(reported: tuple[Verdict, Path]) -> None:
    verdict, _ = reported
    passed = {result.name: result.passed for result in verdict.scenarios}
    assert passed["standing"] and not passed["command_grid"]
    assert not verdict.passed
    (worst, check), *_ = verdict.failures()
    assert (worst.name, check.metric.name) == ("command_grid", "lin_vel_bias")
    assert check.value > 0.5  # the mean length of the grid's commands


@pytest.mark.slow
def test_every_scenario_runs_and_names_what_it_measured(bundle: Path) -> None:
    seen: list[str] = []
    verdict = validate_bundle(
        bundle, scenarios=FEW, processes=1, progress=lambda done, total, title, left: seen.append(title)
    )
    left_out = {row.what for row in verdict.left_out if row.kind == "scenario"}
    run = [s for s in SCENARIOS if s.title not in left_out]
    assert len(left_out) == 1 and [result.name for result in verdict.scenarios] == [s.name for s in run]
    assert sorted(seen[1:-1]) == sorted(s.title for s in run) and seen[-1] == "Done"
    for result in verdict.scenarios:
        if result.name not in SMALL_KINDS:  # which need more seconds than these
            assert all(check.value == check.value for check in result.checks), result.name  # no NaN under a limit


def test_a_seed_is_a_verdict_with_any_number_of_processes(bundle: Path, tmp_path: Path) -> None:
    chosen = pick("everything", "pushes", "nominal", "gait_turning")
    first, again, other = (
        validate_bundle(bundle, scenarios=chosen, seed=s, processes=t) for s, t in ((1, 1), (1, 2), (2, 1))
    )
    files = [verdict.save(tmp_path / f"{k}.json").read_bytes() for k, verdict in enumerate((first, again))]
    assert files[0] == files[1]
    assert first.scenarios[0].metrics != other.scenarios[0].metrics


def test_report_is_complete_and_self_contained(bundle: Path, reported: tuple[Verdict, Path]) -> None:
    verdict, folder = reported
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "report.html", "validation.json"]
    assert Verdict.load(folder / "validation.json", policy=bundle / "policy.onnx").to_dict() == verdict.to_dict()
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)|@import|url\(|https?://""", page)
    assert page.count("<svg") == page.count("</svg>") == len([*(folder / "figures").iterdir()]) == 16
    for text in ("FAIL", "Command grid", "Standing still", "Friction 0.3", verdict.policy_sha256, "gaitway validate"):
        assert text in page


def test_a_policy_without_commands_has_a_verdict_and_a_page(tmp_path: Path) -> None:
    bundle, folder = make_stand_bundle(tmp_path / "still", speed=0.0), tmp_path / "report"
    chosen = pick("standing", "command_grid", "friction_0.4", "gait_turning", "stops", of=FEW)
    verdict = validate_bundle(bundle, scenarios=chosen, report_dir=folder, video=False, processes=1)
    assert [result.name for result in verdict.scenarios] == ["standing", "friction_0.4"]
    page = (folder / "report.html").read_text()
    for text in ("Left out", "Command grid", "the policy takes no velocity command", "do not reach 0.2 turning"):
        assert text in page


def test_video_shows_the_robot(bundle: Path, tmp_path: Path) -> None:
    import imageio.v3 as iio

    try:
        path = record_video(bundle, tmp_path / "walk.mp4", seconds=0.2)
    except RenderingError as error:
        pytest.skip(str(error))
    frames = iio.imread(path)
    assert frames.shape == (5, 480, 848, 3)
    red = (frames[2, ..., 0] > 90) & (frames[2, ..., 1] < 60) & (frames[2, ..., 2] < 60)
    assert 500 < red.sum() < 40000  # the robot's shells
    assert [p.name for p in tmp_path.iterdir()] == ["walk.mp4"]


def test_validation_needs_neither_torch_nor_matplotlib(bundle: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom gaitway_sim2real.trial import validate_bundle\n"
        "import gaitway_sim2real.trial.report, gaitway_sim2real.trial.video\n"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(p for p in sys.path if p)})


def test_json_is_plain_and_lossless(bundle: Path, reported: tuple[Verdict, Path], tmp_path: Path) -> None:
    verdict, _ = reported
    data = json.loads(verdict.save(tmp_path / "v.json").read_text())
    (standing,) = [result for result in verdict.scenarios if result.name == "standing"]
    metrics = {scenario["name"]: scenario["metrics"] for scenario in data["scenarios"]}
    assert metrics["standing"]["drift"] == standing.metrics["drift"] > 0.0
    assert data["policy_sha256"] == Contract.load(bundle).files["policy.onnx"]
    assert data["suite_version"].endswith("(part)")
