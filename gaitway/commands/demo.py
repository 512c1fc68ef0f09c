"""``gaitway demo``: watch and steer a trained robot.

Watch a robot walk in a web browser, without training anything: steer it, push it, change the floor and the payload,
and watch the forces on its feet. Its policy comes with Gaitway, or was fetched by 'gaitway pull'. Use 'gaitway play'
for a policy of your own.

examples:
  gaitway demo
  gaitway demo --terrain stairs-up:0.10
  gaitway demo --port 9000
  gaitway demo --about
  gaitway demo --list
"""

from __future__ import annotations

import argparse
import functools
import os

from .. import options
from ..catalogue import PLAY
from . import common


def add_options(parser: options.Parser) -> None:
    parser.option("robot ROBOT|NAME", "robot, or a pulled bundle (default anymal-c)", default="anymal-c", nargs="?")
    parser.switch("--list", "list Gaitway's bundles and the pulled ones, and exit")
    parser.switch("--about", "print the policy's origin and verdict, and exit")
    common.add_terrain(parser)
    parser.switch("--no-browser", "do not open a browser")
    common.add_page(parser)
    parser.option("--seconds", "length (default: until Ctrl-C)", options.seconds)


def run(args: argparse.Namespace) -> int:
    from ..demo import about, bundle_of, rows

    if args.list:
        return _list()
    bundle = bundle_of(args.robot)
    if args.about:
        print(about(bundle))
        return 0
    common.require("demo", PLAY)
    from ..view.scene import check_port
    from ..view.steering import view
    from ..view.walkers import BundleWalker

    check_port(args.host, args.port)
    ground = common.ground_of(args)
    others = {row.name: row.place for row in rows() if row.verdict != "damaged"}
    first = {name: place for name, place in others.items() if place == bundle} or {args.robot: bundle}
    robots = {
        name: functools.partial(BundleWalker, place, ground=ground) for name, place in {**first, **others}.items()
    }
    display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not display:
        print(f"no display here; from another machine: ssh -L {args.port}:localhost:{args.port} THIS_MACHINE")
    view(robots, args.host, args.port, args.seconds, touring=True, browse=display and not args.no_browser)
    return 0


def _list() -> int:
    from ..demo import rows
    from ..hub.library import library
    from ..tables import make_table, show_table
    from ..terminal import console

    table = make_table("name", "robot", "verdict", "licence")
    for row in rows():
        table.add_row(row.name, row.robot, row.verdict, row.licence)
    show_table(console(), table)
    print(f"pulled bundles are in {library()}")
    return 0
