# Everything is installed into .venv, by pip, from pyproject.toml and constraints.txt.
#
#   make lab                      open the book in JupyterLab
#   make test                     run every test
#   make quick                    run the tests that are not slow, in under two minutes
#   make lint                     ruff and mypy
#   make bench                    run the benchmarks, one script per claim, and write their table into the book
#   make book                     run the chapters and write their outputs
#   make classroom                a course day on twenty sample submissions, in a temporary folder
#   make exercises                make exercises/ from solutions/
#   make phantom                  run the tests that need CUDA on a GPU that is not there, in an environment of its own
#   make site                     the book as web pages: .site/index.html, readable without a network
#   PYTHON=python3.12 make test   choose the interpreter that .venv is made with
#   make test ARGS="-k doctor"    pass options on to pytest (and, with lab, to JupyterLab)

PYTHON ?= python3
ARGS ?=

# Always `.venv/bin/python -m …`: scripts with a `#!` line break when the folder's name is long or has a space.
RUN := .venv/bin/python
# INSTALLING becomes INSTALLED when pip has finished, so an install that was cut short does not count.
INSTALLING := .venv-installing
INSTALLED := .venv/.installed

.PHONY: lab test quick lint bench book exercises classroom site phantom

lab: $(INSTALLED)
	$(RUN) -m ckptlib.book.lab $(ARGS)

# One thread each: two workers that both use every core only wait for one another. Two workers more than cores, because
# many slow tests wait for a kernel, a browser or a time limit. Which worker runs what: tests/conftest.py.
PYTEST := OMP_NUM_THREADS=1 $(RUN) -m pytest --dist loadscope --no-loadscope-reorder

test: $(INSTALLED)
	$(PYTEST) -n $$($(RUN) -c "import os; print(min(os.cpu_count() + 2, 4))") $(ARGS)

quick: $(INSTALLED)
	$(PYTEST) -n auto --maxprocesses 4 -m "not slow" $(ARGS)

lint: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(INSTALLED)
	$(RUN) tests/bench/rows.py $(ARGS)

book: $(INSTALLED)
	OMP_NUM_THREADS=1 $(RUN) -m ckptlib.book.runner $$(ls book/[0-9][0-9]_*.ipynb | grep -v /00_) book/claims.ipynb

exercises: $(INSTALLED)
	$(RUN) -m ckptlib.grading.authoring.make_release

classroom: $(INSTALLED)
	$(RUN) tests/classroom.py $(ARGS)

# Nothing runs: pages show the outputs that are committed. A warning is an error.
site: $(INSTALLED)
	$(RUN) -m sphinx -q -W --keep-going -c book . .site $(ARGS)
	@echo "Open .site/index.html"

# On Linux, torch from PyPI is the CUDA build, of several GB. A phantom GPU needs it, and a C compiler.
phantom: .venv-cuda/.installed
	.venv-cuda/bin/python -m ckptlib.cli phantom --gpu a100 -m pytest -q -m gpu $(ARGS)

# ---- .venv ----

define CHECK_PYTHON
import sys
version = "%d.%d" % sys.version_info[:2]
if sys.version_info < (3, 11):
    sys.exit(sys.executable + " is Python " + version + ", and 3.11 or newer is needed."
             " Choose another interpreter: PYTHON=python3.12 make test")
try:
    import ensurepip, venv
except ImportError:
    sys.exit(sys.executable + " cannot make virtual environments."
             " On Debian and Ubuntu: sudo apt-get install python" + version + "-venv")
endef
export CHECK_PYTHON

WHICH := import sys; print(ascii((sys.version, sys.base_prefix)))

# Why the .venv that exists cannot be used as it is; empty when it can. The package is installed in place (pip's -e), so
# a moved folder leaves it pointing at nothing. The interpreter is compared only when PYTHON was really given.
FAULT := $(shell \
	if [ -e $(INSTALLING) ]; then echo "the last install was cut short"; \
	elif [ ! -e .venv ]; then :; \
	elif ! $(RUN) -c "" 2>/dev/null; then echo "its interpreter is gone"; \
	elif [ -e $(INSTALLED) ] && [ "$$(cat $(INSTALLED))" != "$$(pwd -P)" ]; then echo "the folder has moved"; \
	elif [ "$(origin PYTHON)" = file ]; then :; \
	elif [ "$$($(RUN) -c '$(WHICH)')" != "$$("$(PYTHON)" -c '$(WHICH)' 2>&1)" ]; then echo "$(PYTHON) is another Python"; \
	fi)

ifneq ($(FAULT),)
.PHONY: $(INSTALLED)
endif

$(INSTALLED): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "$(PYTHON) was not found. Choose an interpreter: PYTHON=python3.12 make test" >&2; exit 1; }
	@"$(PYTHON)" -c "$$CHECK_PYTHON"
ifneq ($(FAULT),)
	@echo "Making .venv again: $(FAULT)."
endif
	@echo "Installing into .venv. The first time takes some minutes."
	@rm -f $(INSTALLED) && touch $(INSTALLING)
	@if [ -n "$(FAULT)" ] || [ ! -e .venv ]; then "$(PYTHON)" -m venv --clear .venv; fi
	@$(RUN) -m pip install --disable-pip-version-check -c constraints.txt -e '.[book,grading,cluster,test,site]'
	@pwd -P > $(INSTALLING) && mv $(INSTALLING) $(INSTALLED)

.venv-cuda/.installed: pyproject.toml constraints.txt
	"$(PYTHON)" -m venv --clear .venv-cuda
	.venv-cuda/bin/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[book,grading,cluster,test]'
	touch .venv-cuda/.installed
