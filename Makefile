# Every target may be run on a fresh clone: each prepares what it needs first.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := .venv/bin
PY := $(BIN)/python
PYTEST := $(PY) -m pytest
JOBS ?= 2
# Debian packages with the demo's data.
export DEMO_APT ?= dataset-fashion-mnist

C_DIRS := $(wildcard kernels_c firmware)
C_FILES := $(if $(C_DIRS),$(shell find $(C_DIRS) -name build -prune -o \( -name '*.c' -o -name '*.h' \) -print))
# Python itself is not built with ASan, so its run-time is loaded first; what Python never frees is no leak.
SANITIZER := LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	UBSAN_OPTIONS=print_stacktrace=1 MCUTRAIN_SANITIZE=1
# They run compilers only.
NOT_SANITIZED := $(addprefix --ignore=tests/kernels/,test_builds_c.py test_engine_build.py)
MARKED := -m "not slow"
# One core would run what takes longest, in the first folders, while the others have nothing left.
PARALLEL := -n $(JOBS) --dist worksteal

.PHONY: help setup setup-demo setup-test engine demo lint types format format-check layering \
	sanitize test test-fast test-all accuracy board-builds clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: ## .venv with the mcutrain command, compilers and emulator
	@scripts/setup.sh run

setup-demo: ## the same and the demo's data
	@scripts/setup.sh demo

setup-test: ## the same and everything the tests need
	@scripts/setup.sh test

engine: setup ## compile the host engine now (otherwise at first use)
	$(PY) -m mcutrain.engine.build

demo: setup-demo ## train on an emulated STM32F405, before and after
	$(BIN)/mcutrain demo

lint: setup-test ## ruff, complexity and length of functions, spelling
	$(PY) -m ruff check .
	$(if $(C_DIRS),$(BIN)/lizard -w -l cpp -C 10 -L 60 -a 8 $(C_DIRS))
	$(BIN)/codespell $(wildcard README.md docs host kernels_c firmware models scripts tests)

types: setup-test ## mypy --strict over host/
	$(PY) -m mypy

format: setup-test ## rewrite Python and C in the project's format
	$(PY) -m ruff check --select I --fix -q .
	$(PY) -m ruff format .
	$(if $(C_FILES),$(BIN)/clang-format -i $(C_FILES))

format-check: setup-test ## fail where `make format` would change something
	$(PY) -m ruff format --check .
	$(if $(C_FILES),$(BIN)/clang-format --dry-run -Werror $(C_FILES))

layering: setup-test ## imports run one way
	$(BIN)/lint-imports --no-cache

sanitize: setup-test ## kernel tests against an engine built with ASan and UBSan
	MCUTRAIN_SANITIZE=1 $(PY) -m mcutrain.engine.build
	$(SANITIZER) $(PYTEST) -q -s $(PARALLEL) $(MARKED) tests/kernels $(NOT_SANITIZED)

test: lint types format-check layering sanitize ## everything a change must pass
	MCUTRAIN_REQUIRE_ALL=1 $(PYTEST) -q $(MARKED) $(PARALLEL)

test-fast: setup-test ## without the emulator
	$(PYTEST) -q -m "not slow and not qemu" $(PARALLEL)

test-all: MARKED :=
test-all: lint types format-check layering sanitize ## with the slow ones
	MCUTRAIN_REQUIRE_ALL=1 $(PYTEST) -q $(MARKED) $(PARALLEL)

accuracy: setup-test ## docs/accuracy.md: int8 beside fp32 shadow training; hours, can be stopped
	$(BIN)/mcutrain accuracy --jobs $(JOBS) -o docs/accuracy.md

board-builds: setup-test ## firmware for every board, by mcutrain and by PlatformIO, within budget
	$(PY) -m mcutrain.boards --platformio

clean: ## remove what builds made; .venv stays
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis .pio .pio-core
	find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
