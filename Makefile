# The two commands of the README: `make run` and `make test`. Both start from nothing but Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test check browser page page-check bench-accuracy bench-measure bench-fit bench-feed bench-explore bench-train bench-doctor clean

run: $(VENV)/.cpu
	@mkdir -p out
	$(BIN)/lowtide predict examples/resnet.py:build --batch-size 64 --budget 8GiB \
		--html out/resnet.html --svg out/resnet.svg --save out/resnet.tide --force

# Two processes, each with whole files: what a file has traced or recorded is shared among its tests.
test: check page-check browser
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-accuracy: $(VENV)/.dev
	$(BIN)/python -m benchmarks.accuracy

# XPROF is an interpreter that has the package xprof; without it that peer is left out.
bench-measure: $(VENV)/.dev
	$(BIN)/python -m benchmarks.measure $(if $(XPROF),--xprof $(XPROF))

bench-fit: $(VENV)/.dev
	$(BIN)/python -m benchmarks.fit

bench-feed: $(VENV)/.dev
	$(BIN)/python -m benchmarks.feed

bench-explore: $(VENV)/.dev browser
	$(BIN)/python -m benchmarks.explore --peers-large

bench-train: $(VENV)/.dev
	$(BIN)/python -m benchmarks.train

# CORPORA is a folder of repositories, ARTICLES one of articles, PEERS an environment; see its README.
bench-doctor: $(VENV)/.dev
	$(BIN)/python -m benchmarks.doctor $(if $(CORPORA),--corpora $(CORPORA)) $(if $(ARTICLES),--articles $(ARTICLES)) \
		$(if $(PEERS),--peers $(PEERS))

# The page of `lowtide view`. What is built is committed, so that nobody needs Node to use it.
page: web/node_modules/.installed
	cd web && npm run --silent build

web/node_modules/.installed: web/package.json web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

# Is the committed page what its sources build to? Where there is no npm, or it reaches nothing, that is not asked.
page-check:
	@if ! command -v npm >/dev/null; then echo "no npm here: whether the page is what web/ builds to is not checked"; \
	elif ! $(MAKE) --no-print-directory web/node_modules/.installed; then \
		echo "npm could not install: whether the page is what web/ builds to is not checked"; \
	else cd web && npm run --silent check && npm test --silent && \
		built=$$(mktemp -d) && npx vite build --logLevel warn --outDir "$$built" --emptyOutDir && \
		{ diff -r "$$built" ../src/lowtide/view/page && rm -r "$$built" \
		|| { echo "error: the page is not what web/ builds to; run: make page" >&2; exit 1; }; }; fi

# The page is tested in a real browser. Only root can install one; otherwise its tests are skipped, and say so.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium for the tests of the page"; \
		(apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
			chromium chromium-driver fonts-dejavu-core) >/dev/null 2>&1 \
		|| echo "chromium could not be installed: tests/browser will be skipped"; \
	else echo "no chromium and chromedriver here: tests/browser will be skipped"; fi

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: lowtide needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.cpu: $(VENV)/.python pyproject.toml
	$(PIP) install --editable '.[cpu]'
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	$(PIP) install --editable '.[cpu,dev]'
	@touch $@ $(VENV)/.cpu

clean:
	rm -rf $(VENV) out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
