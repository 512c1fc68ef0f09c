"""Models from nothing, from folders and back, with and without adapters."""

import copy
import json
import shutil

import pytest
import torch
from gaitway_language.model import ModelError, add_lora, build_model, load_model, load_reward_model, stop_tokens
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_language.saving import save_model, save_reward_model
from gaitway_language.tokenizer import build_tokenizer

SIZES = TinyModel(hidden_size=32, layers=2, heads=4, intermediate_size=48, max_positions=64)
TOKENS = torch.tensor([[7, 8, 9, 10, 11]])


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["one apple and two pears are three pieces of fruit"])


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=TOKENS).logits


def options(folder, **settings):
    return LanguageOptions(model=str(folder), tiny=None, **settings)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(build_model(SIZES, tokenizer, 3), tokenizer, path)
    return path


def test_equal_seeds_build_equal_models(tokenizer):
    before = torch.random.get_rng_state()
    first, same, other = (load_model(LanguageOptions(tiny=SIZES), tokenizer, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(logits(first), logits(same)) and not torch.equal(logits(first), logits(other))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.lm_head.weight is first.model.embed_tokens.weight
    assert len(first.lm_head.weight) == len(tokenizer)
    assert (first.config.pad_token_id, first.config.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)


def test_a_folder_is_transformers_own(tokenizer, folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    ours = load_model(options(folder), tokenizer)
    assert torch.equal(logits(ours), logits(AutoModelForCausalLM.from_pretrained(folder)))
    assert torch.equal(logits(ours), logits(build_model(SIZES, tokenizer, 3)))
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("lora", [None, LoraOptions(rank=2)], ids=["", "adapters"])
def test_every_token_that_ends_an_answer_is_kept(tokenizer, folder, tmp_path, lora):
    """Those of the model's files, the tokeniser's and the chat template's; also by those who run what is exported."""
    from transformers import GenerationConfig

    shutil.copytree(folder, tmp_path / "model")
    GenerationConfig(eos_token_id=[7, 9]).save_pretrained(tmp_path / "model")
    model = load_model(options(tmp_path / "model", lora=lora), tokenizer)
    assert stop_tokens(model) == (tokenizer.eos_token_id, 7, 9)
    save_model(model, tokenizer, tmp_path / "out")
    assert GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == [tokenizer.eos_token_id, 7, 9]
    assert stop_tokens(load_model(options(tmp_path / "out"), tokenizer)) == (tokenizer.eos_token_id, 7, 9)


def test_adapters_alone_learn_and_are_merged_when_saved(tokenizer, folder, tmp_path):
    from transformers import AutoModelForCausalLM

    model = load_model(options(folder, lora=LoraOptions(rank=2), dtype="bfloat16"), tokenizer, seed=4)
    assert {(p.dtype, "lora" in name) for name, p in model.named_parameters() if p.requires_grad} == {
        (torch.float32, True)
    }
    assert {p.dtype for p in model.parameters() if not p.requires_grad} == {torch.bfloat16}
    assert {p.dtype for p in load_model(options(folder, dtype="bfloat16"), tokenizer).parameters()} == {torch.float32}
    frozen = load_model(options(folder, dtype="bfloat16"), tokenizer, learning=False)
    assert {p.dtype for p in frozen.parameters()} == {torch.bfloat16}
    assert not any("lm_head" in name for name, p in model.named_parameters() if p.requires_grad)
    again = load_model(options(folder, lora=LoraOptions(rank=2), dtype="bfloat16"), tokenizer, seed=4)
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name

    model = load_model(options(folder, lora=LoraOptions(rank=2)), tokenizer)
    before = logits(model)
    torch.testing.assert_close(before, logits(load_model(options(folder), tokenizer)))  # nothing is added at first
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0.0, 0.3, generator=torch.Generator().manual_seed(0))
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    after = logits(model)
    assert (after - before).abs().max() > 0.01
    save_model(model, tokenizer, tmp_path)
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), after, atol=1e-4, rtol=0.0)
    assert not (tmp_path / "adapter_config.json").exists()
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


def test_adapters_where_they_are_wanted(tokenizer):
    model = build_model(SIZES, tokenizer, 0)
    with pytest.raises(ModelError, match=r"lora.targets \['qproj'\].*'q_proj'"):
        add_lora(model, LoraOptions(targets=("qproj", "v_proj")))
    adapted = add_lora(model, LoraOptions(rank=2, targets=("q_proj",)))
    assert {name.split(".")[-4] for name, p in adapted.named_parameters() if p.requires_grad} == {"q_proj"}


