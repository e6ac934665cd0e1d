#!/usr/bin/env bash
# `make demo`: sets up, builds, runs the demonstration, and prints the seconds of each step.
# Arguments go to `lacuna demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

now() { date +%s; }
began=$(now)
deploy/setup/setup.sh
set_up=$(now)
# The lab and the helper for pilots are left out: the demonstration starts neither.
echo "build: cargo build --release (HiGHS is compiled once; some minutes the first time)"
cargo build --release --locked --workspace --exclude lacuna-lab --exclude lacuna-pilot-helper --bins
built=$(now)
code=0
target/release/lacuna demo "$@" || code=$?
ended=$(now)
cat <<END

Where the time went, in seconds
  set-up            $((set_up - began))
  build             $((built - set_up))
  start and replay  $((ended - built))   (divided in the summary above)
  in all            $((ended - began))
END
exit "$code"
