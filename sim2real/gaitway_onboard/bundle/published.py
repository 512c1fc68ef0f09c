"""A published bundle: the files that travel, the most bytes of each, and the index that names them with their SHA-256.

A plain file server has no list of what it holds, so ``published.json`` is that list, on every kind of place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.json_files import parse_json
from gaitway_files.reading import KIB, MIB, TEXT_BYTES, size
from gaitway_files.writing import write_text

from .contract import CONTRACT_FILE, FILE_BYTES, MOTION_FILE, sha256
from .policy import OnboardPolicy
from .signature import CARD_FILE, INDEX_FILE, SIGNATURE_FILE, signed_by
from .verdict import REHEARSAL_FILE, VERDICT_FILE, VerdictError, read_verdict

SCHEMA = 1
INDEX_BYTES = 64 * KIB
FILM_BYTES = 64 * MIB
MODEL_LICENCE_FILE = "robot_license.txt"
"""The licence of ``robot.xml``; LICENSE is the policy's."""
LIMITS = {
    CONTRACT_FILE: TEXT_BYTES,
    "policy.onnx": FILE_BYTES,
    "golden.npz": FILE_BYTES,
    MOTION_FILE: FILE_BYTES,
    "robot.xml": TEXT_BYTES,
    MODEL_LICENCE_FILE: MIB,
    "io_descriptors.yaml": TEXT_BYTES,
    "description.yaml": TEXT_BYTES,
    VERDICT_FILE: TEXT_BYTES,
    REHEARSAL_FILE: TEXT_BYTES,
    SIGNATURE_FILE: MIB,
    CARD_FILE: MIB,
    "made.yaml": MIB,
    "LICENSE": MIB,
    "LICENSE.txt": MIB,
    "LICENSE.md": MIB,
}
"""Most bytes of each file that may travel; films besides."""
LICENCES = tuple(name for name in LIMITS if name.startswith("LICENSE"))
NEEDED = (CONTRACT_FILE, "policy.onnx", "golden.npz", "robot.xml", "io_descriptors.yaml")
MOST_FILMS = 3
TOTAL_BYTES = 512 * MIB
_FILM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.(webm|mp4|gif)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
ALLOWED = "contract, policy, recording, robot.xml and its licence, descriptors, verdicts, signature, LICENSE and films"


class PublishedError(UserError):
    """A published bundle, or a folder to publish, that holds what does not belong there."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One file of the index."""

    sha256: str
    bytes: int


Index = dict[str, Listed]
"""The files of a published bundle by name, without the index itself."""


def limit_of(name: str) -> int | None:
    """Most bytes of a file of this name; None if no published bundle has such a file."""
    return FILM_BYTES if _FILM.fullmatch(name) else LIMITS.get(name)


def is_film(name: str) -> bool:
    return _FILM.fullmatch(name) is not None


def check_names(names: Iterable[str], where: object) -> None:
    """Raise :class:`PublishedError` for a name that is not one of a published bundle's."""
    films = 0
    for name in names:
        if limit_of(name) is None:
            raise PublishedError(f"{where}: {name[:80]!r} does not belong in a bundle, which holds {ALLOWED}")
        films += is_film(name)
    if films > MOST_FILMS:
        raise PublishedError(f"{where}: {films} films, and at most {MOST_FILMS} are published with a bundle")


