# Every target sets up what it needs: only Python >= 3.10, a C++20 compiler and make are expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors only: without a terminal to look at, pip's warnings drown what matters.
PIP := -m pip --quiet --quiet --disable-pip-version-check
# What the extension is made of. Python files are not: the editable install reads them where they lie.
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.h native/*.cpp native/kernels/* native/bindings/*)
CPP_FILES := $(wildcard native/*.h native/*.cpp native/kernels/*.h native/bindings/*.h native/bindings/*.cpp \
	tests/fuzz/*.h tests/fuzz/*.cpp)
PYTHON_FILES := src tests native $(wildcard bench docs)

# `make sanitize SANITIZER=thread` looks for races instead of bad addresses.
SANITIZER ?= address
SANITIZER_VENV := .venv-$(SANITIZER)
# These measure memory, of which a sanitizer takes its own.
CRAFTED := tests/trust/test_crafted_files.py
SANITIZER_LEAVES := --deselect $(CRAFTED)::test_crafted_files_take_no_more_memory_than_twice_their_size \
	--deselect $(CRAFTED)::test_huge_headers_are_refused_within_bounds \
	--deselect $(CRAFTED)::test_values_that_escapes_hide_are_refused_within_bounds
# All tests that call the engine, but those that need a browser, torch or a system without a sanitizer in every process.
SANITIZER_TESTS := $(wildcard tests/test_text.py tests/test_data_*.py tests/test_model_file.py tests/test_search.py \
	tests/test_solver.py tests/test_label_tree.py tests/test_training.py tests/test_blocks.py tests/test_estimator.py \
	tests/test_matrices.py tests/test_bad_input.py tests/test_votes.py tests/test_ensemble.py tests/test_uncertainty.py \
	tests/test_pecos_models.py tests/test_judgement.py tests/test_ood.py tests/test_evaluation.py \
	tests/test_calibration.py tests/test_expected_features.py tests/test_metrics.py tests/test_decisions.py \
	tests/test_policy.py tests/test_risk_control.py tests/test_explain.py tests/test_query.py \
	tests/test_serve_batching.py tests/test_serve_predict.py tests/test_serve_decisions.py tests/test_serve_queue.py \
	tests/test_serve_metrics.py tests/fuzz/test_corpus.py tests/trust/test_golden_files.py \
	tests/test_memory_budget.py $(CRAFTED) tests/trust/test_determinism.py)
ifeq ($(SANITIZER),thread)
# It ends a forked child that starts threads, whatever they do.
SANITIZER_LEAVES += --deselect tests/test_estimator.py::test_forked_children_predict_and_fit_after_the_parent_used_threads
SANITIZER_FLAGS := thread
SANITIZER_LIBRARY := libtsan.so
else
SANITIZER_FLAGS := address,undefined
SANITIZER_LIBRARY := libasan.so
endif

# Where lines are counted. Kernels for older processors are run by a second, short run.
COVERAGE_VENV := .venv-coverage
COVERAGE_TESTS ?=
FALLBACK_TESTS := tests/test_search.py tests/test_solver.py tests/test_votes.py tests/test_uncertainty.py tests/test_judgement.py

# Options for the benchmark, such as BENCH_ARGS='--datasets eurlex-4k --fresh'.
BENCH_ARGS ?=
PEERS := .venv-peers

# Processor time for each target of `make fuzz`, and of `make fuzz-long`.
FUZZ_SECONDS ?= 60
FUZZ_LONG_SECONDS ?= 3600
CLANG ?= clang++-19

.PHONY: help demo test trust damage fuzz fuzz-long clang mutate soak coverage chromium lint format stubs sanitize bench bench-paired \
	bench-trust bench-ensembles bench-ood bench-calibration bench-cluster bench-decisions bench-out-of-core \
	bench-scaling bench-scoring bench-serve wheel clean
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tools of the build lie in the environment, not in one that pip makes anew for each build: only so can CMake
# compile just what changed.
$(VENV)/tools:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
	touch $@

$(VENV)/installed: $(VENV)/tools $(SOURCES)
	$(BIN)/python $(PIP) install --no-build-isolation -e .
	touch $@

$(VENV)/test-tools: $(VENV)/tools $(SOURCES) tests/constraints.txt
	$(BIN)/python $(PIP) install --no-build-isolation -c tests/constraints.txt -e '.[test,deep,ray]' accelerate
	touch $(VENV)/installed $@

$(VENV)/lint-tools: $(VENV)/tools pyproject.toml
	$(BIN)/python $(PIP) install --no-build-isolation -e '.[lint]'
	touch $(VENV)/installed $@

# The report and the served page are tested in a real browser. Nothing waits for a password: where Chromium cannot be had, those tests
# skip and say so, or fail if CI is true.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
$(VENV)/chromium: $(VENV)/tools
	command -v chromium > /dev/null \
		|| { $(AS_ROOT) apt-get -qq update && $(AS_ROOT) apt-get -qq install --no-install-recommends chromium > /dev/null; } \
		|| echo 'Chromium could not be installed; the tests of the pages will not run.'
	if command -v chromium > /dev/null; then touch $@; fi

demo: $(VENV)/installed ## Train on the embedded sample and show predictions
	$(BIN)/hedgerow demo

# Two files at a time: many tests wait for a browser, a server or a cluster. The fuzzers are built while pip installs, and
# run in what the tests leave idle; where clang cannot be had, they do not run and make says so, or fails if CI is true.
BESIDE = $(MAKE)
test: $(VENV)/chromium ## Run all tests, the examples in the docstrings and the fuzzers
	mkdir -p build; $(BESIDE) build/fuzz/built > build/fuzz.log 2>&1 & beside=$$!; \
	trap 'kill $$beside 2> /dev/null' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	$(BESIDE) $(VENV)/test-tools || exit; wait $$beside; \
	nice -n 19 $(BESIDE) fuzz > build/fuzz.log 2>&1 & beside=$$!; \
	status=0; $(BIN)/python -m pytest -n 2 --dist loadfile || status=$$?; \
	if wait $$beside; then grep 'inputs in' build/fuzz.log; \
	elif [ "$$CI" = true ] || command -v $(CLANG) > /dev/null; then cat build/fuzz.log; status=1; \
	else echo 'clang could not be installed; nothing was fuzzed.'; fi; exit $$status

trust: damage fuzz soak mutate coverage bench-trust ## Try all that docs/reliability.md tells of but hours of fuzzing, and write that page
	$(MAKE) sanitize SANITIZER=address
	$(MAKE) sanitize SANITIZER=thread

# The page is written only if all went well.
damage: $(VENV)/test-tools ## Damage, kill, starve and attack, in every way there is, and count it in docs/reliability.md
	mkdir -p build && rm -f build/trust-counts
	HEDGEROW_TRUST_COUNTS=build/trust-counts $(BIN)/python -m pytest --timeout=1200 -m 'trust or not trust' tests/trust tests/attacks tests/fuzz
	$(BIN)/python docs/make_reliability.py --counts build/trust-counts

# libFuzzer is a part of clang; the packages are those of Debian 12, elsewhere name yours: make fuzz CLANG=clang++.
clang: ## Install clang with apt, for fuzzing
	command -v $(CLANG) > /dev/null \
		|| { $(AS_ROOT) apt-get -qq update \
		&& $(AS_ROOT) apt-get -qq install --no-install-recommends clang-19 libclang-rt-19-dev llvm-19 > /dev/null; }

# There is no atheris for Python 3.10.
$(VENV)/fuzz-tools: $(VENV)/test-tools
	$(BIN)/python $(PIP) install 'atheris>=3' || echo 'atheris could not be installed; only the readers in C++ will be fuzzed.'
	touch $@

build/fuzz/built: $(VENV)/tools $(SOURCES) $(wildcard tests/fuzz/*.cpp tests/fuzz/*.h tests/fuzz/CMakeLists.txt) | clang
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DCMAKE_CXX_COMPILER=$(CLANG) \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEDGEROW_FUZZ=ON -DHEDGEROW_SANITIZE=address,undefined > /dev/null
	$(BIN)/cmake --build build/fuzz > build/fuzz/build.log || { cat build/fuzz/build.log; exit 1; }
	touch $@

fuzz: build/fuzz/built $(VENV)/fuzz-tools ## Fuzz every reader for FUZZ_SECONDS=60 of processor time, all at once
	$(BIN)/python tests/fuzz/run.py --cpu-seconds $(FUZZ_SECONDS) --at-once 5

# Adds to what is on record, so it can be broken off and gone on with.
fuzz-long: build/fuzz/built $(VENV)/fuzz-tools ## Fuzz until FUZZ_LONG_SECONDS=3600 of processor time are on record for each, and keep the corpus
	nice -n 19 $(BIN)/python tests/fuzz/run.py --cpu-seconds $(FUZZ_LONG_SECONDS) --record docs/reliability/fuzzing.json
	$(BIN)/python tests/fuzz/run.py --keep
	$(BIN)/python docs/make_reliability.py

chromium: $(VENV)/chromium ## Install Chromium with apt, for the tests of the pages

lint: $(VENV)/lint-tools ## Check style and types
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: $(VENV)/lint-tools ## Format Python and C++, and mend what ruff can mend
	$(BIN)/ruff check --fix-only $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CPP_FILES)

stubs: $(VENV)/installed ## Write src/hedgerow/_native.pyi anew from the extension
	$(BIN)/python -m nanobind.stubgen --quiet -m hedgerow._native -o src/hedgerow/_native.pyi

# Both tell what they found in docs/reliability/; the first takes half an hour, the second as long as is asked.
mutate: $(VENV)/test-tools ## Make mistakes in the core, one at a time, and count which the tests notice
	$(BIN)/python tests/trust/mutate.py --out docs/reliability/mutation.json
	$(BIN)/python docs/make_reliability.py

SOAK_MINUTES ?= 30
soak: $(VENV)/test-tools ## Load library and server for SOAK_MINUTES, kill at random, and look for leaks and wrong answers
	$(BIN)/python tests/trust/soak.py --minutes $(SOAK_MINUTES) --out docs/reliability/soak.json
	$(BIN)/python docs/make_reliability.py

# The second environment borrows the packages of the first, but not its editable install: .pth files there are not read.
$(SANITIZER_VENV)/installed: $(VENV)/test-tools $(SOURCES)
	$(PYTHON) -m venv $(SANITIZER_VENV)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))' \
		> $$($(SANITIZER_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/borrowed.pth
	$(SANITIZER_VENV)/bin/python $(PIP) install --no-build-isolation --no-deps -e . \
		-C build-dir=build/$(SANITIZER) -C cmake.build-type=RelWithDebInfo \
		-C cmake.define.HEDGEROW_SANITIZE=$(SANITIZER_FLAGS)
	touch $@

# libstdc++ is loaded first as well, or the sanitizer finds no exceptions to intercept. Reports go to files or to the
# terminal, and pytest must not swallow what a dying process prints there; leaks are not looked for, because Python's own
# drown all others. Every file of tests has a process of its own, or the sanitizer's memory grows without end.
SANITIZED := build/$(SANITIZER)/tests
SANITIZER_LOG := log_path=$(CURDIR)/build/$(SANITIZER)/report
sanitize: $(SANITIZER_VENV)/installed ## Run the tests of the native code under a sanitizer (SANITIZER=address or thread)
	rm -rf build/$(SANITIZER)/report.* $(SANITIZED); mkdir -p $(SANITIZED)
	printf '%s\n' $(SANITIZER_TESTS) | \
	FIRST="$$($(CXX) -print-file-name=$(SANITIZER_LIBRARY)) $$($(CXX) -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:$(SANITIZER_LOG) UBSAN_OPTIONS=print_stacktrace=1:$(SANITIZER_LOG) \
	TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:ignore_noninstrumented_modules=1:$(SANITIZER_LOG) \
	xargs -P 2 -I{} sh -c 'LD_PRELOAD="$$FIRST" $(SANITIZER_VENV)/bin/python -m pytest --timeout=1200 --capture=sys \
		--hypothesis-profile=sanitize --junitxml=$(SANITIZED)/$$(basename {}).xml $(SANITIZER_LEAVES) {} > $(SANITIZED)/$$(basename {}).log 2>&1 \
		&& tail -n 1 $(SANITIZED)/$$(basename {}).log || { cat $(SANITIZED)/$$(basename {}).log; exit 1; }'; \
	status=$$?; cat build/$(SANITIZER)/report.* 2>/dev/null && status=1; \
	[ $$status = 0 ] && $(BIN)/python docs/make_reliability.py --sanitizer $(SANITIZER_FLAGS) $(SANITIZED); \
	exit $$status

$(COVERAGE_VENV)/installed: $(VENV)/test-tools $(SOURCES)
	$(PYTHON) -m venv $(COVERAGE_VENV)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))' \
		> $$($(COVERAGE_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/borrowed.pth
	$(COVERAGE_VENV)/bin/python $(PIP) install --ignore-installed 'coverage>=7.10' 'gcovr>=8'
	$(COVERAGE_VENV)/bin/python $(PIP) install --no-build-isolation --no-deps -e . \
		-C build-dir=build/coverage/native -C cmake.build-type=RelWithDebInfo -C cmake.define.HEDGEROW_COVERAGE=ON
	touch $@

# Also the tests of trust in their short form. The page is written whatever the tests say: lines were run.
coverage: $(COVERAGE_VENV)/installed ## Count which lines the tests run, Python and C++, for docs/reliability.md
	mkdir -p build/coverage/lines && rm -f build/coverage/lines/*; find build/coverage -name '*.gcda' -delete
	status=0; \
	$(COVERAGE_VENV)/bin/python -m coverage run -m pytest --timeout=1200 $(COVERAGE_TESTS) || status=$$?; \
	for level in baseline v3 v4; do \
		HEDGEROW_SIMD=$$level $(COVERAGE_VENV)/bin/python -m pytest --timeout=1200 $(FALLBACK_TESTS) || status=$$?; \
	done; \
	$(COVERAGE_VENV)/bin/python -m coverage combine --quiet && \
	$(COVERAGE_VENV)/bin/python -m coverage json --quiet -o build/coverage/python.json && \
	$(COVERAGE_VENV)/bin/python -m gcovr --root . --filter native/ --merge-lines --gcov-suspicious-hits-threshold 0 --json-summary build/coverage/native.json \
		--html-details build/coverage/native.html build/coverage/native && \
	$(COVERAGE_VENV)/bin/python docs/make_reliability.py --coverage build/coverage/python.json build/coverage/native.json; \
	exit $$status

$(VENV)/bench-tools: $(VENV)/installed
	$(BIN)/python $(PIP) install matplotlib
	touch $@

$(PEERS)/installed: bench/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) install -r bench/peers.txt
	$(PEERS)/bin/python $(PIP) install --no-deps libpecos==1.2.8
	touch $@

bench: $(VENV)/bench-tools $(PEERS)/installed ## Measure the engine beside PECOS, omikuji and napkinXC
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-paired: $(VENV)/bench-tools $(PEERS)/installed ## Let PECOS and Hedgerow predict in turns
	$(BIN)/python -m bench.paired $(BENCH_ARGS)

bench-trust: $(VENV)/installed $(PEERS)/installed ## Try bad inputs, kills and damage on PECOS, omikuji, napkinXC and Hedgerow
	$(BIN)/python -m bench.peer_trust $(BENCH_ARGS)
	$(BIN)/python docs/make_reliability.py

bench-ensembles: $(VENV)/bench-tools ## Measure ensembles and uncertainty
	$(BIN)/python -m bench.ensembles $(BENCH_ARGS)

bench-ood: $(VENV)/bench-tools ## Find outsiders by unfamiliarity and by every single score
	$(BIN)/python -m bench.ood $(BENCH_ARGS)

bench-decisions: $(VENV)/bench-tools ## Keep promises over many cuts, and compare doubts and costs
	$(BIN)/python -m bench.decisions $(BENCH_ARGS)

bench-cluster: $(VENV)/test-tools ## Fit on two nodes of a local Ray cluster beside two threads
	$(BIN)/python -m bench.cluster $(BENCH_ARGS)

bench-scoring: $(VENV)/test-tools ## Score a million rows on two nodes, and kill the command in the middle
	$(BIN)/python -m bench.scoring $(BENCH_ARGS)

bench-out-of-core: $(VENV)/bench-tools ## Fit a generated set within a memory budget
	$(BIN)/python -m bench.out_of_core $(BENCH_ARGS)

bench-calibration: $(VENV)/bench-tools ## Measure how far probabilities can be trusted
	$(BIN)/python -m bench.calibration $(BENCH_ARGS)

bench-scaling: $(VENV)/bench-tools $(PEERS)/installed ## Measure how time grows with the number of labels
	$(BIN)/python -m bench.scaling $(BENCH_ARGS)

# The load comes from wrk, a small program in C: a client in Python would take more of the processors than the server.
$(VENV)/wrk: $(VENV)/tools
	command -v wrk > /dev/null \
		|| { $(AS_ROOT) apt-get -qq update && $(AS_ROOT) apt-get -qq install --no-install-recommends wrk > /dev/null; }
	touch $@

bench-serve: $(VENV)/test-tools $(VENV)/wrk ## Measure the server: latency, load, memory, and requests made from its schema
	$(BIN)/python -m bench.serve $(BENCH_ARGS)

wheel: $(VENV)/tools ## Build a wheel and a source archive into dist/
	$(BIN)/python $(PIP) install build
	$(BIN)/python -m build

clean: ## Remove environments and build products
	rm -rf $(VENV) $(PEERS) $(COVERAGE_VENV) .venv-address .venv-thread build dist
