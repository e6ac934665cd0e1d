#!/usr/bin/env bash
# skeleton.sh DIR: writes the workspace to DIR with its manifests and with empty sources, so
# that an image layer with all dependencies is kept until a manifest changes.
set -euo pipefail
out=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out"
cp -r .cargo Cargo.toml Cargo.lock rust-toolchain.toml "$out/"
find libs services integration-tests \( -name target -o -name reproductions \) -prune -o -type f \
    \( -name Cargo.toml -o -name build.rs -o -path '*/src/lib.rs' -o -path '*/src/main.rs' \
    -o -path '*/src/bin/*.rs' -o -path '*/tests/*.rs' -o -path '*/benches/*.rs' -o -path '*/examples/*.rs' \) -print |
    while read -r file; do
        mkdir -p "$out/$(dirname "$file")"
        case $file in
            *.toml) cp "$file" "$out/$file" ;;
            */lib.rs) echo '//! Empty.' >"$out/$file" ;;
            *) printf '//! Empty.\nfn main() {}\n' >"$out/$file" ;;
        esac
    done
