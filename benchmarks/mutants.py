"""Mutants: which small faults do the tests find? A sample of changed comparisons, signs and constants of the product.

    python benchmarks/mutants.py [--count 100] [--seed 0] [--tests REVISION] [--select EXPRESSION] [--out runs/mutants]

The sample depends on --seed and on the code of HEAD alone. First all tests run once with a probe at each place that
will change, which writes down who passes there. Then each mutant is tried by the tests that pass at its line, the fast
ones first, until one fails; a place that is used on import is tried by the tests of its folder and by those that import
it. Tests that fail without a mutant are left out and named. With --tests, the tests are those of another revision, so
that both can be compared; --select is passed on as pytest's -m. Started again, the script goes on where it stopped.
It writes OUT/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATHS = ("", "agents", "extensions", "sim2real", "tasks", "tests", "tests/helpers")
PACKAGES = ("agents", "extensions", "gaitway", "sim2real", "tasks")
MOST = 240.0
"""Seconds of tests for a mutant, by their time in the first run."""
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
}  # fmt: skip
EQUIVALENT: dict[str, str] = {}
"""Mutants that change nothing that a test could see, by name, with the reason."""

PROBE = '''
"""Who passes at a place that will change, and which tests fail or take how long."""

import functools
import json
import os
from pathlib import Path

OUT = Path(os.environ["GAITWAY_MUTANTS"])


@functools.cache
def note(place, test):
    with (OUT / "reached.jsonl").open("a") as file:
        file.write(json.dumps([place, test]) + "\\n")


def passed(place, value):
    note(place, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0])
    return value


def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with (OUT / "tests.jsonl").open("a") as file:
            file.write(json.dumps([report.nodeid, report.failed, report.duration]) + "\\n")
'''


@dataclass(frozen=True)
class Mutant:
    path: str
    """Relative to the checkout."""
    start: int
    """First byte of the expression."""
    end: int
    place: str
    """Line and column."""
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.place} {self.before} -> {self.after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", default="HEAD", metavar="REVISION", help="whose tests")
    parser.add_argument("--select", default="", metavar="EXPRESSION", help="pytest's -m; all tests unless it is given")
    parser.add_argument("--out", type=Path, default=Path("runs/mutants"))
    options = parser.parse_args()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    if not (tree := out / "tree").exists():
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
        subprocess.run(["git", "-C", tree, "checkout", "-q", options.tests, "--", "tests"], check=True)
    chosen = sample(sorted(mutants(tree), key=lambda one: one.name), options.seed, options.count)
    if not (out / "reached").exists():
        find_reached(chosen, tree, out, options.select)
    done = {row["name"] for row in rows(out / "mutants.jsonl")}
    for mutant in chosen:
        if mutant.name not in done:
            row = {"name": mutant.name, **tried(mutant, chosen.index(mutant), tree, out)}
            with (out / "mutants.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['end']:<10} {row['seconds']:>5} s  {row['name']}", flush=True)
    (out / "mutants.md").write_text(table(out), "utf-8")
    print(f"\n{table(out)}\n\nin {out / 'mutants.md'}")


def sample(found: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """Mutants none of which lies within another."""
    chosen: list[Mutant] = []
    for one in random.Random(seed).sample(found, len(found)):
        if not any(one.path == other.path and one.start < other.end and other.start < one.end for other in chosen):
            chosen.append(one)
        if len(chosen) == count:
            break
    return chosen


def mutants(tree: Path) -> Iterator[Mutant]:
    """All of the product's code."""
    for package in PACKAGES:
        for path in sorted((tree / package).rglob("*.py")):
            text = path.read_bytes()
            starts = [0]
            for line in text.splitlines(keepends=True):
                starts.append(starts[-1] + len(line))
            for node, after in changes(ast.parse(text)):
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                before = text[start:end].decode()
                if "\n" not in before:
                    yield Mutant(
                        str(path.relative_to(tree)), start, end, f"{node.lineno}:{node.col_offset}", before, after
                    )


