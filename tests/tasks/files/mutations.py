"""Damage to files: bits, cuts, blocks, and numbers and words at their extremes."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator

EXTREMES = (
    b"0", b"-1", b"1e300", b"-1e-300", b"nan", b".inf", b"Infinity", b"9" * 25, b"9" * 5000, b"0x" + b"f" * 40,
    b"1e999", b"null", b"~", b"true", b"[]", b"{}", b"''", b'""', b"[[", b"- ", b"&a [*a]", b"*a", b"<<: *a",
    b"!!python/name:os.x", b"!!python/object/apply:builtins.slice [1,2,3,4]", b"!!int ''", b"!!bool x", b"\0", b"\xff",
    b"\r", b"\x1b[2J", b"${oc.env:HOME}", b"../../etc/passwd", b"<!--", b"1 2 3 4 5 6 7 8 9", b"a" * 9999,
    b"2001-99-99", b"1:2:3:4",
)  # fmt: skip
WORDS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
TOKEN = re.compile(rb"[-+]?[0-9][0-9.eE+-]*|[A-Za-z_][A-Za-z_0-9]*")

Steps = list[tuple[int, int, int]]
"""Damages to a file in turn: kind of damage, place, and a number for it."""


def random_steps(seed: str, count: int) -> Iterator[Steps]:
    """``count`` times one to three steps, the same for the same ``seed``."""
    draw = random.Random(seed)
    for _ in range(count):
        yield [(draw.randrange(9), draw.getrandbits(32), draw.getrandbits(32)) for _ in range(draw.randint(1, 3))]


def damaged(content: bytes, steps: Steps) -> bytes:
    for kind, place, what in steps:
        content = _step(content, kind, place, what)
    return content


def _step(content: bytes, kind: int, place: int, what: int) -> bytes:
    at = place % max(1, len(content))
    length = what % 64 + 1
    if kind == 0:  # a bit
        return content[:at] + bytes(byte ^ (1 << what % 8) for byte in content[at : at + 1]) + content[at + 1 :]
    if kind == 1:
        return content[:at]
    if kind == 2:  # a block twice
        return content[: at + length] + content[at:]
    if kind == 3:  # a block gone
        return content[:at] + content[at + length :]
    if kind == 4:  # a block elsewhere
        other = what % max(1, len(content))
        return content[:at] + content[other : other + length] + content[at + length :]
    if kind == 5:  # a number of a fixed length
        packed = struct.pack(("<Q", "<L", "<H")[place % 3], WORDS[what % len(WORDS)] % 2 ** (64, 32, 16)[place % 3])
        return content[:at] + packed + content[at + len(packed) :]
    extreme = EXTREMES[what % len(EXTREMES)]
    if kind == 6 or not (found := TOKEN.search(content, at) or TOKEN.search(content)):
        return content[:at] + extreme + content[at:]
    return content[: found.start()] + extreme + content[found.end() :]


def inside_zip(content: bytes, steps: Steps, change: Callable[[bytes, Steps], bytes] = damaged) -> bytes:
    """The archive with one member damaged, and checksums that are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        kind = archive.infolist()[0].compress_type
    chosen = sorted(members)[steps[0][1] % len(members)]
    members[chosen] = change(members[chosen], steps)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()
