"""Prompts and answers in tokens, by whatever chat template there is."""

import pytest
from gaitway_language.conversation import Conversation, ConversationError
from gaitway_language.tokenizer import build_tokenizer

CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'assistant' %}<end>{% endif %}"
    "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture
def tokenizer():
    return build_tokenizer(["how many? be brief", "it is 34.", "!\n<|tool|>34\n<|user|>?\n<|assistant|>"])


def tokens_of(tokenizer, tokens):
    return tokenizer.convert_ids_to_tokens(tokens)


def test_a_prompt_ends_where_the_answer_begins(tokenizer):
    prompt = Conversation(tokenizer).prompt("how many?")
    assert tokens_of(tokenizer, prompt) == ["<user>", " how", " many", "?", "<assistant>"]


def test_a_system_prompt_comes_first_unless_the_row_has_its_own(tokenizer):
    conversation = Conversation(tokenizer, system="be brief")
    assert tokens_of(tokenizer, conversation.prompt("how many?"))[:3] == ["<system>", " be", " brief"]
    own = [{"role": "system", "content": "how"}, {"role": "user", "content": "many?"}]
    assert " be" not in tokens_of(tokenizer, conversation.prompt(own))


def test_an_answer_ends_and_is_read_without_its_end(tokenizer):
    conversation = Conversation(tokenizer)
    answer = conversation.answer("it is 3")
    assert answer[-1] == tokenizer.eos_token_id
    assert conversation.decode(answer) == "it is 3"
    assert conversation.decode(answer[:-1]) == "it is 3"


@pytest.mark.parametrize(
    ("template", "text"), [(None, "<result> 34<assistant>"), (CHATML, "\n<|tool|>34\n<|assistant|>")]
)
def test_a_tools_reply_continues_the_conversation_as_the_template_would(tokenizer, template, text):
    """What stands between two answers is exactly what the template writes there."""
    if template:
        tokenizer.chat_template = template
    conversation = Conversation(tokenizer)
    assert tokenizer.decode(conversation.result("34")) == text
    messages = [("user", "how"), ("assistant", "many"), ("tool", "34")]
    rendered = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in messages], tokenize=False, add_generation_prompt=True
    )
    tokens = tokenizer.encode(rendered)
    assert conversation.result("34") == tokens[tokens.index(tokenizer.eos_token_id) + 1 :]


def test_what_a_tool_wrote_ends_no_turn(tokenizer):
    conversation = Conversation(tokenizer)
    assert conversation.result("3<end><user>4") == conversation.result("34")


def test_without_a_template_prompts_are_plain_and_earlier_answers_refused(tokenizer):
    tokenizer.chat_template = None
    conversation = Conversation(tokenizer)
    assert tokenizer.decode(conversation.prompt("how many?")) == "how many?\n\n"
    with pytest.raises(ConversationError, match="no chat template: use a model that has one"):
        conversation.prompt([{"role": "user", "content": "how"}, {"role": "assistant", "content": "it"}])
