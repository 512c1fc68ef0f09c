"""``gaitway validate --sign`` and ``gaitway deploy --trust``: what passed and was signed is driven, nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaitway.cli import main

pytest.importorskip("cryptography")
pytest.importorskip("mujoco")

import gaitway_sim2real.trial as suite
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from gaitway_onboard.bundle import contract, signature

GO2 = ["--robot", "unitree-go2", "--interface", "lo", "--yes"]


class Verdict:
    """As much of a verdict as the command needs."""

    def __init__(self, passed: bool):
        self.passed = passed

    def save(self, path: Path) -> None:
        path.write_text(f"passed: {self.passed}")

    def summary(self) -> str:
        return "PASS" if self.passed else "FAIL"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "contract.yaml").write_text("of a bundle that is not looked at\n")
    (bundle / "policy.onnx").write_text("a graph")
    return bundle


@pytest.fixture
def key(tmp_path: Path) -> Path:
    key, path = Ed25519PrivateKey.generate(), tmp_path / "id"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    path.with_suffix(".pub").write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return path


def validate(monkeypatch: pytest.MonkeyPatch, *words: object, passed: bool = True) -> int:
    monkeypatch.setattr(suite, "validate_bundle", lambda *given, **options: Verdict(passed))
    return main(["validate", *map(str, words), "--no-video"])


def deploy(bundle: Path, *words: object) -> int:
    return main(["deploy", str(bundle), *GO2, "--i-know", *map(str, words)])


@pytest.mark.hostile("deployment")
def test_only_what_a_trusted_key_signed_is_looked_at(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    trust = "--trust", key.with_suffix(".pub")
    assert validate(monkeypatch, bundle) == 0
    assert deploy(bundle, *trust) == 2
    said = capsys.readouterr()
    assert "signed:" not in said.out and "is not signed, it has no signature.json" in said.err
    assert validate(monkeypatch, bundle, "--sign", key) == 0
    said = capsys.readouterr()
    assert "signature.json, by SHA256:" in said.out and "warning" not in said.err
    for words in ((), trust, ("--trust", key.parent)):
        assert deploy(bundle, *words) == 2
        assert "contract.yaml" in capsys.readouterr().err  # it was looked at: it is no contract
    (bundle / "policy.onnx").write_text("another graph")
    assert deploy(bundle, *trust) == 2
    assert "policy.onnx is not the file that was signed" in capsys.readouterr().err


def test_a_bundle_that_failed_is_not_signed(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert validate(monkeypatch, bundle, "--sign", key, passed=False) == 1
    assert "not signed: the verdict is FAIL" in capsys.readouterr().out and not (bundle / "signature.json").exists()


@pytest.mark.hostile("command line")
def test_keys_are_looked_at_first(bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Before the suite takes its minute; a key that others may read is warned about."""
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    public = key.with_suffix(".pub")
    for words, message in {
        ("--sign", public): "is no private key",
        ("--sign", key, "--model", "robot.xml"): "with --model the bundle gets none",
        ("--sign", "none"): "none: no such file",
    }.items():
        assert validate(monkeypatch, bundle, *words) == 2
        said = capsys.readouterr()
        assert message in said.err and not said.out and not (bundle / "validation.json").exists()
    assert main(["deploy", "--excite", "30", *GO2, "--trust", str(public)]) == 2
    assert "leave --trust out" in capsys.readouterr().err
    assert deploy(bundle, "--trust", key) == 2
    assert "is a private key: keep it to yourself" in capsys.readouterr().err
    key.chmod(0o644)
    assert validate(monkeypatch, bundle, "--sign", key) == 0
    assert f"warning: others may read the key {key}: chmod 600 {key}" in capsys.readouterr().err


def _swap(bundle: Path) -> None:
    (bundle / "policy.onnx").write_text("another graph")


