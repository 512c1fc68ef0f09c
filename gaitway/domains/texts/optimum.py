"""The exact optimum of tasks that play a Gymnasium environment with tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError
from gaitway_tasks.language.gyms import GymnasiumSource

if TYPE_CHECKING:
    from gaitway_tasks.language.spec import LanguageTask, Row


def optimum(task: LanguageTask, rows: Sequence[Row]) -> float | None:
    """Mean of the best expected returns from the states that ``rows`` begin in, within the task's turns.

    As of the best policy that sees the clock; None where nothing has a table of the environment.
    """
    if not isinstance(task.source, GymnasiumSource) or task.environment is not None:
        return None
    from gaitway_agents.tabular.dynamic_programming import best_within
    from gaitway_agents.tabular.model import model_of

    env = task.source.make()
    try:
        model = model_of(env)
    except UserError:
        return None
    turns = min(task.max_turns, model.time_limit or task.max_turns)
    values = best_within(model, turns)[0][turns]
    return sum(float(values[int(env.reset(seed=row["seed"])[0])]) for row in rows) / len(rows)
