# The commands for Lacuna's sources. `make help` lists them.
#
# One profile, release, for binaries, tests, lints and benchmarks, and always the whole
# workspace: so HiGHS, which takes minutes, is compiled once. `make verify` counts.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CARGO := cargo
ARGS ?=

# Tests mostly wait, also where there are few cores.
export RUST_TEST_THREADS ?= $(shell n=$$(nproc); echo $$((n < 4 ? 4 : n)))

# The pinned nats-server, for tests and for `lacuna up`, unless the caller has chosen one.
export LACUNA_NATS_SERVER ?= $(CURDIR)/.cache/bin/nats-server

.PHONY: help
help: ## list these commands
	@echo "Lacuna: trains neural networks in the holes of a supercomputer's schedule"
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 16 | sed 's/^/  make /'
	@echo
	@echo "ARGS=... passes arguments on, as in: make demo ARGS='--wall 60s'"

.PHONY: setup
setup: ## install missing parts: packages (root or sudo), toolchain, nats-server
	@deploy/setup/setup.sh

.PHONY: build
build: ## build the commands and the services
	$(CARGO) build --release --locked --workspace --bins

.PHONY: demo
demo: ## set up, build, and watch a recorded machine at 600 times its speed (about 2 min)
	@deploy/setup/demo.sh $(ARGS)

.PHONY: replay
replay: setup build ## the same machine in virtual time, without NATS; needs LACUNA_DATA or ARGS
	@deploy/setup/replay.sh $(ARGS)

# Everything at once: alone, the programs would be built with other features than beside tests.
.PHONY: built
built: setup
	$(CARGO) build --release --locked --workspace --bins --tests

.PHONY: test
test: built ## all tests, and those that did not run; LACUNA_REQUIRE=torch,docker,... fails without these
	@# Those of Python beside those of Rust. The tests that did not run are listed at the end, also after
	@# a failure. Promises are checked where all tests were asked for and none has failed.
	@kept=$$(mktemp -d); code=0; ran=; \
	export LACUNA_SKIPPED="$${LACUNA_SKIPPED:-$$kept/skipped}"; touch "$$LACUNA_SKIPPED"; \
	setsid libs/lacuna-py/check.sh >"$$kept/py" 2>&1 & py=$$!; \
	trap 'kill -- -$$py 2>/dev/null || true; rm -rf "$$kept"' EXIT; \
	[ ! -t 2 ] || export CARGO_TERM_COLOR="$${CARGO_TERM_COLOR:-always}"; \
	$(CARGO) test --release --locked --workspace $(ARGS) 2>&1 | tee "$$kept/log" || code=$$?; \
	echo "The tests of Rust took $$SECONDS s"; \
	wait $$py || code=$$?; cat "$$kept/py"; \
	echo "The tests of Python ended $$SECONDS s after the beginning of both"; \
	$(if $(strip $(ARGS)),,[ $$code -ne 0 ] || ran="--ran $$kept/log";) \
	integration-tests/not_run.py $$ran "$$LACUNA_SKIPPED" || { cat "$$LACUNA_SKIPPED"; code=1; }; exit $$code

.PHONY: test-py
test-py: ## the tests of the Python package alone; SKIPPED where PyTorch is missing
	@libs/lacuna-py/check.sh $(ARGS)

FAULTS ?= 70
SEED ?= 1,2,3

.PHONY: chaos
chaos: built ## fault injection, checked (some eight minutes); FAULTS=70 SEED=1,2,3 JSON=FILE
	LACUNA_CHAOS_FAULTS=$(FAULTS) LACUNA_CHAOS_SEED=$(SEED) LACUNA_CHAOS_JSON=$(abspath $(JSON)) \
		$(CARGO) test --release --locked --workspace --test all -- --ignored --nocapture \
		chaos::invariants_hold_after_every_fault $(ARGS)

SEEDS ?= 1000
FROM ?= 1

.PHONY: simulate
simulate: built ## the whole loop in virtual time, faults from a seed, checked; SEEDS=1000 FROM=1
	LACUNA_SIMULATE_SEEDS=$(SEEDS) LACUNA_SIMULATE_FROM=$(FROM) \
		$(CARGO) test --release --locked --workspace --test all -- --nocapture \
		chaos::virtual_world::in_virtual_time $(ARGS)

.PHONY: mutants
mutants: setup ## deliberate bugs, and the worlds or tests that find each; ARGS='older-command --seeds 500', ARGS=--list
	@integration-tests/mutants.py $(ARGS)

# The NATS client of the attacks. Nothing is installed outside this folder.
ATTACK_PY := .cache/attack-py

