"""Worker of tensor parallelism that keeps vLLM's CPU build from packing weights; GPUs do not need it."""

from gaitway_language.engines.vllm import _unpacked
from vllm.model_executor.layers import utils

utils.dispatch_cpu_unquantized_gemm = _unpacked


class Worker:
    """Has vLLM import this module in every process."""
