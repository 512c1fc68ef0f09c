# MuJoCo Warp's world on a CPU, in an environment of its own:
#
#     make test-warp                                # all: tens of minutes, at first most of it to compile kernels
#     make test-warp WARP_TESTS='-k contract'       # a part
#     make test-warp WARP_DEVICE=cuda:0             # what compares it with MuJoCo, on a GPU
#
# Kernels are compiled once and kept beside the environment.

WARP_DIR := tests/peers/warp
WARP_VENV := .venv-warp
WARP_DEVICE ?= cpu
WARP_TESTS ?=

.PHONY: test-warp
test-warp: $(WARP_VENV)/.stamp  ## MuJoCo Warp's world on a CPU, in an environment of its own
	WARP_CACHE_PATH=$(CURDIR)/$(WARP_VENV)/kernels OMP_NUM_THREADS=1 GAITWAY_WARP_DEVICE=$(WARP_DEVICE) \
		$(WARP_VENV)/bin/python -m pytest -q $(WARP_DIR) $(WARP_TESTS)

$(WARP_VENV)/.stamp: pyproject.toml constraints.txt $(WARP_DIR)/warp.mk
	rm -rf $(WARP_VENV)
	$(PYTHON) -m venv $(WARP_VENV)
	$(if $(UV),$(UV) pip install --quiet --python $(WARP_VENV)/bin/python --index-strategy unsafe-best-match,\
		$(WARP_VENV)/bin/pip install --quiet --disable-pip-version-check) $(PIP_ARGS) -c constraints.txt \
		-e '.[train,mujoco,warp]' mujoco-warp==4.0.0 warp-lang==1.19.0 pytest
	touch $@
