"""Scripts of others that two pages of the site need: ``python docs/tools/fetch_scripts.py`` fetches them by npm.

They are no part of the repository. Each package has its exact version and the SHA-512 of its archive; one that differs
is refused. Without npm or a network the site is built all the same, and the pages say what they lack.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "site-scripts"
MANIFEST = "package.json"
SECONDS = 300
"""Longest wait for one package."""
OPTIONS = "--loglevel=error", "--ignore-scripts", "--prefer-offline", "--fetch-retries=1"


@dataclass(frozen=True)
class Package:
    """An npm package."""

    name: str
    integrity: str
    """SHA-512 of its archive in base64."""
    files: dict[str, str]
    """Files of the archive, without its folder, and their names here."""


PACKAGES = {
    "mujoco": Package(
        "@mujoco/mujoco@3.14.0",
        "WPUYidu4Fx8+uM4hQv80SOA0ifpWGrsNJguKs8JBV8SCTxjKQ2/rqsh880nUH0/Vwa8vuefghvCQkkoed3bkUg==",
        {"mujoco.js": "mujoco.js", "mujoco.wasm": "mujoco.wasm", MANIFEST: MANIFEST},
    ),
    "onnxruntime": Package(
        "onnxruntime-web@1.30.0",
        "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
        {
            "dist/ort.wasm.bundle.min.mjs": "ort.mjs",
            "dist/ort-wasm-simd-threaded.wasm": "ort-wasm-simd-threaded.wasm",
            MANIFEST: MANIFEST,
        },
    ),
    "three": Package(
        "three@0.187.0",
        "Qiu7R+Cmh8CstZsY1uJOSWnVlfo7ZtNLV7mF8Jltk3LB3AtDu9cRZlcnRKkAk8Y4z6KKw35z7Y7Urd7jWY8etA==",
        {
            "build/three.module.js": "three.module.js",
            "build/three.core.js": "three.core.js",
            "LICENSE": "LICENSE",
            MANIFEST: MANIFEST,
        },
    ),
    "mermaid": Package(
        "@mermaid-js/tiny@11.17.2",
        "PmFr1c5cSfNf5AngLLR98DrbvR4U5KeD7I+hQkGqG5w5Veu3QT4dG0qu9f99cpn/sKj2XxRBK0q7EL6hr9NY/A==",
        {"dist/mermaid.tiny.js": "mermaid.js", "LICENSE": "LICENSE", MANIFEST: MANIFEST},
    ),
}


class WrongArchive(Exception):
    """An archive whose hash is not the one that is written here."""


def kept(name: str) -> Iterator[tuple[str, bytes]]:
    """Files of a package: names here, and contents."""
    for file in PACKAGES[name].files.values():
        yield file, (_folder(name) / file).read_bytes()


def is_there(*names: str) -> bool:
    """True if all files of these packages have been fetched."""
    return all((_folder(name) / file).is_file() for name in names for file in PACKAGES[name].files.values())


def files() -> Iterator[tuple[str, bytes]]:
    """Fetched files: names in the site, and contents."""
    for name in PACKAGES:
        if is_there(name):
            yield from ((f"scripts/{name}/{file}", content) for file, content in kept(name) if file != MANIFEST)


def fetch(name: str) -> None:
    """Fetch a package and keep its files; OSError if it cannot be had, :class:`WrongArchive` if it is another one."""
    package = PACKAGES[name]
    if shutil.which("npm") is None:
        raise OSError("there is no npm on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        try:
            asked = ["npm", "pack", *OPTIONS, package.name]
            done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise OSError(f"npm gave no answer in {SECONDS} s") from None
        if done.returncode:
            raise OSError((done.stderr.strip() or f"npm ended with code {done.returncode}").splitlines()[0])
        archive = next(Path(folder).glob("*.tgz"))
        _keep(archive, name)


def _keep(archive: Path, name: str) -> None:
    package, content = PACKAGES[name], archive.read_bytes()
    found = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != package.integrity:
        raise WrongArchive(f"{package.name}: its archive has SHA-512 {found}, and {package.integrity} is expected")
    with tarfile.open(archive) as opened:
        contents = {file: opened.extractfile(f"package/{path}").read() for path, file in package.files.items()}
    _folder(name).mkdir(parents=True, exist_ok=True)
    for file, read in contents.items():
        partial = _folder(name) / f"{file}.part"
        partial.write_bytes(read)
        partial.replace(_folder(name) / file)


def _folder(name: str) -> Path:
    """Folder of a package's files, by its version."""
    return KEPT / PACKAGES[name].name.replace("/", "-")


def main() -> None:
    for name, package in PACKAGES.items():
        if is_there(name):
            continue
        try:
            fetch(name)
        except OSError as error:
            print(f"the site goes without {package.name}: {error}", file=sys.stderr)
        except WrongArchive as error:
            raise SystemExit(f"{error}: nothing of it was kept") from None
        else:
            print(f"fetched {package.name}")


if __name__ == "__main__":
    main()
