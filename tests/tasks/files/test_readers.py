"""Files of strangers: one reader for each kind, which refuses in one sentence what would cost a machine its memory."""

import contextlib
import gc
import io
import json
import os
import pickle
import socket
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from gaitway_files.archives import parse_npz, read_npz
from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.contained import contained
from gaitway_files.graphs import check_graph
from gaitway_files.json_files import parse_json
from gaitway_files.reading import FileError, MissingFile, read_bytes, read_lines
from gaitway_files.torchscript import parse_torchscript
from gaitway_files.yaml_files import parse_yaml

pytestmark = pytest.mark.hostile("untrusted files")

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket", "missing", "large", "name"])
def test_only_files_of_a_sensible_size_are_read(tmp_path, kind):
    path = tmp_path / "golden.npz"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.relpath(path))
        server.close()
    elif kind == "large":
        path.touch()
        os.truncate(path, 2**42)  # nothing, four terabytes of it
    elif kind == "name":
        path = tmp_path / "golden\0.npz"
    with pytest.raises(FileError, match="golden") as error:
        read_bytes(path)
    assert isinstance(error.value, MissingFile) == (kind == "missing")


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:cd\nsize 282870\n"
ANNEX = b"/annex/objects/SHA256E-s282870--cd.onnx\n"


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        (LFS, "git lfs pull"),
        (ANNEX, "git annex get"),
        (b"\n<!DOCTYPE HTML><title>Sign in</title>", "raw file"),
        (b"<html><body>", "raw file"),
        (b"404: Not Found", "download it again"),
        (b"Entry not found", "download it again"),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda path: check_graph(path.read_bytes(), path),
        lambda path: parse_torchscript(path.read_bytes(), path),
        load_checkpoint,
        read_npz,
    ],
    ids=["onnx", "torchscript", "checkpoint", "npz"],
)
def test_what_lies_in_the_place_of_a_binary_is_named_with_its_cure(tmp_path, read, content, cure):
    path = tmp_path / "policy"
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"policy.*{cure}"):
        read(path)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"one")
    real, sizes = os.fstat, []

    def grown(descriptor):
        if sizes:
            path.write_bytes(b"longer")
        sizes.append(real(descriptor))
        return sizes[-1]

    monkeypatch.setattr(os, "fstat", grown)
    with pytest.raises(FileError, match="changed while it was read"):
        read_bytes(path)


def test_rows_are_read_one_by_one_and_no_row_is_endless(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    assert list(read_lines(path)) == [b'{"a": 1}\n', b'{"a": 2']
    path.write_bytes(b"x")
    os.truncate(path, 2**25)
    with pytest.raises(FileError, match="line 1 has more than 16 MiB"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "values, with its aliases written out"),
        ("[" * 3000 + "]" * 3000, "more than 100 levels"),
        ("- " * 3000 + "x", "more than 100 levels"),
        ("a: &a [1, *a]", "stands for what it is part of"),
        ("\n".join(f"a{n}: &a{n} [{'[' * 40}{f'*a{n - 1}' if n else ''}{']' * 40}]" for n in range(9)), "levels deep"),
        ("a: 1\nb: 2\na: 3", "the key 'a' twice"),
        ("n: " + "9" * 5000, "a number of 5000 characters"),
        ("n: 0x" + "f" * 5000, "a number of 5002 characters"),
        ("n: " + ":".join(["1"] * 5000), "a number of 9999 characters"),
        ("n: 99999999999999999999999", "does not fit into 64 bits"),
        ("n: !!python/object/apply:os.system [ls]", "has the tag"),
        ("a: \0", "not YAML"),
        ("{", "cut off"),
        ("? [a]\n: 1", "not YAML"),
        ("2020-99-99", "not YAML"),
        (b"\xff\xfe", "no text in UTF-8"),
        ("*a", "not YAML"),
    ],
)
def test_yaml_that_is_refused(text, said):
    with pytest.raises(FileError, match=said) as error:
        parse_yaml(text, "params.yaml")
    assert str(error.value).startswith("params.yaml: ")


