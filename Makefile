# Everything happens in .venv and .venv-lowest inside this checkout; nothing outside it is touched.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

LOWEST := .venv-lowest
# The lines that no test reaches. Coverage makes the tests about a half slower; `make test COVERAGE=` runs without it.
COVERAGE ?= --cov --cov-report=term-missing:skip-covered

.PHONY: demo test test-lowest lint format docs check-docs clean

demo: $(STAMP)
	$(BIN)/mixnorm study simulated --jobs -1

test: $(STAMP)
	$(BIN)/python -m pytest -n auto $(COVERAGE)

# The lowest versions that pyproject.toml promises.
test-lowest: $(LOWEST)/installed
	$(LOWEST)/bin/python -m pytest -n auto tests/core tests/solvers tests/estimators

# The site, in docs/_build/html; `make docs GALLERY=0` leaves out the pictures of the gallery, which take most of the time.
GALLERY ?= 1
docs: .venv/installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -D plot_gallery=$(GALLERY) -c docs . docs/_build/html

# Every link of the built site, and every page in Chromium, at the width of a screen and of a phone, light and dark.
check-docs: docs
	$(BIN)/python docs/check_site.py docs/_build/html --browser

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples docs/*.py
	$(BIN)/ruff format --check src tests benchmarks examples docs/*.py
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix src tests benchmarks examples docs/*.py
	$(BIN)/ruff format src tests benchmarks examples docs/*.py

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $(STAMP)

.venv/installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

$(LOWEST)/installed: pyproject.toml .ci/lowest_versions.py
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python .ci/lowest_versions.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt \
		--editable ".[test-core]"
	touch $(LOWEST)/installed

clean:
	rm -rf .venv $(LOWEST) mixnorm-results .coverage docs/_build docs/api docs/gallery
