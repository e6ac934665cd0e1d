#!/usr/bin/env bash
# Lacuna beside the controller: the bus and the services, each started again when it
# ends, as a service manager would do.
#
#   services.sh start [NAME...]   all, or these
#   services.sh stop [NAME...]    SIGTERM, and not again
#   services.sh kill NAME         kill -9; it comes back
#   services.sh pid NAME          its process
#   services.sh status            a line for each
#
# Names: nats ingest forecast planner control. Runs as the user `lacuna`, to whom pilots
# belong. Logs are /var/log/lacuna/NAME.log.
set -euo pipefail

all=(nats ingest forecast planner control)
run=/var/lib/lacuna/run
# Keys of the services, beside a configuration of nats-server with them; a test makes them.
keys=/var/lib/lacuna/keys
logs=/var/log/lacuna
export LACUNA_CONFIG=/etc/lacuna/lacuna.toml
mkdir -p "$run"

command_of() {
    case "$1" in
        nats) if [ -e "$keys/nats.conf" ]; then echo "nats-server -c $keys/nats.conf"; else echo "nats-server -c /etc/lacuna/nats.conf"; fi ;;
        ingest | forecast | planner | control) echo "lacuna-$1" ;;
        *) echo "services: no service '$1': expected one of ${all[*]}" >&2; exit 64 ;;
    esac
}

# The loop that keeps one service alive while its file `on` is there.
keep() {
    local name=$1 pid code words
    read -ra words <<<"$(command_of "$name")"
    [ ! -e "$keys/main/$name.toml" ] || export LACUNA_IDENTITY="$keys/main/$name.toml"
    while [ -e "$run/$name.on" ]; do
        "${words[@]}" >>"$logs/$name.log" 2>&1 </dev/null &
        pid=$!
        echo "$pid" >"$run/$name.pid"
        code=0
        wait "$pid" || code=$?
        echo "services: $name ended with $code" >>"$logs/$name.log"
        sleep 0.3
    done
    rm -f "$run/$name.pid"
}

start() {
    local name
    for name in "$@"; do
        command_of "$name" >/dev/null
        [ ! -e "$run/$name.on" ] || continue
        touch "$run/$name.on"
        setsid "$0" keep "$name" >/dev/null 2>&1 </dev/null &
    done
}

stop() {
    local name pid
    for name in "$@"; do rm -f "$run/$name.on"; done
    for name in "$@"; do
        if pid=$(cat "$run/$name.pid" 2>/dev/null); then kill "$pid" 2>/dev/null || true; fi
    done
    for name in "$@"; do
        for _ in $(seq 100); do [ -e "$run/$name.pid" ] || break; sleep 0.1; done
    done
}

action=${1:-}
shift || true
case "$action" in
    start) start "${@:-${all[@]}}" ;;
    # The bus last, so that the others can say goodbye.
    stop) if [ $# -gt 0 ]; then stop "$@"; else stop control planner forecast ingest; stop nats; fi ;;
    kill) kill -9 "$(cat "$run/$1.pid")" ;;
    pid) cat "$run/$1.pid" ;;
    keep) keep "$1" ;;
    status)
        for name in "${all[@]}"; do
            if pid=$(cat "$run/$name.pid" 2>/dev/null) && kill -0 "$pid" 2>/dev/null; then echo "$name $pid"; else echo "$name -"; fi
        done
        ;;
    *) echo "services: unknown action '$action': expected start, stop, kill, pid or status" >&2; exit 64 ;;
esac
