# Compare Gaitway with Isaac Lab 2.3.2, from its PyPI wheel and without Isaac Sim, in an environment of its own:
#
#     make -f tests/peers/isaaclab/isaaclab.mk test-isaaclab
#
# Isaac Lab needs Python 3.11 and numpy < 2. Its wheel comes under NVIDIA's terms: it is installed, never copied.

ISAACLAB_DIR := tests/peers/isaaclab
ISAACLAB_VENV := .venv-isaaclab
ISAACLAB_PYTHON ?= python3.11

ISAACLAB_PIP = $(if $(UV),$(UV) pip install --quiet --python $(ISAACLAB_VENV)/bin/python --index-strategy unsafe-best-match,\
	$(ISAACLAB_VENV)/bin/pip install --quiet)

.PHONY: test-isaaclab
ifeq ($(shell command -v $(ISAACLAB_PYTHON) 2>/dev/null),)
test-isaaclab:
	@echo "NOT RUN: the comparison with Isaac Lab 2.3.2 needs $(ISAACLAB_PYTHON), which is not installed"
else
test-isaaclab: $(ISAACLAB_VENV)/.stamp
	OMP_NUM_THREADS=1 $(ISAACLAB_VENV)/bin/python -m pytest -q $(ISAACLAB_DIR)
endif

# Without its dependencies: they name Isaac Sim and a browser's worth of libraries that no term function imports.
$(ISAACLAB_VENV)/.stamp: $(ISAACLAB_DIR)/constraints.txt $(ISAACLAB_DIR)/isaaclab.mk
	rm -rf $(ISAACLAB_VENV)
	$(ISAACLAB_PYTHON) -m venv $(ISAACLAB_VENV)
	$(ISAACLAB_PIP) --no-deps -c $(ISAACLAB_DIR)/constraints.txt isaaclab rsl-rl-lib
	$(ISAACLAB_PIP) -c $(ISAACLAB_DIR)/constraints.txt \
		flatdict GitPython gymnasium h5py mujoco "numpy<2" prettytable pytest pyyaml scipy tensordict toml torch \
		trimesh usd-core warp-lang
	touch $@
