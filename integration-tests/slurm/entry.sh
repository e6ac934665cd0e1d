#!/usr/bin/env bash
# The program of a container of the test cluster, under tini.
#
#   entry.sh controller   munged and slurmctld, which is started again when it ends
#   entry.sh accounting   the controller with a database and slurmdbd, an account and a user
#   entry.sh node         munged and this host's slurmd
#   entry.sh single       the controller, and a slurmd for each node of slurm.conf
set -euo pipefail

setpriv --reuid=munge --regid=munge --init-groups munged

controller() {
    install -d -o slurm -g slurm /var/lib/slurm/ctld
    # Tests kill it; the loop starts it again, as a service manager does.
    while :; do
        setpriv --reuid=slurm --regid=slurm --init-groups slurmctld -D >>/var/log/slurm/slurmctld.out 2>&1 || true
        sleep 0.5
    done
}

# slurmctld must find slurmdbd at its first start, with a cluster, and a user who may submit.
accounts() {
    setpriv --reuid=mysql --regid=mysql --init-groups mariadbd --skip-networking >/var/log/slurm/mariadb.out 2>&1 &
    until mariadb -e 'SELECT 1' >/dev/null 2>&1; do sleep 0.2; done
    mariadb -e "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
        GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
    SLURM_CONF=/etc/slurmdbd/slurm.conf setpriv --reuid=slurm --regid=slurm --init-groups \
        slurmdbd -D >/var/log/slurm/slurmdbd.out 2>&1 &
    until sacctmgr -n -i add cluster lacuna >/dev/null 2>&1; do sleep 0.5; done
    sacctmgr -n -i add account science Description=science >/dev/null
    sacctmgr -n -i add user alice account=science >/dev/null
}

case "$1" in
    controller) controller ;;
    accounting) accounts && controller ;;
    node) exec slurmd -D -N "$(hostname)" >>/var/log/slurm/slurmd.out 2>&1 ;;
    single)
        controller &
        # slurmd reads its configuration from a file, so several may start at once.
        scontrol show hostnames "$(sed -n 's/^NodeName=\([^ ]*\).*/\1/p' /etc/slurm/slurm.conf)" \
            | xargs -P 8 -n 1 slurmd -N >>/var/log/slurm/slurmd.out 2>&1
        wait
        ;;
    *) echo "entry: unknown role '$1'" >&2; exit 64 ;;
esac
