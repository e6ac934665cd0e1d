#!/usr/bin/env bash
# Brings Lacuna up in containers, and down again. `make up`, `make down`, `make logs`.
#
#   up.sh up                build the binaries here, make keys and images, start, wait until healthy
#   up.sh images            only the images
#   up.sh down [--volumes]  stop; with --volumes forget the data and the keys too
#   up.sh logs [SERVICE]    follow the logs
#   up.sh keys COMMAND ...  `lacuna keys` on the keys of this composition, then have the bus read them:
#                           up.sh keys add-user ann --role researcher; up.sh keys list
#   up.sh token             print the token of the operator's page
#   up.sh base-image        make the base image with debootstrap (root; no registry needed)
#
# Settings by environment:
#   COMPOSE_PROFILES    core,monitoring by default; core,monitoring,demo has a generated machine;
#                       slurm,monitoring beside a Slurm (deploy/compose.yaml lists all)
#   LACUNA_INSTANCES    instances of ingest, forecast, planner and control: one of each leads (1)
#   COMPOSE_PROJECT_NAME, LACUNA_CLUSTER
#                       names of the composition (lacuna) and of the cluster (main)
#   LACUNA_NATS_BIND    the address of this machine at which the bus is published (127.0.0.1)
#   LACUNA_BUS_HOSTS    names and addresses, separated by spaces, by which nodes reach the bus: its
#                       certificate holds for them from then on, and identities that are made from
#                       then on name the first; needed once
#   LACUNA_SLURM_USER   UID:GID that ingest and control have in the profile slurm (10001:10001)
#   LACUNA_BUS_OF       bring up a further cluster on the bus of this composition
#   LACUNA_STATE        where keys and scrape targets are kept (~/.local/state/lacuna/compose)
#   LACUNA_BUILD=inside build in a container instead (public Rust image)
#   LACUNA_BASE_IMAGE   another base image
#
#   LACUNA_ALERTMANAGER_CONFIG
#                       who gets alerts (deploy/alertmanager.yml, in which alerts are shown only)
#
# Exit codes: 0 up and healthy, 1 it does not work, 64 wrong usage, 69 something is not installed or
# not running, 75 this place cannot give what the images need (a base image, running containers).
set -euo pipefail
# Containers run as other users and must read what is made here. Secrets have modes of their own.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
services=(ingest forecast planner control agent gateway)
led=(ingest forecast planner control)
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-lacuna}
export LACUNA_CLUSTER=${LACUNA_CLUSTER:-main}
export LACUNA_IMAGE=${LACUNA_IMAGE:-lacuna:local}
export LACUNA_LAB_IMAGE=${LACUNA_LAB_IMAGE:-lacuna-lab:local}
export LACUNA_SLURM_IMAGE=${LACUNA_SLURM_IMAGE:-lacuna-slurm:local}
export LACUNA_NATS_IMAGE=${LACUNA_NATS_IMAGE:-lacuna-nats:local}
bus_of=${LACUNA_BUS_OF:-$COMPOSE_PROJECT_NAME}
state=${LACUNA_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/lacuna/compose}
# Clusters that share a bus share its keys, and are scraped by one Prometheus.
keys=$state/$bus_of/keys
export LACUNA_KEYS=$keys/$LACUNA_CLUSTER LACUNA_SERVER_KEYS=$keys/server
slurm_user=${LACUNA_SLURM_USER:-10001:10001}
export LACUNA_SLURM_UID=${slurm_user%%:*} LACUNA_SLURM_GID=${slurm_user##*:}
export LACUNA_TARGETS=$state/$bus_of/targets
export LACUNA_NETWORK=$bus_of
if [ "$bus_of" = "$COMPOSE_PROJECT_NAME" ]; then
    export LACUNA_NETWORK_IS_ANOTHERS=false COMPOSE_PROFILES=${COMPOSE_PROFILES:-core,monitoring}
else
    export LACUNA_NETWORK_IS_ANOTHERS=true COMPOSE_PROFILES=${COMPOSE_PROFILES:-cluster}
fi

say() { printf 'up: %s\n' "$*"; }
die() { local code=$1; shift; printf 'up: %s\n' "$@" >&2; exit "$code"; }
wants() { [[ ",$COMPOSE_PROFILES," == *",$1,"* ]]; }

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

# Whether an image is here or can be pulled.
obtain() { docker image inspect "$1" >/dev/null 2>&1 || docker pull -q "$1" >/dev/null 2>&1; }

# Debian's release of this machine: binaries built here need its C library or a newer one.
codename() {
    # shellcheck disable=SC1091
    . /etc/os-release
    [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-bookworm}" || echo bookworm
}

# Lets the users of the containers read the repository's files that they mount: a checkout that was made
# with umask 077 hides them.
share_files() {
    chmod -R u=rwX,go=rX LICENSE grafana deploy/{healthcheck.sh,nats.conf,lacuna.toml} \
        deploy/{prometheus,alerts,alertmanager}.yml
}

# The same must hold for the site's own files; these are not ours to change. Relative names are, as for
# compose, below deploy/.
need_shared() {
    local file
    for file in "$@"; do
        [ -n "$file" ] || continue
        [[ $file = /* ]] || file=deploy/$file
        [ -r "$file" ] || die 64 "$file cannot be read"
        (( 8#$(stat -L -c %a "$file") & 4 )) \
            || die 64 "$file cannot be read by the users of the containers: chmod o+r $file"
    done
}

base_name() { echo "${LACUNA_BASE_IMAGE:-debian:$(codename)-slim}"; }

base_image() {
    local name release tree
    name=$(base_name)
    release=$(codename)
    command -v debootstrap >/dev/null 2>&1 \
        || die 75 "$name is not available, and debootstrap is missing: apt-get install debootstrap"
    [ "$(id -u)" -eq 0 ] || die 75 "$name is not available, and debootstrap needs root"
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
    mkdir -p "$to/bin" "$to/lab" "$to/nats" "$to/deploy"
    cp LICENSE "$to/"
    cp deploy/healthcheck.sh deploy/lacuna.toml "$to/deploy/"
    cp .cache/bin/nats-server "$to/nats/"
    if [ "${1:-}" = binaries ]; then
        cp target/release/lacuna "${services[@]/#/target/release/lacuna-}" "$to/bin/"
        wants demo && cp target/release/lacuna-lab "$to/lab/"
        strip "$to"/bin/* "$to"/lab/* 2>/dev/null || true
    fi
    # The same files give the same layers, whenever and by whom they were made.
    chmod -R u=rwX,go=rX "$to"
    find "$to" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
    echo "$to"
}

build() { docker build --quiet --build-arg "BASE_IMAGE=$(base_name)" "$@" >/dev/null; }

images() {
    local context lab
    share_files
    deploy/setup/setup.sh nats
    obtain "$(base_name)" || base_image
    # Some engines answer and yet may not start anything.
    docker run --rm --network none "$(base_name)" true >/dev/null || die 75 "the Docker engine cannot run a container"
    if [ "${LACUNA_BUILD:-host}" = inside ]; then
        context=$(stage)
        say "building $LACUNA_IMAGE in a container"
        build -f deploy/Dockerfile --target build-inside -t "$LACUNA_IMAGE" .
        lab=(--target lab-inside .)
    else
        [ -n "${LACUNA_SKIP_CARGO:-}" ] || cargo build --release --locked --workspace --bins
        context=$(stage binaries)
        say "making $LACUNA_IMAGE of the binaries in target/release"
        build -f deploy/Dockerfile --target prebuilt -t "$LACUNA_IMAGE" "$context"
        lab=(--target lab-prebuilt "$context")
    fi
    if wants demo; then
        say "making $LACUNA_LAB_IMAGE: the same with lacuna-lab, which plays a machine"
        build -f deploy/Dockerfile -t "$LACUNA_LAB_IMAGE" "${lab[@]}"
    fi
    build -f deploy/Dockerfile --target nats -t "$LACUNA_NATS_IMAGE" "$context"
    if wants slurm; then
        say "making $LACUNA_SLURM_IMAGE: the same with Slurm's commands"
        docker build --quiet --build-arg "LACUNA_IMAGE=$LACUNA_IMAGE" -f deploy/slurm.Dockerfile \
            -t "$LACUNA_SLURM_IMAGE" target/deploy >/dev/null \
            || die 75 "Slurm's commands are not available"
    fi
}

# public_or_debian PART IMAGE: the public image of Prometheus or Alertmanager, or Debian's package in our
# base image.
public_or_debian() {
    local part=$1 public=$2 variable=LACUNA_${1^^}_IMAGE
    if [ -z "${!variable:-}" ] && ! obtain "$public"; then
        export "$variable=lacuna-$part:local"
        say "$public is not available here: using Debian's $part"
        build -f deploy/offline.Dockerfile --target "$part" -t "lacuna-$part:local" target/deploy \
            || die 75 "Debian's $part is not available either"
    fi
}

# Runs the image's own command line as root, without network, on the folder of keys. Root is needed
# since the files that containers read belong to the containers' users. The folder is mounted as
# /keys, and under its own name, which the command prints.
on_keys() {
    docker run --rm --network none --read-only --user 0:0 --cap-drop ALL --cap-add CHOWN \
        --cap-add DAC_OVERRIDE --cap-add FOWNER -v "$keys:/keys" -v "$keys:$keys" "$LACUNA_IMAGE" "$@"
}

secret() { [ -s "$1" ] || (umask 077 && head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$1"); }

# Gives the files that `lacuna keys` has made as root to their users: identities of services to
# their containers' users, the server's files to the bus, all others to the caller. Services'
# identities of the named cluster change their owner in any case.
own_keys() {
    local machine=10001:10001
    wants slurm && machine=$LACUNA_SLURM_UID:$LACUNA_SLURM_GID
    # shellcheck disable=SC2016
    on_keys bash -ec 'cd /keys
        for file in */{ingest,forecast,planner,control,agent,gateway,demo-machine,demo-researcher}.toml; do
            [ -e "$file" ] || continue
            owner=10001:10001
            case "$file" in */ingest.toml | */control.toml) owner=$2 ;; esac
            if [ "${file%%/*}" = "$3" ] || [ -O "$file" ]; then chown "$owner" "$file"; fi
        done
        chown -R 10002:10002 server
        find . -path ./server -prune -o -uid 0 -exec chown -h "$1" {} +' \
        _ "$(id -u):$(id -g)" "$machine" "${1:-}"
}

# `lacuna keys init` for this cluster, with the names by which clients reach the bus. Identities keep
# their address until another is given.
init_keys() {
    local host port=${LACUNA_NATS_PORT:-4222} args=() url=()
    # A port that the engine chooses changes with each start: identities name the usual one.
    [ "$port" != 0 ] || port=4222
    [ -e "$keys/users.toml" ] && [[ " $* " != *" --force "* ]] || url=(--url "tls://127.0.0.1:$port")
    for host in ${LACUNA_BUS_HOSTS:-}; do
        [ ${#args[@]} -gt 0 ] || url=(--url "tls://$(bracketed "$host"):$port")
        args+=(--host "$host")
    done
    [[ " $* " != *" --url"* ]] || url=()
    on_keys lacuna keys init "$keys" --cluster "$LACUNA_CLUSTER" --host nats --host localhost --host 127.0.0.1 \
        "${args[@]}" "${url[@]}" "$@"
}

# One key for each service and each part of the demonstration; existing keys stay.
make_keys() {
    mkdir -p "$keys" "$LACUNA_TARGETS"
    chmod 700 "$keys"
    chmod 755 "$LACUNA_TARGETS"
    init_keys >/dev/null
    on_keys lacuna keys add-user /keys demo-machine --role events --cluster "$LACUNA_CLUSTER" >/dev/null
    on_keys lacuna keys add-user /keys demo-researcher --role researcher --cluster "$LACUNA_CLUSTER" >/dev/null
    own_keys "$LACUNA_CLUSTER"
    secret "$LACUNA_KEYS/page-token"
    secret "$LACUNA_KEYS/grafana-password"
    on_keys bash -ec 'chown 10001:10001 "/keys/$1/page-token"; chown 472:0 "/keys/$1/grafana-password"' _ "$LACUNA_CLUSTER"
}

bracketed() { case "$1" in *:*) echo "[$1]" ;; *) echo "$1" ;; esac; }

# Has the bus read its keys, certificate and accounts again; 1 if it does not run. The signal comes from
# inside: after `docker kill`, whatever its signal, the engine takes a container for one that was stopped
# by hand, and no longer restarts it.
reload_bus() {
    local bus
    bus=$(docker ps -q --filter "label=com.docker.compose.project=$bus_of" \
        --filter label=com.docker.compose.service=nats)
    [ -n "$bus" ] && docker exec "$bus" /opt/nats/nats-server --signal reload=1
}

need_keys() {
    need_docker
    [ -e "$keys/users.toml" ] || die 69 "there are no keys in $keys: $0 up makes them"
    docker image inspect "$LACUNA_IMAGE" >/dev/null 2>&1 || die 69 "$LACUNA_IMAGE is not here: $0 images makes it"
}

# `lacuna keys COMMAND` on the folder of this composition, whose files belong to several users.
on_own_keys() {
    local command=${1:-} code=0
    [ -n "$command" ] || die 64 "which command of lacuna keys? As in: $0 keys add-user ann --role researcher"
    need_keys
    shift
    case "$command" in
        init) init_keys "$@" || code=$? ;;
        -*) on_keys lacuna keys "$command" "$@" || code=$? ;;
        add-user | revoke)
            [[ " $* " == *" --cluster"[\ =]* ]] || set -- "$@" --cluster "$LACUNA_CLUSTER"
            on_keys lacuna keys "$command" "$keys" "$@" || code=$? ;;
        *) on_keys lacuna keys "$command" "$keys" "$@" || code=$? ;;
    esac
    own_keys
    [ "$code" = 0 ] || exit "$code"
    case "$command" in list | -*) return 0 ;; esac
    if reload_bus; then
        say "the bus reads it now" >&2
    else
        say "the bus does not run, and reads it when it starts" >&2
    fi
}

