# Everything there is to do here. `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
PY := .venv/bin/python
INSIDE := $(PY) -m deploy.local.inside
UV_VERSION := 0.13.8
LOCK := build/lock/bin/uv pip compile pyproject.toml --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-header

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  test-PART runs one folder of tests/:" $(notdir $(patsubst %/,%,$(filter-out %__pycache__/ %support/,$(wildcard tests/*/))))

##@ Run it
.PHONY: run show admin reconcile topics redeliver replay
run: env ## start everything on this machine; PROCESSES=1: one process per service
	@exec $(PY) -m deploy.local.launcher

show: env ## what happened to one request: make show ID=<x-request-id>
	@exec $(PY) -m deploy.local.show $(ID)

admin: env ## accounts, keys, limits, people, money: make admin ARGS="keys list acct_demo"
	@exec $(INSIDE) -m services admin $(ARGS)

reconcile: env ## prove that the books are right (beside make run)
	@exec $(INSIDE) -m services.ledger.reconcile $(ARGS)

topics: env ## compare the topics with the code; ARGS=apply makes them
	@exec $(INSIDE) -m libs.kafka.topics $(or $(ARGS),verify) --bootstrap {KENARI_KAFKA__BOOTSTRAP}

redeliver: env ## try dead letters again: make redeliver ARGS="ledger --max 10 --dry-run"
	@exec $(INSIDE) -m libs.kafka.replay $(ARGS)

replay: env ## settle a restored ledger database from the bus: make replay ARGS="--since 2026-12-01T04:00"
	@exec $(INSIDE) -m services.ledger.replay $(ARGS)

##@ Change it
.PHONY: env env-dev test nightly lint format proto contracts dashboards lock clean
env: ## make .venv from requirements.lock
	@sh deploy/local/bootstrap.sh

env-dev: ## the same with the tools for tests and lints
	@sh deploy/local/bootstrap.sh --dev

# Much of the suite waits for processes, timeouts and brokers: three workers fill two cores. JOBS=0: none beside this.
JOBS ?= 3
test: env-dev ## the whole suite, under ten minutes on two cores
	@exec $(PY) -m pytest -n $(JOBS) $(ARGS)

test-%: env-dev
	@exec $(PY) -m pytest tests/$* $(ARGS)

# The expression takes all tests; that it says "nightly" keeps tests/conftest.py from leaving the long ones out.
nightly: env-dev ## the whole suite at its long sizes, and the tests that take minutes
	@KENARI_NIGHTLY=1 exec $(PY) -m pytest -m "nightly or not nightly" $(ARGS)

lint: env-dev ## style, types, import arrows, house rules, generated files
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet . || { echo "not formatted; run \`make format\`"; exit 1; }
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m mypy libs services deploy tests
	@.venv/bin/lint-imports
	@$(PY) -m tests.lint
	@$(PY) -m deploy.generate all --check

format: env-dev ## let ruff write the files as it wants them
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

proto: env-dev ## generate libs/gen from proto/
	@$(PY) -m deploy.generate proto

contracts: env-dev ## generate proto/events and proto/asyncapi from libs/events and the services
	@$(PY) -m deploy.generate contracts

dashboards: env-dev ## generate deploy/grafana/dashboards
	@exec $(PY) -m deploy.grafana.build

lock: ## bring the lock files up to pyproject.toml; ARGS=--upgrade takes new versions
	@test -x build/lock/bin/uv || { python3 -m venv build/lock && build/lock/bin/pip install --quiet uv==$(UV_VERSION); }
	@$(LOCK) $(ARGS) --extra local --output-file requirements.lock
	@$(LOCK) --extra local --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	@$(LOCK) --constraint requirements.lock --output-file deploy/requirements.lock

clean: ## remove what can be made again; the data of make run (.kenari) stay
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find libs services deploy tests -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Judge it
.PHONY: contract mutants compat bench bench-peers bench-idle compose-check
contract: env-dev ## which rules of the contract the last test run proved
	@exec $(PY) -m tests.contract.coverage

mutants: env-dev ## put faults into copies of the ledger; each must be noticed; ARGS="name name"
	@exec $(PY) -m tests.money.mutants $(ARGS)

compat: env-dev ## real clients against every provider format; SUITE=folder ONLY=client,... FACES=openai,...
	@exec $(PY) -m tests.compat --suite "$(SUITE)" --only "$(ONLY)" --faces "$(FACES)"

bench: env-dev ## speed and cost on this machine, into build/bench.json
	@exec $(PY) -m tests.bench run $(ARGS)

bench-peers: env-dev ## the same load on other gateways, with ratios
	@exec $(PY) -m tests.bench peers $(ARGS)

bench-idle: env-dev ## memory of thousands of streams that stand still; ARGS="--streams 500"
	@exec $(PY) -m tests.bench idle $(ARGS)

compose-check: env-dev ## whether docker-compose.yml agrees with the code
	@exec $(PY) -m pytest tests/deploy/test_compose.py $(ARGS)
