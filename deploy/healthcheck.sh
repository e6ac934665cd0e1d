#!/usr/bin/env bash
# lacuna-healthcheck [[HOST:]PORT [STORE [PIDFILE]]]: 0 if the service there answers /healthz with 200.
# Bash alone, so that the image needs no HTTP client.
#
# With STORE, the folder in which nats-server keeps streams: a server whose disk was full remembers the failed
# write, and keeps nothing more in that stream until its end. Once there is room it is ended here, and the
# engine or systemd starts it again. PIDFILE has its process id; in a container it is process 1.
set -u
at=${1:-9464}
case $at in *:*) ;; *) at=127.0.0.1:$at ;; esac
exec 3<>"/dev/tcp/${at%:*}/${at##*:}" || exit 1
printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 3 _ status _ <&3
[ "${status:-}" = 200 ] && exit 0
said=$(timeout 3 cat <&3)
if [ -n "${2:-}" ] && [[ $said = *"write error"* ]]; then
    probe=$2/.room
    if head -c 65536 /dev/zero >"$probe" 2>/dev/null; then
        echo "there is room again below $2: nats-server starts again"
        pid=1
        [ -z "${3:-}" ] || read -r pid <"$3"
        kill -TERM "$pid"
    else
        echo "there is no room below $2: nothing more is kept"
    fi
    rm -f "$probe"
fi
exit 1
