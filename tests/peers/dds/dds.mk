# Talk to a peer on Cyclone DDS 0.10.5, which Unitree's software is built on, in an environment of its own:
#
#     make test-dds
#
# Its wheels end at Python 3.10. What matters, libddsc, is the same for all; the extension module of that wheel loads on
# newer Pythons under a name without a version. Linux on x86-64 only, as these wheels.

DDS_DIR := tests/peers/dds
DDS_VENV := .venv-cyclone10

.PHONY: test-dds
ifneq ($(shell uname -sm),Linux x86_64)
test-dds:
	@echo "NOT RUN: the tests with Cyclone DDS 0.10.5 need Linux on x86-64, for which it has wheels"
else
test-dds: $(READY) $(DDS_VENV)/.stamp  ## frames to and from Cyclone DDS 0.10.5, in an environment of its own
	$(BIN)/python -m pytest -q $(DDS_DIR)
endif

$(DDS_VENV)/.stamp: $(DDS_DIR)/dds.mk
	rm -rf $(DDS_VENV)
	$(PYTHON) -m venv $(DDS_VENV)
	$(DDS_VENV)/bin/pip download --quiet --disable-pip-version-check $(PIP_ARGS) --no-deps --only-binary :all: \
		--python-version 3.10 --dest $(DDS_VENV)/wheels cyclonedds==0.10.5
	site=$$($(DDS_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		$(DDS_VENV)/bin/python -m zipfile -e $(DDS_VENV)/wheels/cyclonedds-0.10.5-*.whl $$site && \
		mv $$site/cyclonedds/_clayer.cpython-310-*.so $$site/cyclonedds/_clayer.so
	$(DDS_VENV)/bin/pip install --quiet --disable-pip-version-check $(PIP_ARGS) rich-click
	touch $@
