"""Signature of a bundle (Ed25519) over the SHA-256 of each of its files. Needs ``cryptography``.

A seal can be computed by anyone, so it shows accidents; a signature can be made only with the private key. Keys are
files of OpenSSH (``ssh-keygen -t ed25519``) or PEM (``openssl genpkey -algorithm ed25519``). The rehearsal's verdict is
not covered: a bundle may be rehearsed again after it was signed, by people who have no key.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.json_files import read_json
from gaitway_files.reading import KIB, VALUE, printable, read_bytes
from gaitway_files.writing import write_text

from .contract import sha256
from .reading import entries
from .verdict import REHEARSAL_FILE

SIGNATURE_FILE = "signature.json"
SCHEMA = 1
CONTEXT = b"gaitway bundle, signature 1\n"
"""Before what is signed, so that no other signature by the same key can be taken for one of a bundle."""
CARD_FILE, INDEX_FILE = "README.md", "published.json"
UNCOVERED = (SIGNATURE_FILE, REHEARSAL_FILE, CARD_FILE, INDEX_FILE)
"""A rehearsal comes after the signature; ``gaitway push`` writes the page and the index of what it publishes."""
KEY_BYTES = 64 * KIB
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
AGAIN = "sign it with 'gaitway validate --sign KEY'"


class SignatureError(UserError):
    """A key that cannot be used, or a bundle that no trusted key has signed, with the fix."""


@dataclass(frozen=True)
class PublicKey:
    path: Path
    """The file it is from."""
    fingerprint: str
    """Fingerprint as ``ssh-keygen -l`` shows it."""
    key: Any


def sign_bundle(bundle: str | Path, key: Any, judged: Path | None = None) -> tuple[Path, str]:
    """Write ``signature.json`` into ``bundle`` over every file that is there now; returns it and the fingerprint.

    ``key`` is of :func:`load_private_key`. With ``judged``, the :func:`.reading.one_reading` of the bundle that passed,
    what is signed is that; raises :class:`SignatureError` if the bundle is not the same any more.
    """
    files = _files(Path(bundle) if judged is None else judged)
    if judged is not None and (changed := sorted(dict(files.items() ^ _files(Path(bundle)).items()))):
        raise SignatureError(
            f"{bundle}: {', '.join(changed)} changed while it was judged, so it is not signed: {AGAIN}"
        )
    path, fingerprint = Path(bundle) / SIGNATURE_FILE, _fingerprint(key.public_key())
    signature = base64.b64encode(key.sign(_message(files))).decode()
    content = {"gaitway_signature": SCHEMA, "key": fingerprint, "files": files, "signature": signature}
    return write_text(path, json.dumps(content, indent=1) + "\n"), fingerprint


def verify_bundle(bundle: str | Path, trusted: Iterable[PublicKey]) -> PublicKey:
    """The key that signed the files of ``bundle`` as they are now; raises :class:`SignatureError` if none has."""
    from cryptography.exceptions import InvalidSignature

    bundle, trusted = Path(bundle), tuple(trusted)
    path = bundle / SIGNATURE_FILE
    if bundle.is_dir() and not os.path.lexists(path):
        raise SignatureError(f"{bundle} is not signed, it has no {SIGNATURE_FILE}: {AGAIN}, or leave --trust out")
    content = _content(path)
    signed: Any = content.get("files")
    try:
        signature = base64.b64decode(str(content.get("signature")), validate=True)
    except ValueError:
        raise SignatureError(f"{path}: the signature is not base64: {AGAIN}") from None
    for key in trusted:
        try:
            key.key.verify(signature, _message(signed))
        except InvalidSignature:
            continue
        _compare(bundle, signed)
        return key
    claimed = _claimed(content, path)
    if claimed in (key.fingerprint for key in trusted):
        raise SignatureError(f"{path} was edited: the signature is not one of {claimed} over what it lists: {AGAIN}")
    known = ", ".join(f"{key.path} ({key.fingerprint})" for key in trusted)
    raise SignatureError(f"{path} says that {claimed!r} signed it, which is not a key of --trust: {known}")


def signed_by(bundle: str | Path) -> str | None:
    """Fingerprint of the key that ``bundle`` says it is signed by, over its files as they are; None if by none.

    Anyone can claim a fingerprint: only :func:`verify_bundle` proves it. Raises :class:`SignatureError` for a signature
    over other files, which no key would save.
    """
    path = Path(bundle) / SIGNATURE_FILE
    if not os.path.lexists(path):
        return None
    content = _content(path)
    signed = content.get("files")
    if not isinstance(signed, dict):
        raise SignatureError(f"{path} lists no files: {AGAIN}")
    _compare(Path(bundle), signed)
    return _claimed(content, path)


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("gaitway_signature") != SCHEMA:
        raise SignatureError(f"{path} is not a signature of version {SCHEMA}: {AGAIN}")
    return content


def _claimed(content: dict[str, Any], path: Path) -> str:
    """Fingerprint that a signature claims; the word of a person or firm is none."""
    claimed = content.get("key")
    if not isinstance(claimed, str) or not FINGERPRINT.fullmatch(claimed):
        raise SignatureError(
            f"{path} has the key {printable(claimed, VALUE)!r}, which is no fingerprint SHA256:...: {AGAIN}"
        )
    return claimed


def _compare(bundle: Path, signed: dict[str, str]) -> None:
    found = _files(bundle)
    for name in sorted(found.keys() | signed.keys()):
        if name not in found:
            raise SignatureError(f"{bundle / name} is missing and was signed: get the whole bundle")
        if name not in signed:
            raise SignatureError(f"{bundle / name} is not among the files that were signed: remove it, or {AGAIN}")
        if found[name] != signed[name]:
            raise SignatureError(f"{bundle / name} is not the file that was signed: get it again, or {AGAIN}")


def _files(bundle: Path) -> dict[str, str]:
    """SHA-256 of each file that a signature covers, by name. There are no folders, and no links to what may change."""
    found = {}
    for entry in entries(bundle):
        if entry.name in UNCOVERED:
            continue
        if not entry.is_file(follow_symlinks=False):
            raise SignatureError(f"{entry.path} is not a plain file, and a signed bundle has nothing else: remove it")
        found[entry.name] = sha256(read_bytes(entry.path))
    return found


def _message(files: Any) -> bytes:
    return CONTEXT + json.dumps(files, sort_keys=True, separators=(",", ":")).encode()


def _fingerprint(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    wire = base64.b64decode(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("=")


def load_private_key(path: str | Path, ask: Callable[[str], str] | None = None) -> Any:
    """The key to sign with. ``ask`` is given a prompt and returns the passphrase of one that is encrypted."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    content = read_bytes(path, KEY_BYTES)
    if b"PRIVATE KEY-----" not in content:
        raise SignatureError(f"{path} is no private key: give the file that 'ssh-keygen -t ed25519' made, without .pub")
    load = load_ssh_private_key if b"BEGIN OPENSSH" in content else load_pem_private_key
    try:
        try:
            key = load(content, None)
        except TypeError:  # it is encrypted
            if ask is None:
                raise SignatureError(
                    f"{path} is encrypted, and there is no terminal to ask for its passphrase: sign on one"
                ) from None
            key = load(content, ask(f"passphrase of {path}: ").encode())
    except SignatureError:
        raise
    except UnsupportedAlgorithm as error:
        raise SignatureError(f"cannot read the key {path}: {error}: pip install 'cryptography[ssh]'") from None
    except (ValueError, TypeError) as error:
        raise SignatureError(f"cannot read the key {path}: {error}; is the passphrase right?") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path} is {_kind(key)}, not Ed25519: make one with 'ssh-keygen -t ed25519'")
    return key