def changes(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Expressions below a node, each with the changed one."""
    if isinstance(node, ast.JoinedStr | ast.MatchValue | ast.arg):  # places in an f-string are not known
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield node, f"{sides[0]} {SWAPS[type(node.ops[0])]} {sides[1]}"
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in SWAPS
        and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        yield node, f"({ast.unparse(node.left)}) {SWAPS[type(node.op)]} ({ast.unparse(node.right)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield node, repr(changed(node.value))
    for name, child in ast.iter_fields(node):
        if name not in ("annotation", "returns", "bases", "decorator_list"):
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ast.AST):
                    yield from changes(each)


def changed(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else 2 * value or 1.0


def find_reached(chosen: list[Mutant], tree: Path, out: Path, select: str) -> None:
    """Run all tests with a probe at each place."""
    (out / "gaitway_mutants_probe.py").write_text(PROBE, "utf-8")
    for name in ("reached.jsonl", "tests.jsonl"):
        (out / name).unlink(missing_ok=True)
    originals = {}
    for place, mutant in sorted(enumerate(chosen), key=lambda item: -item[1].start):
        path = tree / mutant.path
        originals.setdefault(path, path.read_bytes())
        text = path.read_bytes()
        probe = f'__import__("gaitway_mutants_probe").passed({place}, {mutant.before})'.encode()
        path.write_bytes(text[: mutant.start] + probe + text[mutant.end :])
    try:
        run_pytest(tree, out, ["-n", "2", "-p", "gaitway_mutants_probe", *(["-m", select] if select else [])], None)
    finally:
        for path, text in originals.items():
            path.write_bytes(text)
    (out / "reached").touch()


def tried(mutant: Mutant, place: int, tree: Path, out: Path) -> dict[str, Any]:
    """How the tests of a mutant end."""
    seconds: dict[str, float] = defaultdict(float)
    failing = set()
    for test, failed, duration in rows(out / "tests.jsonl"):
        seconds[test] += duration
        failing |= {test} if failed else set()
    reached = {test for number, test in rows(out / "reached.jsonl") if number == place}
    if not reached:
        return {"end": "unreached", "seconds": 0, "tests": 0}
    chosen = reached - {""} or {test for test in seconds if near(test, mutant.path, tree)}
    wanted, total = [], 0.0
    for test in sorted(chosen & seconds.keys() - failing, key=lambda test: seconds[test]):
        if wanted and total + seconds[test] > MOST:
            break
        wanted.append(test)
        total += seconds[test]
    if not wanted:
        return {"end": "unreached", "seconds": 0, "tests": 0}
    path = tree / mutant.path
    text = path.read_bytes()
    path.write_bytes(text[: mutant.start] + f"({mutant.after})".encode() + text[mutant.end :])
    try:
        (out / "wanted.txt").write_text("\n".join(wanted), "utf-8")
        code = run_pytest(tree, out, ["-x", "-m", "slow or not slow", f"@{out / 'wanted.txt'}"], 3 * total + 120)
    finally:
        path.write_bytes(text)
    return {"end": {0: "survived", None: "too slow"}.get(code, "found"), "seconds": round(total), "tests": len(wanted)}


def near(test: str, path: str, tree: Path) -> bool:
    """True if a test stands in the folder that mirrors the module, or imports it."""
    file = test.partition("::")[0]
    package, _, inner = path.removesuffix(".py").partition("/")
    folder = f"{package}/{inner}".replace("sim2real/gaitway_onboard", "sim2real/onboard").replace(
        "tasks/gaitway_files", "tasks/files"
    )
    for own in ("agents/gaitway_agents", "sim2real/gaitway_sim2real", "tasks/gaitway_tasks"):
        folder = folder.replace(own, own.partition("/")[0])
    folder = folder.replace("extensions/gaitway_", "extensions/")
    if file.startswith(f"tests/{folder.rpartition('/')[0]}/test_"):
        return True
    module = (path if package == "gaitway" else inner).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    text = (tree / file).read_text("utf-8") if (tree / file).exists() else ""
    return module in text or f"from {module.rpartition('.')[0]} import {module.rpartition('.')[2]}" in text


def run_pytest(tree: Path, out: Path, arguments: list[str], limit: float | None) -> int | None:
    """Exit code, None after ``limit`` seconds."""
    python_path = os.pathsep.join([str(out), *(str(tree / path) for path in PATHS)])
    environment = os.environ | {"PYTHONPATH": python_path, "GAITWAY_MUTANTS": str(out), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    with (out / "pytest.log").open("w") as log:
        try:
            return subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            return None


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def table(out: Path) -> str:
    found = rows(out / "mutants.jsonl")
    ends = Counter("equivalent" if row["name"] in EQUIVALENT else row["end"] for row in found)
    lines = ["| end | mutants |", "|---|---|", *(f"| {end} | {count} |" for end, count in ends.most_common()), ""]
    lines += [f"- {row['end']}: `{row['name']}`" for row in found if row["end"] in ("survived", "unreached")]
    failing = sorted({test for test, failed, _ in rows(out / "tests.jsonl") if failed})
    return "\n".join([*lines, *(f"- failed without a mutant: `{test}`" for test in failing)])


if __name__ == "__main__":
    main()
