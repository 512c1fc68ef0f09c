"""Texts of strangers stay on their line: none can pass itself off as a line of ours."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from gaitway_files.errors import UserError
from gaitway_files.reading import NAME, VALUE, FileError, check_texts, printable
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_onboard.bundle.signature import SignatureError, signed_by
from gaitway_onboard.bundle.verdict import VERDICT_FILE, VerdictError, read_verdict, seal
from stand_bundle import make_stand_bundle

from gaitway.cli import main

FORGED = [
    "a walk\nsigned by nvidia",
    "a\rrehearsed PASS, 214 of 214",
    "a\x1b[2K\x1b[1A",
    "a\u202etxet",
    "a\u2028b",
    "x" * 600,
]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_stand_bundle(tmp_path / "bundle")


@pytest.mark.parametrize("text", FORGED)
@pytest.mark.parametrize("key", ["task", "robot", "base_body"])
def test_a_contract(bundle, key, text, capsys):
    """Refused where it is written, and where it is read with a seal that fits."""
    with pytest.raises(BundleError, match="printable line"):
        dataclasses.replace(Contract.load(bundle), **{key: text}).save(bundle)
    path = bundle / "contract.yaml"
    old = getattr(Contract.load(bundle), key)
    body = path.read_text().rpartition("sha256: ")[0]
    body = body.replace(f"{key}: {old}\n", f"{key}: {json.dumps(text)}\n")
    path.write_text(f"{body}sha256: {hashlib.sha256(body.encode()).hexdigest()}\n")
    assert main(["run", str(bundle), "--sim", "--seconds", "1"]) == 2
    said = capsys.readouterr().err
    assert "printable line" in said and said.count("\n") == 1 and said.rstrip("\n").isprintable()


def test_a_long_name_is_no_name(bundle):
    with pytest.raises(BundleError, match=f"task has {NAME + 1} characters, {NAME} at most"):
        dataclasses.replace(Contract.load(bundle), task="x" * (NAME + 1)).save(bundle)


def verdict(bundle: Path, **changes: object) -> Path:
    policy = hashlib.sha256((bundle / "policy.onnx").read_bytes()).hexdigest()
    row = {"title": "flat", "required": True, "passed": True, "about": "how it walks"}
    about = {
        "policy_sha256": policy,
        "contract_sha256": "0" * 64,
        "verdict": "PASS",
        "model": "m",
        "suite_version": "2",
    }
    body = {"gaitway_validation": 1, **about, "scenarios": [row], **changes}
    (bundle / VERDICT_FILE).write_text(json.dumps({**body, "seal": seal(body)}))
    return bundle / VERDICT_FILE


@pytest.mark.parametrize("text", [*FORGED[:-1], "x" * 2000])
def test_a_verdict(bundle, text):
    assert read_verdict(verdict(bundle))["verdict"] == "PASS"
    with pytest.raises(VerdictError, match="printable line"):
        read_verdict(verdict(bundle, model=text))
    with pytest.raises(VerdictError, match="printable line"):
        read_verdict(verdict(bundle, **{text: 1}))


@pytest.mark.parametrize("word", ["PASS, signed by nvidia", "pass", "", "PASSED"])
def test_the_words_of_a_verdict(bundle, word):
    with pytest.raises(VerdictError, match="does not say what a verdict says"):
        read_verdict(verdict(bundle, verdict=word))


@pytest.mark.parametrize("key", ["nvidia", "SHA256:short", f"SHA256:{'a' * 43}\ntrusted", 7])
def test_a_signature_claims_a_fingerprint_or_nothing(bundle, key):
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in bundle.iterdir()}
    content = {"gaitway_signature": 1, "files": files, "key": f"SHA256:{'a' * 43}", "signature": ""}
    (bundle / "signature.json").write_text(json.dumps(content))
    assert signed_by(bundle) == f"SHA256:{'a' * 43}"
    (bundle / "signature.json").write_text(json.dumps({**content, "key": key}))
    with pytest.raises(SignatureError, match="no fingerprint"):
        signed_by(bundle)


def test_a_message_cannot_begin_a_line(monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise UserError("it says 'a\ngaitway: signed by nvidia\x1b[2K'")

    monkeypatch.setattr("gaitway.commands.list_.run", fail)
    assert main(["list"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "gaitway: it says 'a" and second == "  gaitway: signed by nvidia\\x1b[2K'"


@pytest.mark.parametrize("data", [{"a": [{"b\n": 1}]}, ["\x00"], {"a": {"b": "x" * 81}}])
def test_texts_are_found_wherever_they_are(data):
    with pytest.raises(FileError, match="printable line of 80"):
        check_texts(data, "it", VALUE)


def test_what_is_shown_is_short_and_on_one_line():
    assert printable("a\nb\x1b[2K\ud800", VALUE) == "a\\nb\\x1b[2K\\ud800"
    assert len(printable("x" * 500, VALUE)) == VALUE and printable("x" * 500, VALUE).endswith("...")
