"""One reading of a bundle: what is used afterwards is what was there, whatever becomes of the folder."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from gaitway_files.reading import FileError
from gaitway_onboard.bundle.contract import BundleError
from gaitway_onboard.bundle.reading import MOST_FILES, one_reading


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    bundle = tmp_path / "walk"
    bundle.mkdir()
    (bundle / "policy.onnx").write_bytes(b"a graph")
    (bundle / "notes").mkdir()
    (bundle / "link").symlink_to(bundle / "policy.onnx")
    return bundle


def test_a_copy_that_others_cannot_reach(bundle: Path) -> None:
    with one_reading(bundle) as copy:
        (bundle / "policy.onnx").write_bytes(b"another")
        assert copy.name == "walk" and (copy / "policy.onnx").read_bytes() == b"a graph"
        assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
        assert (copy / "notes").is_dir() and (copy / "link").is_symlink(), "refused where the bundle would be"
    assert not copy.parent.exists()


def test_what_is_raised_names_the_bundle(bundle: Path) -> None:
    with pytest.raises(ValueError, match=f"^{bundle}/policy.onnx is bad$"), one_reading(bundle) as copy:
        raise ValueError(f"{copy / 'policy.onnx'} is bad")
    with pytest.raises(FileError, match=f"^{bundle}/contract.yaml: no such file"), one_reading(bundle) as copy:
        raise FileError(copy / "contract.yaml", "no such file")


def test_folders_that_are_none(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no bundle at .*none: no such folder"), one_reading(tmp_path / "none"):
        pass
    for number in range(MOST_FILES):
        (bundle / f"{number}.txt").touch()
    with pytest.raises(FileError, match="has 103 entries, and a bundle has a dozen"), one_reading(bundle):
        pass


def test_a_file_that_is_swapped_all_the_time_is_one_or_the_other(bundle: Path) -> None:
    """Two hundred readings beside a program that swaps the file as fast as it can."""
    contents, over = (b"a" * 4096, b"b" * 8192), threading.Event()

    def swap() -> None:
        while not over.is_set():
            for content in contents:
                (bundle / ".new").write_bytes(content)
                os.replace(bundle / ".new", bundle / "policy.onnx")

    (bundle / "policy.onnx").write_bytes(contents[0])
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        read = 0
        while read < 200:
            try:
                with one_reading(bundle) as copy:
                    first = (copy / "policy.onnx").read_bytes()
                    assert first in contents and (copy / "policy.onnx").read_bytes() == first
                read += 1
            except FileError as error:  # refused is right as well: ".new" was gone, or grew
                assert "no such file" in str(error) or "changed while" in str(error)
                read += 1
    finally:
        over.set()
        thread.join()
