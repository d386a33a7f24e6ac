# Everything a contributor types. `make help` lists it.
#
# `setup` is idempotent: stamps below .venv remember what was done, so the second call takes a blink.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
KERNELS := $(shell find src -name '*.pyx' -o -name '*.pxd')
CHECKED := src tests bench fuzz tools
# Arguments of a test run: make test ARGS='-k retention -x'
ARGS ?=
# What pipelines and Spark leave in the folder they are run from.
LEFT := ottla-pipelines spark-warehouse metastore_db derby.log
# Tests wait for brokers more than they compute: more of them at once than there are cores.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup compile check format test spark wheel lock audit reproducible docs demo compat bench torture spark-torture fuzz soak sim cores mutants chaos declarative kcat kerberos maven browser clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

setup: $(INSTALLED) $(COMPILED) ## make .venv, install Ottla editable with its tools, compile the kernels and the request path

$(INSTALLED): pyproject.toml setup.py requirements/dev.txt
	@echo "setup: virtual environment in $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing Ottla (editable) and its development tools"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	@OTTLA_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

$(COMPILED): $(INSTALLED) $(KERNELS)
	@if command -v "$${CC:-cc}" >/dev/null || command -v gcc >/dev/null; then \
		echo "setup: compiling the kernels and the modules of the request path (about a minute)"; \
		$(BIN)/python setup.py --quiet build_ext --inplace; \
	else \
		echo "setup: no C compiler found; Ottla runs on its plain-Python references, slower"; \
	fi
	@touch $@

compile: setup ## compile again what has changed: kernels, modules of the request path
	$(BIN)/python setup.py --quiet build_ext --inplace

check: setup ## static checks: ruff, formatting, mypy strict, layers
	$(BIN)/ruff check $(wildcard $(CHECKED))
	$(BIN)/ruff format --check $(wildcard $(CHECKED))
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## rewrite the sources in the one format
	$(BIN)/ruff check --fix $(wildcard $(CHECKED))
	$(BIN)/ruff format $(wildcard $(CHECKED))

test: setup browser check ## static checks and every test that needs only Python, and Java for those on Spark
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

spark: setup ## the longer tests on real Spark: the suite of either connector, pipelines, clusters whose executors die
	$(BIN)/python -m pytest -m 'spark and not compat and not torture' -o faulthandler_timeout=600 $(ARGS)

wheel: setup ## sdist and wheels, with and without compiled kernels, in dist; each is tested in an empty environment
	$(BIN)/python tools/wheel.py $(ARGS)

lock: setup ## resolve the dependencies of development again, with hashes, into requirements/dev.txt
	$(BIN)/python tools/lock.py

audit: setup ## known vulnerabilities of the locked dependencies (installs pip-audit into .venv/audit)
	@test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet pip-audit; }
	$(VENV)/audit/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/dev.txt

reproducible: setup ## build the sdist and the wheels twice, in different folders; their bytes must be equal
	$(BIN)/python tools/wheel.py --twice --no-smoke

docs: setup ## the documentation as a site in site (installs mkdocs-material into .venv)
	@$(BIN)/python -c 'import material' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mkdocs-material>=9.5'
	$(BIN)/python -m mkdocs build --quiet $(ARGS)

demo: setup ## three brokers in two racks, matches, their scoreboard on Spark, a mobile and a computer, in this terminal
	@$(BIN)/ottla demo --data demo-data $(ARGS)

compat: setup kcat kerberos maven declarative ## Apache Kafka's tools, files and Streams, clients in Java, Go, JavaScript, kcat, request by request
	$(BIN)/python -m bench.kafka_jars
	$(BIN)/python -m bench.spark_jars
	$(BIN)/python -m tests.compat.clients.build
	$(BIN)/python -m pytest -m compat -o faulthandler_timeout=600 $(ARGS)

bench: compile maven ## Ottla beside Apache Kafka on this machine (ARGS=--spark: its Spark connectors); the table goes to bench/results
	$(BIN)/python -m bench.run $(ARGS)

torture: setup ## 100 kills of the broker under load, histories checked
	$(BIN)/python -m pytest -m torture --ignore tests/fault/test_spark_sink.py -o faulthandler_timeout=1800 $(ARGS)

