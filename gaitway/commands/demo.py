"""``gaitway demo``: watch and steer a robot that walks already.

Watch a robot walk in a web browser, without training anything: steer it, push it, change the floor and the payload,
and watch the forces on its feet. Its policy comes with Gaitway. Use 'gaitway play' for a policy of your own.

examples:
  gaitway demo
  gaitway demo --port 9000
  gaitway demo --about
"""

from __future__ import annotations

import argparse
import os

from ..catalogue import PLAY
from . import common


def add_options(parser: common.Parser) -> None:
    parser.option("robot ROBOT", "robot (default anymal-c)", default="anymal-c", nargs="?")
    parser.switch("--about", "say how the policy was made and validated, and end")
    parser.switch("--no-browser", "do not open a browser")
    common.add_page(parser)
    parser.option("--seconds", "length (default: until Ctrl-C)", common.seconds)


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
