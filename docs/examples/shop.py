"""A shop whose prices a model asks for, as docs/language_environments.md shows it."""

from gaitway_tasks.language.env import EnvironmentSource, ToolEnv, Turn
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.language.tools import Tool


def price(item: str, pieces: int = 1) -> str:
    """The price of some pieces of an item."""
    return str(3 * pieces)


class Shop(ToolEnv):
    def __init__(self):
        super().__init__([Tool(price)])

    def reset(self, row):  # equal rows give equal openings
        self.item = ("nut", "bolt")[row["seed"] % 2]
        return f"What do 4 pieces of {self.item} cost?"

    def step(self, answer):
        turn = super().step(answer)  # the reply to a call, if there is one
        return turn if turn.reply else Turn(reward=float("12" in answer))


SHOP = LanguageTask(
    name="shop",
    source=EnvironmentSource(environment=Shop),
    max_turns=3,
    max_prompt_tokens=160,
    max_completion_tokens=256,
)
