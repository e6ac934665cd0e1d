#!/usr/bin/env bash
# Publishes an event of a scheduler to Lacuna with the nats CLI.
#
#   publish.sh node.busy a01n01 [ID]
#
# NATS_URL (and NATS_NKEY, NATS_CA where the bus has keys and TLS) say where and who, as the CLI has
# it; LACUNA_CLUSTER names the cluster. The same ID again counts once, so repeat until it exits with 0.
set -euo pipefail

kind=$1 node=$2
now=$(date +%s.%3N)
id=${3:-$(hostname)-$$-$now}
subject="lacuna.v1.${LACUNA_CLUSTER:-main}.in.example-shell"
body=$(printf '{"type":"%s","node":"%s","time":%s}' "$kind" "$node" "$now")

# --jetstream awaits the acknowledgement of the stream: without it the event may be lost.
exec nats publish "$subject" "$body" --jetstream \
    --header "ce-specversion:1.0" \
    --header "ce-id:$id" \
    --header "ce-source:example-shell" \
    --header "ce-type:$kind" \
    --header "content-type:application/json"
