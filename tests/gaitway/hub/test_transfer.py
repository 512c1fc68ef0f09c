"""Bundles pushed and pulled through folders and a file server: what arrives is what left, or nothing arrives."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gaitway_onboard.bundle.contract import Contract, sha256
from gaitway_onboard.bundle.published import INDEX_BYTES, NEEDED, TOTAL_BYTES
from gaitway_onboard.bundle.signature import load_private_key, sign_bundle
from gaitway_sim2real.imports.bundle import DESCRIPTION_FILE
from published_bundle import folder_handler, judge, make_bundle, reindex, reseal, serving

from gaitway.cli import main
from gaitway.hub.library import library, pulled
from gaitway.hub.places import open_place


def ours(*argv: object, capsys: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(source: Path, out: Path, capsys: Any) -> str:
    """The message with which a pull is refused, which leaves nothing."""
    beside = sorted(os.listdir(out.parent)) if out.parent.exists() else []
    code, _, err = ours("pull", f"file:{source}", "--out", out, capsys=capsys)
    assert (code, len(err.splitlines())) == (2, 1), err
    assert sorted(os.listdir(out.parent)) == beside
    assert ".partial" not in err
    return err


def test_a_folder_and_a_file_server_bring_the_same(bundle, tmp_path, home, capsys):
    (bundle / "LICENSE").write_text("as you like\n")
    (bundle / "walk.webm").write_bytes(b"a film")
    code, out, _ = ours("push", bundle, f"file:{tmp_path}/srv/stand", capsys=capsys)
    assert code == 0 and f"gaitway pull file:{tmp_path}/srv/stand" in out
    published = contents(tmp_path / "srv/stand")
    assert published.keys() == contents(bundle).keys() | {"README.md", "published.json"}
    assert {**published, **contents(bundle)} == published
    assert ours("pull", f"file:{tmp_path}/srv/stand", "--out", tmp_path / "one", capsys=capsys)[0] == 0
    with serving(folder_handler(tmp_path / "srv")) as address:
        code, out, _ = ours("pull", f"{address}/stand", capsys=capsys)
    assert code == 0 and "verdict: PASS of validation suite 2.1" in out and "signed: by nobody" in out
    assert contents(tmp_path / "one") == published
    ((name, folder),) = pulled().items()
    group = address.removeprefix("http://").replace(":", "_")
    assert re.fullmatch(rf"{re.escape(group)}\+[0-9a-f]{{8}}/stand", name)
    assert contents(folder) == published and folder.is_relative_to(home)
    assert ours("push", folder, f"file:{tmp_path}/again", capsys=capsys)[0] == 0  # what was pulled can be passed on
    assert {**contents(tmp_path / "again"), **contents(bundle)} == contents(tmp_path / "again")


def test_the_page_says_robot_verdict_gait_and_how_to_run_it(shelf):
    page = (shelf / "stand/README.md").read_text()
    head = page.split("---\n")[1]
    assert 'library_name: "gaitway"' in head and 'license: "unknown"' in head and "anymal-c" in head
    assert "**PASS** of validation suite 2.1: 2 of 2 required scenarios passed." in page
    assert "| Gait: slow | 1.83 | 0.235 | 0.0779 | 0.0438 | yes |" in page
    assert f"gaitway pull file:{shelf.parent}" not in page  # where it was published first
    assert "gaitway pull file:/" in page and "gaitway play walk" in page


@pytest.mark.parametrize(
    ("licence", "head"),
    [
        ("BSD-3-Clause", 'license: "bsd-3-clause"\n'),
        ("ours: ask", 'license: "other"\nlicense_name: "ours: ask"\n'),
        ("not stated", 'license: "unknown"\n'),
    ],
)
def test_an_imported_policy_keeps_source_licence_and_description(bundle, tmp_path, capsys, licence, head):
    (bundle / DESCRIPTION_FILE).write_text("family: x\n")
    contract = Contract.load(bundle)
    files = {**contract.files, DESCRIPTION_FILE: sha256((bundle / DESCRIPTION_FILE).read_bytes())}
    origin = {"family": "x", "source": "https://example.org/<b>walk", "licence": licence}
    dataclasses.replace(contract, origin=origin, files=files).save(bundle)
    judge(bundle)
    assert ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)[0] == 0
    assert (tmp_path / "x" / DESCRIPTION_FILE).read_text() == "family: x\n"
    page = (tmp_path / "x/README.md").read_text()
    assert head in page and r"Source: https://example.org/\<b\>walk." in page


def test_the_licence_of_the_robots_model_travels_and_is_not_taken_for_the_policys(bundle, tmp_path, capsys):
    (bundle / "robot_license.txt").write_text("Copyright 2020, the maker\n")
    assert ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)[0] == 0
    assert (tmp_path / "x/robot_license.txt").read_text() == "Copyright 2020, the maker\n"
    page = (tmp_path / "x/README.md").read_text()
    assert 'license: "unknown"' in page and "model: [robot_license.txt](robot_license.txt)" in page


def test_a_verdict_is_there_or_is_waived(bundle, tmp_path, capsys):
    (bundle / "validation.json").unlink()
    code, _, err = ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)
    assert code == 2 and "--without-verdict" in err and not (tmp_path / "x").exists()
    assert ours("push", bundle, f"file:{tmp_path}/x", "--without-verdict", capsys=capsys)[0] == 0
    assert "nobody has validated" in (tmp_path / "x/README.md").read_text()
    code, out, _ = ours("pull", f"file:{tmp_path}/x", "--out", tmp_path / "y", capsys=capsys)
    assert code == 0 and "verdict: none" in out


def test_a_fail_is_published_as_what_it_is(bundle, tmp_path, capsys):
    judge(bundle, "FAIL")
    code, out, _ = ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)
    assert code == 0 and "verdict: FAIL" in out
    page = (tmp_path / "x/README.md").read_text()
    assert "**FAIL**" in page and "1 of 2 required" in page and "Failed: Gait: slow." in page


def test_a_signature_travels_and_is_proven(bundle, tmp_path, capsys):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    publics = []
    for name in ("alice", "mallory"):
        key = Ed25519PrivateKey.generate()
        (tmp_path / name).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        publics.append(tmp_path / f"{name}.pub")
        publics[-1].write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    _, fingerprint = sign_bundle(bundle, load_private_key(tmp_path / "alice"))
    assert ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)[0] == 0
    source, out = f"file:{tmp_path}/x", tmp_path / "y"
    code, told, _ = ours("pull", source, "--out", out, capsys=capsys)
    assert code == 0 and f"signed: by {fingerprint}, as it says" in told
    code, told, _ = ours("pull", source, "--out", out, "--trust", publics[0], capsys=capsys)
    assert code == 0 and f"signed: by {fingerprint}\n" in told
    code, _, err = ours("pull", source, "--out", tmp_path / "z", "--trust", publics[1], capsys=capsys)
    assert code == 2 and fingerprint in err and not (tmp_path / "z").exists()
    (tmp_path / "x/LICENSE").write_text("mine now")
    reindex(tmp_path / "x")
    assert "LICENSE is not among the files that were signed" in refused(tmp_path / "x", tmp_path / "z", capsys)


def test_an_unsigned_bundle_is_refused_where_a_signature_is_asked_for(shelf, tmp_path, capsys):
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4 someone@desk\n"
    (tmp_path / "key.pub").write_text(public)
    code, _, err = ours("pull", f"file:{shelf}/stand", "--trust", tmp_path / "key.pub", capsys=capsys)
    assert code == 2 and "signature.json" in err and pulled() == {}


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


STRANGE = {
    "policy.pkl": pickle.dumps(Bomb()),
    "model.pt": b"PK",
    "setup.py": b"print()",
    "weights.data": b"0" * 64,
    ".bashrc": b"echo",
    "robot.obj": b"v",
    "film.mp4.exe": b"MZ",
    "Contract.yaml": b"{}",
}


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("name", STRANGE)
def test_what_does_not_belong_is_refused_by_name(shelf, tmp_path, capsys, monkeypatch, name):
    """Strange files are refused in both directions, listed in the index or not."""
    monkeypatch.chdir(tmp_path)
    stand = shelf / "stand"
    (stand / name).write_bytes(STRANGE[name])
    assert repr(name) in refused(stand, tmp_path / "out", capsys)
    code, _, err = ours("push", stand, f"file:{tmp_path}/x", capsys=capsys)
    assert code == 2 and repr(name) in err and not (tmp_path / "x").exists()
    _list(stand, name, STRANGE[name])
    with serving(folder_handler(shelf)) as address:
        code, _, err = ours("pull", f"{address}/stand", "--out", tmp_path / "out", capsys=capsys)
    assert code == 2 and repr(name) in err and not (tmp_path / "out").exists()
    assert not (tmp_path / "exploded").exists()


def _list(folder: Path, name: str, content: bytes = b"x", **changes: object) -> None:
    """Have the index of ``folder`` list one more file."""
    from gaitway_onboard.bundle.contract import sha256

    index = json.loads((folder / "published.json").read_text())
    index["files"][name] = {"sha256": sha256(content), "bytes": len(content)} | changes
    (folder / "published.json").write_text(json.dumps(index))


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("name", ["../evil.gif", "/etc/passwd", "a/walk.gif", "..", "", "walk.gif\n", "published.json"])
def test_names_that_lead_elsewhere_are_refused(shelf, tmp_path, capsys, name):
    _list(shelf / "stand", name)
    assert repr(name) in refused(shelf / "stand", tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_plain_files_travel(shelf, tmp_path, capsys, kind):
    place = shelf / "stand/walk.gif"
    {"link": lambda: place.symlink_to("/etc/passwd"), "folder": place.mkdir, "pipe": lambda: os.mkfifo(place)}[kind]()
    assert "'walk.gif' is" in refused(shelf / "stand", tmp_path / "out", capsys)
    code, _, err = ours("push", shelf / "stand", f"file:{tmp_path}/x", capsys=capsys)
    assert code == 2 and "walk.gif" in err and not (tmp_path / "x").exists()


INDICES = {
    "not JSON": b"{",
    "a list": b"[]",
    "of another version": b'{"gaitway_published": 2, "files": {}}',
    "empty": b'{"gaitway_published": 1, "files": {}}',
    "too large": b" " * (INDEX_BYTES + 1),
    "too deep": b"[" * 5000,
}


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("content", INDICES.values(), ids=INDICES)
def test_an_index_that_is_none(shelf, tmp_path, capsys, content):
    (shelf / "stand/published.json").write_bytes(content)
    refused(shelf / "stand", tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(
    "changes",
    [{"bytes": -1}, {"bytes": True}, {"bytes": 1.5}, {"bytes": 10**12}, {"sha256": "0" * 63}, {"sha256": None}],
)
def test_sizes_and_hashes_that_are_none(shelf, tmp_path, capsys, changes):
    _list(shelf / "stand", "README.md", **changes)
    assert "README.md" in refused(shelf / "stand", tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_the_whole_has_a_limit(shelf, tmp_path, capsys):
    for name in ("policy.onnx", "golden.npz", "walk.gif"):
        _list(shelf / "stand", name, bytes=TOTAL_BYTES // 3 if name != "walk.gif" else 64 * 2**20)
    for name in ("a.gif", "b.gif"):
        _list(shelf / "stand", name, bytes=64 * 2**20)
    assert "at most 512 MiB" in refused(shelf / "stand", tmp_path / "out", capsys)
    _list(shelf / "stand", "c.gif")
    assert "4 films" in refused(shelf / "stand", tmp_path / "out", capsys)


@pytest.mark.parametrize("name", NEEDED)
def test_an_incomplete_bundle(shelf, tmp_path, capsys, name):
    (shelf / "stand" / name).unlink()
    assert name in refused(shelf / "stand", tmp_path / "out", capsys)
    index = json.loads((shelf / "stand/published.json").read_text())
    del index["files"][name]
    (shelf / "stand/published.json").write_text(json.dumps(index))
    assert f"{name} is missing" in refused(shelf / "stand", tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize("name", ["policy.onnx", "validation.json", "README.md"])
def test_a_file_that_is_not_the_one_of_the_index(shelf, tmp_path, capsys, name):
    path = shelf / "stand" / name
    content = path.read_bytes()
    for changed in (content[:-1], bytes([content[0] ^ 1]) + content[1:]):
        path.write_bytes(changed)
        assert f"{name} is not the file that its published.json names" in refused(path.parent, tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_a_verdict_about_another_policy_or_contract(shelf, tmp_path, capsys):
    stand = shelf / "stand"
    for changes in ({"policy_sha256": "0" * 64}, {"contract_sha256": "0" * 64}):
        judge(stand, **changes)
        reindex(stand)
        assert "validation.json is about another" in refused(stand, tmp_path / "out", capsys)
        code, _, err = ours("push", stand, f"file:{tmp_path}/x", capsys=capsys)
        assert code == 2 and "validation.json is about another" in err
    judge(stand)
    (stand / "validation.json").write_text((stand / "validation.json").read_text().replace("2.1", "9.9"))
    reindex(stand)
    assert "validation.json has been edited" in refused(stand, tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_a_graph_that_computes_something_else(shelf, tmp_path, capsys):
    stand = shelf / "stand"
    golden = dict(np.load(stand / "golden.npz"))
    golden["action"] = golden["action"] + 1.0
    np.savez(stand / "golden.npz", **golden)
    reseal(stand)
    assert "does not reproduce golden.npz" in refused(stand, tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_a_graph_with_weights_elsewhere(shelf, tmp_path, capsys):
    stand = shelf / "stand"
    graph = onnx.load(stand / "policy.onnx")
    for tensor in graph.graph.initializer:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")
        tensor.ClearField("raw_data")
    (stand / "policy.onnx").write_bytes(graph.SerializeToString())
    reseal(stand)
    assert "weights in another file" in refused(stand, tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_a_robot_that_includes_files(shelf, tmp_path, capsys):
    stand = shelf / "stand"
    (stand / "robot.xml").write_text('<mujoco><include file="/etc/passwd"/></mujoco>')
    reseal(stand)
    assert "robot.xml" in refused(stand, tmp_path / "out", capsys)


@pytest.mark.hostile("untrusted files")
def test_a_contract_that_names_what_does_not_travel(shelf, tmp_path, capsys):
    stand = shelf / "stand"
    contract = Contract.load(stand)
    dataclasses.replace(contract, files={**contract.files, "weights.bin": "0" * 64}).save(stand)
    reindex(stand)
    assert "'weights.bin'" in refused(stand, tmp_path / "out", capsys)


def test_a_pull_replaces_a_bundle_and_nothing_else(shelf, tmp_path, capsys):
    out = tmp_path / "out"
    make_bundle(out, verdict=None)
    assert ours("pull", f"file:{shelf}/stand", "--out", out, capsys=capsys)[0] == 0
    assert contents(out) == contents(shelf / "stand")
    (out / "notes.txt").write_text("mine")
    for path, why in ((out, "'notes.txt'"), (tmp_path, "choose another folder"), (out / "notes.txt", "is no folder")):
        code, _, err = ours("pull", f"file:{shelf}/stand", "--out", path, capsys=capsys)
        assert code == 2 and why in err
    assert (out / "notes.txt").read_text() == "mine"
    (tmp_path / "link").symlink_to(out)
    assert "is a link" in refused(shelf / "stand", tmp_path / "link", capsys)
    code, _, err = ours("push", shelf / "stand", f"file:{out}", capsys=capsys)
    assert code == 2 and "'notes.txt'" in err


def test_a_refused_pull_leaves_the_bundle_that_was_there(shelf, tmp_path, capsys):
    out = tmp_path / "out"
    assert ours("pull", f"file:{shelf}/stand", "--out", out, capsys=capsys)[0] == 0
    before = contents(out)
    (shelf / "stand/policy.onnx").write_bytes(b"another")
    refused(shelf / "stand", out, capsys)
    assert contents(out) == before


def test_an_edited_bundle_is_not_pushed(bundle, tmp_path, capsys):
    (bundle / "policy.onnx").write_bytes((bundle / "policy.onnx").read_bytes()[:-1])
    code, _, err = ours("push", bundle, f"file:{tmp_path}/x", capsys=capsys)
    assert code == 2 and f"{bundle}/policy.onnx is truncated or edited" in err and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("walk", "file:path"),
        ("ftp://example.org/walk", "https://"),
        ("http://example.org/walk", "use https:"),
        ("https://user:word@example.org/walk", "https://example.org/walk"),
        ("https://example.org/walk?x=1", "https://example.org/walk"),
        ("file:walk", "no such folder"),
        ("file:/", "/srv/bundles/walk"),
        ("file:..", "/srv/bundles/walk"),
        ("file:/nowhere/walk", "no such folder"),
        ("hf:walk", "hf:OWNER/NAME"),
        ("hf:../walk", "hf:OWNER/NAME"),
        ("hf:a/b/c", "hf:OWNER/NAME"),
    ],
)
def test_places_that_are_none(source, why, capsys):
    code, _, err = ours("pull", source, capsys=capsys)
    assert code == 2 and why in err


def test_a_file_server_takes_nothing(bundle, capsys):
    code, _, err = ours("push", bundle, "https://example.org/walk", capsys=capsys)
    assert code == 2 and "file:path" in err
    code, _, err = ours("push", bundle, "file:/tmp/x", "--private", capsys=capsys)
    assert code == 2 and "--private" in err


def test_demo_lists_and_knows_what_was_pulled(shelf, home, capsys):
    shutil.copytree(shelf / "stand", shelf / "broken")
    for name in ("stand", "broken"):
        assert ours("pull", f"file:{shelf}/{name}", capsys=capsys)[0] == 0
    (local,) = home.iterdir()
    (local / "broken/policy.onnx").write_bytes(b"x")
    code, out, _ = ours("demo", "--list", capsys=capsys)
    rows = {words[0]: words for line in out.splitlines() if (words := line.replace("│", " ").split())}
    assert code == 0 and rows["anymal-c"][1:3] == ["anymal-c", "PASS"] and str(home) in out.replace("\n", "")
    assert {f"{local.name}/stand", f"{local.name}/broken"} <= rows.keys() and "damaged" in out
    for name in ("stand", f"{local.name}/stand"):
        code, out, _ = ours("demo", name, "--about", capsys=capsys)
        assert code == 0 and "verdict PASS" in out and str(local / "stand") in out
    assert ours("demo", "broken", "--about", capsys=capsys)[0] == 2
    shutil.copytree(local, home / "other")
    code, _, err = ours("demo", "stand", capsys=capsys)
    assert code == 2 and f"{local.name}/stand or other/stand" in err


def test_places_that_differ_have_folders_of_their_own(tmp_path):
    places = [
        *("hf:local/walk", "hf:local/walk@v1", "hf:local/walk@v/1", "hf:example.org/walk"),
        *(f"file:{tmp_path}/{name}" for name in ("walk", "shelf/walk", "walk 2", "walk_2", "walk%203", "walk%25203")),
        *(
            "https://local/walk",
            "https://example.org/walk",
            "https://example.org/b/walk",
            "https://example.org:444/walk",
        ),
        *(
            "http://localhost/walk",
            "https://localhost/walk",
            "https://example.org/walk~2",
            "https://example.org/walk_2",
        ),
    ]
    folders = {(place.group, place.name) for place in map(open_place, places)}
    assert len(folders) == len(places)
    assert all(part == Path(part).name for folder in folders for part in folder)


def test_a_link_to_a_folder_is_the_same_place(tmp_path):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shelf")
    one, other = (open_place(f"file:{tmp_path}/{name}/walk") for name in ("shelf", "link"))
    assert (one.group, one.name) == (other.group, other.name)


def test_a_pulled_bundle_is_shown(shelf, capsys):
    import socket

    assert ours("pull", f"file:{shelf}/stand", capsys=capsys)[0] == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code, out, _ = ours("demo", "stand", "--port", port, "--seconds", "0.1", "--no-browser", capsys=capsys)
    assert code == 0 and f"open http://127.0.0.1:{port}" in out


def test_the_library_is_where_the_user_says(tmp_path, monkeypatch):
    assert library() == tmp_path / "home/bundles"
    monkeypatch.delenv("GAITWAY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert library() == tmp_path / "data/gaitway/bundles"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library() == tmp_path / ".local/share/gaitway/bundles"
