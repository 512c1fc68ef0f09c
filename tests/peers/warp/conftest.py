"""MuJoCo Warp. Collected only in the environment of make test-warp: kernels take minutes to compile for a CPU."""

import os

if "GAITWAY_WARP_DEVICE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
elif os.environ["GAITWAY_WARP_DEVICE"] != "cpu":  # these have tensors on the host, or draw what the host draws
    collect_ignore = ["test_warp_events.py", "test_warp_conformance.py", "test_warp_tasks.py"]