def test_reward_model_is_a_sequence_classifier_of_transformers(tokenizer, folder, tmp_path):
    from transformers import AutoModelForSequenceClassification

    model, mean, std = load_reward_model(options(folder), tokenizer, seed=1)
    same, _, _ = load_reward_model(options(folder), tokenizer, seed=1)
    assert (mean, std) == (0.0, 1.0)
    assert torch.equal(logits(model), logits(same)) and logits(model).shape == (1, 1)
    start = build_model(SIZES, tokenizer, 3)
    assert torch.equal(model.model.embed_tokens.weight, start.model.embed_tokens.weight)
    save_reward_model(model, torch.tensor(1.5), torch.tensor(2.0), tokenizer, tmp_path)
    back, mean, std = load_reward_model(options(tmp_path), tokenizer)
    assert (mean, std) == (1.5, 2.0)
    assert torch.equal(logits(back), logits(model))
    assert torch.equal(logits(AutoModelForSequenceClassification.from_pretrained(tmp_path)), logits(model))


def test_reward_model_from_nothing_and_with_adapters(tokenizer, folder, tmp_path):
    model, _, _ = load_reward_model(LanguageOptions(tiny=SIZES), tokenizer, seed=3)
    start = build_model(SIZES, tokenizer, 3)
    assert torch.equal(model.model.layers[1].mlp.up_proj.weight, start.model.layers[1].mlp.up_proj.weight)
    model, mean, std = load_reward_model(options(folder, lora=LoraOptions(rank=2)), tokenizer)
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    assert sum("lora" not in name for name in learning) == 1 and any(name.endswith("score.weight") for name in learning)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in learning:
                parameter.add_(0.1)
    save_reward_model(model, torch.tensor(mean), torch.tensor(std), tokenizer, tmp_path)
    back, _, _ = load_reward_model(options(tmp_path), tokenizer)
    torch.testing.assert_close(logits(back), logits(model), atol=1e-5, rtol=1e-5)


def test_gradient_checkpointing_is_on_when_asked(tokenizer, folder):
    model = load_model(options(folder, gradient_checkpointing=True, lora=LoraOptions(rank=2)), tokenizer)
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    model.train()
    model(input_ids=TOKENS).logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_models_that_cannot_be_had(tokenizer, folder, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"cannot be loaded.*Give a folder"):
        load_model(options(tmp_path / "nowhere"), tokenizer)
    with pytest.raises(ModelError, match=r"knows \d+ tokens and its tokeniser \d+"):
        load_model(options(folder), build_tokenizer(["quite different words altogether", *map(str, range(100))]))
    broken = tmp_path / "broken"
    save_model(build_model(SIZES, tokenizer, 0), tokenizer, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3, "layer_types": None}))
    with pytest.raises(ModelError, match=r"lacks weights: model.layers.2"):
        load_model(options(broken), tokenizer)
    (broken / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(options(broken), tokenizer)


@pytest.mark.parametrize("pad", [None, "<end>"])
def test_an_end_that_also_pads_is_learnt_and_judged(tokenizer, tmp_path, pad):
    """transformers gives the embedding of what pads no gradient, and reads a score before all padding."""
    from gaitway_agents.models.reward_model import RewardModel
    from transformers import AutoModelForSequenceClassification

    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.pad_token = pad
    model = build_model(SIZES, tokenizer, 0)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    save_model(model, tokenizer, tmp_path / "writer")
    end = tokenizer.eos_token_id
    tokens = torch.tensor([[7, end, 8, 9, end]])
    writer = load_model(options(tmp_path / "writer"), tokenizer)
    writer(input_ids=tokens).logits.sum().backward()
    assert writer.get_input_embeddings().weight.grad[end].any()
    judge, mean, std = load_reward_model(options(tmp_path / "writer"), tokenizer)
    save_reward_model(judge, torch.tensor(mean), torch.tensor(std), tokenizer, tmp_path / "judge")
    with torch.no_grad():
        ours = RewardModel(judge).score(tokens, torch.tensor([5]))
        theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "judge")(input_ids=tokens).logits[:, 0]
    torch.testing.assert_close(ours, theirs)


def test_saving_leaves_the_model_alone(tokenizer, tmp_path):
    model = build_model(SIZES, tokenizer, 0)
    state = copy.deepcopy(model.state_dict())
    save_model(model, tokenizer, tmp_path)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_tokeniser_of_a_saved_model_is_the_one_that_was_saved(tmp_path):
    """AutoTokenizer decides by the model's type, and for some takes another than the folder's."""
    from gaitway_language.tokenizer import build_tokenizer, load_tokenizer

    text = "Tom has 7 apples . Tom finds 15 ."
    tokenizer = build_tokenizer([text])
    save_model(build_model(TinyModel(hidden_size=16, heads=2, layers=1), tokenizer, 0), tokenizer, tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert loaded.encode(text, add_special_tokens=False) == tokens
    assert len(tokens) == 9 and loaded.decode(tokens) == text
