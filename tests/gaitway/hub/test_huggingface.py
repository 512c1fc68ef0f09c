"""``hf:`` through the hub's own library, against a server on this machine that answers as the hub does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

from hugging_face_server import Hub
from published_bundle import serving

from gaitway.cli import main

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub() -> type[Hub]:
    return type("One", (Hub,), {"repositories": {}, "commits": {}, "claims": {}, "asked": [], "private": set()})


@pytest.fixture
def typed(hub: type[Hub], tmp_path: Path) -> Iterator[Typed]:
    """Runs a command in a process of its own, since the library reads at import where the hub is."""
    with serving(hub) as address:

        def run(*words: object, token: str = Hub.token) -> subprocess.CompletedProcess[str]:
            kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.endswith("_OFFLINE")}
            ours = {"HF_ENDPOINT": address, "HF_TOKEN": token, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1",
                    "GAITWAY_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}  # fmt: skip
            command = [sys.executable, "-m", "gaitway", *map(str, words)]
            return subprocess.run(command, env={**kept, **ours}, capture_output=True, text=True, timeout=120)

        yield run


def test_a_bundle_goes_to_the_hub_and_comes_back(hub, typed, bundle, tmp_path):
    pushed = typed("push", bundle, "hf:someone/stand", "--private")
    assert pushed.returncode == 0, pushed.stderr
    assert "gaitway pull hf:someone/stand" in pushed.stdout and hub.private == {"someone/stand"}
    files = hub.repositories["someone/stand"]
    assert {path.name: path.read_bytes() for path in bundle.iterdir()}.items() <= files.items()
    assert files.keys() - {path.name for path in bundle.iterdir()} == {"README.md", "published.json", ".gitattributes"}
    assert hub.commits["someone/stand"] == "stand, verdict PASS"
    assert b"gaitway pull hf:someone/stand" in files["README.md"]

    (bundle / "walk.gif").write_bytes(b"a film")
    assert typed("push", bundle, "hf:someone/stand").returncode == 0
    assert "walk.gif" in files
    (bundle / "walk.gif").unlink()
    assert typed("push", bundle, "hf:someone/stand").returncode == 0
    assert "walk.gif" not in files and ".gitattributes" in files  # what is no longer there goes, but for the hub's own

    pulled = typed("pull", "hf:someone/stand")
    assert pulled.returncode == 0, pulled.stderr
    assert "verdict: PASS" in pulled.stdout and "gaitway demo someone/stand" in pulled.stdout
    folder = tmp_path / "home/bundles/someone/stand"
    assert {path.name: path.read_bytes() for path in folder.iterdir()}.items() == {
        name: content for name, content in files.items() if name != ".gitattributes"
    }.items()
    commit = next(line.split("/")[4] for line in hub.asked if line.startswith("GET /someone/stand/resolve/"))
    assert typed("pull", f"hf:someone/stand@{commit}", "--out", tmp_path / "fixed").returncode == 0
    wrong = typed("pull", "hf:someone/stand@v9", "--out", tmp_path / "other")
    assert wrong.returncode == 2 and "v9" in wrong.stderr


@pytest.mark.hostile("untrusted files")
def test_what_does_not_belong_is_refused(hub, typed, bundle, tmp_path):
    assert typed("push", bundle, "hf:someone/stand").returncode == 0
    files, out = hub.repositories["someone/stand"], tmp_path / "out"

    def refused(*words: str) -> None:
        done = typed("pull", "hf:someone/stand", "--out", out)
        assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
        assert not out.exists() and len(done.stderr.splitlines()) == 1

    files["model.pkl"] = b"cos\nsystem\n"
    refused("'model.pkl'")
    del files["model.pkl"]
    files["walk.gif"] = b"not in the index"
    refused("'walk.gif'", "published.json")
    del files["walk.gif"]
    hub.claims["policy.onnx"] = 2**40
    refused("policy.onnx", "1 TiB")
    hub.claims.clear()
    files["policy.onnx"] = files["policy.onnx"][::-1]
    refused("policy.onnx", "published.json")
    del files["published.json"]
    refused("published.json")


def test_a_repository_of_other_things_is_left_alone(hub, typed, bundle):
    hub.repositories["someone/model"] = {"model.safetensors": b"months of work"}
    done = typed("push", bundle, "hf:someone/model")
    assert done.returncode == 2 and "'model.safetensors'" in done.stderr
    assert hub.repositories["someone/model"] == {"model.safetensors": b"months of work"}
    hub.repositories["someone/model"] = {}
    done = typed("push", bundle, "hf:someone/model", "--private")
    assert done.returncode == 2 and "public already" in done.stderr and hub.repositories["someone/model"] == {}


def test_who_may_not_is_told_to_log_in(hub, typed, bundle):
    done = typed("push", bundle, "hf:someone/stand", token="hf_of_another")
    assert done.returncode == 2 and "hf auth login" in done.stderr and len(done.stderr.splitlines()) == 1
    done = typed("pull", "hf:someone/nothing")
    assert done.returncode == 2 and "no repository hf:someone/nothing" in done.stderr
    assert hub.repositories == {}


def test_a_missing_extra_is_named(capsys: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gaitway.catalogue.Entry.missing", lambda self: ["huggingface_hub"])
    assert main(["pull", "hf:someone/stand"]) == 2
    assert "huggingface_hub" in (err := capsys.readouterr().err) and "pip install 'gaitway[hub]'" in err
