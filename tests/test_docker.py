"""Images are not built here; what they copy must be there, and what they install must be extras of ours."""

import re

import pytest
from tree import ROOT

FILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


def test_there_is_one_for_each_use():
    uses = ("cpu", "isaaclab-2.3", "isaaclab-3.0", "language", "robot")
    assert {f"{use}.Dockerfile" for use in uses} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_copied_exists(path):
    copies = re.findall(r"^COPY (?!--from)(.+)$", path.read_text("utf-8"), re.MULTILINE)
    sources = [source for line in copies for source in line.split()[:-1]]
    assert "pyproject.toml" in sources and "tasks" in sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_extras_it_installs_exist(path):
    import tomllib

    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    asked = re.findall(r"(?:'\.\[|ARG EXTRAS=\")([a-z0-9,-]+)", path.read_text("utf-8"))
    assert asked and set(",".join(asked).split(",")) <= set(known)
