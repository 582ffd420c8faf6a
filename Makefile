# Tidings: every command a developer needs. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
# The demo's database: postgresql or mariadb.
SOURCE ?= postgresql
BIN := .venv/bin
DISTRIBUTIONS := libs/service libs/envelope libs/domain libs/connect libs/client libs/jvm libs/stack services/capture services/translator services/lakehouse services/sinks services/cli examples/shop
STAMP := .venv/.installed
# MariaDB's binaries are published for Linux on x86-64 only; its tests are skipped elsewhere.
MARIADB := $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -)),mariadb debezium-mariadb debezium-mysql)
# Test processes side by side; each starts servers of its own (about 3 GB).
JOBS ?= 3
# Of the tests that take longest a run of all tests has a third, by the commit; 1, 2, 3 or all says which.
TURN ?= $(if $(ARGS),all,auto)
INPUTS := $(wildcard requirements/*.txt) $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
# uv does not read pip's configuration; a mirror that is set there is handed on.
export UV_DEFAULT_INDEX ?= $(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null || true)
ifeq ($(strip $(UV_DEFAULT_INDEX)),)
unexport UV_DEFAULT_INDEX
endif
# uv brings certificates of its own, and pip trusts the system's, to which a company's proxy may have added one.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),)
export UV_SYSTEM_CERTS ?= 1
endif

# Set on many build machines: every start of a service would compile all of its modules anew, which takes longer than the rest.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo demo-data test check check-types check-rest bench docs fmt stack clean lock tools notice sbom

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## make .venv with every command in .venv/bin

$(STAMP): $(INPUTS)
	@echo "Preparing .venv (Python packages, pinned with hashes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/all.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ,$(DISTRIBUTIONS))
	@touch $(STAMP)

demo: $(STAMP) ## the whole pipeline under a minute of shop traffic (KEEP=1 stays up; SOURCE=mariadb or mysql)
	@$(BIN)/tidings-demo --source $(SOURCE) $(if $(KEEP),--keep) $(ARGS)

demo-data: $(STAMP) ## shop traffic against an existing database: make demo-data DATABASE=postgresql://...
	@test -n "$(DATABASE)" || { echo 'DATABASE is not set: make demo-data DATABASE=postgresql://user:password@host/db'; exit 2; }
	@$(BIN)/tidings-shop traffic --database "$(DATABASE)" $(ARGS)

test: $(STAMP) ## the tests, on real servers started for them (TURN=all: also those that take longest and have another turn)
	@if command -v go >/dev/null; then scripts/tools.sh; else echo "No Go: tests of the chart and the rules that need helm or promtool are skipped"; fi
	@scripts/tools.sh mysql || test $$? -eq 3
	@$(BIN)/python -m tidings_jvm fetch kafka registry debezium debezium-jdbc connect-file s3 opensearch elasticsearch neo4j mongo mongo-kafka scripting converters reader lakehouse iceberg-rest iceberg-aws catalog-postgresql pg-16 $(MARIADB)
	@$(BIN)/python scripts/record_classes.py
	@$(BIN)/pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder --reruns 1 --rerun-show-tracebacks -raR --turn $(TURN) $(ARGS)

check: $(STAMP) ## format, lint, types, import rules, lists that must be complete; whether every test can be imported
	@$(MAKE) --no-print-directory -j2 --output-sync=target check-types check-rest

# Types take as long as all the rest: one core each.
check-types: $(STAMP)
	@$(BIN)/mypy $(foreach d,$(DISTRIBUTIONS),$(wildcard $(d)/tidings_*)) examples/rental/rental

check-rest: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/tidings-schemas generate --check
	@$(BIN)/tidings-schemas check
	@$(BIN)/python -m tidings_cli.reference docs/command-line.md --check
	@$(BIN)/python -m tidings_cli.error_reference docs/errors.md --check
	@$(BIN)/python -m tidings_capture.postgres.settings.option_page docs/debezium-compatibility.md --check
	@$(MAKE) --no-print-directory docs
	@$(BIN)/python -m tidings_connect.config.properties.page docs/worker-properties.md --check
	@$(BIN)/python -m tidings_capture.mysql.settings.option_page docs/mariadb.md --check
	@$(BIN)/python -m tidings_capture.mysql.settings.mysql_option_page docs/mysql.md --check
	@$(BIN)/python -m tidings_capture.query.option_page docs/query-sources.md --check
	@$(BIN)/python scripts/check_sink_options.py
	@$(BIN)/python -m tidings_connect.rest.page docs/rest.md --check
	@$(BIN)/python -m tidings_cli.settings_reference docs/settings.md --check
	@# Collects every test, so that one that cannot be imported is told, and runs those over all options, alerts, images and the like.
	@said=$$($(BIN)/pytest -n0 -q -m 'listing and not tools' 2>&1) || { echo "$$said"; exit 1; }

bench: $(STAMP) ## measure beside real Debezium and others; see docs/benchmarks.md
	@$(BIN)/python -m tests.bench $(ARGS)

docs: $(STAMP) ## the documentation as a site in build/site; a link that leads nowhere is an error
	@said=$$(NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1) || { echo "$$said" | grep -v '^INFO'; exit 1; }

fmt: $(STAMP) ## format and mend what can be mended
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

stack: $(STAMP) ## PostgreSQL, Kafka and the registry on this machine, until `tidings-stack down`
	@$(BIN)/tidings-stack up

tools: $(STAMP) ## helm, promtool and the like, for the tests of the chart (needs Go); MySQL (needs apt)
	@scripts/tools.sh mysql || test $$? -eq 3
	@scripts/tools.sh

lock: $(STAMP) ## pin the dependencies again
	@scripts/lock.sh

notice: $(STAMP) ## write NOTICE: what the images hold of others, with licences
	@$(BIN)/python -m tidings_jvm fetch lakehouse iceberg-aws catalog-postgresql
	@$(BIN)/python scripts/third_parties.py notice

sbom: $(STAMP) ## bills of materials of the images (CycloneDX) in dist/sbom
	@$(BIN)/python -m tidings_jvm fetch lakehouse iceberg-aws catalog-postgresql
	@$(BIN)/python scripts/third_parties.py sbom dist/sbom

clean: ## remove what was built (not the download cache)
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