def check_listing(folder: Path, where: object) -> None:
    """Raise :class:`PublishedError` for anything in a folder but plain files of a published bundle."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if not entry.is_file(follow_symlinks=False):
            kind = "a link" if entry.is_symlink() else "no plain file"
            raise PublishedError(f"{where}: {entry.name[:80]!r} is {kind}, and a published bundle has plain files only")
    check_names((name for name in os.listdir(folder) if name != INDEX_FILE), where)


def index_of(folder: Path) -> Index:
    """The index of the files in ``folder`` as they are; raises :class:`PublishedError` for one that cannot travel."""
    from gaitway_files.reading import read_bytes

    check_listing(folder, folder)
    index = {}
    for name in sorted(os.listdir(folder)):
        if name != INDEX_FILE:
            content = read_bytes(folder / name, limit_of(name) or 0)
            index[name] = Listed(sha256=sha256(content), bytes=len(content))
    _check_index(index, folder)
    return index


def write_index(folder: Path, index: Index) -> Path:
    files = {name: {"sha256": listed.sha256, "bytes": listed.bytes} for name, listed in index.items()}
    return write_text(folder / INDEX_FILE, json.dumps({"gaitway_published": SCHEMA, "files": files}, indent=1) + "\n")


def parse_index(content: bytes, where: object) -> Index:
    """The index that a place gave; raises :class:`PublishedError` for names, sizes and hashes that are none."""
    data = parse_json(content, f"{where}/{INDEX_FILE}", limit=INDEX_BYTES)
    if not isinstance(data, dict) or data.get("gaitway_published") != SCHEMA or not isinstance(data.get("files"), dict):
        raise PublishedError(
            f"{where}/{INDEX_FILE} is not an index of version {SCHEMA}: publish it again, gaitway push"
        )
    files: dict[str, Any] = data["files"]
    check_names(files, where)
    index = {}
    for name, told in files.items():
        digest, count = (told.get("sha256"), told.get("bytes")) if isinstance(told, dict) else (None, None)
        if not (isinstance(digest, str) and _SHA256.fullmatch(digest)) or type(count) is not int or count < 0:
            raise PublishedError(
                f"{where}/{INDEX_FILE}: {name} has no SHA-256 and size: publish it again, gaitway push"
            )
        index[name] = Listed(sha256=digest, bytes=count)
    _check_index(index, where)
    return index


def _check_index(index: Index, where: object) -> None:
    if missing := [name for name in NEEDED if name not in index]:
        raise PublishedError(f"{where} is not a complete bundle: {missing[0]} is missing: export the run again")
    for name, listed in index.items():
        if listed.bytes > (most := limit_of(name) or 0):
            raise PublishedError(f"{where}: {name} has {size(listed.bytes)}; at most {size(most)} are published")
    if (total := sum(listed.bytes for listed in index.values())) > TOTAL_BYTES:
        raise PublishedError(f"{where} has {size(total)}; at most {size(TOTAL_BYTES)} are published")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Result of all checks of a bundle."""

    contract: Any
    verdict: dict[str, Any] | None
    signer: str | None
    """Fingerprint of the key that signed it, as its signature claims or, if keys were given, as they prove."""
    proven: bool


def check_published(folder: Path, index: Index, trusted: tuple[Any, ...] = ()) -> Checked:
    """Verify a bundle that arrived, or is to be sent: names, hashes, contract, signature, graph, recording, verdict.

    ``trusted`` are keys of :func:`.signature.load_public_keys`; with some, the bundle must be signed by one of them.
    """
    from gaitway_files.mjcf_files import check_mjcf

    from .contract import Contract
    from .signature import verify_bundle

    for name, listed in index.items():
        if sha256((folder / name).read_bytes()) != listed.sha256:
            raise PublishedError(f"{folder / name} is not the file that {INDEX_FILE} names: get it again")
    contract = Contract.load(folder)
    if absent := sorted(contract.files.keys() - index.keys()):
        raise PublishedError(f"{folder}: {CONTRACT_FILE} names {absent[0][:80]!r}, which {INDEX_FILE} does not")
    signer = verify_bundle(folder, trusted).fingerprint if trusted else signed_by(folder)
    OnboardPolicy(folder)
    check_mjcf(folder / "robot.xml")
    verdict = None
    if VERDICT_FILE in index:
        verdict = read_verdict(folder / VERDICT_FILE, policy=folder / "policy.onnx")
        if verdict["contract_sha256"] != index[CONTRACT_FILE].sha256:
            raise VerdictError(
                f"{folder / VERDICT_FILE} is about another {CONTRACT_FILE} than the one beside it: validate it again"
            )
    return Checked(contract=contract, verdict=verdict, signer=signer, proven=bool(trusted))
