#!/usr/bin/env bash
# Brings Lacuna up in containers, and down again. `make up`, `make down`, `make logs`.
#
#   up.sh up                build the binaries here, make the images, start, wait until healthy
#   up.sh images            only the images
#   up.sh down [--volumes]  stop; with --volumes forget the data too
#   up.sh logs [SERVICE]    follow the logs
#   up.sh base-image        make the base image with debootstrap (root; no registry needed)
#
# LACUNA_BUILD=inside builds in a container instead (public Rust image).
# LACUNA_BASE_IMAGE names another base, COMPOSE_PROJECT_NAME another project.
#
# Exit codes: 0 up and healthy, 1 it does not work, 69 something is not installed or not
# running, 75 this place cannot give what the images need (a base image, running containers).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
services=(ingest forecast planner control agent gateway)
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-lacuna}
export LACUNA_IMAGE=${LACUNA_IMAGE:-lacuna:local}
export LACUNA_NATS_IMAGE=${LACUNA_NATS_IMAGE:-lacuna-nats:local}

say() { printf 'up: %s\n' "$*"; }
die() { local code=$1; shift; printf 'up: %s\n' "$@" >&2; exit "$code"; }

compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose -f deploy/compose.yaml "$@"
    elif command -v docker-compose >/dev/null 2>&1; then
        docker-compose -f deploy/compose.yaml "$@"
    else
        die 69 "neither 'docker compose' nor docker-compose is there: apt-get install docker-compose"
    fi
}

need_docker() {
    command -v docker >/dev/null 2>&1 || die 69 "docker is missing: apt-get install docker.io docker-compose"
    docker info >/dev/null 2>&1 || die 69 "no Docker engine answers: start dockerd, or join the group docker"
}

# Whether an image is here or can be had.
obtain() { docker image inspect "$1" >/dev/null 2>&1 || docker pull -q "$1" >/dev/null 2>&1; }

# Debian's release of this machine: binaries built here need its C library or a newer one.
codename() {
    # shellcheck disable=SC1091
    . /etc/os-release
    [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-bookworm}" || echo bookworm
}

base_name() { echo "${LACUNA_BASE_IMAGE:-debian:$(codename)-slim}"; }

