"""``gaitway import``: make a bundle of a policy trained elsewhere.

Make a bundle of a policy that was trained elsewhere, for validation in MuJoCo and for robots.

SOURCE is a published policy, or the output of a training: a run folder of Isaac Lab, a LEAPP package, a folder with
deploy.yaml (unitree_rl_lab, unitree_rl_mjlab), a YAML file of unitree_rl_gym, a config.yaml of rl_sar, an ONNX file of
holosoma or mjlab, or a file that Gaitway has a recipe for. Its files identify the family. Nothing in them is
executed: the import reads the weights of TorchScript archives, never the code.

Recipes recognise policies of MuJoCo Playground, Booster Gym, humanoid-gym and Lite3_rl_deploy by their file names.
--recipe NAME runs your own policy of such a robot in the same way. --recipe list lists all recipes; --template prints
one.

Values missing from the source are assumed, and printed as 'guessed'. For any other policy, write a description:
--template prints one to fill in (for a run of Isaac Lab, with all that its env.yaml tells), --describe FILE.yaml
imports with it, and --show prints the one that a reader made.

The robot is one of Gaitway's if it has the policy's joints; --model takes the source's own MJCF.

A policy may read a signal without a sensor, such as its base velocity: validate feeds it the simulation's true value
and says so.

examples:
  gaitway import unitree_rl_lab/deploy/robots/g1/config/policy/velocity/v0 --out bundles/g1
  gaitway validate bundles/g1
  gaitway import logs/rsl_rl/unitree_go2_flat/2026-01-31_12-00-00 --out bundles/go2
  gaitway import policy.onnx --describe mine.yaml --model my_robot.xml --out bundles/mine
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gaitway_files.errors import UserError

from .. import options, sources
from ..catalogue import EXPORT
from . import common

WORKS_ON = True


def add_options(parser: options.Parser) -> None:
    parser.option("source SOURCE", "folder or file of the policy", Path, nargs="?")
    parser.option("--out BUNDLE", "folder to write", Path)
    parser.option("--describe FILE.yaml", "description of a policy without a reader", Path)
    parser.switch("--template", "print a description to fill in, from SOURCE if it is a run of Isaac Lab")
    parser.switch("--show", "print the description of SOURCE, and write nothing")
    parser.option("--recipe NAME", "recipe to run the policy with, whatever its file name; 'list' lists them")
    parser.option("--robot NAME", "one of Gaitway's robots (default: found by the joints)")
    parser.option("--model robot.xml", "MJCF of the robot, in place of Gaitway's", Path)
    parser.option("--checkpoint FILE", "Isaac Lab: the run's checkpoint (default: the newest)", Path)
    parser.option("--joint-order ORDER", "Isaac Lab: physx, newton, or all joint names separated by commas")


def run(args: argparse.Namespace) -> int:
    common.require("import", EXPORT)
    from gaitway_sim2real.imports import families
    from gaitway_sim2real.imports.readers import described, recipes
    from gaitway_sim2real.imports.run_template import run_template

    options = families.Options(
        robot=args.robot, model=args.model, checkpoint=args.checkpoint, joint_order=args.joint_order, recipe=args.recipe
    )
    if args.recipe == "list":
        for name in recipes.names():
            print(f"{name:22}{recipes.recipe(name).match.file} of {recipes.recipe(name).data['source']}")
        return 0
    if args.template and args.recipe is not None:
        print(recipes.template(args.recipe), end="")
        return 0
    if args.template:
        print(described.TEMPLATE if args.source is None else run_template(args.source, options), end="")
        return 0
    if args.source is None or (args.out is None and not args.show):
        raise UserError("gaitway import needs SOURCE and --out BUNDLE (or --show, or --template alone)")
    if args.recipe is not None and args.describe is not None:
        raise UserError("--recipe and --describe exclude each other: leave one out")
    policy: families.Imported
    if args.recipe is not None:
        policy = recipes.load_named(args.source, options)
    elif args.describe is None:
        policy = families.load(args.source, options)
    else:
        policy = described.load(args.source, args.describe, options)
    if args.show:
        print(policy.description_text(), end="")
        return 0
    bundle = sources.import_policy(policy, args.out)
    print(f"next: gaitway validate {bundle}")
    return 0
