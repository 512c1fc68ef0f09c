"""Names of joints and feet: patterns, common endings, and prefixes of mirror images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from gaitway_files.errors import UserError
from gaitway_files.patterns import matches

T = TypeVar("T")


def by_name(values: Mapping[str, T], names: Sequence[str], option: str) -> dict[str, T]:
    """Value of each joint that a pattern matches; the first pattern counts. ``option`` is named in refusals."""
    found: dict[str, T] = {}
    for pattern, value in values.items():
        matching = [name for name in names if matches(pattern, name)]
        if not matching:
            raise UserError(f"{option} {pattern}: no joint that moves has such a name; there are {', '.join(names)}")
        found = dict.fromkeys(matching, value) | found
    return found


def endings(some: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Endings that all of ``some`` have and no others of ``names``; the shortest ones that begin a word."""
    found: list[str] = []
    for name in some:
        if not name.endswith(tuple(found)):
            starts = [k for k in range(len(name) - 1, 0, -1) if name[k] == "_"]
            clear = (k for k in starts if all(each in some for each in names if each.endswith(name[k:])))
            found.append(name[next(clear, 0) :])
    return tuple(found)


def prefix_pairs(images: Mapping[str, str]) -> dict[str, str]:
    """Pairs of prefixes that swap each name for its image, or pairs of whole names where prefixes cannot."""
    pairs: dict[str, str] = {}
    for name, image in images.items():
        one, two = _prefixes(name, image)
        if name != image and two not in pairs:
            pairs.setdefault(one, two)
    if any(_swapped(name, pairs) != image for name, image in images.items()):
        pairs = {}
        for name, image in images.items():
            if name != image and image not in pairs:
                pairs[name] = image
        pairs |= {name: name for name, image in images.items() if name == image and _swapped(name, pairs) != name}
    return pairs


def _swapped(name: str, pairs: Mapping[str, str]) -> str:
    swap = {**pairs, **{two: one for one, two in pairs.items()}}
    prefix = max((each for each in swap if name.startswith(each)), key=len, default="")
    return swap.get(prefix, "") + name[len(prefix) :]


def _prefixes(name: str, image: str) -> tuple[str, str]:
    """The differing beginnings of two names, up to the end of a word."""
    same = 0
    while same < min(len(name), len(image)) and name[-1 - same] == image[-1 - same]:
        same += 1
    rest = name[len(name) - same :]
    word = re.match(r"[A-Za-z0-9]+(?=_)", rest) if rest[:1].islower() or "_" in rest else None
    same -= len(word[0]) if word else 0
    return name[: len(name) - same], image[: len(image) - same]