def test_yaml_with_aliases_merges_and_numbers_is_read():
    text = "base: &b {gain: 1.5, names: [a, b]}\nleg: {<<: *b, gain: 2}\narm: *b\nseed: 18446744073709551615\n'': ~"
    found = parse_yaml(text, "env.yaml")
    assert found["leg"] == {"gain": 2, "names": ["a", "b"]} and found["arm"] is found["base"]
    assert found["seed"] == 2**64 - 1
    assert parse_yaml("", "x") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 101 + "]" * 101, "more than 100 levels"),
        ("[" * 100_000, "more than 100 levels"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("[NaN]", "not finite"),
        ("[1e999]", "too large"),
        ("[" + "9" * 21 + "]", "does not fit into 64 bits"),
        ("[" + "9" * 5000 + "]", "does not fit into 64 bits"),
        ("{", "cut off"),
        (b'"\xff"', "no text in UTF-8"),
        (" " * (2**24 + 1), "at most 16 MiB"),
    ],
)
def test_json_that_is_refused(text, said):
    with pytest.raises(FileError, match=said):
        parse_json(text, "validation.json")


def test_json_that_is_read():
    assert parse_json('{"seed": 18446744073709551615, "x": [1e99]}', "x") == {"seed": 2**64 - 1, "x": [1e99]}
    assert parse_json("[Infinity]", "x", nan=True) == [float("inf")]
    assert parse_json("[" * 100 + "]" * 100, "x")


def npz(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return content.getvalue()


def npy(shape: str, data: bytes = b"", kind: str = "<f4") -> bytes:
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


OBJECT = io.BytesIO()
np.save(OBJECT, np.array([print], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (npz(a=npy(f"({10**15},)")), "claims the shape"),
        (npz(a=npy(f"({10**15},)", kind="<U0")), "claims the shape"),
        (npz(a=npy(f"(0, {10**15})")), "claims the shape"),
        (npz(a=npy("(-1,)")), "claims the shape"),
        (npz(a=npy("(2,)", bytes(4))), "holds 4 bytes"),
        (npz(a=npy("(" * 3000)), "no array"),
        (npz(a=OBJECT.getvalue()), "plain numbers and text"),
        (npz(a=npy("(1,)", bytes(8), kind="<M8[s]")), "plain numbers and text"),
        (npz(a=bytes(100_000_000)), "unpacks to 95.37 MiB; at most 64 MiB"),
        (npz(**{f"a{n}": npy("(0,)") for n in range(300)}), "300 members"),
        (npz(a=npy("(0,)"))[:-30], "cut short after"),
        (b"", "cut short after 0 bytes"),
    ],
)
def test_arrays_that_are_refused(content, said):
    with pytest.raises(FileError, match=said):
        parse_npz(content, "golden.npz", limit=2**26)


def test_arrays_come_back_as_they_were_saved(tmp_path):
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "s": np.array("text"), "e": np.array(""), "n": np.zeros((0, 3)), "b": np.array([True]), "scalar": np.array(3),
    }  # fmt: skip
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = read_npz(tmp_path / "a.npz")
    assert all(
        np.array_equal(found[name], value) and found[name].dtype == value.dtype for name, value in arrays.items()
    )
    assert found["a"].flags.writeable


def altered(path, change) -> None:
    """Rewrite an archive with its members as ``change(name, content)`` has them."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            changed, kind = change(name, content)
            archive.writestr(name, changed, kind)


def test_a_checkpoint_comes_back_and_its_claims_are_checked(tmp_path):
    path = tmp_path / "step_1.pt"
    state = {"steps": 7, "net": torch.nn.LSTM(3, 4).state_dict(), "half": torch.ones(3, dtype=torch.bfloat16)}
    torch.save(state, path)
    assert torch.equal(load_checkpoint(path)["half"], state["half"])

    def shorter(name, content):
        return (content[:-4] if name.endswith("data/0") else content), zipfile.ZIP_STORED

    altered(path, shorter)
    with pytest.raises(FileError, match="claims a tensor of 192 bytes under data/0, and holds 188 bytes"):
        load_checkpoint(path)


def _moved(content: bytes) -> bytes:
    return b"PK\3\4 in front" + content


def _twice(content: bytes) -> bytes:
    return content + content


def _elsewhere(content: bytes) -> bytes:
    """The end record of large archives is said to be at the file's begin; zipfile does not look."""
    return content[:-34] + struct.pack("<Q", 0) + content[-26:]


