# make lab      set up .venv once, then JupyterLab on the first notebook
# make test     set up once, then format and lint checks and the whole test suite (what CI runs)
# make quick    the tests under 90 seconds, without tests/attack, for your own loop
# make lint     format and lint checks alone; make format: format the code
# make bench    benchmarks and large test sets; results in tests/benchmarks/results
# make gpu      what only a GPU can show: correctness, effect, speed (says so where there is none)
# make study    the runs behind the README's table (half an hour on one core)
# make picture  the README's screenshot of the panel
# make clean    remove .venv

PYTHON ?= python3
BIN := .venv/bin
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: lab test quick lint format bench gpu study picture clean
.DEFAULT_GOAL := lab

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version.split()[0] + "; name another with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

.venv/lab-installed: .venv/made pyproject.toml constraints.txt
	@echo "Installing into .venv: some minutes the first time, nothing after that."
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[lab]'
	@touch $@

.venv/test-installed: .venv/made pyproject.toml constraints.txt
	@echo "Installing into .venv: some minutes the first time, nothing after that."
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	@touch $@ .venv/lab-installed

lab: .venv/lab-installed
	@$(BIN)/vpo-lite lab

# bitsandbytes stays out of .venv: where it is installed, peft imports it in every process (2 s)
.venv/quantized: .venv/test-installed
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps --target $@.new bitsandbytes
	@rm -rf $@ && mv $@.new $@

test: lint .venv/quantized
	@$(BIN)/python tests/browser_setup.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not browser" -n auto --maxprocesses 4 --dist worksteal
	$(BIN)/python -m pytest tests -m browser
	PYTHONPATH=.venv/quantized $(BIN)/python -m pytest -q tests/test_models.py -k quantised_base

quick: .venv/test-installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not browser" --ignore=tests/attack -q -n auto

lint: .venv/test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: .venv/test-installed
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

bench: .venv/test-installed
	VPO_LITE_ATTACKS=12 $(BIN)/python -m pytest -q tests/attack -m "not slow" -n auto
	@for file in tests/benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

gpu: .venv/test-installed
	$(BIN)/python tests/gpu/check.py

study: .venv/test-installed
	$(BIN)/python tests/benchmarks/demo_study.py

picture: .venv/test-installed
	$(BIN)/python tests/benchmarks/readme_picture.py

clean:
	rm -rf .venv
