#!/usr/bin/env bash
# Publishes an event about this node to Lacuna's bus, from Slurm's Prolog or Epilog.
#
#   publish.sh node.busy|node.idle
#
# The job must not notice. So this script starts a process that delivers the event, and exits 0,
# whatever the bus does. The process gives up after `timeout` seconds; Lacuna's poller finds lost
# changes. The script calls no Slurm command, and needs only bash and coreutils' `timeout`.
#
# Settings are `name=value` lines of /etc/lacuna/hook.conf, or of the file that LACUNA_HOOK_CONF
# names (hook.conf.example lists them). Without a file nothing is published.

# No `set -e` here: no error may reach the job.
kind=${1:-}
conf=${LACUNA_HOOK_CONF:-/etc/lacuna/hook.conf}

# The settings of the file, with their defaults.
nats=
cluster=main
partition=filler
timeout=3
source=slurm-hook
user=
password_file=
log=

read_settings() {
    local name value
    [ -r "$conf" ] || return 1
    while IFS='=' read -r name value; do
        case "$name" in
            nats | cluster | partition | timeout | source | user | password_file | log)
                printf -v "$name" '%s' "$value" ;;
        esac
    done <"$conf"
    [ -n "$nats" ]
}

say() { [ -z "$log" ] || printf '%s %s\n' "$EPOCHSECONDS" "$*" >>"$log"; }

# A name as a subject token: every other byte than A-Z a-z 0-9 - becomes _ and its number.
token() {
    local LC_ALL=C text=$1 byte out='' i
    for ((i = 0; i < ${#text}; i++)); do
        byte=${text:i:1}
        case "$byte" in
            [A-Za-z0-9-]) out+=$byte ;;
            *) printf -v byte '_%02X' "'$byte"; out+=$byte ;;
        esac
    done
    printf '%s' "$out"
}

# One attempt at one server, in NATS's own protocol. 0 when the stream has acknowledged.
send() {
    local server=$1 subject=$2 id=$3 body=$4 line size login='' headers inbox="_INBOX.hook.$BASHPID$RANDOM"
    exec 3<>"/dev/tcp/${server%:*}/${server##*:}" || return 1
    IFS= read -r line <&3 || return 1
    case "$line" in INFO\ *) ;; *) return 1 ;; esac
    if [ -n "$user" ]; then
        printf -v login ',"user":"%s","pass":"%s"' "$user" "$(<"$password_file")"
    fi
    printf -v headers 'NATS/1.0\r\nce-specversion: 1.0\r\nce-id: %s\r\nce-source: %s\r\nce-type: lacuna.%s\r\ncontent-type: application/json\r\n\r\n' \
        "$id" "$source" "$kind"
    printf 'CONNECT {"verbose":false,"pedantic":false,"lang":"bash","version":"1","name":"%s","headers":true,"no_responders":true%s}\r\nSUB %s 1\r\nHPUB %s %s %d %d\r\n%s%s\r\n' \
        "$source" "$login" "$inbox" "$subject" "$inbox" "${#headers}" "$((${#headers} + ${#body}))" "$headers" "$body" >&3 || return 1
    while IFS= read -r line <&3; do
        case "${line%$'\r'}" in
            PING) printf 'PONG\r\n' >&3 ;;
            # JetStream's acknowledgement names the stream; its errors do not.
            MSG\ *)
                size=${line%$'\r'}
                IFS= read -r -N "${size##* }" line <&3 || return 1
                case "$line" in *'"stream"'*) return 0 ;; *) say "refused: $line"; return 1 ;; esac ;;
            # No stream keeps this subject (yet).
            HMSG\ *) return 1 ;;
            -ERR*) say "$line"; return 1 ;;
        esac
    done
    return 1
}

deliver() {
    local node=$1 at=$2 job=$3 subject body id server pause=0.1
    subject="lacuna.v1.$cluster.in.$(token "$source")"
    body="{\"type\":\"$kind\",\"node\":\"$node\",\"time\":$at}"
    # The same id at every attempt, so that an event counts once.
    id="$job.$node.$kind.$at"
    while :; do
        for server in ${nats//,/ }; do
            # In a process of its own, whose end closes the connection.
            if (send "${server#nats://}" "$subject" "$id" "$body"); then
                say "published $kind of $node for job $job"
                return 0
            fi
        done
        sleep "$pause"
        pause=0.5
    done
}

# The second call: the detached process, under `timeout`.
if [ "$kind" = --deliver ]; then
    kind=$2
    read_settings && deliver "$3" "$4" "$5"
    exit 0
fi

node=${SLURMD_NODENAME:-}
case "$kind" in node.busy | node.idle) ;; *) exit 0 ;; esac
# A name that would need quoting is invalid.
case "$node" in '' | *[!A-Za-z0-9._-]*) exit 0 ;; esac
read_settings || exit 0
# Lacuna knows about its own pilots.
[ "${SLURM_JOB_PARTITION:-}" != "$partition" ] || exit 0
# In a process group of its own (-m) Slurm does not end it with the script, and without any of
# the script's files Slurm does not wait for it.
set -m
timeout -k 1 "$timeout" bash "${BASH_SOURCE[0]}" --deliver "$kind" "$node" "${EPOCHREALTIME/,/.}" "${SLURM_JOB_ID:-0}" \
    </dev/null >/dev/null 2>&1 &
exit 0