def _fewer(content: bytes) -> bytes:
    """One member is announced, and more are listed."""
    return content[:-66] + struct.pack("<Q", 1) + content[-58:]


@pytest.mark.parametrize("change", [_moved, _twice, _elsewhere, _fewer])
def test_a_table_of_contents_that_two_readers_would_find_in_two_places(change, tmp_path):
    path = tmp_path / "step_1.pt"
    torch.save({"weight": torch.ones(4)}, path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FileError, match=r"its table of contents is not as torch.save writes it"):
        load_checkpoint(path)


def test_names_that_torch_takes_for_the_same(tmp_path):
    """It looks for them without regard to case."""
    path = tmp_path / "step_1.pt"
    torch.save({"weight": torch.ones(4)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("step_1/Data.PKL", b"other")
    with pytest.raises(FileError, match=r"its table of contents is not as torch.save writes it"):
        load_checkpoint(path)


def test_checkpoints_that_unpack_are_bombs(tmp_path):
    path = tmp_path / "step_1.pt"
    torch.save({"w": torch.zeros(2**20)}, path)
    altered(path, lambda name, content: (content, zipfile.ZIP_DEFLATED))
    with pytest.raises(FileError, match="is compressed"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pickle.dumps(bytearray(3), 2), "bytearray"),
        (b"\x80\x02\x82\x01.", "extension 1"),
        (b"\x80\x02" + b"r\xff\xff\xff\x7f" + b".", "cannot be read"),
        (b"\x80\x02(" + b"K\x01" * 3, "cannot be read"),
        (b"\x80\x02K\x01Q.", "cannot be read"),
    ],
)
def test_descriptions_of_checkpoints_that_are_refused(tmp_path, data, said):
    path = tmp_path / "step_1.pt"
    torch.save({"w": torch.zeros(2)}, path)
    altered(path, lambda name, content: (data if name.endswith("data.pkl") else content, zipfile.ZIP_STORED))
    with pytest.raises(FileError, match=said):
        load_checkpoint(path)


def _eat() -> None:
    np.ones(2**31, dtype=np.uint8)


def _spin() -> None:
    while True:
        pass


def _die() -> None:
    os.abort()


@pytest.mark.parametrize(("work", "said"), [(_eat, "within 256 MiB"), (_spin, "more than 0.3 s"), (_die, "SIGABRT")])
def test_what_is_contained_may_take_all_it_likes(work, said):
    with pytest.raises(FileError, match=said):
        contained(work, "robot.xml", "compiling it", seconds=0.3 if work is _spin else 10, memory=2**28)


def test_what_is_contained_leaves_nothing_behind():
    seen, before = [], _children()
    child = subprocess.Popen(["true"])
    assert _children() - before == {str(child.pid)}  # it would be seen
    child.wait()
    contained(lambda: seen.append(json.dumps(1)), "robot.xml", "compiling it")
    assert seen == []
    assert _children() == before


def _children() -> set[str]:
    """Processes that this one has started and that are there, ended ones that it has not asked about included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(stat.parent.name)
    return found


def test_a_tried_copy_does_not_take_down_what_the_original_left(tmp_path):
    """Objects that wait for the collector may have threads, which the copy has not: ending them there is a crash."""
    mark = tmp_path / "ended"

    class Left:
        def __init__(self):
            self.itself = self

        def __del__(self):
            mark.write_text("here")

    gc.collect()
    gc.disable()
    try:
        Left()
        contained(gc.collect, "a file", "reading it")
        assert not mark.exists()
    finally:
        gc.enable()
    gc.collect()
    assert mark.exists()
