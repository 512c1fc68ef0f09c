"""The chat templates that TRL ships: opened thoughts and calls of tools, as the templates themselves write them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from gaitway_language.conversation import Conversation, ConversationError, calls_are_read
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.answers import has_format
from gaitway_tasks.language.tasks import get_language_task
from gaitway_tasks.language.tools import TOOLS, call_tools
from transformers import AddedToken

from gaitway.domains.texts.data import make_conversation

SPEC = importlib.util.find_spec("trl")
FOLDERS = SPEC.submodule_search_locations if SPEC and SPEC.submodule_search_locations else []
TEMPLATES = {path.stem: path for folder in FOLDERS for path in sorted(Path(folder, "chat_templates").glob("*.jinja"))}
pytestmark = pytest.mark.skipif(not TEMPLATES, reason="TRL is not installed")

SPECIAL = re.compile(r"<[|｜][\w▁]+(?:[|｜]>|>)|<\w+\|>|<(?:start|end)_of_\w+>")
OWN_WORDS = ("diffusion_gemma", "gemma4", "gptoss", "lfm2", "muse")
"""Templates whose calls are read in no form: Python, gpt-oss' channels and others."""
NO_CONVERSATION = ("llava", "idefics", "smolvlm")
"""Templates that take messages of parts alone."""


@pytest.fixture(params=sorted(TEMPLATES))
def tokenizer(request):
    found = build_tokenizer(["a question"])
    found.name_or_path, found.chat_template = request.param, TEMPLATES[request.param].read_text()
    found.bos_token = "<user>"
    found.add_tokens([AddedToken(text, special=True) for text in sorted(set(SPECIAL.findall(found.chat_template)))])
    return found


def rendered(tokenizer, *messages, **settings):
    asked = {"role": "user", "content": "@@question@@"}
    return tokenizer.apply_chat_template([asked, *messages], tokenize=False, **settings).rpartition("@@question@@")[2]


def test_thoughts_that_a_prompt_opens_belong_to_the_answer(tokenizer):
    if tokenizer.name_or_path.startswith(NO_CONVERSATION):
        pytest.skip("takes messages of parts alone")
    prompt = rendered(tokenizer, add_generation_prompt=True)
    opens = prompt.count("<think>") > prompt.count("</think>")
    opening = Conversation(tokenizer).opening
    assert opening.strip() == ("<think>" if opens else "") and prompt.endswith(opening)
    assert has_format(f"{opening}3 and 4</think><answer>7</answer>") == opens


def test_models_are_told_to_call_tools_in_a_form_that_is_read(tokenizer):
    """Either the template's own calls are read back, or the tools are described in our words, or it is refused."""
    name = tokenizer.name_or_path
    task = get_language_task("arithmetic").replace(tools=("calculator",), max_turns=2)
    native = calls_are_read(tokenizer, [TOOLS["calculator"].schema])
    assert native == ("tools" in tokenizer.chat_template and not name.startswith(OWN_WORDS))
    try:
        conversation = make_conversation(task, tokenizer)
    except ConversationError as error:
        assert name in str(error) and (not native or name.startswith("glm"))  # whose answers end with its user's token
        return
    assert bool(conversation.tools) == native and ("<tool>" in conversation.system) == (not native)
    if native:
        called = {"function": {"name": "calculator", "arguments": {"expression": "3*4"}}, "type": "function", "id": "x"}
        text = rendered(
            tokenizer, {"role": "assistant", "content": "", "tool_calls": [called]}, tools=conversation.tools
        )
        end = max(text.rfind("</tool_call>") + len("</tool_call>"), text.rfind("}") + 1)
        begin = text.rfind("<|end_header_id|>")
        answer = text[begin + len("<|end_header_id|>") if begin >= 0 else 0 : end]
        assert call_tools([TOOLS["calculator"]], answer) == "12"
