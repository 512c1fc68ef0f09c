"""Curriculum by measured success: problems of the levels that a model sometimes solves and sometimes does not."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from gaitway_tasks.language.answers import CORRECT, RIGHT
from gaitway_tasks.language.rows import Row, RowError, Rows, place_of

FIELDS = ("level", "difficulty")
"""Fields of a row that may hold its level; the first that it has counts."""
MOST = 50
"""Most levels: of more, each would be measured too rarely."""
RATE = 0.2
"""Weight of the newest rollout in a level's success."""
FLOOR = 0.02
"""Least weight of a level, so that every one is measured now and then; the greatest is 0.25."""


class Curriculum:
    """Rows of ``source``, their levels drawn by p (1 - p), where p is the success of a level's answers.

    p (1 - p) is the variance of success: how much the rewards of a group tell (Foster and Foerster 2025, "Learning to
    reason at the frontier of learnability"). It is greatest at 0.5, with which every level begins. Rows of a level come
    in the order of the source. Raises :class:`RowError` for rows without levels, or with too many.
    """

    def __init__(self, source: Rows, seed: int):
        self.source, self.seed = source, seed
        self._rows = source.rows("train")
        names = {level_of(row, number) for number, row in enumerate(self._rows)}
        if not 2 <= len(names) <= MOST:
            raise RowError(
                f"task.curriculum=true chooses among levels, and the rows have {len(names)}: give their field "
                f"{FIELDS[0]!r} 2 to {MOST} values, or leave the setting out"
            )
        self.success = dict.fromkeys(sorted(names, key=lambda name: (len(name), name)), 0.5)
        """Moving mean of the share of right answers, by level."""
        self.taken = dict.fromkeys(self.success, 0)
        self._streams = {name: self._stream(name) for name in self.success}

    def _stream(self, name: str) -> Iterator[Row]:
        draw = getattr(self.source, "draw", None)  # of a fixed set of rows, which are then in memory once
        rows = self.source.stream("train", self.seed) if draw is None else draw(self._rows, self.seed)
        return (row for row in rows if level_of(row) == name)

    def draw(self, count: int, call: int) -> list[Row]:
        """The next ``count`` rows; ``call`` seeds the choice of levels."""
        weights = [max(FLOOR, share * (1.0 - share)) for share in self.success.values()]
        chosen = random.Random(f"{self.seed}/levels/{call}").choices(list(self.success), weights, k=count)
        for name in chosen:
            self.taken[name] += 1
        return [next(self._streams[name]) for name in chosen]

    def learn(self, rows: Sequence[Row], parts: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Measure the answers to ``rows`` by the parts of their rewards; numbers for the log."""
        right: dict[str, list[bool]] = {}
        judged = next(parts[name] for name in CORRECT if name in parts)
        for row, value in zip(rows, judged, strict=True):
            if not math.isnan(value):  # else nothing was said of this answer
                right.setdefault(level_of(row), []).append(value >= RIGHT)
        for name, found in right.items():
            self.success[name] += RATE * (sum(found) / len(found) - self.success[name])
        drawn = [level_of(row) for row in rows]
        shares = {f"rollout/level/{name}/share": drawn.count(name) / len(rows) for name in self.success}
        return shares | {f"rollout/level/{name}/success": share for name, share in self.success.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"success": dict(self.success), "taken": dict(self.taken)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.success, self.taken = dict(state["success"]), dict(state["taken"])
        self._streams = {name: islice(self._stream(name), taken, None) for name, taken in self.taken.items()}


def level_of(row: Row, number: int | None = None) -> str:
    """A row's level as text."""
    found = next((row[name] for name in FIELDS if row.get(name) is not None), None)
    if found is None:
        where = "a row" if number is None else place_of(row, number, "the task")
        raise RowError(
            f"task.curriculum=true, and {where} has no {' or '.join(map(repr, FIELDS))}: add it, or map it by "
            "task.source.fields={level: NAME}"
        )
    return str(found)
