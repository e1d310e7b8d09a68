# Every target sets up what it needs: only Python >= 3.10, a C++20 compiler and make are expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.h native/*.cpp native/bindings/*)

.PHONY: demo test lint format bench sanitize clean

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/pip $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/test-tools: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/hedgerow demo

test: $(VENV)/test-tools
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) build
