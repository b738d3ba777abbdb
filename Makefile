# Thin wrappers: each target makes what it needs. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
# On Windows, run make where a bash is on the path, such as that of Git.
ifeq ($(OS),Windows_NT)
SHELL := bash
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
OPENCLIP := .venv-openclip
INTEGRATIONS := .venv-integrations
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.PHONY: demo docs test test-long test-engines test-openclip test-integrations fuzz lint release-check picture browser clean
.PHONY: bench bench-limits bench-growth bench-streaming bench-apps bench-gpu

demo: $(VENV)/.core
	$(BIN)/modgap demo -o modgap-demo

test: $(VENV)/.test browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup -q  # two workers, one thread each

test-long: $(VENV)/.test browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup -q -m long

# A cluster of Ray with two workers, of which some are killed.
test-engines: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m engines tests/engines/test_ray.py

# Damaged files through the command line for MODGAP_FUZZ seconds, 600 by default.
fuzz: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m fuzz

# open_clip needs the torchvision of its torch, so it has an environment of its own.
test-openclip: $(OPENCLIP)/.made
	OMP_NUM_THREADS=1 $(OPENCLIP)/bin/python -m pytest -q -m open_clip tests/embed/test_open_clip.py tests/train/test_loops.py

# A correction inside other people's libraries: sentence-transformers, LangChain, LlamaIndex, Chroma, mteb, DuckDB,
# the hub, TypeScript; and indexes on a real server of Milvus.
test-integrations: $(INTEGRATIONS)/.made
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest -q -m integrations tests/adapters tests/test_docs.py
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest -q tests/corrections/test_hub.py
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest -q tests/index -k chroma
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest -q -m "servers and not long" tests/index

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python tools/check_words.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/hadolint Dockerfile

# The documentation site, in site/; a broken link or a name that is not there fails.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in site/: $(BIN)/python -m http.server -d site"

# Builds what PyPI gets, installs the wheel in an empty environment and runs its demo; TAG=v0.1.0 checks a tag, too.
release-check: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_release.py dist $(TAG)

# `make -k bench SAVE=--save` puts what is measured on file, and the pages are made of that.
bench: bench-limits bench-growth

bench-limits: $(VENV)/.test
	$(BIN)/python benchmarks/run.py $(SAVE)

bench-growth: $(VENV)/.test
	$(BIN)/python benchmarks/growth.py $(SAVE)
	$(BIN)/python benchmarks/rates.py $(SAVE)

# 20 GB of shards, and as much again for what is written: make bench-streaming FOLDER=/on/that/disk
bench-streaming: $(VENV)/.test
	$(BIN)/python benchmarks/streaming.py $(if $(FOLDER),--folder $(FOLDER)) $(SAVE)

# The page, embedding and the server.
bench-apps: $(VENV)/.test browser
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/embed.py
	$(BIN)/python benchmarks/serve_load.py
	$(BIN)/python benchmarks/serve_memory.py

# On a machine with a GPU, with the interpreter that has its torch: make bench-gpu PYTHON=python
bench-gpu:
	PYTHONPATH=src $(PYTHON) benchmarks/gpu.py --json benchmarks/results/gpu.json

picture: $(VENV)/.core
	$(BIN)/python tools/make_picture.py

# The page is tested in a real browser; where none can be installed, those tests say so and skip.
browser:
	@$(BIN)/python tests/browser.py --install

clean:
	rm -rf $(VENV) $(OPENCLIP) $(INTEGRATIONS) modgap-demo artefacts build dist site src/modgap/reports/page/plotly.min.js .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "modgap needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made $(INPUTS)
	$(PIP) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.made $(INPUTS)
	$(PIP) -e '.[all,pretrained,test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.made $(INPUTS)
	$(PIP) -e '.[all,pretrained,test,lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made $(INPUTS)
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.release: $(VENV)/.made $(INPUTS)
	$(PIP) -e '.[release]'
	@touch $@

# Without constraints.txt: no torchvision loads beside the CPU wheel that it may pick.
$(OPENCLIP)/.made: $(INPUTS)
	$(PYTHON) -m venv $(OPENCLIP)
	$(OPENCLIP)/bin/python -m pip --disable-pip-version-check install --quiet -e '.[open-clip]' pytest hypothesis
	@touch $@

$(INTEGRATIONS)/.made: $(INPUTS)
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt -e '.[integrations]'
	npm install --silent --prefix $(INTEGRATIONS) typescript@7
	@touch $@
