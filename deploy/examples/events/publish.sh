#!/usr/bin/env bash
# Publishes an event of a scheduler to Lacuna with the nats CLI.
#
#   publish.sh node.busy a01n01 [ID]
#
# NATS_URL says where, as the CLI has it. Where the bus has keys and TLS, NATS_NKEY names a file with
# the `seed` of an identity (`lacuna keys add-user DIR NAME --role events`), NATS_CA one with its `ca`,
# and LACUNA_USER is its `user`: acknowledgements come to its own inbox alone. LACUNA_CLUSTER names the cluster. The same ID again counts once, so repeat until it exits with 0.
set -euo pipefail

kind=$1 node=$2
now=$(date +%s.%3N)
id=${3:-$(hostname)-$$-$now}
subject="lacuna.v1.${LACUNA_CLUSTER:-main}.in.example-shell"
body=$(printf '{"type":"%s","node":"%s","time":%s}' "$kind" "$node" "$now")

# --jetstream awaits the acknowledgement of the stream: without it the event may be lost.
exec nats ${LACUNA_USER:+--inbox-prefix "_INBOX_$LACUNA_USER"} publish "$subject" "$body" --jetstream \
    --header "ce-specversion:1.0" \
    --header "ce-id:$id" \
    --header "ce-source:example-shell" \
    --header "ce-type:$kind" \
    --header "content-type:application/json"
