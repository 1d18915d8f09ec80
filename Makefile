# Few verbs; the work itself is in scripts/ and ci/. A fresh machine needs nothing but rustup: `make demo`, `make test`.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help demo test check fix bench long clean

help: ## list the verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 8

demo: ## build orbit and show four stories: orders that succeed, one undone, a killed worker, a killed node; NODES=3
	@NODES=$(or $(NODES),1) scripts/demo

test: ## everything that CI demands: checks, tests in all languages, short forms of the slow suites
	@ci/run-parts deps format clippy deny test doctest planted kill harness cluster model python examples demo

check: ## the quick part of it: format, lints, dependencies, house rules; changes nothing
	@ci/run-parts deps format clippy deny tidy

fix: ## format, and repair what clippy can repair
	@scripts/fix

bench: ## measure (criterion); BENCH=name for one
	@scripts/bench $(BENCH)

long: ## a suite in its full length: make long PART=name writes docs/runs/name.json; without PART lists them
	@scripts/long $(PART)

clean: ## remove build output
	@scripts/clean
