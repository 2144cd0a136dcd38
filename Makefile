# From a fresh clone:  make demo  (the real SGLang on this machine's CPU), make test.
# Needs Python 3.11 or newer with pip and venv: python3, or the one that PYTHON names.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
CPU := lave_plugin/engines/sglang/cpu
READY := $(VENV)/ready
PORT ?= 30000
# More arguments for `lave demo`, such as ARGS="--model FOLDER".
ARGS ?=

.PHONY: env demo serve test lint clean

env: $(READY)
	@echo "env: $(VENV) is ready"

# Made again only when one of the lists changes. What it does, it says phase by phase.
$(READY): $(CPU)/install.sh $(CPU)/requirements.txt $(CPU)/requirements-nodeps.txt \
          $(CPU)/requirements-dev.txt $(CPU)/constraints.txt setup.cfg pyproject.toml
	@PYTHON="$(PYTHON)" bash $(CPU)/install.sh $(VENV)
	@touch $@

demo: env
	@$(BIN)/lave demo $(ARGS)

serve: env
	@$(BIN)/lave demo --serve --port $(PORT) $(ARGS)

test: env
	@$(BIN)/python -m pytest

lint: env
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