spark-torture: setup ## 100 kills of drivers, workers and brokers under the exactly-once sink, and each step of its commit
	OTTLA_REQUIRE_SPARK=1 $(BIN)/python -m pytest -m torture tests/fault/test_spark_sink.py -n 2 --dist load -v \
		-o faulthandler_timeout=3600 $(ARGS)

fuzz: setup ## mutated frames to clusters, then malformed bytes to decoders; FRAMES=…, SEED=…; ARGS='replay FILE' and others
	$(BIN)/python -m fuzz $(or $(ARGS),all --frames $(or $(FRAMES),200000) --seed $(or $(SEED),1))

soak: setup ## three brokers under load and faults for MINUTES=120; memory, open files, tasks and threads must stay flat
	$(BIN)/python -m tests.chaos.soak --minutes $(or $(MINUTES),120) $(ARGS)

sim: setup ## the broker among simulated clients, with faults: SEED=123 one run, SEEDS=1000 many
	$(BIN)/python -m ottla.testing.sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100)) $(ARGS)

cores: setup ## the pure cores alone, much faster than whole nodes: SEED=123 one run, SEEDS=1000 many
	$(BIN)/python -m ottla.testing.cores $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100)) $(ARGS)

mutants: setup ## break one rule of the code at a time; a test must fail each time
	$(BIN)/python -m tests.mutants $(ARGS)

chaos: setup ## clusters of processes under load: kills, pauses, network, full disks, power failures; KILLS=200, POWER=50
	$(BIN)/python -m tests.chaos --kills $(or $(KILLS),20) --power $(or $(POWER),4) $(ARGS)

declarative:
	@$(BIN)/python -c 'import grpc, yaml' 2>/dev/null || { \
		echo "compat: installing what Spark Declarative Pipelines need"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pyspark[pipelines]'; }

kcat:
	@command -v kcat >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "compat: installing kcat"; \
			apt-get install -qq -y kcat >/dev/null || { apt-get update -qq && apt-get install -qq -y kcat >/dev/null; }; \
		else echo "compat: kcat is missing; its tests are skipped"; fi; }

kerberos:
	@command -v krb5kdc /usr/sbin/krb5kdc >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "compat: installing a server of Kerberos"; export DEBIAN_FRONTEND=noninteractive; \
			packages="krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-modules-gssapi-mit"; \
			apt-get install -qq -y $$packages >/dev/null || { apt-get update -qq && apt-get install -qq -y $$packages >/dev/null; }; \
		else echo "compat: krb5kdc is missing; the tests of Kerberos are skipped"; fi; }
	@$(BIN)/python -c 'import gssapi' 2>/dev/null || { \
		echo "compat: installing what GSSAPI needs"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check 'gssapi>=1.9' \
			|| echo "compat: gssapi cannot be installed; the tests of Kerberos are skipped"; }

browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || test -n "$$OTTLA_CHROMIUM" || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "test: installing Chromium for the tests of the console"; \
			{ timeout 300 apt-get install -qq -y chromium || { timeout 100 apt-get update -qq && timeout 300 apt-get install -qq -y chromium; }; } >/dev/null 2>&1 \
				|| echo "test: Chromium cannot be installed; the tests of the console in a browser are skipped"; \
		else echo "test: Chromium is missing; the tests of the console in a browser are skipped"; fi; }

maven:
	@command -v mvn >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing Maven, which fetches Apache Kafka"; \
			apt-get install -qq -y maven >/dev/null || { apt-get update -qq && apt-get install -qq -y maven >/dev/null; }; \
		else echo "Maven (mvn) is needed to fetch Apache Kafka: please install it"; exit 1; fi; }

clean: ## remove everything that was built, fetched or left behind
	rm -rf $(VENV) .bench build dist site demo-data $(LEFT) $(LEFT:%=examples/*/%) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf examples/declarative_pipelines/{storage,spark-pipeline.yml}
	find src tests bench -name '__pycache__' -prune -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -rf src/ottla/_compiled
	find src -name '*.pyx' -printf '%p\n' | sed 's/\.pyx$$/.c/' | xargs -r rm -f
