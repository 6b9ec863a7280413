# The development tasks. `make` alone lists them.
#
# .venv is made once and kept; it is brought up to date when a lock file or pyproject.toml changes.

PYTHON ?= python3
PORT ?= 5000
SITE ?= site

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.docs-ready
RAY_SIM := $(BIN)/python -m ray_sim.cli
DEMO := demo/results
DEMO_STORE := $(DEMO)/mlflow.db
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header pyproject.toml
DOCS_EXTRA := import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*extras["docs"], sep="\n")

# Tests that start Ray run one after the other in one process, the others beside them, file by file. Long tests
# mostly wait for Ray's processes, so that two of their files run side by side.
# One process more than there are cores, as those that start Ray mostly wait for its processes.
SIDE_BY_SIDE := --numprocesses $(shell expr $$(nproc) + 1) --maxprocesses 4 --dist loadscope --no-loadscope-reorder

# Prints a line every eight seconds until the shell of the recipe ends.
BEAT = (while sleep 8 > /dev/null 2>&1 && kill -0 $$$$ 2> /dev/null; do echo "$(1): still at work"; done) & trap "kill $$!" EXIT

# The tests start hundreds of Python processes; without stored bytecode each compiles the whole package.
export PYTHONDONTWRITEBYTECODE :=
export RAY_USAGE_STATS_ENABLED := 0
# Ray lowers the priority of its workers to 15; beside the other tests they would hardly run.
export RAY_worker_niceness := 0
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION := false
# The theme's notice about a successor of mkdocs.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help demo ui test test-quick test-long docs docs-check test-all fingerprint fuzz lint size bench lock clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         convert the bundled Philly sample and sweep schedulers over it (into demo/)"
	@echo "make ui           browse the demo's runs in MLflow on 127.0.0.1:$(PORT)"
	@echo "make test         the tests of every commit; brute-force proofs on some of their instances"
	@echo "make test-quick   the tests that are neither slow nor start Ray; proofs on few of their instances"
	@echo "make test-long    the tests of lost machines, submitted jobs, kills, launchers, trainings and all contracts"
	@echo "make docs         the documentation site, into $(SITE)/; open $(SITE)/index.html"
	@echo "make docs-check   what a reader is shown: commands of pages, the site, reports in a headless browser"
	@echo "make test-all     all tests; brute-force proofs on all of their instances"
	@echo "make fingerprint  compare small runs of every policy with the recorded ones (RENEW=1 records them anew)"
	@echo "make fuzz         damaged traces, maps, sweeps and command lines: no traceback, no hang, no lost row"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make size         lines, files, imports and words beside their budgets"
	@echo "make bench        the benchmarks"
	@echo "make lock         renew the lock files from pyproject.toml"
	@echo "make clean        remove .venv, demo/ and all caches"

demo: $(READY)
	@mkdir -p demo
	$(RAY_SIM) convert philly-csv workloads/samples/philly_sample.csv -o demo/workload.parquet
	$(RAY_SIM) sweep jobs/demo.yaml -o $(DEMO)
	$(RAY_SIM) report $(DEMO) -o demo/report.html
	@echo "Report: demo/report.html. Results: demo/results. To browse the runs in MLflow: make ui"

ui: $(READY)
	@test -f $(DEMO_STORE) || { echo "error: $(DEMO_STORE) does not exist; run 'make demo' first" >&2; exit 1; }
	@charts=$$($(RAY_SIM) log $(DEMO) --json | $(BIN)/python -c "import json, sys; print(json.load(sys.stdin)['charts'])") \
		&& echo "Charts: http://127.0.0.1:$(PORT)/#$${charts#*#}"
	$(BIN)/mlflow server --backend-store-uri sqlite:///$(DEMO_STORE) \
		--artifacts-destination $(DEMO)/mlartifacts --host 127.0.0.1 --port $(PORT) --workers 1

test: $(READY)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not long and not docs"

test-long: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m long

# mkdocs empties SITE first.
docs: $(DOCS_READY)
	@$(call BEAT,building the site); $(BIN)/python -m mkdocs build --strict --site-dir $(SITE)

docs-check: $(DOCS_READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m docs

test-all: $(READY)
	RAY_SIM_PROOFS=all $(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-quick: $(READY)
	RAY_SIM_PROOFS=few $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not long and not ray and not docs"

fingerprint: $(READY)
	$(BIN)/python -m tests.fingerprint $(if $(RENEW),--renew)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Lines, files, imports and words beside their budgets.
size: $(READY)
	$(BIN)/python tests/size.py

bench: $(READY)
	$(RAY_SIM) bench

# uv keeps every version that still fits; add UPGRADE=--upgrade to take newer ones.
lock: $(READY)
	$(LOCK) $(UPGRADE) --extra dev -o requirements.lock
	$(LOCK:pyproject.toml=) $(UPGRADE) --group bootstrap -o requirements-bootstrap.lock
	$(BIN)/python -c '$(DOCS_EXTRA)' | $(LOCK:pyproject.toml=-) $(UPGRADE) -c requirements.lock -o requirements-docs.lock

clean:
	rm -rf .venv demo site build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv makes, so it stands for a whole environment.
$(BIN)/pip:
	@version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
	|| { echo "error: cannot run '$(PYTHON)'. Install Python 3.11 or later, or name one:" \
		"make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "error: '$(PYTHON)' is Python $$version, and 3.11 or later is needed. Name one:" \
		"make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	|| { echo "error: '$(PYTHON)' cannot make virtual environments." \
		"On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv

# uv installs the whole set in seconds; pip takes over where uv is not to be had, or refuses.
$(READY): pyproject.toml requirements.lock requirements-bootstrap.lock | $(BIN)/pip
	$(call BEAT,installing the packages); \
	{ $(BIN)/python -m pip install --no-input --quiet --require-hashes -r requirements-bootstrap.lock \
		&& $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode \
			--require-hashes -r requirements.lock; } \
	|| { echo "uv could not install the lock file; trying pip, which takes some minutes"; \
		$(BIN)/python -m pip install --no-input --quiet --require-hashes -r requirements.lock; }
	$(BIN)/python -m pip install --no-input --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# What the documentation site is built with, beside the packages of ray_sim.
$(DOCS_READY): $(READY) requirements-docs.lock
	$(call BEAT,installing the packages of the site); \
	$(BIN)/python -m pip install --no-input --quiet --require-hashes -r requirements-docs.lock
	@touch $@