.PHONY: attack
attack: setup build ## attacks on a whole secure cluster, checked; ARGS=--short, ARGS='--before FILE', ARGS=--help
	@[ $(ATTACK_PY)/.done -nt integration-tests/attack/requirements.txt ] || \
		{ python3 -m pip install --quiet --disable-pip-version-check --upgrade --target $(ATTACK_PY) \
			-r integration-tests/attack/requirements.txt && touch $(ATTACK_PY)/.done; }
	@PYTHONPATH=$(ATTACK_PY) python3 integration-tests/attack/attack.py $(ARGS)

.PHONY: reboot
reboot: setup build ## kills, reboots, a full disk and starts in any order, after commands on keys (root, Docker; six minutes)
	@integration-tests/reboot.py $(ARGS)

# Other people's figures: a workspace of its own, which nothing else builds. HiGHS is compiled for it again.
REPRODUCTIONS := export CARGO_TARGET_DIR=$(CURDIR)/target/reproductions; cd integration-tests/reproductions &&

.PHONY: reproduce
reproduce: build ## what other people have published, beside Lacuna; ARGS='bftrainer --quick', ARGS=--help
	@$(REPRODUCTIONS) $(CARGO) build --release --locked
	@PATH=$(CURDIR)/target/release:$$PATH target/reproductions/release/lacuna-reproduce $(ARGS)

.PHONY: reproduce-test
reproduce-test: ## format, lints and tests of the reproductions
	@$(REPRODUCTIONS) $(CARGO) fmt --all --check
	@$(REPRODUCTIONS) $(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	@$(REPRODUCTIONS) $(CARGO) test --release --locked --workspace $(ARGS)

.PHONY: verify
verify: lint test highs-once ## lint and test, and check that HiGHS was compiled once

.PHONY: highs-once
highs-once:
	@n=$$(ls -d target/release/build/highs-sys-*/out 2>/dev/null | wc -l); \
	if [ "$$n" -le 1 ]; then echo "HiGHS was compiled once"; \
	else echo "HiGHS was compiled $$n times: a command uses other features or another profile" >&2; exit 1; fi

.PHONY: fmt
fmt: ## format the sources
	$(CARGO) fmt --all

.PHONY: lint
lint: export RUSTDOCFLAGS := -D warnings
lint: ## format, clippy, documentation, places of deliberate bugs and licences, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) doc --release --locked --workspace --no-deps --quiet
	@integration-tests/mutants.py --list > /dev/null
	@$(MAKE) deny

.PHONY: docs
docs: ## the developers' documentation, into target/doc
	$(CARGO) doc --release --locked --workspace --no-deps

.PHONY: deny
deny: ## licences, sources and advisories of all dependencies (in full if cargo-deny is installed)
	@deploy/setup/deny.sh

.PHONY: sbom
sbom: ## the parts of all programs, as CycloneDX in target/sbom
	@deploy/setup/sbom.sh

.PHONY: bench
bench: ## benchmarks; ARGS names one, as in ARGS='solve'
	$(CARGO) bench --profile release --locked --workspace --bench '*' -- $(ARGS)

.PHONY: up
up: setup ## Lacuna in containers, with Prometheus and Grafana (Docker)
	@deploy/up.sh up

.PHONY: down
down: ## stop the containers; ARGS=--volumes forgets their data too
	@deploy/up.sh down $(ARGS)

.PHONY: logs
logs: ## follow the containers' logs; ARGS names a service
	@deploy/up.sh logs $(ARGS)

.PHONY: base-image
base-image: ## make the base image with debootstrap, for places without a container registry
	@deploy/up.sh base-image

NODES ?= 4
WHAT ?= measure hooks harm

.PHONY: slurm-up
slurm-up: ## a real Slurm cluster in containers, Lacuna's binaries beside it (Docker); NODES=4
	@integration-tests/slurm/clusterctl.py up --nodes $(NODES) $(ARGS)

.PHONY: slurm-down
slurm-down: ## stop the Slurm cluster and forget it
	@integration-tests/slurm/clusterctl.py down

.PHONY: slurm-measure
slurm-measure: ## the delay of batch jobs by pilots and the stall of training, on slurm-up's cluster
	@for what in $(WHAT); do echo "== $$what"; integration-tests/slurm/clusterctl.py $$what $(ARGS); done

.PHONY: test-slurm
test-slurm: ## end-to-end tests on a real Slurm cluster; SKIPPED where Docker cannot run
	@integration-tests/slurm/test.py $(ARGS)
