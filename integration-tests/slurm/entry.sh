#!/usr/bin/env bash
# What runs in a container of the test bed, under tini.
#
#   entry.sh controller   munged and slurmctld, which is started again when it ends
#   entry.sh node         munged and this host's slurmd
#   entry.sh single       the controller, and a slurmd for each node of slurm.conf
set -euo pipefail

setpriv --reuid=munge --regid=munge --init-groups munged

controller() {
    install -d -o slurm -g slurm /var/lib/slurm/ctld
    # Tests kill it; it comes back, as a service manager would bring it.
    while :; do
        setpriv --reuid=slurm --regid=slurm --init-groups slurmctld -D >>/var/log/slurm/slurmctld.out 2>&1 || true
        sleep 0.5
    done
}

case "$1" in
    controller) controller ;;
    node) exec slurmd -D -N "$(hostname)" >>/var/log/slurm/slurmd.out 2>&1 ;;
    single)
        controller &
        # slurmd asks nobody for its configuration: all may start at once, a few at a time.
        scontrol show hostnames "$(sed -n 's/^NodeName=\([^ ]*\).*/\1/p' /etc/slurm/slurm.conf)" \
            | xargs -P 8 -n 1 slurmd -N >>/var/log/slurm/slurmd.out 2>&1
        wait
        ;;
    *) echo "entry: unknown role '$1'" >&2; exit 64 ;;
esac
