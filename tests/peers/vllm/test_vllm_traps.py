"""Ways of giving vLLM new weights that return without an error and change nothing, or half: each has to be found."""

import pytest
from gaitway_language.engines import vllm as ours
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.sync import EngineOutOfStepError, VerifiedEngine
from tiny import learn, make, prompts
from vllm.model_executor.layers import utils

PACKING = utils.dispatch_cpu_unquantized_gemm
PROMPTS = prompts(4, 40)


class AsItComes(ours.VLLMEngine):
    """vLLM with its own packed weights, read from a folder, and updated in the way that is asked for."""

    def __init__(self, model, folder, way):
        model.save_pretrained(folder)
        self.way, self.model, self.folder = None, model, folder
        super().__init__(model, batch_size=64, settings={"load_format": "auto", "model": str(folder)})
        self.way = way

    def update(self, parameters):
        if self.way == "iterator":
            named = list(self.model.named_parameters())  # of tied weights only the first, as in a safetensors file
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": named})
        elif self.way == "path":
            self.model.save_pretrained(self.folder)
            self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(self.folder)})
        self.llm.reset_prefix_cache()


@pytest.fixture
def packed(monkeypatch):
    import_vllm = ours._vllm

    def found():
        library, on_cpu = import_vllm()
        utils.dispatch_cpu_unquantized_gemm = PACKING
        return library, on_cpu

    monkeypatch.setattr(ours, "_vllm", found)


def verified(engine, model):
    live = TransformersEngine(model, copied=False)
    return VerifiedEngine(engine, live.score, PROMPTS)


@pytest.mark.parametrize("way", ["iterator", "path"])
def test_a_packed_head_that_stays_behind_is_found(packed, tmp_path, way):
    model = make(tied=True)
    one = verified(AsItComes(model, tmp_path, way), model)
    learn(model)
    with pytest.raises(EngineOutOfStepError, match="AsItComes does not answer with the model's weights"):
        one.update(model.state_dict().items())
    one.close()


def test_the_same_way_is_right_for_a_head_of_its_own_and_passes(packed, tmp_path):
    model = make(tied=False)
    one = verified(AsItComes(model, tmp_path, "iterator"), model)
    learn(model)
    assert one.update(model.state_dict().items())["sync_gap"] < 1e-4
    one.close()


def test_prompts_cached_under_old_weights_are_found():
    model = make()
    engine = ours.VLLMEngine(model, batch_size=64, settings={"block_size": 32})
    engine.llm.reset_prefix_cache = lambda: True
    one = verified(engine, model)
    learn(model)
    with pytest.raises(EngineOutOfStepError):
        one.update(model.state_dict().items())
    one.close()
