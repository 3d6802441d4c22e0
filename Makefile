# Every target works from any folder (`make -C path/to/mirrorlake test`) and in a path with spaces:
# all paths are relative to this file's folder, where make runs its commands.

PYTHON ?= python3
BIN := .venv/bin
ONCE ?=
# Three workers, a file at a time: tests wait for a server, a JVM or a browser by turns.
WORKERS ?= -n 3 --dist loadfile --no-loadscope-reorder
# The tools that make the lock file run from the cache folder; UV is only needed by `make lock`.
UV = $(shell ls -d "$${MIRRORLAKE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/mirrorlake}"/tools/uv-*/bin/uv | tail -1)

# Modules are compiled once, not at each start of the many processes that tests and demo have.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
ROUNDS ?= 20
SEED ?= 1
RECORD ?=
SERVE ?=
.PHONY: help setup warm demo sabotage faults test test-full test-live soak check docs bench lock clean

help: ## Show this list
	@echo 'Mirrorlake: MySQL, mirrored exactly in the lake, and proved.'
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'
	@echo
	@echo 'PYTHON=python3.12 chooses the interpreter; MIRRORLAKE_CACHE=folder the cache folder.'

setup: ## Create .venv from requirements.lock (a no-op when it is current)
	@"$(PYTHON)" tools/bootstrap.py

warm: setup # Java's class archive, once: Spark starts faster. Nothing else needs it.
	@"$(BIN)/mirrorlake" warm --quiet || true

demo: warm ## Start the demo's MySQL, mirror it and keep going (ONCE=1: two rounds, every check, end)
	@"$(BIN)/python" -m demo $(if $(filter-out 0,$(ONCE)),--once)

sabotage: ## Damage a table of the running demo: its check goes red in the UI, a job repairs it
	@"$(BIN)/python" -m demo sabotage

faults: ## Plant every kind of fault in the running demo's lake, see what finds it, repair it
	@"$(BIN)/python" -m demo faults

test: warm ## Run the tests (10 to 25 minutes on 2 cores, by how fast they are)
	@"$(BIN)/python" -m pytest $(WORKERS) -m "not full" tests

test-full: warm ## Run everything: matrices, soaks and long histories too
	@RECORD="$(RECORD)" "$(BIN)/python" -m pytest $(WORKERS) -m "full or not full" tests \
		--junit-xml=.pytest_cache/full.xml; code=$$?; \
		$(if $(filter-out 0,$(RECORD)),"$(BIN)/python" -m tests.soak.report .pytest_cache/full.xml;) exit $$code

test-live: ## Run the tests marked live on Google Cloud: MIRRORLAKE_LIVE_GCP=project, costs money
	@test -n "$(MIRRORLAKE_LIVE_GCP)" || { echo 'test-live: name a project of Google Cloud that may be billed: make test-live MIRRORLAKE_LIVE_GCP=my-project' >&2; exit 2; }
	@$(MAKE) --no-print-directory warm
	@MIRRORLAKE_LIVE_GCP="$(MIRRORLAKE_LIVE_GCP)" "$(BIN)/python" -m pytest -m live tests/integration/bigquery

soak: warm ## Kill and recover (ROUNDS=200 SEED=7); RECORD=1 writes docs/reliability.md
	@"$(BIN)/python" -m tests.soak --rounds "$(ROUNDS)" --seed "$(SEED)" $(if $(filter-out 0,$(RECORD)),--record)

check: setup ## Lint, format, types and layers: what CI runs before the tests
	@"$(BIN)/python" tools/check.py

docs: setup ## Build the documentation's site into site/ (SERVE=1: serve it on loopback)
	@"$(BIN)/python" -m tools.site $(if $(filter-out 0,$(SERVE)),--serve)

bench: warm ## Run the side-by-side benchmarks and print ratios
	@"$(BIN)/python" -m benchmarks

lock: setup ## Make requirements.lock again from requirements.in, and the emulator's (needs the network)
	@"$(UV)" pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --python-version 3.11 requirements.in -o requirements.lock
	@"$(UV)" pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --python-version 3.11 --constraint requirements.lock \
		tests/support/bigquery/requirements.in -o tests/support/bigquery/requirements.lock

clean: ## Remove what was made inside this folder (the shared cache folder stays)
	@rm -rf .venv .mirrorlake .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov \
		.import_linter_cache build dist site *.egg-info spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
