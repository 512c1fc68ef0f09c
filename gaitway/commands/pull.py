"""``gaitway pull``: fetch a published bundle.

Fetch a published bundle. SOURCE is hf:OWNER/NAME (a model repository of the Hugging Face hub, @REVISION for a fixed
one), https://... (a folder of a file server) or file:path (a folder of this machine).

Every file is checked before the folder appears: names, sizes, hashes, contract, signature, policy, recording, verdict.
A file that does not belong in a bundle is refused by name. No part of a bundle runs as code.

Without --out the bundle goes to the user's data folder, where 'gaitway demo --list' shows it and 'gaitway demo NAME'
runs it. --trust KEY.pub keeps only a bundle that this key signed.

examples:
  gaitway pull hf:someone/walk
  gaitway pull https://example.org/bundles/walk --out walk
  gaitway pull file:/srv/bundles/walk --trust alice.pub
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import options
from ..catalogue import SIGNING
from . import common

if TYPE_CHECKING:
    from gaitway_onboard.bundle.published import Checked


WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source SOURCE", "hf:OWNER/NAME, https://... or file:path")
    parser.option("--out FOLDER", "folder of the bundle (default: in the user's data folder)", Path)
    about = "keep only a bundle signed by this key, or one of this folder's; repeatable"
    parser.option("--trust KEY.pub", about, Path, many=True, dest="keys")


def run(args: argparse.Namespace) -> int:
    from ..hub.library import library
    from ..hub.places import open_place
    from ..hub.transfer import pull

    place = open_place(args.source)
    trusted: tuple[Any, ...] = ()
    if args.keys:
        common.require("--trust", SIGNING)
        from gaitway_onboard.bundle.signature import load_public_keys

        trusted = load_public_keys(args.keys)
    out = (args.out or library() / place.group / place.name).absolute()
    checked = pull(place, out, trusted, _Line())
    print(summary(checked))
    print(f"bundle: {out}")
    name = str(out) if args.out is not None else f"{place.group}/{place.name}"
    print(f"watch it: gaitway {'play' if args.out is not None else 'demo'} {name}")
    return 0


def summary(checked: Checked) -> str:
    """Robot, task, verdict and signature, in lines for a terminal."""
    verdict, contract = checked.verdict, checked.contract
    said = "none: validate it before you use it" if verdict is None else str(verdict["verdict"])
    if verdict is not None:
        said += f" of validation suite {verdict['suite_version']}"
    signed = "by nobody"
    if checked.signer is not None:
        signed = f"by {checked.signer}" + ("" if checked.proven else ", as it says: prove it with --trust KEY.pub")
    return f"{contract.task} for {contract.robot}\nverdict: {said}\nsigned: {signed}"


class _Line:
    """One line that is overwritten on a terminal; a line per file elsewhere."""

    def __init__(self) -> None:
        self.name = ""

    def __call__(self, name: str, done: int, total: int) -> None:
        from gaitway_files.reading import size

        if sys.stdout.isatty():
            from ..terminal import overwrite

            overwrite(f"{name}: {size(done)} of {size(total)}", last=done >= total)
        elif name != self.name:
            print(f"{name} ({size(total)} in all)", flush=True)
        self.name = name
