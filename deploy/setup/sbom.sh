#!/usr/bin/env bash
# `make sbom`: the parts of each of Lacuna's programs, as CycloneDX 1.5 JSON in target/sbom: every
# crate of Cargo.lock with version, licence and checksum, those for building alone too.
# cargo-cyclonedx makes them; it is installed if it is missing (compiles for a minute).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=0.5.9
if ! command -v cargo-cyclonedx >/dev/null 2>&1; then
    echo "sbom: installing cargo-cyclonedx $version (a minute or two)"
    cargo install cargo-cyclonedx --version "$version" --locked --quiet
fi
# It writes beside each manifest, so it gets a copy of them.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
deploy/setup/skeleton.sh "$copy/lacuna" >/dev/null
cargo cyclonedx --quiet --manifest-path "$copy/lacuna/Cargo.toml" --format json --spec-version 1.5 \
    --override-filename sbom
rm -rf target/sbom
mkdir -p target/sbom
for file in "$copy"/lacuna/services/*/sbom.json; do
    name=$(basename "$(dirname "$file")")
    [ "$name" = cli ] && name=lacuna || name=lacuna-$name
    # Paths of the copy are removed.
    sed "s#$copy/lacuna#.#g" "$file" >"target/sbom/$name.cdx.json"
    echo "sbom: target/sbom/$name.cdx.json ($(grep -c '"purl"' "target/sbom/$name.cdx.json") components)"
done
