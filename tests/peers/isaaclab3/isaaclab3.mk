# Run Gaitway's tasks in real Isaac Lab 3.0 on a CPU, without Isaac Sim, from its wheel, in an environment of its own:
#
#     make test-isaaclab3                               # all, on PhysX and on Newton: about half an hour
#     make test-isaaclab3-quick                         # what make test runs: half a minute, on PhysX
#     make test-isaaclab3-slow                          # what make test-slow adds: two minutes, on PhysX
#     make test-isaaclab3-check                         # both, as make check does
#     make test-isaaclab3 GAITWAY_RUN=runs/walk         # and that run's policy has to walk there
#
# NVIDIA supports Python 3.12 with torch 2.11, of which PyPI has a build with CUDA only. The wheel runs on 3.11 as well,
# where torch has a build for CPUs. Isaac Lab's licence is BSD-3; PhysX (ovphysx, ovstage) comes under NVIDIA's terms: it
# is installed, never copied. Kernels are compiled once and kept beside the environment.

ISAACLAB3_DIR := tests/peers/isaaclab3
ISAACLAB3_VENV := .venv-isaaclab3
ISAACLAB3_PYTHON ?= python3.11
ISAACLAB3_RUN = WARP_CACHE_PATH=$(CURDIR)/$(ISAACLAB3_VENV)/kernels OMP_NUM_THREADS=1 \
	$(if $(GAITWAY_RUN),GAITWAY_RUN=$(abspath $(GAITWAY_RUN))) $(ISAACLAB3_VENV)/bin/python -m pytest -q $(ISAACLAB3_DIR)
ISAACLAB3_PIP = $(ISAACLAB3_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS)
ISAACLAB3_BASE = $(if $(UV),$(UV) pip install --quiet --python $(ISAACLAB3_VENV)/bin/python \
	--index-strategy unsafe-best-match $(PIP_ARGS),$(ISAACLAB3_PIP))
GAITWAY_RUN ?=

.PHONY: test-isaaclab3 test-isaaclab3-quick test-isaaclab3-slow test-isaaclab3-check isaaclab3-environment
ifeq ($(shell command -v $(ISAACLAB3_PYTHON) 2>/dev/null),)
isaaclab3-environment:

test-isaaclab3 test-isaaclab3-quick test-isaaclab3-slow test-isaaclab3-check:
	@echo "NOT RUN: the comparison with Isaac Lab 3.0 needs $(ISAACLAB3_PYTHON), which is not installed"
else
isaaclab3-environment: $(ISAACLAB3_VENV)/.stamp

test-isaaclab3: $(ISAACLAB3_VENV)/.stamp
	$(ISAACLAB3_RUN)

test-isaaclab3-quick: $(ISAACLAB3_VENV)/.stamp
	$(ISAACLAB3_RUN) -m "quick and not newton and not slow"

test-isaaclab3-slow: $(ISAACLAB3_VENV)/.stamp
	$(ISAACLAB3_RUN) -m "quick and not newton and slow"

test-isaaclab3-check: $(ISAACLAB3_VENV)/.stamp
	$(ISAACLAB3_RUN) -m "quick and not newton"
endif

# Isaac Lab and PhysX without their dependencies, which name viewers, importers and a torch of their own; with pip, since
# uv cannot ignore the Python that they ask for.
$(ISAACLAB3_VENV)/.stamp: $(ISAACLAB3_DIR)/constraints.txt $(ISAACLAB3_DIR)/isaaclab3.mk
	rm -rf $(ISAACLAB3_VENV)
	$(ISAACLAB3_PYTHON) -m venv $(ISAACLAB3_VENV)
	$(ISAACLAB3_BASE) -c $(ISAACLAB3_DIR)/constraints.txt torch 'newton[sim]' warp-lang gymnasium omniverseclient \
		usd-exchange newton-usd-schemas 'numpy>=2' botocore cryptography einops filelock flatdict gitpython h5py hydra-core \
		lazy_loader matplotlib omegaconf onnx onnxruntime onnxscript packaging pillow prettytable psutil pytest requests \
		rich safetensors scipy starlette tensorboard tensordict toml tqdm trimesh
	$(ISAACLAB3_PIP) --no-deps --ignore-requires-python -c $(ISAACLAB3_DIR)/constraints.txt \
		isaaclab rsl-rl-lib ovphysx ovstage leapp fast-sugiyama
	touch $@
