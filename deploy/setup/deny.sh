#!/usr/bin/env bash
# `make deny`: licences, sources, bans and advisories of every dependency, by deny.toml.
#
#   deny.sh             check with cargo-deny; without it, the licences alone by our own test
#   deny.sh --install   install cargo-deny first if it is missing (compiles for some minutes)
#   deny.sh --only-install   install it and stop
#
# Advisories need the RustSec database, which cargo-deny fetches by git: where it cannot be
# reached this says so and checks the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=0.20.2
if [[ "${1:-}" = --*install ]] && ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: installing cargo-deny $version (some minutes)"
    # Used once, so it is not optimised. One core, since other builds run beside it.
    cargo install cargo-deny --version "$version" --locked --quiet --debug --jobs 1
fi
[ "${1:-}" != --only-install ] || exit 0
if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: cargo-deny is not installed (deploy/setup/deny.sh --install);"
    echo "deny: the licences alone are checked, by the test architecture::licences"
    exec cargo test --release --locked --workspace --test all --quiet -- licences
fi
cargo deny --locked check licenses bans sources
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if timeout 120 cargo deny --locked fetch db >"$log" 2>&1; then
    cargo deny --locked check advisories
else
    echo "deny: SKIPPED advisories: their database cannot be reached: $(tail -n 1 "$log")"
fi
