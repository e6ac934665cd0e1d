#!/usr/bin/env bash
# `make deny`: licences, sources and bans of every dependency by deny.toml.
# With cargo-deny installed all of them; without, the licences by our own test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked --all-features check licenses bans sources
else
    echo "deny: cargo-deny is not installed; the licences are checked by the test architecture::licences"
    cargo test --release --locked --workspace --test all --quiet -- licences
fi
