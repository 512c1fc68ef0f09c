"""``gaitway push``: publish a bundle.

Publish a bundle, so that 'gaitway pull' can fetch it. DESTINATION is hf:OWNER/NAME (a model repository of the Hugging
Face hub, made if there is none; 'hf auth login' first) or file:path (a folder, which a file server may serve).

The bundle must pass the checks of 'gaitway pull' first. Published files are the bundle's own, with validation.json,
signature, LICENSE and films (.webm, .mp4, .gif), a README.md written from the bundle, and published.json with the
SHA-256 of each.

A bundle without a verdict needs --without-verdict. A verdict FAIL is published as it is, and the page says so.

examples:
  gaitway push runs/walk/bundle hf:someone/walk
  gaitway push runs/walk/bundle file:/srv/bundles/walk
  gaitway push runs/walk/bundle hf:someone/walk --private
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import options
from .pull import summary

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("bundle BUNDLE", "folder of the bundle", Path)
    parser.option("destination DESTINATION", "hf:OWNER/NAME or file:path")
    parser.switch("--without-verdict", "publish a bundle without a verdict")
    parser.switch("--private", "hf: make a new repository private")


def run(args: argparse.Namespace) -> int:
    from ..hub.places import open_place
    from ..hub.transfer import push

    place = open_place(args.destination, private=args.private)
    where, checked = push(args.bundle, place, without_verdict=args.without_verdict)
    print(summary(checked))
    print(f"published: {where}")
    print(f"others fetch it: gaitway pull {place}")
    return 0
