"""Processes that share memory, here threads of one process."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from gaitway_agents.core import together
from gaitway_agents.core.together import LostProcess, Together, connected, met
from torch import Tensor

SIZE = 3


def in_each(work: Callable[[Together], Any], size: int = SIZE) -> list[Any]:
    memory, rows = connected(size)
    groups = [Together(rank, memory, row) for rank, row in enumerate(rows)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, groups, timeout=60))


def values(rank: int, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(rank), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 1000, 5000])
def test_sums_are_those_of_torch_everywhere(monkeypatch, dtype, count):
    monkeypatch.setattr(together, "PART", 8192)  # the largest takes several pieces

    def work(group: Together) -> list[Tensor]:
        found = []
        for step in range(20):  # nobody overwrites what another still reads
            x = values(10 * step + group.rank, count, dtype)
            group.sum_(x)
            found.append(x)
        return found

    first, *others = in_each(work)
    for step, x in enumerate(first):
        a, b, c = (values(10 * step + rank, count, dtype) for rank in range(SIZE))
        assert torch.equal(x, a + b + c)  # in the order of the processes, so bit by bit
        assert all(torch.equal(x, other[step]) for other in others)


def test_a_matrix_and_the_first_process_s_number():
    def work(group: Together) -> tuple[Tensor, Tensor]:
        x, number = torch.full((2, 3), float(group.rank)), torch.tensor(7 + group.rank)
        group.sum_(x)
        group.copy_first_(number)
        return x, number

    for x, number in in_each(work):
        assert torch.equal(x, torch.full((2, 3), 3.0)) and number.item() == 7
    with pytest.raises(RuntimeError, match="view"):
        in_each(lambda group: group.sum_(torch.zeros(2, 3).t()))


def test_bfloat16_is_added_in_float32():
    def work(group: Together) -> tuple[Tensor, Tensor]:
        x, first = values(group.rank, 6).bfloat16(), values(group.rank, 6).bfloat16()
        group.sum_(x)
        group.copy_first_(first.view(2, 3))
        return x, first

    wide = sum(values(rank, 6).bfloat16().float() for rank in range(SIZE))
    for x, first in in_each(work):
        assert torch.equal(x, wide.bfloat16()) and torch.equal(first, values(0, 6).bfloat16())


@pytest.mark.parametrize("size", [2, 5])
def test_processes_meet_through_a_store(size, tmp_path, monkeypatch):
    folder = tmp_path / ("long" * size * 10)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    store = torch.distributed.HashStore()

    def work(rank: int) -> Tensor:
        group = met(store, rank, size)
        group.sum_(x := torch.full((3,), 10.0**rank))
        group.close()
        return x

    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(work, reversed(range(size)), timeout=60))
    assert all(x.tolist() == [float("1" * size)] * 3 for x in found)


def test_objects_of_any_size(monkeypatch):
    monkeypatch.setattr(together, "PART", 4096)

    def value(rank: int) -> Any:
        return {"rank": rank, "bytes": random.Random(rank).randbytes(rank * 10_000), "tensor": values(rank, 5)}

    for found in in_each(lambda group: group.objects(value(group.rank))):
        assert [part["rank"] for part in found] == [0, 1, 2]
        for rank, part in enumerate(found):
            assert part["bytes"] == value(rank)["bytes"] and torch.equal(part["tensor"], values(rank, 5))


def test_one_that_is_gone_is_noticed():
    def work(group: Together) -> str:
        group.sum_(torch.zeros(1))
        if group.rank:
            group.sockets[0].close()
            return "gone"
        with pytest.raises(LostProcess):
            for _ in range(2):  # its last byte may have come before the end
                group.sum_(torch.zeros(1))
        return "noticed"

    assert in_each(work, 2) == ["noticed", "gone"]
