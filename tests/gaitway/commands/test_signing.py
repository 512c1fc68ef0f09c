"""``gaitway validate --sign`` and ``gaitway deploy --trust``: what passed and was signed is driven, nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gaitway.cli import main

pytest.importorskip("cryptography")
pytest.importorskip("mujoco")

import gaitway_sim2real.validate as suite
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

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
    assert "--excite has none" in capsys.readouterr().err
    assert deploy(bundle, "--trust", key) == 2
    assert "is a private key: keep it to yourself" in capsys.readouterr().err
    key.chmod(0o644)
    assert validate(monkeypatch, bundle, "--sign", key) == 0
    assert f"warning: others may read the key {key}: chmod 600 {key}" in capsys.readouterr().err
