"""``gaitway demo``: watch and steer a robot that walks already."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..catalogue import PLAY
from . import common

DESCRIPTION = """\
Watch a robot walk in a web browser, without training anything: steer it, push it, change the floor and the payload,
and watch the forces on its feet. Its policy comes with Gaitway. Use 'gaitway play' for a policy of your own.

examples:
  gaitway demo
  gaitway demo --port 9000
  gaitway demo --about
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser = common.parser(commands, "demo", "watch and steer a robot that walks already", DESCRIPTION)
    parser.add_argument("robot", nargs="?", default="anymal-c", metavar="ROBOT", help="robot (default anymal-c)")
    parser.add_argument("--about", action="store_true", help="say how the policy was made and validated, and end")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    common.add_page(parser)
    parser.add_argument("--seconds", type=common.seconds, help="length (default: until Ctrl-C)")
    return parser


def run(args: argparse.Namespace) -> int:
    from ..demo import about, bundle_of

    bundle = bundle_of(args.robot)
    if args.about:
        print(about(bundle))
        return 0
    common.require("demo", PLAY)
    from ..view.scene import check_port
    from ..view.steering import view
    from ..view.walkers import BundleWalker

    check_port(args.host, args.port)
    walker = BundleWalker(bundle)
    display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not display:
        print(f"no display here; from another machine: ssh -L {args.port}:localhost:{args.port} THIS_MACHINE")
    view(walker, args.host, args.port, args.seconds, touring=True, browse=display and not args.no_browser)
    return 0
