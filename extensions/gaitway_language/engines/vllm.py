"""Generation with vLLM in this process, beside the model that learns (Kwon et al. 2023)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from gaitway_agents.interfaces import Completion, Sampling
from gaitway_files.adapters import MergedWeights
from torch import Tensor, nn

from .limits import check_prompts
from .stream import WeightStream

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Settings of vLLM's that hold unless the user has set others."""


BUCKET = 2**28
"""Bytes of weights that go to vLLM's other processes at a time."""


class VLLMEngine:
    """Continues prompts with vLLM, on the GPU that ``gpu_memory`` is a share of, or with vLLM's CPU build.

    It begins with the weights of ``model``, a causal LM of transformers, and follows with ``update``. Equal calls draw
    equal tokens: what was cached of earlier calls is forgotten, since it would change the order of the draws, but where
    one call is continued by the next.
    With top_p or top_k, log-probabilities are those after the cut; vLLM says no others at a temperature.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        dtype: torch.dtype | None = None,
        batch_size: int = 256,
        gpu_memory: float = 0.3,
        tensor_parallel: int = 1,
        sleep: bool = False,
        asynchronous: bool = False,
        longest: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ):
        """``longest`` is the most tokens of a prompt and its answer, for which vLLM must have room in its cache; None
        is as many as the model sees. ``tensor_parallel`` GPUs share the model. ``sleep`` has :meth:`rest` give the
        GPU's memory back, which the CPU build cannot; that has not been run. ``asynchronous`` has dialogues go on one
        by one, through :meth:`converse`. ``settings`` of ``vllm.LLM`` go before
        those made here. ImportError where there is no vLLM."""
        base: Any = model
        vllm, on_cpu = _vllm()
        # What ends an answer is said in every call, and the model's own configuration has no say beside it.
        self._sampling = partial(vllm.SamplingParams, detokenize=False, skip_special_tokens=False, ignore_eos=True)
        self._continued = False
        self.vocabulary = int(base.get_input_embeddings().num_embeddings)
        self.parallel, self.asynchronous = tensor_parallel, asynchronous
        self._sleeps, self._asleep = sleep and not on_cpu, False
        limits = [limit for limit in (getattr(base.config, "max_position_embeddings", None), longest) if limit]
        where: dict[str, Any] = {"enforce_eager": True} if on_cpu else {"gpu_memory_utilization": gpu_memory}
        with tempfile.TemporaryDirectory() as folder:
            base.config.save_pretrained(folder)
            self.llm = vllm.LLM(
                **{
                    "model": folder,
                    "load_format": "dummy",
                    "skip_tokenizer_init": True,
                    "generation_config": "vllm",
                    "dtype": str(dtype or base.dtype).removeprefix("torch."),
                    "max_model_len": min(limits, default=None),
                    "tensor_parallel_size": tensor_parallel,
                    "max_num_seqs": batch_size,
                    "enable_sleep_mode": self._sleeps,
                    "logprobs_mode": "processed_logprobs",
                    "disable_log_stats": True,
                    **where,
                    **(settings or {}),
                }
            )
        self.positions: int = self.llm.llm_engine.model_config.max_model_len
        self.dtype: torch.dtype = dtype or base.dtype
        self.update(MergedWeights(model))

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Completion]:
        """One completion for each prompt; ValueError for one that is empty, too long or not of this vocabulary."""
        limits = sampling.limits_of(prompts)
        check_prompts(prompts, limits, vocabulary=self.vocabulary, positions=self.positions)
        settings = [self.settings(sampling, limit) for limit in limits]
        with self._drawing(sampling):
            outputs = self._ask(prompts, settings)
        return [_completion(output.outputs[0]) for output in outputs]

    def converse(self, prompts: Sequence[Sequence[int]], sampling: Sampling, replies: Any) -> None:
        """Continue prompts by ``sampling.max_tokens``, replies to their answers included; errors as of ``generate``.

        ``replies`` is :class:`gaitway_language.dialogue.Replies`. A prompt goes on once its reply has come.
        """
        texts = [list(prompt) for prompt in prompts]
        with self.session(sampling) as session:
            for index, text in enumerate(texts):
                session.add(index, text, sampling.max_tokens)
            while session or replies:
                for index, completion in session.step():
                    texts[index] += completion.tokens
                    replies.send(index, completion)
                for index, tokens in replies.come(wait=not session).items():
                    texts[index] += tokens
                    session.add(index, texts[index], sampling.max_tokens + len(prompts[index]) - len(texts[index]))

    @contextmanager
    def session(self, sampling: Sampling) -> Iterator[VLLMSession]:
        """Context in which prompts come and are answered one by one; what is cached of them stays until its end."""
        with self._drawing(replace(sampling, continued=False)):
            session = VLLMSession(self, sampling)
            try:
                yield session
            finally:
                session.close()

    def settings(self, sampling: Sampling, limit: int) -> Any:
        """vLLM's own sampling parameters for an answer of at most ``limit`` tokens."""
        return self._sampling(
            max_tokens=limit,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            stop_token_ids=list(sampling.stop_tokens),
            logprobs=0,
        )

    @contextmanager
    def _drawing(self, sampling: Sampling) -> Iterator[None]:
        """Context with vLLM awake, its cache that of an earlier call only if that is continued, and a seed."""
        self._wake()
        if not self._continued:
            self.llm.reset_prefix_cache()
        self._continued = sampling.continued
        with _seeded(sampling.seed):
            if self.parallel > 1:  # the numbers are drawn in processes of vLLM's
                self.llm.apply_model(partial(_seed, seed=sampling.seed))
            yield

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability at temperature 1 of every token but the first, by the weights that ``generate`` uses."""
        check_prompts(sequences, [1] * len(sequences), vocabulary=self.vocabulary, positions=self.positions)
        self._wake()
        outputs = self._ask(sequences, self._sampling(max_tokens=1, prompt_logprobs=0))
        return [
            [said[token].logprob for said, token in zip(output.prompt_logprobs[1:], sequence[1:], strict=True)]
            for output, sequence in zip(outputs, sequences, strict=True)
        ]

    def _ask(self, prompts: Sequence[Sequence[int]], settings: Any) -> Any:
        return self.llm.generate([{"prompt_token_ids": list(p)} for p in prompts], settings, use_tqdm=False)

    def update(self, parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Copy new weights into vLLM's model, and forget what it has cached of old ones."""
        self._wake()
        for part in (parameters,) if self.parallel == 1 else _buckets(parameters, self.dtype):
            self.llm.apply_model(partial(_load, parameters=part))
        self.llm.reset_prefix_cache()
        self._continued = False

    def rest(self) -> None:
        """Give the GPU's memory back until the next call: weights go to the machine's memory, the cache is lost."""
        if self._sleeps and not self._asleep:
            self.llm.reset_prefix_cache()
            self.llm.sleep(level=1)
            self._asleep, self._continued = True, False

    def _wake(self) -> None:
        if self._asleep:
            torch.cuda.empty_cache()  # what learning used and kept for later is in the way
            self.llm.wake_up()
            self._asleep = False

    def close(self) -> None:
        """Give back vLLM's memory; the engine is of no use afterwards."""
        if "llm" in self.__dict__:
            self.llm.llm_engine.engine_core.shutdown()
            del self.llm


