# make lab      set up .venv once, then JupyterLab on the first notebook
# make test     set up once, then format, lint, and all tests but the long ones (what CI runs)
# make test-all the same, with the long ones and those of quantised models and OpenEvolve: before a release
# make quick    the short tests, without tests/attack, for your own loop (under 2 minutes on two cores)
# make lint     format and lint checks alone; make format: format the code
# make bench    benchmarks and large test sets; results in tests/benchmarks/results
# make gpu      what only a GPU can show: correctness, effect, speed (says so where there is none)
# make verl     install veRL and what its own code needs into .venv/verl (155 MB), then its tests
# make study    the runs behind the demo's table in notebooks/REFERENCE.md (half an hour on one core)
# make picture  the README's moving picture of the panel, and the reference's still
# make clean    remove .venv

PYTHON ?= python3
BIN := .venv/bin
export OMP_WAIT_POLICY ?= PASSIVE

# One test process more than cores, as far as four: some tests wait for processes that they start.
TESTERS = $(shell $(BIN)/python -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')

# pip compiles 18,000 files on one core, which is most of an installation; here all cores do. Some
# files are no Python of this version.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt
COMPILE = { $(BIN)/python -m compileall -qq -j 0 .venv/lib || true; }

.PHONY: lab test test-all quick lint format bench gpu verl study picture clean
.DEFAULT_GOAL := lab

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version.split()[0] + "; name another with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

.venv/lab-installed: .venv/made pyproject.toml constraints.txt
	@echo "Installing into .venv: some minutes the first time, nothing after that."
	$(INSTALL) -e '.[lab]' && $(COMPILE)
	@touch $@

.venv/test-installed: .venv/made pyproject.toml constraints.txt
	@echo "Installing into .venv: some minutes the first time, nothing after that."
	$(INSTALL) -e '.[test]' && $(COMPILE)
	@touch $@ .venv/lab-installed

lab: .venv/lab-installed
	@$(BIN)/vpo-lite lab

# bitsandbytes stays out of .venv: where it is installed, peft imports it in every process (2 s)
.venv/quantized: .venv/test-installed
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps --target $@.new bitsandbytes
	@rm -rf $@ && mv $@.new $@

# As veRL, apart from .venv: it brings openai and flask.
.venv/openevolve: .venv/test-installed
	@rm -rf $@.new
	$(BIN)/python -m pip install --quiet -c constraints.txt --target $@.new openevolve
	@rm -rf $@ && mv $@.new $@

# Bytecode is written also where the environment says not to: hundreds of processes read it. The
# browser tests stand in few files: to read the others, too, would take each process 8 s more.
test: LONG := and not long
test-all: LONG :=
test test-all quick: export PYTHONDONTWRITEBYTECODE =
test-all: .venv/quantized .venv/openevolve
test test-all: lint
	@$(BIN)/python tests/browser_setup.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not browser $(LONG)" -n $(TESTERS) --dist worksteal
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $$(grep -rlw browser --include='test_*.py' tests) -m "browser $(LONG)" -n auto --maxprocesses 2 --dist loadscope --no-loadscope-reorder
	$(if $(LONG),,PYTHONPATH=.venv/quantized $(BIN)/python -m pytest -q tests/test_models.py tests/test_gpu_check.py -k quantised_base)
	$(if $(LONG),,OMP_NUM_THREADS=1 PYTHONPATH=.venv/openevolve $(BIN)/python -m pytest -q tests/test_openevolve.py)

quick: .venv/test-installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not long and not browser" --ignore=tests/attack -q -n auto --dist worksteal

lint: .venv/test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: .venv/test-installed
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

bench: .venv/test-installed
	VPO_LITE_ATTACKS=12 $(BIN)/python -m pytest -q tests/attack -m "not slow and not long" -n auto
	@for file in tests/benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

gpu: .venv/test-installed
	$(BIN)/python tests/gpu/check.py

# Apart from .venv: pip would take an older transformers and a torch with CUDA for it. These are what
# the parts of veRL that the tests run import; no engine, no trainer.
VERL := verl==0.9.1 ray==2.60.0 tensordict==0.10.0 pyvers==0.2.3 torchdata==0.11.0 codetiming==1.4.0 \
	hydra-core==1.3.8 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 orjson==3.13.0 cachetools==8.0.1 \
	datasets==5.2.0 pandas==3.1.1 pyarrow==26.0.1 dill==0.4.1 multiprocess==0.70.19 xxhash==4.1.0 \
	aiohttp==3.14.5 aiosignal==1.4.0 aiohappyeyeballs==2.7.1 frozenlist==1.8.0 multidict==7.2.1 \
	propcache==0.5.4 yarl==1.25.1 fastapi==0.121.3 starlette==0.49.3 uvicorn==0.54.0 msgpack==1.2.4 \
	protobuf==7.36.2 pillow==13.0.0

.venv/verl: .venv/test-installed
	@rm -rf $@.new
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps --target $@.new $(VERL)
	@rm -rf $@ && mv $@.new $@

verl: .venv/verl
	OMP_NUM_THREADS=1 PYTHONPATH=.venv/verl $(BIN)/python -m pytest -q tests/test_verl.py

study: .venv/test-installed
	$(BIN)/python tests/benchmarks/demo_study.py

picture: .venv/test-installed
	$(BIN)/python tests/benchmarks/readme_picture.py

clean:
	rm -rf .venv