@pytest.mark.hostile("deployment")
def test_what_is_swapped_while_it_is_judged_is_not_signed(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    judged = []

    def judge(folder: Path, **options: Any) -> Verdict:
        _swap(bundle)
        judged.append((folder / "policy.onnx").read_text())
        return Verdict(True)

    monkeypatch.setattr(suite, "validate_bundle", judge)
    assert main(["validate", str(bundle), "--sign", str(key), "--no-video"]) == 2
    assert judged == ["a graph"] and not (bundle / "signature.json").exists()
    said = capsys.readouterr().err
    assert f"{bundle}: policy.onnx changed while it was judged, so it is not signed" in said


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("moment", ["verify_bundle", "load"])
def test_what_is_swapped_after_it_was_verified_is_not_driven(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, moment: str
) -> None:
    """Before or after the signature is looked at: all readings are one."""
    assert validate(monkeypatch, bundle, "--sign", key) == 0
    seen = []

    def verified(folder: Path, keys: Any) -> Any:
        if moment == "verify_bundle":
            _swap(bundle)
        found = verify(folder, keys)
        _swap(bundle)
        return found

    def load(folder: Path) -> Any:
        seen.append((Path(folder) / "policy.onnx").read_text())
        raise contract.BundleError(f"{folder} is looked at")

    verify = signature.verify_bundle
    monkeypatch.setattr(signature, "verify_bundle", verified)
    monkeypatch.setattr(contract.Contract, "load", load)
    assert deploy(bundle, "--trust", key.with_suffix(".pub")) == 2
    assert seen == ["a graph"] and (bundle / "policy.onnx").read_text() == "another graph"
    assert f"gaitway: {bundle} is looked at" in capsys.readouterr().err


TRIES = 200


@contextlib.contextmanager
def swapping(bundle: Path) -> Iterator[None]:
    """Another program puts one graph and another in turns where the policy is, at its own pace."""
    done = threading.Event()

    def swap() -> None:
        for text in itertools.cycle(("another graph", "a graph")):
            (bundle.parent / "other").write_text(text)
            os.replace(bundle.parent / "other", bundle / "policy.onnx")
            if done.wait(random.uniform(0.0, 0.01)):
                return

    random = np.random.default_rng(0)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.hostile("deployment")
def test_races_drive_nothing_that_was_not_verified(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, record_property: Any
) -> None:
    record_property("attacks", TRIES)
    assert validate(monkeypatch, bundle, "--sign", key) == 0
    seen: list[str] = []

    def load(folder: Path) -> Any:
        seen.append((Path(folder) / "policy.onnx").read_text())
        raise contract.BundleError("it is looked at")

    monkeypatch.setattr(contract.Contract, "load", load)
    with swapping(bundle):
        codes = {deploy(bundle, "--trust", key.with_suffix(".pub")) for _ in range(TRIES)}
    assert codes == {2} and set(seen) == {"a graph"}
    assert 0.05 * TRIES < len(seen) < 0.95 * TRIES, "the two programs did not race"


@pytest.mark.slow
@pytest.mark.hostile("deployment")
def test_races_sign_nothing_that_was_not_judged(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, record_property: Any
) -> None:
    record_property("attacks", TRIES)
    judged: list[str] = []

    def judge(folder: Path, **options: Any) -> Verdict:
        judged.append((folder / "policy.onnx").read_text())
        time.sleep(0.003)
        return Verdict((folder / "policy.onnx").read_text() == judged[-1])

    monkeypatch.setattr(suite, "validate_bundle", judge)
    signed = 0
    with swapping(bundle):
        for _ in range(TRIES):
            (bundle / "signature.json").unlink(missing_ok=True)
            main(["validate", str(bundle), "--sign", str(key), "--no-video"])
            if (bundle / "signature.json").exists():
                signed += 1
                assert hashlib.sha256(judged[-1].encode()).hexdigest() in (bundle / "signature.json").read_text()
    assert len(judged) == TRIES and 0.05 * TRIES < signed < 0.95 * TRIES
