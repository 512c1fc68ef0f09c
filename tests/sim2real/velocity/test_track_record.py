"""What a PASS says of policies that were calibrated, and that it is what the rows say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gaitway_sim2real.trial import Verdict
from gaitway_sim2real.trial.judging import remarks
from gaitway_velocity.suite import SUITE
from gaitway_velocity.track_record import in_words, track_record

import gaitway

ROOT = Path(gaitway.__file__).parents[1]
DEMO = ROOT / "gaitway/demo/bundles/anymal-c/validation.json"
RECORD = {"suite": "3.0", "policies": 3, "robots": ["anymal-c"], "twins": 300, "low": 0.96, "high": 0.99}


def test_the_record_is_that_of_the_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import calibration_table

    rows = [json.loads(path.read_text()) for path in sorted(calibration_table.ROWS.glob("*.json"))]
    done = [row for row in rows if {"walk", "verdict"} <= row.keys()]
    assert calibration_table.record(done) == json.loads(calibration_table.RECORD.read_text())


def test_few_policies_promise_nothing():
    said = in_words(RECORD)
    assert said.startswith("on unseen robots: 3 policies with a PASS of suite 3.0 (anymal-c) survived on 96 to 99 % of")
    assert said.endswith("300 twins each; too few to promise it of another one")
    assert "few" not in in_words(RECORD | {"policies": 10}) and " 96 % of" in in_words(RECORD | {"high": 0.96})
    assert track_record("0.9") == ""


def test_it_is_said_after_a_whole_pass_only():
    suite, results = replace(SUITE, track_record="a record"), Verdict.load(DEMO).scenarios
    assert remarks(suite, results, True)[-1] == "a record"
    assert "a record" not in remarks(suite, results, False)
    checks = [replace(check, passed=False) for check in results[0].checks]
    assert "a record" not in remarks(suite, (replace(results[0], checks=tuple(checks)), *results[1:]), True)
