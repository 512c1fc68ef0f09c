"""Attacks and accidents, counted: what was tried on Gaitway, and what held.

    python benchmarks/hostile.py [--table "untrusted files"] [--jobs 2]

The attacks are tests, marked ``hostile(TABLE)``: each says for itself what must not happen. A test that tries many
says how many. Printed for each table: attacks tried and held, by file of tests; then every one that did not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class Tally:
    """A pytest plugin that counts attacks by table and file."""

    def __init__(self, table: str | None):
        self.table = table
        self.tried: dict[str, Counter[str]] = defaultdict(Counter)
        self.held: dict[str, Counter[str]] = defaultdict(Counter)
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = dict(report.user_properties)
        if "hostile" not in facts or (report.when != "call" and report.passed):
            return
        table, file = str(facts["hostile"]), report.nodeid.partition("::")[0]
        if report.skipped or (self.table is not None and table != self.table):
            return
        count = int(facts.get("attacks", 1))
        self.tried[table][file] += count
        if report.passed:
            self.held[table][file] += count
        else:
            self.failures.append(report.nodeid)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="count this table alone")
    parser.add_argument("--jobs", default="auto")
    options = parser.parse_args()
    tally = Tally(options.table)
    pytest.main(["-q", "-m", "hostile", "-n", options.jobs, "--no-header", "-p", "no:cacheprovider",
                 "--rootdir", str(ROOT), str(ROOT / "tests")], plugins=[tally])  # fmt: skip
    for table, files in sorted(tally.tried.items()):
        held = tally.held[table]
        print(f"\n{table}: {sum(held.values()):,} of {sum(files.values()):,} held")
        for file, count in sorted(files.items()):
            print(f"  {held[file]:>6,} of {count:>6,}  {file}")
    print("\n" + ("\n".join(f"NOT HELD {name}" for name in tally.failures) or "all held"))
    return 1 if tally.failures or not tally.tried else 0


if __name__ == "__main__":
    sys.exit(main())