def others_may_read(path: str | Path) -> bool:
    """True if others can read a private key."""
    return bool(Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def load_public_keys(paths: Iterable[str | Path]) -> tuple[PublicKey, ...]:
    """The keys to trust; a folder stands for its files ``*.pub`` and ``*.pem``. Raises :class:`SignatureError`."""
    keys = []
    for path in map(Path, paths):
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in (".pub", ".pem"))
            if not files:
                raise SignatureError(f"no key to trust in {path}: it has no file *.pub or *.pem")
        keys += [_public_key(file) for file in files]
    return tuple(keys)


def _public_key(path: Path) -> PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

    content = read_bytes(path, KEY_BYTES)
    if b"PRIVATE KEY-----" in content:
        raise SignatureError(f"{path} is a private key: keep it to yourself, and trust the public one, {path.name}.pub")
    load = load_pem_public_key if content.lstrip().startswith(b"-----BEGIN") else load_ssh_public_key
    try:
        key = load(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureError(f"{path} is no public key of OpenSSH or PEM: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path} is {_kind(key)}, not Ed25519: make one with 'ssh-keygen -t ed25519'")
    return PublicKey(path, _fingerprint(key), key)


def _kind(key: Any) -> str:
    return f"a key of the kind {type(key).__name__.removesuffix('PrivateKey').removesuffix('PublicKey')}"
