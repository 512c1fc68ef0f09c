"""Verdict and gate as JUnit XML, as GitHub, GitLab and Jenkins show it: a test case for each required scenario."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from gaitway_files.reading import printable
from gaitway_files.writing import write_text

from .gate import Gate
from .verdict import Verdict


def write_junit(path: Path, verdict: Verdict, gate: Gate | None = None) -> Path:
    """Write the file, atomically.

    With a gate there is also a test case for its word, and a scenario that the baseline fails too is skipped.
    """
    suite = ElementTree.Element("testsuite", name=f"gaitway validate, suite {verdict.suite_version}")
    before = {} if gate is None else {result.name: result for result in gate.old.scenarios if result.required}
    results = {result.name: result for result in verdict.scenarios if result.required}
    for name, result in (before | results).items():
        case = _case(suite, verdict, result.title)
        if name not in results:
            _child(case, "failure" if result.passed else "skipped", "left out for this policy")
        elif not result.passed:
            failed = "; ".join(check.sentence() for check in result.checks if not check.passed)
            known = name in before and not before[name].passed
            _child(case, "skipped" if known else "failure", f"the baseline fails it too: {failed}" if known else failed)
    if gate is not None:
        case = _case(suite, verdict, "Compared with the baseline")
        why = "; ".join(gate.why)
        if not gate.passed:
            _child(case, "failure", f"{gate.word}: {why}")
        ElementTree.SubElement(case, "system-out").text = printable(f"{gate.word}: {why}. {gate.power()}")
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        suite.set(name, str(len(list(suite.iter(tag)))))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root, " ")
    return write_text(path, ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def _case(suite: ElementTree.Element, verdict: Verdict, title: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=printable(verdict.robot), name=printable(title))


def _child(case: ElementTree.Element, tag: str, message: str) -> None:
    ElementTree.SubElement(case, tag, message=printable(message))
