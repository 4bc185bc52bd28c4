# Everything works in a fresh clone: each target first makes .venv when it is missing or older than
# pyproject.toml. Needed: Python 3.11 or newer with venv, make, and a package index for the first run.
# The demos install no more than what their jobs need; all else comes with the first other target.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.has-dev
LONG   := $(VENV)/.has-long
BROWSER := $(VENV)/.has-browser
EXAMPLES := $(VENV)/.has-examples
FRAMEWORKS ?= dask torch flower muscle3 nvflare
SEEDS  ?= 10000
FLIPS  ?= 2000
CUTS   ?= 500
ARGS   ?=
# Memory has the folders of tests, where it has room for them: files take longer on a disk.
FOLDERS ?= $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 ] 2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})
PYTEST = folder=$$(mktemp -d "$(FOLDERS)/koala-tests-XXXXXX"); \
	trap 'chmod -R u+rwx "$$folder"; rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m pytest -q --basetemp="$$folder/t"

# Tests and demo start hundreds of interpreters; without byte code each would compile Koala anew.
export PYTHONDONTWRITEBYTECODE :=

# The first interpreter that is new enough; `make PYTHON=/path/to/python test` chooses another one.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	echo "$$p"; break; fi; done)

.PHONY: help
help:  ## Show the targets
	@echo "make TARGET, with TARGET one of"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: setup
setup: $(STAMP)  ## Make .venv with Koala and its tools (the other targets do it by themselves)

$(STAMP): pyproject.toml
	@PYTHON="$(PYTHON)" deploy/dev/install.sh $(VENV) dev examples

$(LONG): pyproject.toml
	@PYTHON="$(PYTHON)" deploy/dev/install.sh $(VENV) dev examples long

$(BROWSER): pyproject.toml
	@PYTHON="$(PYTHON)" deploy/dev/install.sh $(VENV) dev examples browser

$(EXAMPLES): pyproject.toml
	@PYTHON="$(PYTHON)" deploy/dev/install.sh $(VENV) examples

.PHONY: test
test: $(STAMP)  ## Run the tests, lint among them, but the long ones (ARGS="-k name" narrows, FOLDERS=/var/tmp chooses a disk)
	@$(PYTEST) --numprocesses 6 $(ARGS)

.PHONY: test-long
test-long: $(LONG)  ## The tests that `make test` leaves out because they take long: faults of processes, campaigns in small
	@$(PYTEST) --numprocesses 2 -m "long and not lrm and not bench" $(ARGS)

.PHONY: test-web
test-web: $(BROWSER)  ## The web page in a real Chromium (Debian: apt install chromium)
	@$(BIN)/python -m pytest -q -m browser $(ARGS) tests/web/browser

.PHONY: test-packages
test-packages: $(STAMP)  ## Build the container image, apply the Ansible role, and run jobs on them (Debian: apt install buildah debootstrap)
	@$(BIN)/python -m pytest -q -m packages $(ARGS) tests/deploy

# Each framework has an environment of its own: their dependencies differ. NVFlare's has Koala, too.
build/frameworks/%/.has-all: examples/frameworks/requirements-%.txt
	@echo "koala: installing $* in build/frameworks/$*" >&2
	@"$(PYTHON)" -m venv --clear build/frameworks/$*
	@build/frameworks/$*/bin/pip install --quiet --disable-pip-version-check -r $< $(if $(filter nvflare,$*),--editable .)
	@touch $@

.PHONY: test-frameworks
test-frameworks: $(STAMP) $(FRAMEWORKS:%=build/frameworks/%/.has-all)  ## Dask, torchrun, torchft, Flower, MUSCLE3 and NVFlare over the sites of a grid, torchrun also over batch systems; torch is large (FRAMEWORKS=dask)
	@PATH="$$PATH:/usr/sbin" $(BIN)/python -m pytest -q -m frameworks -k "$$(echo parameter_server $(FRAMEWORKS) | sed 's/ / or /g')" $(ARGS) tests/examples tests/batch/test_flexible.py

.PHONY: screenshots
screenshots: $(BROWSER)  ## Pictures of the web page for the documents, of a real grid, below docs/images
	@$(BIN)/python -m tests.web.browser.screenshots

.PHONY: test-lrm
test-lrm: $(STAMP)  ## Agents in front of real Slurm clusters, a Grid Engine cell, an HTCondor pool and an OAR cluster
	@PYTHON=$(BIN)/python deploy/dev/test-lrm.sh $(ARGS)

.PHONY: test-fleet
test-fleet: $(STAMP)  ## All clusters and cells of the fleet: also those with a database, power saving or a slow scheduler (ARGS="--last-failed")
	@PYTHON=$(BIN)/python KOALA_LRM_TESTS="lrm and fleet" deploy/dev/test-lrm.sh $(ARGS)

.PHONY: chaos
chaos: $(STAMP)  ## 1,000 jobs while processes are killed, connections spoilt, a disk fills (ARGS="--minutes 20 --intensity 4")
	@$(BIN)/python -m tests.live.chaos $(ARGS)

.PHONY: chaos-lrm
chaos-lrm: $(STAMP)  ## 200 jobs over real batch systems while agents, daemon and controllers fail (ARGS="--kills 60")
	@PYTHON=$(BIN)/python KOALA_LRM_TESTS="lrm and slow and not fleet" deploy/dev/test-lrm.sh
	@PATH="$$PATH:/usr/sbin" $(BIN)/python -m tests.batch.campaign $(ARGS)

