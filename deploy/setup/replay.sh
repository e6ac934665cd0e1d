#!/usr/bin/env bash
# `make replay`: replays a machine in virtual time. Arguments go to `lacuna replay`. Without
# arguments it replays the recorded machine under LACUNA_DATA, or else a generated one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
lacuna=target/release/lacuna
data=${LACUNA_DATA:-../shared/data}/summit-2021-02
if [ "$#" -gt 0 ]; then
    exec "$lacuna" replay "$@"
fi
if [ -r "$data/holes.csv.gz" ]; then
    echo "replay: the recorded machine in $data, first 1024 nodes"
    exec "$lacuna" replay "$data/holes.csv.gz" --trainers "$data/hpo-1000.jsonl.gz" \
        --first-nodes 1024 --report lacuna-replay.html
fi
echo "replay: no recorded data (LACUNA_DATA is '${LACUNA_DATA:-}'); a generated workload instead."
echo "replay: for a log of your own:  make replay ARGS='my.log --report out.html'"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${lacuna}-lab" generate --nodes 1024 --days 14 --swf "$folder/generated.swf.gz"
"$lacuna" replay "$folder/generated.swf.gz" --report lacuna-replay.html
