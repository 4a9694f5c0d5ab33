# Every target does its own set-up; `make help` lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory

# Where cargo puts its output, and we what is built beside it: an absolute path.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
# A registry that fails is asked again.
export CARGO_NET_RETRY ?= 10
PEERS  := $(TARGET)/peers

# The library that `make bench` compares with, and options of its own: BENCH_OPTIONS=--help lists them.
STOCK ?= $(firstword $(wildcard /usr/lib/*/libpmix.so.2))
BENCH_OPTIONS ?=
READERS_OPTIONS ?=
# "--into docs/COMPATIBILITY.md" writes the tables there; "--only prterun" runs those of one server.
MATRIX_OPTIONS ?=

# A folder of its own: a libpmix.so.2 in /usr/local/lib would come before the system's for every program.
PREFIX ?= /opt/instanton
DESTDIR ?=

say = @printf '\n== %s\n' '$(1)'

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup dist install uninstall peers demo matrix attacks test unit-test loom abi-test targets fuzz sanitize simulate lint bench readers instructions performance clean

help: ## list what there is to make
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target what; do \
		printf '  make %-13s %s\n' "$$target" "$$what"; done

setup: ## install the compilers and the real MPI libraries that the rest needs
	@scripts/setup "$(TARGET)/venv"
	@scripts/headers "$(TARGET)/headers"
	@scripts/mpich "$(TARGET)/venv" "$(TARGET)/mpich"
	@scripts/wheels "$(TARGET)/venv" "$(TARGET)/wheels"
	@scripts/suite "$(TARGET)/suites" trixie
	@scripts/suite "$(TARGET)/suites" testing

dist: ## build the release into dist/: the command, the C library, its headers
	@scripts/dist "$(TARGET)" dist

install: ## install what `make dist` has built under PREFIX (/opt/instanton), below DESTDIR where that is given
	@scripts/install put dist "$(DESTDIR)$(PREFIX)"

uninstall: ## take away what `make install` has put there, with the same PREFIX and DESTDIR
	@scripts/install remove dist "$(DESTDIR)$(PREFIX)"

peers: setup dist ## compile the MPI and PMIx programs of tests/peers
	@scripts/peers "$(TARGET)/venv" "$(TARGET)/headers" "$(TARGET)/mpich" dist "$(PEERS)"

demo: setup dist peers ## start a real MPI program and see what it costs
	@scripts/demo dist "$(PEERS)"

test: unit-test loom abi-test targets ## run every test

unit-test: setup dist peers
	$(call say,The tests of the workspace; real MPI programs run on dist/)
	INSTANTON_SIM_SECONDS=$(or $(SIM_SECONDS),90) cargo test --workspace
	$(call say,The data model and the store alone)
	cargo test -p instanton --no-default-features

# In a target directory of its own: --cfg loom rebuilds every crate.
loom: setup ## check the shared-memory protocols under loom
	$(call say,Models of the shared-memory protocol under loom)
	RUSTFLAGS="--cfg loom" cargo test -p instanton-loom-tests --release --target-dir "$(TARGET)/loom"

abi-test: setup dist ## check exported symbols, SONAME and dependencies of the C libraries
	$(call say,The binary interface of libpmix.so.2)
	@scripts/abi-test dist/lib capi/exports.txt
	$(call say,The binary interface of libinstanton_store.so.0)
	@scripts/store-abi-test dist/lib store-capi/exports.txt
	$(call say,The plug-in for stock servers)
	@scripts/gds-abi-test dist/lib

targets: setup ## check the types on other processors and with musl, and run the tests of aarch64 on an emulator
	$(call say,Other processors and C libraries)
	@scripts/targets "$(TARGET)"

# `cargo +nightly fuzz run PARSER` is led by coverage, where cargo-fuzz and that toolchain are installed.
fuzz: ## feed damaged input to every parser for FUZZ_SECONDS (60)
	INSTANTON_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) cargo test --test fuzz -- --nocapture

# Not part of `make test`: it compiles everything again, for minutes.
sanitize: setup ## run the tests of unsafe code under AddressSanitizer, and some under ThreadSanitizer
	@scripts/sanitize "$(TARGET)"

# Each failure names its seed: INSTANTON_SIM_SEED=n runs that one alone and shows all its steps.
simulate: ## run servers, ranks and hosts in simulated time for SIM_SEEDS (100000) seeds
	INSTANTON_SIM_SEEDS=$(or $(SIM_SEEDS),100000) cargo test -p instanton --release --lib simulator::every -- --nocapture

lint: setup ## check formatting, clippy, the documentation, and what the documents refer to
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features instanton-benches/cores -- -D warnings
	cargo clippy -p instanton --no-default-features --features client -- -D warnings
	cargo clippy -p instanton --no-default-features --features server -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	RUSTDOCFLAGS="-D warnings" cargo doc -p instanton --no-default-features --no-deps
	@scripts/docs-check
	@if cargo deny --version > /dev/null 2>&1; then cargo deny check licenses bans sources; \
	else echo "SKIPPED licences and sources of dependencies: no cargo-deny (cargo install --locked cargo-deny)"; fi

bench: setup dist peers ## put this library beside the stock one (STOCK=/path/to/libpmix.so.2), in one table
	@scripts/bench "$(TARGET)" dist "$(PEERS)" "$(STOCK)" $(BENCH_OPTIONS)

readers: setup ## have readers on every core read beside a busy writer (READERS_OPTIONS), and draw it where there are enough
	@cargo build --quiet --release -p instanton-benches --features cores --bin readers
	@mkdir -p "$(TARGET)/bench"
	@"$(TARGET)/release/readers" --pictures "$(TARGET)/bench" --markdown "$(TARGET)/bench/readers.md" $(READERS_OPTIONS)

instructions: setup dist ## count the instructions of a PMIx_Get, by kind of key
	@scripts/instructions "$(TARGET)" dist

performance: setup dist peers ## measure everything anew and write it into docs/PERFORMANCE.md
	@scripts/performance "$(TARGET)" dist "$(PEERS)" "$(STOCK)"

matrix: setup dist peers ## run every client library under every server, and show which answers differ (MATRIX_OPTIONS)
	@scripts/matrix "$(TARGET)" dist "$(PEERS)" $(MATRIX_OPTIONS)

attacks: setup dist ## run attackers of each kind beside ranks that fence and get, and say what is left to these (ATTACKS)
	@scripts/attacks $(ATTACKS)

clean: ## remove dist/ and everything that was built
	cargo clean
	rm -rf dist
