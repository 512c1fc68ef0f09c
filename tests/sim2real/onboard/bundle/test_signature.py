"""Signatures of bundles: what was signed is what is driven, by keys of OpenSSH and PEM; everything else is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gaitway_onboard.bundle.signature import (
    SignatureError,
    load_private_key,
    load_public_keys,
    others_may_read,
    sign_bundle,
    verify_bundle,
)
from gaitway_onboard.bundle.verdict import seal
from gaitway_onboard.safety.preflight import check_bundle

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ..safety.test_preflight import HARDWARE, approve

SEED = bytes(range(32))
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4 someone@desk\n"
"""Of the private key with these bytes; and what ``ssh-keygen -l`` says of it."""
FINGERPRINT = "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"
KINDS = {"openssh": (Encoding.PEM, PrivateFormat.OpenSSH), "pem": (Encoding.PEM, PrivateFormat.PKCS8)}


def private_file(path: Path, kind: str = "openssh", secret: bytes | None = None, key: Any = None) -> Path:
    key = key or Ed25519PrivateKey.from_private_bytes(SEED)
    encryption = NoEncryption() if secret is None else BestAvailableEncryption(secret)
    path.write_bytes(key.private_bytes(*KINDS[kind], encryption))
    path.chmod(0o600)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Any:
    return load_private_key(private_file(tmp_path / "key"))


@pytest.fixture
def trusted(tmp_path: Path) -> Any:
    (tmp_path / "key.pub").write_text(PUBLIC)
    return load_public_keys([tmp_path / "key.pub"])


@pytest.fixture
def folder(tmp_path: Path, key: Any) -> Path:
    """A signed bundle, as far as a signature looks at it."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("contract.yaml", "policy.onnx", "validation.json"):
        (folder / name).write_text(f"content of {name}")
    sign_bundle(folder, key)
    return folder


def test_a_signed_bundle_is_known_by_its_key(folder: Path, trusted: Any, tmp_path: Path) -> None:
    found = verify_bundle(folder, trusted)
    assert (found.fingerprint, found.path) == (FINGERPRINT, tmp_path / "key.pub")
    (folder / "rehearsal.json").write_text("rehearsed after it was signed")
    verify_bundle(folder, trusted)