base_image() {
    local name release tree
    name=$(base_name)
    release=$(codename)
    command -v debootstrap >/dev/null 2>&1 \
        || die 75 "$name cannot be had, and debootstrap is missing: apt-get install debootstrap"
    [ "$(id -u)" -eq 0 ] || die 75 "$name cannot be had, and debootstrap needs root"
    say "making $name with debootstrap (half a minute)"
    tree=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$tree'" EXIT
    debootstrap --variant=minbase "$release" "$tree/root" >"$tree/log" 2>&1 || { tail -n 5 "$tree/log" >&2; die 75 "debootstrap failed"; }
    rm -f "$tree"/root/var/cache/apt/archives/*.deb
    tar -C "$tree/root" -c . | docker import -c 'CMD ["bash"]' - "$name" >/dev/null
}

# The small context of the images: binaries, nats-server, and the few files they need.
stage() {
    local to=target/deploy
    rm -rf "$to"
    mkdir -p "$to/bin" "$to/nats" "$to/deploy"
    cp LICENSE "$to/"
    cp deploy/healthcheck.sh deploy/lacuna.toml "$to/deploy/"
    cp .cache/bin/nats-server "$to/nats/"
    if [ "${1:-}" = binaries ]; then
        cp target/release/lacuna "${services[@]/#/target/release/lacuna-}" "$to/bin/"
        strip "$to"/bin/* 2>/dev/null || true
    fi
    echo "$to"
}

build() { docker build --quiet --build-arg "BASE_IMAGE=$(base_name)" "$@" >/dev/null; }

images() {
    local context
    deploy/setup/setup.sh nats
    obtain "$(base_name)" || base_image
    # Some engines answer and yet may not start anything.
    docker run --rm --network none "$(base_name)" true >/dev/null || die 75 "the Docker engine cannot run a container"
    if [ "${LACUNA_BUILD:-host}" = inside ]; then
        context=$(stage)
        say "building $LACUNA_IMAGE in a container"
        build -f deploy/Dockerfile --target build-inside -t "$LACUNA_IMAGE" .
    else
        [ -n "${LACUNA_SKIP_CARGO:-}" ] || cargo build --release --locked --workspace --bins
        context=$(stage binaries)
        say "making $LACUNA_IMAGE of the binaries in target/release"
        build -f deploy/Dockerfile --target prebuilt -t "$LACUNA_IMAGE" "$context"
    fi
    build -f deploy/Dockerfile --target nats -t "$LACUNA_NATS_IMAGE" "$context"
}

# Prometheus's public image, or Debian's package in our base image.
prometheus_image() {
    local public=prom/prometheus:v3.5.0
    if [ -z "${LACUNA_PROMETHEUS_IMAGE:-}" ] && ! obtain "$public"; then
        export LACUNA_PROMETHEUS_IMAGE=lacuna-prometheus:local
        say "$public cannot be had here: using Debian's prometheus"
        build -f deploy/offline.Dockerfile --target prometheus -t "$LACUNA_PROMETHEUS_IMAGE" target/deploy \
            || die 75 "Debian's prometheus cannot be had either"
    fi
}

wait_healthy() {
    local deadline=$((SECONDS + 120)) container health restarts name bad hopeless=
    while :; do
        bad=
        for container in $(compose ps -q); do
            read -r health restarts name < <(docker inspect -f '{{.State.Health.Status}} {{.RestartCount}} {{.Name}}' "$container")
            [ "$health" = healthy ] || bad+=" ${name#/}"
            # What has died so often will not live if we wait.
            [ "$restarts" -lt 5 ] || hopeless=yes
        done
        [ -n "$bad" ] || return 0
        if [ -n "$hopeless" ] || [ "$SECONDS" -ge "$deadline" ]; then
            compose ps >&2
            die 1 "not healthy:$bad; see: make logs"
        fi
        sleep 1
    done
}

up() {
    need_docker
    images
    prometheus_image
    if obtain "${LACUNA_GRAFANA_IMAGE:-grafana/grafana:12.1.0}"; then
        export COMPOSE_PROFILES=grafana
    else
        say "Grafana's image cannot be had here: Grafana is left out (grafana/ holds its dashboard)"
    fi
    compose up -d --no-build --remove-orphans
    wait_healthy
    local bus=nats://127.0.0.1:${LACUNA_NATS_PORT:-4222}
    say "all $(compose ps -q | wc -l) containers are healthy"
    echo "  bus         $bus   as in: target/release/lacuna trainers --nats $bus"
    echo "  page        http://127.0.0.1:${LACUNA_PAGE_PORT:-9480}"
    echo "  prometheus  http://127.0.0.1:${LACUNA_PROMETHEUS_PORT:-9090}"
    [ -z "${COMPOSE_PROFILES:-}" ] || echo "  grafana     http://127.0.0.1:${LACUNA_GRAFANA_PORT:-3000}"
}

down() {
    # Every profile, or Grafana would stay.
    export COMPOSE_PROFILES=grafana
    # A container that was just starting again may hold the network for a moment.
    for _ in 1 2; do
        compose down --remove-orphans "$@" && return
        sleep 2
    done
    # What compose did not come to; the containers are gone.
    [ "${1:-}" != --volumes ] \
        || docker volume ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" | xargs -r docker volume rm >/dev/null
    die 1 "the engine does not let the network go; it holds nothing, and a restart of dockerd frees it"
}

action=${1:-}
shift || true
case "$action" in
    up) up ;;
    images) need_docker; images ;;
    down) need_docker; down "$@" ;;
    logs) need_docker; compose logs -f "$@" ;;
    base-image) need_docker; base_image ;;
    *) die 64 "unknown action '$action': expected up, images, down, logs or base-image" ;;
esac
