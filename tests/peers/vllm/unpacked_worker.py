"""What vLLM's CPU build must not do to weights, in the processes of tensor parallelism; GPUs need nothing of it."""

from gaitway_language.engines.vllm import _unpacked
from vllm.model_executor.layers import utils

utils.dispatch_cpu_unquantized_gemm = _unpacked


class Worker:
    """Has vLLM import this module in every process."""