def change(name: str, edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = json.loads((folder / "signature.json").read_text())
        edit(content)
        (folder / "signature.json").write_text(json.dumps(content))

    apply.__name__ = name
    return apply


def edited(folder: Path) -> None:
    (folder / "policy.onnx").write_text("content of policy.onnY")


def added(folder: Path) -> None:
    (folder / "weights.data").write_text("")


def removed(folder: Path) -> None:
    (folder / "validation.json").unlink()


def linked(folder: Path) -> None:
    (folder / "policy.onnx").rename(folder.parent / "elsewhere")
    (folder / "policy.onnx").symlink_to(folder.parent / "elsewhere")


def nested(folder: Path) -> None:
    (folder / "more").mkdir()


def unsigned(folder: Path) -> None:
    (folder / "signature.json").unlink()


def piped(folder: Path) -> None:
    unsigned(folder)
    os.mkfifo(folder / "signature.json")


def scribbled(folder: Path) -> None:
    (folder / "signature.json").write_text("[" * 200)


def signed_by_a_stranger(folder: Path) -> None:
    sign_bundle(folder, Ed25519PrivateKey.generate())


def resigned_in_the_name_of_the_key(folder: Path) -> None:
    signed_by_a_stranger(folder)
    change("name", lambda content: content.update(key=FINGERPRINT))(folder)


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (edited, "policy.onnx is not the file that was signed"),
        (added, "weights.data is not among the files that were signed"),
        (removed, "validation.json is missing and was signed"),
        (linked, "policy.onnx is not a plain file"),
        (nested, "more is not a plain file"),
        (unsigned, "is not signed, it has no signature.json: sign it with 'gaitway validate --sign KEY'"),
        (piped, "signature.json: is a pipe"),
        (scribbled, "signature.json: "),
        (signed_by_a_stranger, "which is not a key of --trust: .*key.pub .SHA256:lbmsoA0yIEcEiVDR"),
        (resigned_in_the_name_of_the_key, "was edited: the signature is not one of SHA256:lbmsoA0yIEcEiVDR"),
        (change("files", lambda content: content["files"].update({"policy.onnx": "0" * 64})), "was edited"),
        (change("nothing", lambda content: content.update(files={})), "was edited"),
        (change("null", lambda content: content.update(files=None)), "was edited"),
        (change("version", lambda content: content.update(gaitway_signature=2)), "not a signature of version 1"),
        (change("short", lambda content: content.update(signature=content["signature"][:40])), "was edited"),
        (change("text", lambda content: content.update(signature="?")), "the signature is not base64"),
        (change("number", lambda content: content.update(signature=7)), "the signature is not base64"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_was_not_signed_is_refused(
    folder: Path, trusted: Any, attack: Callable[[Path], None], message: str
) -> None:
    attack(folder)
    with pytest.raises(ValueError, match=message) as caught:
        verify_bundle(folder, trusted)
    assert type(caught.value).__module__.startswith("gaitway")


@pytest.mark.hostile("deployment")
def test_a_forged_verdict_has_the_seal_and_not_the_signature(bundle: Path, key: Any, trusted: Any) -> None:
    """Anyone can compute a seal: what keeps a bundle that failed from a robot is the signature."""
    path = approve(bundle, passed=False)
    sign_bundle(bundle, key)
    verify_bundle(bundle, trusted)
    data = json.loads(path.read_text())
    data["verdict"] = "PASS"
    data["seal"] = seal({name: value for name, value in data.items() if name != "seal"})
    path.write_text(json.dumps(data))
    assert check_bundle(bundle, HARDWARE) == ()
    with pytest.raises(SignatureError, match=r"validation\.json is not the file that was signed"):
        verify_bundle(bundle, trusted)


@pytest.mark.parametrize("kind", KINDS)
def test_encrypted_keys_ask_for_their_passphrase(tmp_path: Path, kind: str) -> None:
    path = private_file(tmp_path / "key", kind, b"secret")
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "secret"

    assert load_private_key(path, answer).private_bytes_raw() == SEED and asked == [f"passphrase of {path}: "]
    with pytest.raises(SignatureError, match="is the passphrase right"):
        load_private_key(path, lambda prompt: "wrong")
    with pytest.raises(SignatureError, match="is encrypted, and there is no terminal"):
        load_private_key(path)


def test_keys_that_are_none(tmp_path: Path) -> None:
    curve = private_file(tmp_path / "curve", key=ec.generate_private_key(ec.SECP256R1()))
    (tmp_path / "curve.pub").write_bytes(
        ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    )
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").mkdir()
    key = private_file(tmp_path / "key")
    (tmp_path / "cut").write_bytes(key.read_bytes()[:100])
    for name, message in {
        "curve": "is a key of the kind EC, not Ed25519: make one with 'ssh-keygen -t ed25519'",
        "text": "is no private key",
        "cut": "cannot read the key",
        "none": "no such file",
        "empty": "is a folder",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_private_key(tmp_path / name)
    for name, message in {
        "curve.pub": "is a key of the kind EC, not Ed25519",
        "text": "is no public key of OpenSSH or PEM",
        "key": "is a private key: keep it to yourself",
        "none": "no such file",
        "empty": "has no file",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_public_keys([tmp_path / name])
    assert not others_may_read(curve)
    curve.chmod(0o640)
    assert others_may_read(curve)


def test_a_folder_of_keys_is_every_key_in_it(folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    stranger = Ed25519PrivateKey.generate().public_key()
    (keys / "a.pub").write_bytes(stranger.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    (keys / "readme.txt").write_text("keys of the team")
    with pytest.raises(SignatureError, match="is not a key of --trust"):
        verify_bundle(folder, load_public_keys([keys]))
    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key()
    (keys / "b.pem").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert verify_bundle(folder, load_public_keys([keys])).path == keys / "b.pem"
