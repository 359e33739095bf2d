# Two commands on a machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-torch lint reference bench accept docs pictures readme clean

$(VENV)/.demo: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mechanisms]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/accountant plans
	$(BIN)/accountant epsilon private-knn-mnist
	$(BIN)/mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4 --diagnostics

test: $(VENV)/.test lint
	$(BIN)/python -m pytest --numprocesses=2

# PyTorch is large; the tests of its student are skipped where it is not installed
test-torch: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[torch]'
	$(BIN)/python -m pytest tests/mechanisms/students/test_conv_student.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# one script per claim, on idle cores; figures in build/bench, beside those in accepted.json, which `make accept` replaces
BENCHMARKS := price_time sweep_time tight_intervals private_knn_query_time individual_knn_query_time \
	reverse_knn_labelling_time digits_accuracy accuracy_by_queries

bench: $(VENV)/.bench
	mkdir -p build/bench
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --json build/bench/$$name.json || exit 1; done
	$(BIN)/python benchmarks/compare.py build/bench

accept: $(VENV)/.test
	$(BIN)/python benchmarks/compare.py build/bench --accept

# of Opacus only one file is used, which needs nothing of what it depends on
$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps opacus
	touch $@

reference: $(VENV)/.test
	$(BIN)/python -m tests.reference.make

# runs every notebook, so that all numbers are the library's; what warns fails
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --fresh-env --quiet -d build/doctrees notebooks build/docs

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

pictures: $(VENV)/.test
	$(BIN)/python benchmarks/pictures.py

# figures between the markers of README, from the library and from accepted.json
readme: $(VENV)/.test
	$(BIN)/python benchmarks/readme.py

clean:
	rm -rf $(VENV) build dist *.egg-info
