# make lab    set up .venv once, then JupyterLab on the first notebook
# make test   set up once, then the whole test suite (what CI runs)
# make quick  the tests under 90 seconds, for your own loop
# make bench  benchmarks and large test sets; results in tests/benchmarks/results
# make study  the runs behind the README's table (a quarter of an hour on one core); picture: its screenshot of the panel
# make clean  remove .venv

PYTHON ?= python3
BIN := .venv/bin
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: lab test quick bench study picture lint clean
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

# bitsandbytes stays out of .venv: where it is installed, peft imports it, two seconds in every process
.venv/quantized: .venv/test-installed
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps --target $@.new bitsandbytes
	@rm -rf $@ && mv $@.new $@

test: .venv/test-installed .venv/quantized
	$(BIN)/python -m pytest
	PYTHONPATH=.venv/quantized $(BIN)/python -m pytest -q tests/test_models.py -k quantised_base

quick: .venv/test-installed
	$(BIN)/python -m pytest -m "not slow and not browser" -q

bench: .venv/test-installed
	@for file in tests/benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

study: .venv/test-installed
	$(BIN)/python tests/benchmarks/demo_study.py

picture: .venv/test-installed
	$(BIN)/python tests/benchmarks/readme_picture.py

lint: .venv/test-installed
	$(BIN)/ruff check .

clean:
	rm -rf .venv
