"""Pilots under their owners' accounts: the helper of root's on the controller, called through sudo."""

import json

from lacuna_beside import BATCH, PILOT, TRAIN, until
from tests.common import WithLacuna
from trainers import counted

HELPER = ["/opt/lacuna/bin/lacuna-pilot-helper", "--config", "/etc/pilot-helper/helper.toml"]
KEYS = "/root/keys"
CONFIG = """
cluster = "main"
script = "/etc/pilot-helper/pilot.sh"
[keys]
@KEYS
[settings]
partition = "filler"
metrics = "/etc/pilot-helper/refused.prom"
"""
# A pilot that says under which account it runs.
SCRIPT = """#!/bin/bash
id -un >"/shared/pilot-$SLURM_JOB_ID"
exec sleep 300
"""


class Owners(WithLacuna):
    def setUp(self) -> None:
        super().setUp()
        self.root("rm", "-rf", KEYS, "/etc/pilot-helper", "/var/lib/lacuna-pilot-helper")
        self.root("lacuna", "keys", "init", KEYS, "--cluster", "main", "--host", "ctl")
        for owner in (BATCH, TRAIN):
            self.root("lacuna", "keys", "add-user", KEYS, owner, "--role", "researcher")
        self.root("mkdir", "-m", "755", "/etc/pilot-helper")
        keys = "\n".join(f'{owner} = ["{self.public_key(owner)}"]' for owner in (BATCH, TRAIN))
        self.file("/etc/pilot-helper/helper.toml", CONFIG.replace("@KEYS", keys))
        self.file("/etc/pilot-helper/pilot.sh", SCRIPT)
        self.file("/etc/sudoers.d/helper", f"{PILOT} ALL=(root) NOPASSWD: {' '.join(HELPER)}\n")

    def root(self, *command: str, **more) -> str:
        return self.cluster.ctl(*command, **more).stdout

    def file(self, path: str, text: str) -> None:
        self.root("bash", "-c", 'umask 022; cat >"$0"', path, input=text, interactive=True)

    def public_key(self, owner: str) -> str:
        script = (
            "import sys, tomllib; users = tomllib.load(open(sys.argv[1], 'rb'))['users'];"
            "print(next(u['key'] for u in users if u['name'] == sys.argv[2]))"
        )
        return self.root("python3", "-c", script, f"{KEYS}/users.toml", owner).strip()

    def ticket(self, owner: str, pilots: int = 2) -> dict:
        """What an owner signs for a trainer of theirs."""
        self.file("/root/trainer.toml", counted(f"of-{owner}"))
        identity = f"{KEYS}/main/{owner}.toml"
        words = ["pilots", "ticket", "/root/trainer.toml", "--pilots", str(pilots), "--identity", identity]
        return json.loads(self.root("lacuna", *words))

    def ask(self, request: dict, code: int = 0) -> str:
        """A request as control's user; the answer."""
        words = ["sudo", "-n", *HELPER]
        text = json.dumps(request)
        done = self.cluster.ctl(*words, user=PILOT, check=False, input=text, interactive=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.strip()

    def submit(self, ticket: dict, node: str, code: int = 0) -> str:
        return self.ask({"do": "submit", "ticket": ticket, "node": node, "minutes": 10}, code)

    def jobs(self) -> dict[str, str]:
        """Whose job runs or waits."""
        lines = self.root("squeue", "-h", "-p", "filler", "-o", "%i %u").splitlines()
        return dict(line.split() for line in lines)

    def test_pilots_of_two_owners_are_theirs_and_neither_reaches_the_others(self):
        running = {}
        for owner, node in ((BATCH, "n01"), (TRAIN, "n02")):
            job = self.submit(self.ticket(owner), node)
            running[owner] = job
            until("the pilot runs", 30, lambda job=job: self.lacuna.read(f"/shared/pilot-{job}"))
            self.assertEqual(self.lacuna.read(f"/shared/pilot-{job}").strip(), owner)
        # The scheduler counts each as its owner's, whose limits apply.
        self.assertEqual(self.jobs(), {job: owner for owner, job in running.items()})
        node = self.cluster.layout.container("n01")
        pids = self.cluster.docker_exec(node, "pgrep", "-u", BATCH, "sleep").stdout.split()
        for attempt in ("kill -TERM @", "cat /proc/@/environ", "head -c 1 /proc/@/mem", "ls /proc/@/fd"):
            tried = attempt.replace("@", pids[0])
            done = self.cluster.docker_exec(node, "bash", "-c", tried, user=TRAIN, check=False)
            self.assertNotEqual(done.returncode, 0, tried)
        # Only an owner's own pilots are cancelled for them, and no other command is control's.
        cancel = {"do": "cancel", "owner": TRAIN, "jobs": [running[BATCH]]}
        self.ask(cancel, 77)
        self.ask({**cancel, "owner": BATCH})
        until("it has ended", 30, lambda: self.jobs() == {running[TRAIN]: TRAIN})
        for words in (["sbatch", "--wrap", "true"], [HELPER[0], "--config", "/tmp/mine.toml"]):
            done = self.cluster.ctl("sudo", "-n", *words, user=PILOT, check=False)
            self.assertNotEqual(done.returncode, 0, words)

    def test_forged_and_replayed_tickets_are_refused_and_counted(self):
        ticket = self.ticket(BATCH)
        forged = {**ticket, "ticket": ticket["ticket"].replace('"pilots":2', '"pilots":9')}
        self.assertNotEqual(forged, ticket)
        self.submit(forged, "n01", 77)
        of_another = {**ticket, "ticket": ticket["ticket"].replace(BATCH, TRAIN)}
        self.submit(of_another, "n01", 77)
        self.submit(ticket, "n01")
        self.ask({"do": "end", "ticket": ticket})
        self.submit(ticket, "n02", 77)
        self.assertEqual(len(self.jobs()), 1)
        counted_refusals = self.root("cat", "/etc/pilot-helper/refused.prom")
        for line in ('{cause="forged"} 2', '{cause="replayed"} 1'):
            self.assertIn(line, counted_refusals)
