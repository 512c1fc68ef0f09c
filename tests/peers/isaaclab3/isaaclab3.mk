# Run Gaitway's tasks in real Isaac Lab 3.0, without Isaac Sim: Newton on the CPU. Not part of make test; takes half
# an hour, the first time longer, since Newton's kernels are compiled then.
#
#     make test-isaaclab3 ISAACLAB3_PATH=/path/to/IsaacLab [GAITWAY_RUN=runs/sprint]
#
# ISAACLAB3_PATH is a source tree of Isaac Lab 3.0.0. Its packages are used from there; what they need is installed in an
# environment of its own. GAITWAY_RUN names a run of velocity-flat-anymal-c whose policy has to walk there.

ISAACLAB3_DIR := tests/peers/isaaclab3
ISAACLAB3_VENV := .venv-isaaclab3
ISAACLAB3_PATH ?=
GAITWAY_RUN ?=

.PHONY: test-isaaclab3
ifeq ($(ISAACLAB3_PATH),)
test-isaaclab3:
	@echo "NOT RUN: set ISAACLAB3_PATH to a source tree of Isaac Lab 3.0"
else
test-isaaclab3: $(ISAACLAB3_VENV)/.stamp
	ISAACLAB3_PATH=$(abspath $(ISAACLAB3_PATH)) $(if $(GAITWAY_RUN),GAITWAY_RUN=$(abspath $(GAITWAY_RUN))) \
		OMP_NUM_THREADS=1 $(ISAACLAB3_VENV)/bin/python -m pytest -q $(ISAACLAB3_DIR)
endif

# Without its dependencies where these would replace torch: rsl-rl-lib names torchvision, which nothing here imports.
$(ISAACLAB3_VENV)/.stamp: $(ISAACLAB3_DIR)/constraints.txt $(ISAACLAB3_DIR)/isaaclab3.mk
	rm -rf $(ISAACLAB3_VENV)
	$(ISAACLAB_PYTHON) -m venv $(ISAACLAB3_VENV)
	$(ISAACLAB3_VENV)/bin/pip install --quiet $(PIP_ARGS) -c $(ISAACLAB3_DIR)/constraints.txt \
		einops filelock flatdict GitPython gymnasium h5py hydra-core imageio lazy_loader matplotlib mujoco mujoco-warp \
		'newton[sim]' numpy omegaconf omniverseclient onnx onnxruntime onnxscript packaging prettytable psutil pydantic \
		pyglet pytest pyyaml rich safetensors scipy tensorboard tensordict toml torch tqdm trimesh usd-core warp-lang
	$(ISAACLAB3_VENV)/bin/pip install --quiet --no-deps -c $(ISAACLAB3_DIR)/constraints.txt rsl-rl-lib leapp fast-sugiyama
	touch $@