class VLLMSession:
    """Prompts that come and are answered one by one, on ``engine``. True while any is left."""

    def __init__(self, engine: VLLMEngine, sampling: Sampling):
        self.engine, self.sampling = engine, sampling
        self._core = engine.llm.llm_engine
        self._asked: dict[str, int] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._asked)

    def add(self, key: int, prompt: Sequence[int], limit: int) -> None:
        """Continue a prompt by ``limit`` tokens at most; errors as of :meth:`VLLMEngine.generate`."""
        check_prompts([prompt], [limit], vocabulary=self.engine.vocabulary, positions=self.engine.positions)
        self._count += 1
        request, settings = str(self._count), self.engine.settings(self.sampling, limit)
        settings.output_kind = type(settings.output_kind).FINAL_ONLY
        self._core.add_request(request, {"prompt_token_ids": list(prompt)}, settings)
        self._asked[request] = key

    def step(self) -> list[tuple[int, Completion]]:
        """A token for each prompt; keys and completions of those that have ended."""
        ended = [output for output in self._core.step() if output.finished] if self._asked else []
        return [(self._asked.pop(output.request_id), _completion(output.outputs[0])) for output in ended]

    def close(self) -> None:
        """Forget what has not ended."""
        self._core.abort_request(list(self._asked))


def _buckets(parameters: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterator[list[tuple[str, Tensor]]]:
    """The weights in memory, some at a time, to go to other processes; vLLM refuses tied ones apart from each other."""
    part: list[tuple[str, Tensor]] = []
    stream = WeightStream(parameters, dtype)
    for (name, _), tensor in zip(stream.layout, stream.tensors(), strict=True):
        part.append((name, tensor.detach().to("cpu", dtype)))
        if sum(kept.nbytes for _, kept in part) >= BUCKET:
            yield part
            part = []
    if part:
        yield part


def _seed(model: Any, seed: int) -> None:
    torch.manual_seed(seed)


def _load(model: Any, parameters: Iterable[tuple[str, Tensor]]) -> None:
    with torch.no_grad():
        model.load_weights((name, tensor.detach()) for name, tensor in parameters)


def _completion(output: Any) -> Completion:
    tokens = list(output.token_ids)
    return Completion(
        tokens=tokens,
        log_probs=[said[token].logprob for said, token in zip(output.logprobs, tokens, strict=True)],
        finished=output.finish_reason == "stop",
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from ``seed``, and afterwards as if nothing had been drawn.

    A seed for each request would draw row by row, and vLLM's CPU build cannot take one back from a partial prompt.
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def _vllm() -> tuple[Any, bool]:
    """The library, and whether it runs on the CPU; there it is kept from packing weights away."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # The engine's own process could take no weights without copying them through a pipe.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # The processes of tensor parallelism are this one's own, and get functions from here.
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    try:
        import vllm
    except ImportError as error:
        raise ImportError(
            f"rollout 'vllm' needs vLLM ({error}): pip install 'gaitway[vllm]' on a GPU machine; "
            "docs/language_engines.md says how on a CPU. rollout 'transformers' needs nothing"
        ) from error
    from vllm.platforms import current_platform

    on_cpu = bool(current_platform.is_cpu())
    if on_cpu:
        from vllm.model_executor.layers import utils

        # It packs each weight for its matrix product, out of reach of load_weights. With tied embeddings new weights
        # would then be taken without an error, and the old ones used.
        utils.dispatch_cpu_unquantized_gemm = _unpacked
    return vllm, on_cpu


def _unpacked(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear
