"""Tasksets of verifiers as environments of texts: the real package, of this Python or GAITWAY_VERIFIERS_PYTHON's."""

import importlib.util
import os
import pickle
import sys
from itertools import islice

import pytest
from gaitway_files.errors import NotDone, UserError
from gaitway_files.trust import TrustError
from gaitway_tasks.language import verifiers
from gaitway_tasks.language.env import Turn
from gaitway_tasks.language.tasks import get_language_task
from gaitway_tasks.language.verifiers import VerifiersSource, module_of

HERE = verifiers.PYTHON in os.environ or importlib.util.find_spec("verifiers")
real = pytest.mark.skipif(
    not HERE, reason=f"verifiers is not installed: pip install verifiers, or set {verifiers.PYTHON}"
)

SUMS = """
import verifiers.v1 as vf
from verifiers.v1.utils.score import verify_boxed_math_answer

__all__ = ["Sums"]


class Data(vf.TaskData):
    answer: str


class Config(vf.TasksetConfig):
    count: int = 12
    largest: int = 50


class Sum(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def right(self, task, trace) -> float:
        return verify_boxed_math_answer(trace.last_reply, task.answer)

    @vf.reward(weight=0.5)
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 20)

    @vf.metric
    async def turns(self, trace) -> float:
        return trace.num_turns


class Sums(vf.Taskset[Sum, Config]):
    def load(self):
        print("loading")  # which must not disturb the answers
        for i in range(self.config.count):
            a, b = i, (7 * i) % self.config.largest
            yield Sum(Data(prompt=f"{a} + {b} = ?", system_prompt="Use a box.", answer=str(a + b)), self.config.task)
"""
GUESS = """
import itertools
import verifiers.v1 as vf

__all__ = ["Guessing", "Guess"]


class Data(vf.TaskData):
    number: int


class Task(vf.Task[Data]):
    @vf.stop
    async def gives_up(self, trace: vf.Trace) -> bool:
        return "give up" in trace.last_reply

    @vf.reward
    async def polite(self, trace) -> float:
        return 0.1 * sum("please" in m.content for m in trace.assistant_messages)


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class Guess(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        won = 0.0
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn("Guess a number from 0 to 9.")
            while not segment.terminated:
                if str(task.data.number) in segment.last_reply:
                    won = 1.0
                    break
                segment = await talk.turn("No. Again?")
            talk.trace.record_reward("won", won)


class Guessing(vf.Taskset[Task]):
    INFINITE = True

    def load(self):
        for i in itertools.count():
            yield Task(Data(number=i % 10, name=f"game {i}"))
"""
SHOP = """
import verifiers.v1 as vf

__all__ = ["Shop"]


class Prices(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "shop"

    async def setup(self):
        self.prices = {"apple": 2.5, "pear": 4.0}

    async def setup_task(self, task):
        self.prices[task.extra] = 7.0

    @vf.tool
    async def price(self, fruit: str) -> float:
        \"\"\"The price of a fruit.\"\"\"
        return self.prices[fruit]

    @vf.tool
    def total(self, price: float, count: int = 1) -> str:
        \"\"\"A price times a count.\"\"\"
        return f"{price * count:g}"


class Data(vf.TaskData):
    extra: str


class Task(vf.Task[Data]):
    @classmethod
    def toolsets(cls, config):
        return [Prices(vf.ToolsetConfig())]

    @vf.reward
    async def asked(self, trace) -> float:
        return len(trace.tool_messages) + 10.0 * ("14" in trace.last_reply)


class Shop(vf.Taskset[Task]):
    def load(self):
        for extra in ("fig", "date", "lime"):
            yield Task(Data(prompt=f"What do two {extra}s cost?", extra=extra))
"""
REFUSED = {
    "needs_key": ("def load(self): raise RuntimeError('set OPENAI_API_KEY')", "", "OPENAI_API_KEY"),
    "needs_box": ("def load(self): return [T(vf.TaskData(prompt='x'))]", "NEEDS_CONTAINER = True", "container"),
    "needs_files": (
        "def load(self): return [T(vf.TaskData(prompt='x'))]",
        "@vf.reward\n    async def tests(self, trace, runtime) -> float:\n        return 1.0",
        "tests looks at the files",
    ),
    "sees": (
        "def load(self): return [T(vf.TaskData(prompt=[vf.UserMessage(content=[{'type': 'image_url', "
        "'image_url': {'url': 'data:x'}}])]))]",
        "",
        "picture",
    ),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the packages, which Python finds."""
    folder = tmp_path_factory.mktemp("tasksets")
    (folder / "my_sums.py").write_text(SUMS)
    (folder / "guessing.py").write_text(GUESS)
    (folder / "shop.py").write_text(SHOP)
    for name, (load, task, _) in REFUSED.items():
        text = f"import verifiers.v1 as vf\n__all__ = ['S']\nclass T(vf.Task[vf.TaskData]):\n    {task or 'pass'}\n"
        (folder / f"{name}.py").write_text(f"{text}class S(vf.Taskset[T]):\n    {load}\n")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [before])])
    yield folder
    verifiers._host.cache_clear()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def test_ids_are_modules():
    assert [module_of(name) for name in ("sums", "me/My-Sums@1.2")] == ["sums", "my_sums"]


def test_code_that_only_a_file_names_is_not_run():
    with pytest.raises(TrustError, match="--trust not_named"):
        VerifiersSource(taskset="not-named").rows("test")


def test_without_verifiers_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv(verifiers.PYTHON, sys.executable)
    monkeypatch.setenv("PYTHONPATH", "")
    if importlib.util.find_spec("verifiers"):
        pytest.skip("verifiers is installed here")
    with pytest.raises(UserError, match=r"pip install verifiers, or name a Python"):
        get_language_task("verifiers:anything")
    monkeypatch.setenv(verifiers.PYTHON, "/nowhere/python")
    with pytest.raises(UserError, match="/nowhere/python"):
        get_language_task("verifiers:anything-else")


@real
@pytest.mark.slow
def test_a_taskset_of_one_turn_is_rows_and_rewards(packages):
    task = get_language_task("verifiers:my-sums")
    assert task.rewarded and task.plays
    source = VerifiersSource(taskset="my-sums", test=4)
    tests, trains = source.rows("test"), source.rows("train")
    assert [row["task"] for row in tests] == [0, 1, 2, 3] and [row["task"] for row in trains] == list(range(4, 12))
    assert tests[1]["prompt"] == [
        {"role": "system", "content": "Use a box."},
        {"role": "user", "content": "1 + 7 = ?"},
    ]
    drawn = list(islice(source.stream("train", 0), 16))
    assert sorted(row["task"] for row in drawn[:8]) == sorted(row["task"] for row in drawn[8:]) == list(range(4, 12))
    assert drawn == list(islice(source.stream("train", 0), 16)) != list(islice(source.stream("train", 1), 16))
    env = source.new(4)
    for answer, reward in ((r"\boxed{8}", 2.5), (r"\boxed{9}", 0.5), (r"I think that it may be \boxed{8}.", 2.0)):
        assert env.reset(tests[1]) == tests[1]["prompt"]
        assert env.step(answer) == Turn(reward=reward)


@real
@pytest.mark.slow
def test_settings_are_the_tasksets_own(packages):
    get_language_task("verifiers:my-sums")
    source = VerifiersSource(taskset="my-sums", params={"count": 3, "largest": 5}, test=2)
    assert source.rows("train")[0]["prompt"][-1]["content"] == "2 + 4 = ?"
    with pytest.raises(UserError, match=r"make task\.source\.test smaller"):
        VerifiersSource(taskset="my-sums", params={"count": 2}, test=2).rows("train")
    with pytest.raises(UserError, match="size"):
        VerifiersSource(taskset="my-sums", params={"size": 3}).rows("test")


@real
@pytest.mark.slow
def test_an_environment_replies_until_its_dialogue_ends(packages):
    task = get_language_task("verifiers:guessing").replace(max_turns=3)
    source = VerifiersSource(taskset="guessing", test=2, train=20)
    row = source.rows("test")[1]
    assert row["prompt"] == [{"role": "user", "content": "Guess a number from 0 to 9."}]
    # tasks 11, 21, ... are those of the test rows again
    assert [r["task"] for r in source.rows("train")] == [i for i in range(2, 22) if i % 10 > 1]
    env, other = task.new_environment(), task.new_environment()
    for each in (env, other):  # two dialogues at once
        assert each.reset(row) == row["prompt"]
        assert each.step("5, please") == Turn("No. Again?")
    assert env.step("1") == Turn(reward=pytest.approx(1.1))
    assert other.step("6 please") == Turn("No. Again?")
    assert other.step("7") == Turn(reward=pytest.approx(0.2))  # the last of three turns
    assert env.reset(row) == row["prompt"]
    assert env.step("I give up") == Turn(reward=0.0)
    env.reset(row)
    assert env.reset(row) == row["prompt"]
    assert len(env.host.ask("open_dialogues")["dialogues"]) == 1  # one that was left is forgotten
    host = env.host
    del env
    assert host.ask("open_dialogues")["dialogues"] == []
    assert pickle.loads(pickle.dumps(other)).reset(row) == row["prompt"]


@real
@pytest.mark.slow
def test_tools_are_told_and_called(packages):
    task = get_language_task("verifiers:shop")
    env = task.new_environment()
    assert [(tool.name, tool.about) for tool in env.tools] == [
        ("shop_price", "The price of a fruit."),
        ("shop_total", "A price times a count."),
    ]
    assert env.tools[0].schema["function"]["parameters"]["properties"]["fruit"]["type"] == "string"
    row = VerifiersSource(taskset="shop", test=1).rows("test")[0]
    assert env.reset(row) == [{"role": "user", "content": "What do two figs cost?"}]
    assert env.step("<tool>shop_price: fig</tool>") == Turn("7.0", role="tool")
    call = '<tool_call>{"name": "shop_total", "arguments": {"price": 7, "count": "2"}}</tool_call>'
    assert env.step(call) == Turn("14", role="tool")
    assert env.step("14 in all") == Turn(reward=12.0)
    env.reset(row)
    assert (
        env.step("<tool>shop_prize: fig</tool>").reply
        == "error: no tool 'shop_prize', there are shop_price, shop_total"
    )
    assert env.step("<tool>shop_price: rock</tool>").reply.startswith("error: ")
    assert env.step("<tool>shop_total: 3</tool>").reply == "error: shop_total takes price, count, by name"
    last = task.replace(max_turns=1).new_environment()
    last.reset(row)
    assert last.step("<tool>shop_price: fig</tool>") == Turn(reward=1.0)  # the reply comes too late to be read


@real
@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_played_is_said_in_one_line(packages, name):
    with pytest.raises((UserError, NotDone), match=REFUSED[name][2]) as caught:
        get_language_task(f"verifiers:{name}").source.rows("test")
    assert "\n" not in str(caught.value) and f"verifiers:{name}" in str(caught.value)


@real
@pytest.mark.slow
def test_a_taskset_that_is_not_there_is_named(packages):
    with pytest.raises(UserError, match="Install the package 'no_such_taskset'"):
        get_language_task("verifiers:no-such-taskset")
