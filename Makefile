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

# The native tests with the compiler's checks built in. The checks must be there before Python is.
CHECKS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g
PRELOAD = $(foreach library,libasan.so libstdc++.so,$(shell $(CXX) -print-file-name=$(library)))
sanitize: env
	@$(BIN)/python -m pip install --quiet pybind11
	LAVE_NATIVE_FLAGS="$(CHECKS)" $(BIN)/python setup.py --quiet build \
	    --build-base build/sanitize --build-lib build/sanitize/lib
	PYTHONPATH=build/sanitize/lib LD_PRELOAD="$(PRELOAD)" \
	    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 LAVE_NATIVE=1 \
	    $(BIN)/pytest -q tests/native

.PHONY: env demo serve test lint sanitize clean

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
