"""Files of a release agree with the code."""

import re
import tomllib

import yaml
from tree import ROOT

import gaitway

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(path: str) -> dict:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_version_is_the_same_everywhere():
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None and newest[1] == gaitway.__version__
    citation = read("CITATION.cff")
    assert citation["version"] == gaitway.__version__ and citation["license"] == PROJECT["license"]
    assert set(citation) >= {"cff-version", "message", "title", "authors"}


def test_ci_runs_every_check_with_every_python():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    known = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)]
    assert jobs["checks"]["strategy"]["matrix"]["python"] == known
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {".ci/run", "make release-check", "make site"} <= set(runs)


def test_hooks_run_what_make_lint_runs():
    (local,) = read(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].split(" --force")[0] for hook in local["hooks"]]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert lint is not None
    asked = [line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in lint[1].splitlines()]
    assert entries == asked


def test_forms_ask_for_what_a_report_needs():
    forms = [read(f".github/ISSUE_TEMPLATE/{name}.yml") for name in ("bug", "feature")]
    for form in forms:
        fields = [part for part in form["body"] if part["type"] != "markdown"]
        assert form["name"] and form["description"] and fields
        assert len({part["id"] for part in fields}) == len(fields)
    asked = "".join(part["attributes"].get("description", "") for part in forms[0]["body"])
    assert "`gaitway --version`" in asked and "`gaitway doctor`" in asked
