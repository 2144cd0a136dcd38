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

# The native tests with the compiler's checks built in. Their runtimes must be there before Python
# is. Python itself keeps some memory to its end, so leaks are not looked for.
CHECKED = $(foreach library,$(1) libstdc++.so,$(shell $(CXX) -print-file-name=$(library)))
sanitize: env
	LAVE_NATIVE_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -O1 -g" \
	    $(BIN)/python setup.py --quiet build --build-base build/asan --build-lib build/asan/lib
	LD_PRELOAD="$(call CHECKED,libasan.so)" PYTHONPATH=build/asan/lib LAVE_NATIVE=1 \
	    ASAN_OPTIONS=detect_leaks=0 $(BIN)/pytest -q tests/native
	LAVE_NATIVE_FLAGS="-fsanitize=thread -O1 -g" \
	    $(BIN)/python setup.py --quiet build --build-base build/tsan --build-lib build/tsan/lib
	LD_PRELOAD="$(call CHECKED,libtsan.so)" PYTHONPATH=build/tsan/lib LAVE_NATIVE=1 \
	    $(BIN)/pytest -q tests/native/test_native_threads.py

.PHONY: env demo serve test lint package sanitize clean

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

# Two processes, as an engine leaves a core idle for much of the time; see tests/engine/conftest.py.
test: env
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: env
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# dist/: the source package, and the wheel that is built from it.
package: env
	@$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
