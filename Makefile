# From a clone, on a machine that has nothing of it yet:
#
#     make run                      a virtual environment, .venv, with tfdist in it; then the digits are trained
#     make test                     the same with what tests need, and tests/unit
#     make environment              the environment alone, for tests and pages
#     PYTHON=python3.12 make run    with this Python; VENV=/somewhere has the environment elsewhere
VENV ?= .venv

.PHONY: run test environment

run:
	@tools/make_environment "$(VENV)"
	"$(VENV)/bin/tfdist" train configs/digits.yaml

test:
	@tools/make_environment "$(VENV)" dev
	"$(VENV)/bin/python" -m pytest tests/unit

environment:
	@tools/make_environment "$(VENV)" dev,docs,release
