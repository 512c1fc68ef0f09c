"""MuJoCo Warp. Collected only in the environment of make test-warp: kernels take minutes to compile for a CPU."""

import os

if "GAITWAY_WARP_DEVICE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
