"""Communication between processes that learn as one, each on environments of its own.

Every function is the identity, without any communication, unless a process group is up: one of torch.distributed, one
of :mod:`.together`, or both, of which the second is faster and knows no parts. All processes must call the same
functions in the same order.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .together import LostProcess, Together

T = TypeVar("T")
LOST = re.compile(r"[Cc]onnection|[Bb]roken pipe|[Tt]imed out|NCCL|gloo/transport")
"""Parts of the messages of gloo and NCCL about a process that is gone."""

# What torch 2.13 calls them, and what they were called before.
_scatter: Any = getattr(dist, "reduce_scatter_single", None) or getattr(dist, "reduce_scatter_tensor", None)
_gather: Any = getattr(dist, "all_gather_single", None) or getattr(dist, "all_gather_into_tensor", None)

PIECE = 2**24
"""Numbers of a part that are exchanged at a time."""

_together: Together | None = None


class Pulse:
    """How far this process is, for a thread that watches it."""

    number = 0
    """Exchanges begun."""
    waits = False
    """True within an exchange."""
    alone = False
    """True while this process works, and the others know that they must wait."""

    def __init__(self) -> None:
        self.since = time.monotonic()

    def idle(self) -> float:
        """Seconds since an exchange began or ended."""
        return time.monotonic() - self.since


pulse = Pulse()


@contextmanager
def alone() -> Iterator[None]:
    """Context in which this process may take as long as it likes, whatever the others wait."""
    pulse.alone = True
    try:
        yield
    finally:
        pulse.since = time.monotonic()
        pulse.alone = False


@contextmanager
def _exchange() -> Iterator[None]:
    """Context of one message. Raises LostProcess where another process is gone."""
    pulse.number, pulse.waits, pulse.since = pulse.number + 1, True, time.monotonic()
    try:
        yield
    except RuntimeError as error:
        if LOST.search(str(error)):
            raise LostProcess("another process of the training has ended; continue with --resume") from error
        raise
    finally:
        pulse.waits, pulse.since = False, time.monotonic()


@contextmanager
def joined(group: Together) -> Iterator[None]:
    """Context in which this process is one of ``group``, which it leaves at the end."""
    global _together
    _together = group
    try:
        yield
    finally:
        _together = None
        group.close()


def size() -> int:
    """Number of processes that learn together."""
    if _together is not None:
        return _together.size
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number, 0 for the one that keeps the records."""
    if _together is not None:
        return _together.rank
    return dist.get_rank() if size() > 1 else 0


def sum_(x: Tensor) -> Tensor:
    """Replace ``x`` by its sum over all processes."""
    if size() > 1:
        with _exchange():
            dist.all_reduce(x) if _together is None else _together.sum_(x)
    return x


def mean_(x: Tensor) -> Tensor:
    """Replace ``x`` by its mean over all processes."""
    if size() > 1:
        sum_(x).div_(size())
    return x


def means_(*parts: Tensor) -> None:
    """Replace each of several tensors by its mean over all processes, with one message."""
    if size() > 1:
        joint = mean_(torch.cat([part.flatten() for part in parts]))
        for part, mean in zip(parts, joint.split([part.numel() for part in parts]), strict=True):
            part.copy_(mean.view_as(part))


def from_first_(x: Tensor) -> Tensor:
    """Replace ``x`` by its value in process 0."""
    if size() > 1:
        with _exchange():
            dist.broadcast(x, 0) if _together is None else _together.copy_first_(x)
    return x


def own_part_of_mean_(x: Tensor) -> None:
    """Replace this process's part of ``x`` (N,), of equal parts in the order of their ranks, by that of the mean over
    all processes; piece by piece, with little memory."""
    for own, others in _pieces(x):
        with _exchange():
            _scatter(part := torch.empty_like(own), others.flatten())
        own.copy_(part.div_(size()))


def share_parts_(x: Tensor) -> None:
    """Replace each of the equal parts of ``x`` (N,) by what the process of its rank has there."""
    for own, others in _pieces(x):
        with _exchange():
            _gather(found := others.new_empty(others.numel()), own)
        others.copy_(found.view_as(others))


def _pieces(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of this process's part of ``x``, and of all parts, one in each row."""
    if (count := size()) > 1:
        parts = x.view(count, -1)
        yield from zip(parts[rank()].split(PIECE), parts.split(PIECE, dim=1), strict=True)


def total(number: int, device: torch.device) -> int:
    """Sum of the ``number`` of all processes."""
    return number if size() == 1 else int(sum_(torch.tensor(number, device=device)))


def most(number: int, device: torch.device) -> int:
    """The largest ``number`` of any process."""
    if size() == 1:
        return number
    found = torch.tensor(number, device=device)
    with _exchange():
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def any_of(flag: bool, device: torch.device) -> bool:
    """True if ``flag`` is set in any process."""
    if size() == 1:
        return flag
    return bool(sum_(torch.tensor(float(flag), device=device)))


def same_everywhere(number: int, device: torch.device) -> bool:
    """True if all processes call this with the same number."""
    if size() == 1:
        return True
    first = int(from_first_(torch.tensor(number, device=device)))
    return not any_of(first != number, device)


def gathered(value: T) -> list[T]:
    """In the first process the values of all, in their order; in the others nothing."""
    if size() == 1:
        return [value]
    found: list[Any] | None = [None] * size() if rank() == 0 else None
    with _exchange():
        if _together is None:
            dist.gather_object(value, found)
        else:
            found = _together.objects(value)
    return found if found and rank() == 0 else []


def moments(x: Tensor) -> tuple[Tensor | int, Tensor, Tensor]:
    """Number of rows of ``x`` (B, ...) in all processes together, their mean and their variance (not Bessel's)."""
    # Two passes: a sum of squares would lose the variance of what lies far from zero. Torch's own takes far longer.
    if size() == 1:
        mean = x.mean(0)
        return len(x), mean, (x - mean).square_().mean(0)
    count = torch.full((1,), float(len(x)), dtype=torch.float64, device=x.device)
    sums = torch.cat((count, x.sum(0).flatten().double()))
    sum_(sums)
    total = sums[0]
    mean = (sums[1:] / total.clamp(min=1.0)).to(x.dtype).view(x.shape[1:])
    squares = (x - mean).square().sum(0)
    sum_(squares)
    return total, mean, squares / total.clamp(min=1.0).to(x.dtype)