.PHONY: demo
demo: $(EXAMPLES)  ## A whole grid on this machine, with co-allocated jobs
	@$(BIN)/koala demo $(ARGS)

.PHONY: sq
sq: $(STAMP)  ## Two components on unequally loaded processors, with and without synchronous queuing
	@$(BIN)/python examples/sq/demonstrate.py $(ARGS)

.PHONY: demo-slurm
demo-slurm: $(EXAMPLES)  ## Jobs over two real Slurm clusters and a Grid Engine cell on this machine
	@$(BIN)/python deploy/dev/demo_slurm.py

.PHONY: swarm
swarm: $(STAMP)  ## Random grids, jobs and faults in simulated time (SEEDS=10000)
	@$(BIN)/python -m tests.swarm.swarm --seeds $(SEEDS) --jobs 2 $(ARGS)

.PHONY: sweep
sweep: $(STAMP)  ## Two stories with a crash at every point of them, and pairs of them (ARGS="--pairs 5000")
	@$(BIN)/python -m tests.swarm.crash_points --jobs 2 $(ARGS)

.PHONY: traces
traces: $(STAMP)  ## The same seeds in two processes with two hash seeds (ARGS="--seeds 200 --first K")
	@$(BIN)/python -m tests.swarm.traces $(ARGS)

.PHONY: mutants
mutants: $(STAMP)  ## Which deliberate bugs the swarm finds, and by which seed (ARGS="--seeds 2000 NAME")
	@$(BIN)/python -m tests.swarm.mutants $(ARGS)

.PHONY: fuzz
fuzz: $(STAMP)  ## Hostile texts, messages and files (ARGS="--cases 1000000 --only rsl")
	@$(BIN)/python -m tests.fuzz.campaign $(ARGS)

.PHONY: corruption
corruption: $(STAMP)  ## Flip bits and cut files of a journal (FLIPS=2000 CUTS=500)
	@$(BIN)/python -m tests.daemon.storage.corruption --flips $(FLIPS) --cuts $(CUTS) $(ARGS)

.PHONY: check-reproduction
check-reproduction: $(STAMP)  ## Compute some rows of the published reproductions again, and compare them byte for byte
	@$(BIN)/python -m tests.lab.papers.published

.PHONY: bench-sim
bench-sim: $(STAMP)  ## Measure the simulators (ARGS="--log FILE")
	@$(BIN)/python -m tests.bench --only multiqueue --only traces $(ARGS)

.PHONY: bench
bench: $(STAMP)  ## Measure the core, the journal and the live path, each beside a reference (ARGS="--quick --only launches --markdown")
	@$(BIN)/python -m tests.bench $(ARGS)

.PHONY: bench-slurm
bench-slurm: $(STAMP)  ## Koala in front of real Slurm clusters beside sbatch, in one run (ARGS="--jobs 200 --pairs 10")
	@$(BIN)/python -m tests.bench.slurm $(ARGS)

.PHONY: bench-busy
bench-busy: $(STAMP)  ## Pairs over two real Slurm clusters that are never idle beside plain jobs (ARGS="--priority age --pairs 6")
	@$(BIN)/python -m tests.bench.busy $(ARGS)

.PHONY: bench-peers
bench-peers: build/bench-peers/installed  ## Install HyperQueue and dask.distributed apart from Koala, so that `make bench` measures them, too

build/bench-peers/installed:
	@$(PYTHON) -m venv build/bench-peers
	@missing=; for peer in hyperqueue distributed; do \
	  build/bench-peers/bin/pip install --quiet $$peer || { echo "bench-peers: $$peer cannot be installed here"; missing=yes; }; \
	done; [ -n "$$missing" ] || touch $@

.PHONY: bench-load
bench-load: $(STAMP)  ## A daemon under load: clients, watchers, sites, a long queue (ARGS="--scale 0.1 --only queue")
	@$(BIN)/python -m tests.bench.load $(ARGS)

.PHONY: bench-web
bench-web: $(BROWSER)  ## How soon open pages in a real Chromium follow the grid, and their memory (ARGS="--minutes 60")
	@$(BIN)/python -m tests.web.browser.following $(ARGS)

.PHONY: docs
docs: $(STAMP)  ## Build the documentation as a site, below build/docs
	@PYTHON="$(PYTHON)" deploy/dev/install.sh $(VENV) dev examples docs
	@$(BIN)/mkdocs build --strict --quiet --config-file deploy/docs/mkdocs.yml

.PHONY: pictures
pictures: $(STAMP)  ## Draw docs/pictures from real runs
	@$(BIN)/python -m tests.documents.pictures

.PHONY: release
release: $(STAMP)  ## Build wheel and source archive of the version in pyproject.toml below dist/, and tag it
	@deploy/dev/release.sh $(BIN)/python

.PHONY: lint
lint: $(STAMP)  ## ruff: rules and form
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

.PHONY: types
types: $(STAMP)  ## mypy --strict
	@$(BIN)/mypy

.PHONY: proto
proto: $(STAMP)  ## Generate koala/common/wire/v1 from proto/
	@$(BIN)/python proto/generate.py

.PHONY: clean
clean:  ## Remove .venv, caches and what builds leave behind
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
