# Every target sets up what it needs: only Python >= 3.10, a C++20 compiler and make are expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.h native/*.cpp native/bindings/*)

.PHONY: demo test lint format bench bench-scaling sanitize clean

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

# Options for the benchmark, such as BENCH_ARGS='--datasets eurlex-4k --fresh'.
BENCH_ARGS ?=
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check

$(VENV)/bench-tools: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check matplotlib
	touch $@

$(PEERS)/installed: bench/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS_PIP) -r bench/peers.txt
	$(PEERS_PIP) --no-deps libpecos==1.2.8
	touch $@

bench: $(VENV)/bench-tools $(PEERS)/installed
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-scaling: $(VENV)/bench-tools $(PEERS)/installed
	$(BIN)/python -m bench.scaling $(BENCH_ARGS)

clean:
	rm -rf $(VENV) $(PEERS) build
