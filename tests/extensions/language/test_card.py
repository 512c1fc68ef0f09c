"""The measurement of a card, at a size that a processor has room for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from real_gpu import needs_gpu
from tree import ROOT

SCRIPT = ROOT / "benchmarks" / "language_card.py"
SMALL = ["--prompts", "2", "--group", "4", "--batch", "8", "--prompt-tokens", "16", "--answer-tokens", "24"]


def table(monkeypatch: Any, file: Path, *options: str) -> list[list[str]]:
    """Cells of the rows that the script leaves in a file."""
    spec = importlib.util.spec_from_file_location("language_card", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "language_card", script)
    spec.loader.exec_module(script)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--out", str(file), *options])
    script.main()
    lines = [line for line in file.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_agent_is_measured(monkeypatch, tmp_path, capsys):
    sft, grpo = table(monkeypatch, tmp_path / "card.md", "--sizes", "tiny", "--device", "cpu", *SMALL)
    assert sft[:3] == ["tiny", "sft", "all weights"] and grpo[:3] == ["tiny", "grpo", "all weights"]
    assert sft[3] == grpo[3] == "4096 tokens"
    assert float(sft[4]) > 0.0 and float(grpo[7]) >= float(grpo[8]) > 0.0  # GiB expected; s/update, of it sampling
    assert sft[8:10] == ["-", "-"] and float(grpo[9].replace(",", "")) > 0.0  # SFT samples nothing
    assert sft[11] == grpo[11] == "2"
    assert capsys.readouterr().out == (tmp_path / "card.md").read_text()


def test_no_row_begins_without_time(monkeypatch, tmp_path):
    rows = table(monkeypatch, tmp_path / "card.md", "--sizes", "tiny", "--device", "cpu", "--minutes", "0")
    assert [row[2] for row in rows] == ["not measured: no time left"] * 2


@needs_gpu
def test_the_estimate_is_what_a_gpu_needs(monkeypatch, tmp_path):
    more = ["--updates", "1", "--prompts", "4"]
    rows = table(monkeypatch, tmp_path / "card.md", "--sizes", "0.5B", *more)
    rows += table(monkeypatch, tmp_path / "lora.md", "--sizes", "0.5B", "--lora", "--agents", "sft", *more)
    for row in rows:
        expected, loading, updating = (float(cell) for cell in row[4:7])
        assert 0.6 * expected < max(loading, updating) < 1.05 * expected, row
