#!/usr/bin/env bash
# lacuna-healthcheck [PORT]: 0 if this container's service answers /healthz with 200.
# Bash alone, so that the image needs no HTTP client.
set -u
exec 3<>"/dev/tcp/127.0.0.1/${1:-9464}" || exit 1
printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r -t 3 _ status _ <&3
[ "${status:-}" = 200 ]
