"""``gaitway run --case`` and ``gaitway validate --falsify``: exit codes, refusals, and what a search leaves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.falsify.case import Case
from gaitway_sim2real.population.twin import Twin
from gaitway_sim2real.population.walk import Blow
from stand_bundle import make_stand_bundle

from gaitway import falsifying
from gaitway.cli import main


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand") / "bundle")


@pytest.fixture(scope="module")
def case(bundle) -> Case:
    """A blow that topples whatever stands."""
    contract = Contract.load(bundle)
    return Case(
        task="stand", robot=contract.robot, joint_names=contract.joint_names, policy_sha256="", contract_sha256="",
        seconds=3.0, seed=0, command=((0.0, 0.0, 0.0, 0.0),), blows=(Blow(at=1.0, impulse=(0.0, 4.0)),), twin=Twin(),
        size=1.0, shares={"blow 1": 1.0}, says="falls over", cause="base tilt", falls_after=1.4, falls=8,
    )  # fmt: skip


def test_a_case_is_repeated(bundle, case, tmp_path, capsys):
    hard, none = case.save(tmp_path / "hard.json"), dataclasses.replace(case, blows=()).save(tmp_path / "none.json")
    assert main(["run", str(bundle), "--sim", "--case", str(hard)]) == 1
    assert "FALLS: 8 of 8 robots fell, after 1." in (said := capsys.readouterr().out) and "falls over" in said
    assert main(["run", str(bundle), "--case", str(none)]) == 0
    assert "OK: none of 8 robots fell" in capsys.readouterr().out


def test_a_case_has_its_own_commands(bundle, case, tmp_path, capsys):
    path = case.save(tmp_path / "case.json")
    for option in (["--command", "0,0,0"], ["--seconds", "3"], ["--realtime"]):
        assert main(["run", str(bundle), "--case", str(path), *option]) == 2
        assert f"{option[0]}: a case has its own" in capsys.readouterr().err
    assert main(["run", str(bundle), "--case", str(tmp_path / "nothing.json")]) == 2
    assert "nothing.json: no such file" in capsys.readouterr().err


def test_a_search_on_another_model_or_several_policies_is_refused(bundle, capsys):
    assert main(["validate", str(bundle), "--falsify", "--model", str(bundle / "robot.xml")]) == 2
    assert "--falsify searches on the bundle's own robot" in capsys.readouterr().err
    assert main(["validate", str(bundle), "--falsify", "--checkpoint", "all"]) == 2
    assert "--falsify is for one checkpoint" in capsys.readouterr().err
    assert main(["validate", str(bundle), "--falsify", "0"]) == 2
    assert "must be above 0" in capsys.readouterr().err


def test_a_search_replaces_the_cases_of_the_one_before(bundle, case, tmp_path):
    (tmp_path / "falsified").mkdir()
    case.save(tmp_path / "falsified" / "case-1.json")
    lines: list[str] = []
    section = falsifying.falsified(bundle, tmp_path, 1e-9, 0, False, None, lines, None)
    assert lines == ["no failing case found in 0 runs"]
    assert not list((tmp_path / "falsified").glob("case-*")) and "No failing case found" in section.html()
