"""Small tokenisers, and the refusal of those that learning cannot use."""

import pytest
from gaitway_language.tokenizer import TokenizerError, build_tokenizer, load_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

TEXTS = ["Tom has 3 apples. He gets 12 more, how many?", "<think> 3 + 12 = 15 ; </think> <answer> 15 </answer>"]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TEXTS)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_back_as_they_were(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unk_token_id not in tokenizer.encode(text)


def test_numbers_tags_and_words_are_one_token_each(tokenizer):
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode(TEXTS[1])) == [
        " <think>", " 3", " +", " 12", " =", " 15", " ;", " </think>", " <answer>", " 15", " </answer>",
    ]  # fmt: skip


@given(st.lists(st.sampled_from(["Tom", "has", "12", "apples", "+", "=", "<answer>", "</think>", "5"])))
def test_any_row_of_known_pieces_comes_back(pieces):
    tokenizer = build_tokenizer(TEXTS)
    assert tokenizer.decode(tokenizer.encode(" ".join(pieces))) == " ".join(pieces)
    assert len(tokenizer.encode(" ".join(pieces))) == len(pieces)


def test_unknown_words_are_marked(tokenizer):
    assert tokenizer.unk_token_id in tokenizer.encode("Xerxes has 3 apples")


def test_padding_is_not_the_end(tokenizer):
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_a_saved_tokenizer_reads_back_equal(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(str(tmp_path))
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.chat_template == tokenizer.chat_template
    assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])
    assert again.decode(again.encode(TEXTS[0])) == TEXTS[0]


@pytest.mark.parametrize("pad", [None, "<end>"])
def test_a_tokenizer_needs_no_padding(tokenizer, tmp_path, pad):
    tokenizer.save_pretrained(tmp_path)
    other = AutoTokenizer.from_pretrained(tmp_path)
    other.pad_token = pad
    other.save_pretrained(tmp_path)
    assert load_tokenizer(str(tmp_path)).pad_token == pad
    assert load_tokenizer(str(tmp_path), "<pad>").pad_token == "<pad>"
    with pytest.raises(TokenizerError, match="pad_token '<nope>' is no token"):
        load_tokenizer(str(tmp_path), "<nope>")


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"no tokeniser for model '.*nowhere'"):
        load_tokenizer(str(tmp_path / "nowhere"))


def test_a_tokenizer_of_nothing_is_refused():
    with pytest.raises(TokenizerError, match="no words"):
        build_tokenizer([])