# Prometheus's targets: every container of this composition that has metrics.
write_targets() {
    local container service name file=$LACUNA_TARGETS/$COMPOSE_PROJECT_NAME.yml
    : >"$file.new"
    for container in $(compose ps -q); do
        read -r service name < <(docker inspect -f \
            '{{index .Config.Labels "com.docker.compose.service"}} {{slice .Name 1}}' "$container")
        service=${service#slurm-}
        service=${service#demo-}
        [[ " ${services[*]} " == *" $service "* ]] || continue
        printf -- '- targets: ["%s:9464"]\n  labels: { cluster: %s, service: %s }\n' \
            "$name" "$LACUNA_CLUSTER" "$service" >>"$file.new"
    done
    mv "$file.new" "$file"
}

# Waits until Prometheus reads every target that it was given. A Prometheus without targets raises no alert
# of any service.
wait_scraped() {
    local wanted seen=0 deadline=$((SECONDS + 60))
    wanted=$(cat "$LACUNA_TARGETS"/*.yml | grep -c -- '- targets:')
    while [ "$SECONDS" -lt "$deadline" ]; do
        seen=$(compose exec -T prometheus wget -q -O - 'http://127.0.0.1:9090/api/v1/targets?state=active' \
            | grep -o '"health":"up"' | wc -l) || true
        [ "$seen" -lt "$wanted" ] || { say "Prometheus reads all $wanted targets"; return; }
        sleep 1
    done
    die 1 "Prometheus reads $seen of $wanted targets, so alerts of the others cannot fire." \
        "Its page Status > Targets says why; the targets are in $LACUNA_TARGETS"
}

wait_healthy() {
    local deadline=$((SECONDS + 120)) container health restarts name bad hopeless=
    while :; do
        bad=
        for container in $(compose ps -q); do
            read -r health restarts name < <(docker inspect -f \
                '{{if .State.Health}}{{.State.Health.Status}}{{else if .State.Running}}healthy{{else}}ended{{end}} {{.RestartCount}} {{.Name}}' "$container")
            [ "$health" = healthy ] || bad+=" ${name#/}"
            # A container that has died this often will not come up by waiting.
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
    local began=$SECONDS started scale=()
    need_docker
    need_shared "${LACUNA_CONFIG_FILE:-}" "${LACUNA_ALERTMANAGER_CONFIG:-}"
    [[ $slurm_user =~ ^[0-9]+:[0-9]+$ ]] || die 64 "LACUNA_SLURM_USER is '$slurm_user': expected UID:GID, two numbers"
    images
    if wants monitoring; then
        public_or_debian prometheus prom/prometheus:v3.5.0
        public_or_debian alertmanager prom/alertmanager:v0.28.1
        if obtain "${LACUNA_GRAFANA_IMAGE:-grafana/grafana:12.1.0}"; then
            export COMPOSE_PROFILES=$COMPOSE_PROFILES,grafana
        else
            say "Grafana's image is not available here: Grafana is left out (grafana/ holds its dashboards)"
        fi
    fi
    make_keys
    # A bus that runs learns of new keys and names without a restart.
    if ! reload_bus && [ "$bus_of" != "$COMPOSE_PROJECT_NAME" ]; then
        die 1 "the composition $bus_of has no running bus: bring it up first"
    fi
    for service in "${led[@]}"; do
        wants slurm && [[ $service =~ ^(ingest|control)$ ]] && service=slurm-$service
        [ "${LACUNA_INSTANCES:-1}" = 1 ] || scale+=(--scale "$service=$LACUNA_INSTANCES")
    done
    started=$SECONDS
    compose up -d --no-build --remove-orphans "${scale[@]}"
    write_targets
    wait_healthy
    wants monitoring && wait_scraped
    say "all $(compose ps -q | wc -l) containers are healthy, $((SECONDS - started)) s after their start, $((SECONDS - began)) s in all"
    echo "  command     target/release/lacuna trainers --identity $LACUNA_KEYS/operator.toml"
    echo "  page        http://$(compose port gateway 9480)/?token=...   the token: deploy/up.sh token"
    echo "  people      deploy/up.sh keys add-user NAME --role researcher; deploy/up.sh keys list"
    if wants monitoring; then
        echo "  prometheus  http://$(compose port prometheus 9090)"
        echo "  alerts      http://$(compose port alertmanager 9093)"
        [ -n "${LACUNA_ALERTMANAGER_CONFIG:-}" ] || echo \
            "              shown there and sent to no one yet: deploy/monitor.md, \"Who gets alerts\""
    fi
    wants grafana && echo "  grafana     http://$(compose port grafana 3000)"
    return 0
}

down() {
    # Every profile, since containers of other profiles would stay.
    export COMPOSE_PROFILES=core,cluster,slurm,monitoring,grafana,demo
    rm -f "$LACUNA_TARGETS/$COMPOSE_PROJECT_NAME.yml"
    local own=label=com.docker.compose.project=$COMPOSE_PROJECT_NAME left network
    # A container that was just starting again may hold the network for a moment.
    compose down --remove-orphans "$@" || { sleep 2; compose down --remove-orphans "$@" || true; }
    left=$(docker ps -aq --filter "$own")
    # Docker's engine may miscount who is on a network when containers start again. It then keeps a network
    # on which nothing is, and mends the count ("inconsistent endpoint_cnt") at its own start.
    for network in $(docker network ls -q --filter "$own"); do
        if [ "$(docker network inspect -f '{{len .Containers}}' "$network")" = 0 ]; then
            say "the engine keeps the empty network $network until its restart; the next 'up' uses it" >&2
        else
            left+=" $network"
        fi
    done
    if [ "${1:-}" = --volumes ]; then
        # Volumes that compose has left; the containers are gone.
        docker volume ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" | xargs -r docker volume rm >/dev/null
        if [ "$bus_of" = "$COMPOSE_PROJECT_NAME" ] && [ -d "$keys" ]; then
            on_keys find /keys -mindepth 1 -delete
            rm -rf "${state:?}/$bus_of"
        fi
    fi
    [ -z "$left" ] || die 1 "containers or networks are left: docker ps -a, docker network ls"
}

action=${1:-}
shift || true
case "$action" in
    up) up ;;
    images) need_docker; images ;;
    down) need_docker; down "$@" ;;
    logs) need_docker; COMPOSE_PROFILES=core,cluster,slurm,monitoring,grafana,demo compose logs -f "$@" ;;
    keys) on_own_keys "$@" ;;
    token) need_keys; on_keys cat "/keys/$LACUNA_CLUSTER/page-token"; echo ;;
    base-image) need_docker; base_image ;;
    *) die 64 "unknown action '$action': expected up, images, down, logs, keys, token or base-image" ;;
esac
