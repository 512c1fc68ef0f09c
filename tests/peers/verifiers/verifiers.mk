# Play tasksets of real verifiers, in an environment of its own:
#
#     make test-verifiers
#
# verifiers pins other versions of packages that the main environment has.

VERIFIERS_VENV := .venv-verifiers
VERIFIERS_PYTHON ?= $(PYTHON)

.PHONY: test-verifiers
test-verifiers: $(READY) $(VERIFIERS_VENV)/.stamp  ## tasksets of real verifiers, in an environment of its own
	GAITWAY_VERIFIERS_PYTHON=$(CURDIR)/$(VERIFIERS_VENV)/bin/python $(BIN)/python -m pytest -q \
		tests/tasks/language/test_verifiers.py

$(VERIFIERS_VENV)/.stamp: tests/peers/verifiers/verifiers.mk
	rm -rf $(VERIFIERS_VENV)
	$(VERIFIERS_PYTHON) -m venv $(VERIFIERS_VENV)
	$(VERIFIERS_VENV)/bin/pip install --quiet --disable-pip-version-check $(PIP_ARGS) verifiers==0.4.0
	touch $@
