#!/usr/bin/env bash
# Tries the guide's ways to a key by the names of a centre (deploy/security.md, "Names of the centre").
#
#   names.sh            in a container of the test cluster's image (clusterctl.py image makes it)
#
# Inside there are a live LDAP (slapd, nslcd), sudo, munge and a nats-server with keys. The script for keys is
# the one that the guide prints. It installs packages, so it needs the network. Ends with 0 if all holds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ "${1:-}" != inside ]; then
    exec docker run --rm --network "${LACUNA_NETWORK:-host}" \
        -v "$root/target/release:/opt/lacuna/bin:ro" -v "$root/.cache/bin:/opt/nats:ro" \
        -v "$root/deploy:/deploy:ro" -v "$here:/test-cluster:ro" \
        "${LACUNA_SLURM_IMAGE:-lacuna-slurm:local}" bash /test-cluster/names.sh inside
fi

say() { echo "names: $*"; }
fails() { if "$@" >/tmp/said 2>&1; then say "should fail: $*"; exit 1; else say "refused: ${*: -1}: $(tail -n 1 /tmp/said)"; fi; }
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@"; }

export PATH=/opt/lacuna/bin:/opt/nats:$PATH DEBIAN_FRONTEND=noninteractive
say "packages"
apt-get update -q >/dev/null
debconf-set-selections <<<'slapd slapd/domain string example.org
slapd shared/organization string centre
slapd slapd/password1 password secret
slapd slapd/password2 password secret'
apt-get install -q -y --no-install-recommends slapd ldap-utils nslcd libnss-ldapd >/dev/null 2>&1

say "a directory with ann and bob, of whom ann may use the machine"
slapd -h ldap://127.0.0.1:3890/ -u openldap -g openldap
printf 'uri ldap://127.0.0.1:3890/\nbase dc=example,dc=org\nuid nslcd\ngid nslcd\n' >/etc/nslcd.conf
sed -i -E 's/^(passwd|group):.*/\1: files ldap/' /etc/nsswitch.conf
mkdir -p /run/nslcd && chown nslcd:nslcd /run/nslcd
{
    printf 'dn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n\n'
    printf 'dn: cn=hpc-users,dc=example,dc=org\nobjectClass: posixGroup\ncn: hpc-users\ngidNumber: 20000\nmemberUid: ann\n\n'
    for user in ann:20001 bob:20002; do
        printf 'dn: uid=%s,ou=people,dc=example,dc=org\nobjectClass: account\nobjectClass: posixAccount\nuid: %s\ncn: %s\n' \
            "${user%:*}" "${user%:*}" "${user%:*}"
        printf 'uidNumber: %s\ngidNumber: 100\nhomeDirectory: /home/%s\nloginShell: /bin/bash\n\n' "${user#*:}" "${user%:*}"
    done
} | ldapadd -x -H ldap://127.0.0.1:3890/ -D cn=admin,dc=example,dc=org -w secret >/dev/null
nslcd
getent passwd ann bob
! grep -qE '^(ann|bob):' /etc/passwd
for user in ann bob; do install -d -m 700 -o "$user" -g users "/home/$user"; done

say "a bus with keys"
keys=/etc/lacuna/keys
mkdir -p /etc/lacuna /var/lib/nats
lacuna keys init "$keys" --cluster main --host localhost >/dev/null
lacuna config nats-server --store /var/lib/nats --listen 127.0.0.1:4222 --keys "$keys/server" >"$keys/nats.conf"
nats-server -c "$keys/nats.conf" >/tmp/nats.log 2>&1 &
sleep 1

say "the guide's script"
sed -n '/^  #!\/bin\/bash$/,/^  ```$/p' /deploy/security.md | sed '$d; s/^  //' >/usr/local/sbin/lacuna-key
sed -n 's/^  # \/etc\/sudoers.d\/lacuna-key: *//p' /deploy/security.md >/etc/sudoers.d/lacuna-key
chmod 755 /usr/local/sbin/lacuna-key
chmod 440 /etc/sudoers.d/lacuna-key
visudo -c -q -f /etc/sudoers.d/lacuna-key
# sudo's path has no /opt: a site puts the programs where root's path finds them.
ln -s /opt/lacuna/bin/lacuna /opt/nats/nats-server /usr/local/bin/

# Nothing but the bus runs, so a request that the bus takes gets no answer of control's, and says this.
reaches() { as "$1" lacuna trainers --identity "$2" >/tmp/said 2>&1 || true; grep -q 'control' /tmp/said; }
as ann sudo -n /usr/local/sbin/lacuna-key
stat -c 'names: %U %a %n' /home/ann/.lacuna.toml
reaches ann /home/ann/.lacuna.toml || { cat /tmp/said; exit 1; }
lacuna keys list "$keys" | grep -E '^USER|ann'
install -m 600 -o ann /home/ann/.lacuna.toml /home/ann/old.toml
as ann sudo -n /usr/local/sbin/lacuna-key
sleep 1
reaches ann /home/ann/.lacuna.toml || { cat /tmp/said; exit 1; }
! reaches ann /home/ann/old.toml
say "the key before: $(head -n 1 /tmp/said)"
fails as ann sudo -n /usr/local/sbin/lacuna-key other
fails as ann sudo -n lacuna keys list "$keys"
fails as bob sudo -n /usr/local/sbin/lacuna-key

say "the helper submits under an account of the directory"
mkdir -m 755 /etc/pilot-helper /stand-in
printf '#!/bin/sh\nid -un >/tmp/submitted\necho 1\n' >/stand-in/sbatch
chmod 755 /stand-in/sbatch
chmod 1777 /tmp
printf '#!/bin/sh\n' >/etc/pilot-helper/pilot.sh
key=$(python3 -c "import tomllib; print(next(u['key'] for u in tomllib.load(open('$keys/users.toml','rb'))['users'] if u['name']=='ann'))")
printf 'cluster = "main"\nscript = "/etc/pilot-helper/pilot.sh"\n[keys]\nann = ["%s"]\nAnn = ["%s"]\n[settings]\npartition = "filler"\nenvironment = { PATH = "/stand-in:/usr/bin:/bin" }\n' \
    "$key" "$key" >/etc/pilot-helper/helper.toml
printf '[[trainer]]\nname = "t"\nlauncher = "command"\nprogram = "/bin/true"\nmin_nodes = 1\nmax_nodes = 1\nsamples = 1\nscaling = { nodes = [1], samples_per_s = [1.0] }\nrescale = { up = "0s", down = "0s" }\n' >/home/ann/t.toml
ticket=$(as ann lacuna pilots ticket /home/ann/t.toml --identity /home/ann/.lacuna.toml)
request="{\"do\":\"submit\",\"ticket\":$ticket,\"node\":\"n01\",\"minutes\":5}"
lacuna-pilot-helper --config /etc/pilot-helper/helper.toml <<<"$request" >/dev/null
say "submitted as $(cat /tmp/submitted)"
[ "$(cat /tmp/submitted)" = ann ]

say "munge proves a user of the directory to root"
setpriv --reuid=munge --regid=munge --init-groups munged
uid=$(as ann munge -n | unmunge | sed -n 's/^UID: *\([^ ]*\).*/\1/p')
say "unmunge: UID $uid"
[ "$uid" = ann ]
SUDO_USER=$uid SUDO_GID=$(id -g "$uid") /usr/local/sbin/lacuna-key
reaches ann /home/ann/.lacuna.toml || { cat /tmp/said; exit 1; }
fails unmunge <<<"$(as ann munge -n | sed 's/A/B/2')"
say "all holds"
