# On a machine with Python >= 3.11 and make: `make demo` shows what there is, `make test` tests all of it.
# CONTRIBUTING.md says which command is for what.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH_VENV := .venv-torch
TORCH_BIN := $(TORCH_VENV)/bin
# a test starts hundreds of processes: each would compile all sources again where no bytecode is to be kept
export PYTHONDONTWRITEBYTECODE :=
# without bytecode of all that is never imported: that takes longer than all the rest
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# a new pip, if there is one, finds out what fits together in a third of the time of one that comes with Python
define environment
$(PYTHON) -m venv $(1)
-$(1)/bin/python $(INSTALL) --upgrade pip
endef
# what setuptools says of every editable installation: that of files in the present folder those come first
export PYTHONWARNINGS ?= ignore:Editable installation

.PHONY: demo test quick soak test-audits test-torch lint kernels reproduce-small reference bench bench-torch accept docs dist pictures readme clean

$(VENV)/.demo: setup.cfg pyproject.toml
	$(call environment,$(VENV))
	$(BIN)/python $(INSTALL) --editable '.[mechanisms]'
	touch $@

# all at once, as to find out what fits together takes long; that has all that is in `.[mechanisms]`
$(VENV)/.test: setup.cfg pyproject.toml
	$(call environment,$(VENV))
	$(BIN)/python $(INSTALL) --editable '.[test]'
	touch $(VENV)/.demo $@

demo: $(VENV)/.demo
	$(BIN)/accountant plans
	$(BIN)/accountant epsilon private-knn-mnist
	rm -f $(VENV)/demo.npz  # the digits are public: nobody pays for another release
	$(BIN)/mechanisms label private-knn --data digits --epsilon 2 --delta 1e-4 --diagnostics --out $(VENV)/demo.npz
	@echo
	@echo "Installed in $(VENV). Use the commands as $(BIN)/accountant and $(BIN)/mechanisms, or, in this shell, after"
	@echo "    . $(BIN)/activate"
	@echo "Then for example: accountant --help; accountant show dp-sgd > plan.toml; accountant epsilon plan.toml"

# linters and the compiler, in two halves, run side by side, so that neither of the two test processes has to compile;
# notebooks run in `make docs`
test: $(VENV)/.test
	$(MAKE) --jobs=2 lint kernels
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal -m 'not notebook and not audit'

# what takes long: mechanisms that were broken on purpose must be caught, and whole ones not, in thousands of runs of
# each; benchmarks in a tiny size; a federation of processes
test-audits: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses=2 --dist=worksteal -m audit

# under a minute, for use while you write: the house rules, values against 60 digits, plans, prices, a few mechanisms
QUICK := architecture contributing documentation evidence reference \
	accountant/test_calibration accountant/filters/test_individual accountant/test_guarantee accountant/test_plan \
	accountant/plots/test_trade_off accountant/plots/test_worst_pairs accountant/events/test_randomized_response \
	mechanisms/test_parameters mechanisms/test_pate mechanisms/test_queries mechanisms/noise/test_noise

quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/python -m pytest --numprocesses=2 $(foreach name,$(QUICK),tests/$(if $(findstring /,$(name)),,test_)$(name).py)

# a hundred thousand random runs against exact prices: hours, on one core; it goes on where it was stopped. A thousand of
# them are in every `make test`. SOAK=--help says how to run parts of it
SOAK := --count 100000 --progress build/soak.json
soak: kernels
	mkdir -p build
	$(BIN)/python -m tests.soak $(SOAK)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# compiles what numba compiles, and keeps it on disk; takes a second when it is there already
kernels: kernels-of-runs kernels-of-rounds

kernels-of-%: $(VENV)/.test
	$(BIN)/python -m tests.kernels $*

# PyTorch has an environment of its own: it is large (the CPU build, where the index has one, is the smallest) and
# needs an older mpmath. Its tests are skipped in `make test`. The last two packages bring small models for the recipes.
test-torch: $(TORCH_VENV)/.mechanisms
	$(TORCH_BIN)/python -m pytest tests/mechanisms/students/test_conv_student.py tests/mechanisms/students/test_uda.py tests/recipes
	$(TORCH_BIN)/python -m pytest -m audit tests/test_benchmarks.py -k student

$(TORCH_VENV)/.mechanisms: setup.cfg pyproject.toml
	$(call environment,$(TORCH_VENV))
	cpu=$$($(TORCH_BIN)/python -m pip index versions torch 2> /dev/null | grep -o '[0-9.]*+cpu' | head -n 1); \
		$(TORCH_BIN)/python $(INSTALL) "torch$${cpu:+==$$cpu}"
	$(TORCH_BIN)/python $(INSTALL) --editable '.[torch,mechanisms,small]' pytest onnx onnxruntime safetensors tokenizers
	$(TORCH_BIN)/python $(INSTALL) --no-deps rapidocr-onnxruntime wordllama
	touch $@

# one script per claim, on idle cores; figures in build/bench, beside those in accepted.json, which `make accept` replaces
BENCHMARKS := price_time first_price_time sweep_time tight_intervals private_knn_query_time individual_knn_query_time hashing_time \
	reverse_knn_labelling_time digits_accuracy accuracy_by_queries budgets_of_peers attack_risk_time \
	random_allocation_intervals forecast_accuracy more_records_than_memory
TORCH_BENCHMARKS := student_accuracy

bench: $(VENV)/.bench
	mkdir -p build/bench
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --json build/bench/$$name.json || exit 1; done
	$(BIN)/python benchmarks/compare.py build/bench

bench-torch: $(TORCH_VENV)/.mechanisms
	mkdir -p build/bench
	for name in $(TORCH_BENCHMARKS); do $(TORCH_BIN)/python benchmarks/$$name.py --json build/bench/$$name.json || exit 1; done

accept: $(VENV)/.test
	$(BIN)/python benchmarks/compare.py build/bench --accept

# what they depend on is there, or (Opacus, of which one file is used) not needed
$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python $(INSTALL) --no-deps opacus PLD_accounting
	touch $@

# every table and figure of the papers on real data that comes with Python packages, and the page that shows them:
# under five minutes on two idle cores
reproduce-small: kernels
	rm -rf build/reproduced
	$(BIN)/mechanisms reproduce all --small --jobs 2 --out build/reproduced
	$(BIN)/python benchmarks/reproduced.py build/reproduced

reference: $(VENV)/.test
	$(BIN)/python -m tests.reference.make

# runs every notebook, so that all numbers are the library's; a warning is an error
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --fresh-env --quiet --jobs 2 -d build/doctrees notebooks build/docs

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python $(INSTALL) --editable '.[docs]'
	touch $@

# source distribution and wheel, in dist
# URL, the address of the repository, goes into the metadata, and makes links and pictures of README absolute
dist: $(VENV)/.test
	rm -rf dist
	PROJECT_URL=$(URL) $(BIN)/python -m build

pictures: $(VENV)/.test
	$(BIN)/python benchmarks/pictures.py

# figures between the markers of README, from the library and from accepted.json
readme: $(VENV)/.test
	$(BIN)/python benchmarks/readme.py

clean:
	rm -rf $(VENV) $(TORCH_VENV) build dist *.egg-info
