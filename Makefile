# `make` lists the targets. All that they install goes into .venv and .tools; `make clean` takes both away again.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run console screenshots test lint fmt proto eval bench torture power-loss soak cancelled fuzz demo locks audit sbom image clean

# The first Python that is new enough and can make an environment; `make PYTHON=/path/to/python3.12 test` names another.
CAN_MAKE_VENV = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c '$(CAN_MAKE_VENV)' 2>/dev/null && echo $$python && break; done)

BIN := .venv/bin
INSTALLED := .venv/installed
BUF_VERSION := 1.75.0
UV_VERSION := 0.13.9
AUDIT_VERSION := 2.10.1
SBOM_VERSION := 7.5.0
BUF := .tools/node_modules/.bin/buf
BUF_INSTALLED := .tools/node_modules/.buf-$(BUF_VERSION)
IMAGE ?= memsvc

# Handed on to the program that a target runs: `make test ARGS="-k ledger"`, `make eval ARGS=boundary`.
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: export MEMSVC_DATABASE ?= data/memsvc.db
run: $(INSTALLED) ## serve on 127.0.0.1:50051, with the database in ./data
	@mkdir -p data
	$(BIN)/memsvc serve $(ARGS)

console: export MEMSVC_CONSOLE_LISTEN ?= 127.0.0.1:8080
console: $(INSTALLED) ## serve the console on 127.0.0.1:8080, for the daemon of `make run`
	$(BIN)/memsvc-console

test: $(INSTALLED) ## run the tests
	$(BIN)/pytest $(ARGS)

lint: $(INSTALLED) ## check format, style, types, the contract and its generated stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory lint-contract; \
	elif [ -n "$${CI:-}" ]; then echo 'npm is missing, and CI must lint the contract' >&2; exit 1; \
	else echo 'SKIPPED buf lint: buf comes by npm, and npm is not installed' >&2; fi
	$(BIN)/pytest tests/test_proto_fresh.py

.PHONY: lint-contract
lint-contract: $(BUF_INSTALLED)
	$(BUF) lint proto

fmt: $(INSTALLED) ## format, and mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(INSTALLED) ## generate memsvc/v1 from proto/
	$(BIN)/python proto/generate.py

eval: $(INSTALLED) ## score the rules on the evaluation data (MEMSVC_EVAL_DATA says where it is)
	$(BIN)/python -m tests.eval $(ARGS)

bench: $(INSTALLED) ## time the calls beside a bare gRPC echo
	$(BIN)/python -m tests.bench $(ARGS)

torture: $(INSTALLED) ## kill daemons 500 times in the middle of mixed load, and audit what they leave
	$(BIN)/python -m tests.faults.torture $(ARGS)

power-loss: $(INSTALLED) ## 300 disks as a power loss may leave them, built from what strace saw the daemon do
	$(BIN)/python -m tests.faults.power $(ARGS)

soak: $(INSTALLED) ## half an hour of mixed load with faults: what leaks, what waits, what fails
	$(BIN)/python -m tests.faults.soak $(ARGS)

cancelled: $(INSTALLED) ## five minutes of calls, 30% of them cancelled at every stage: memory, descriptors
	$(BIN)/python -m tests.faults.cancelled $(ARGS)

fuzz: export MEMSVC_FUZZ_EXAMPLES ?= 2000
fuzz: $(INSTALLED) ## send whatever hypothesis can think of, 2000 examples of each kind
	$(BIN)/pytest -n 2 tests/fuzz $(ARGS)

demo: $(INSTALLED) ## play a conversation against a daemon of its own, killed in the middle
	$(BIN)/python clients/examples/demo.py $(ARGS)

screenshots: $(INSTALLED) ## take the README's pictures of the console, with a browser
	$(BIN)/python -m tests.console.screenshots $(ARGS)

image: ## build the container image
	docker build --tag $(IMAGE) .

LOCK = .tools/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --constraint constraints.txt \
	--generate-hashes --no-header --no-annotate --no-emit-package colorama --no-emit-package httpx2-jsfetch

locks: .tools/lock/uv-$(UV_VERSION) ## pin what constraints.txt names by the hashes of its files
	$(LOCK) locks/build.in --output-file locks/build.txt
	$(LOCK) pyproject.toml --extra server --extra console --output-file locks/run.txt
	$(LOCK) pyproject.toml --extra server --extra console --extra dev --output-file locks/dev.txt

audit: .tools/audit/pip-audit-$(AUDIT_VERSION) ## ask for known vulnerabilities of what is pinned (needs the network)
	.tools/audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off \
		--requirement locks/run.txt --requirement locks/build.txt --requirement locks/dev.txt

sbom: .tools/sbom/cyclonedx-bom-$(SBOM_VERSION) ## write dist/memsvc.cdx.json: what an installation consists of, as CycloneDX
	@mkdir -p dist
	.tools/sbom/bin/cyclonedx-py requirements locks/run.txt --pyproject pyproject.toml --output-reproducible \
		--output-file dist/memsvc.cdx.json

# A tool in a place of its own: none of what it needs comes between what the daemon is tested with.
.tools/lock/uv-$(UV_VERSION) .tools/audit/pip-audit-$(AUDIT_VERSION) .tools/sbom/cyclonedx-bom-$(SBOM_VERSION):
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet $(subst ~,==,$(shell echo $(@F) | sed 's/-\([0-9]\)/~\1/'))
	@touch $@

clean: ## remove all that was installed, built and cached; ./data stays
	rm -rf .venv .tools build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo 'Python 3.11 or newer with venv is needed; name one as PYTHON=…' >&2; exit 1; }
	$(PYTHON) -m venv .venv

# What is installed has the hashes of the locks; what is ours is then put beside it, and nothing more is fetched.
$(INSTALLED): pyproject.toml locks/build.txt locks/dev.txt | $(BIN)/python
	$(BIN)/pip install --quiet --require-hashes --requirement locks/build.txt --requirement locks/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check --quiet
	@touch $@

$(BUF_INSTALLED):
	npm install --prefix .tools --no-save --no-package-lock --no-audit --no-fund --silent @bufbuild/buf@$(BUF_VERSION)
	@touch $@
