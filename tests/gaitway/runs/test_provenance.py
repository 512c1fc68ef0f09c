"""Provenance of a result."""

import importlib
import json

import pytest

from gaitway.runs import provenance

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("told", "commit"),
    [
        ({"url": "https://example.org/g.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, COMMIT),
        ({"url": "file:///home/me/gaitway", "dir_info": {"editable": True}}, None),
        (None, None),
    ],
    ids=["from a repository", "from a folder", "from an index"],
)
def test_the_commit_that_pip_installed_from_is_known(told, commit, tmp_path, monkeypatch):
    """As PEP 610 has it: pip writes direct_url.json beside the metadata of what it installs."""
    info = tmp_path / "gaitway-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: gaitway\nVersion: 0.1.0\n")
    if told is not None:
        (info / "direct_url.json").write_text(json.dumps(told))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert provenance.installed_commit() == commit
