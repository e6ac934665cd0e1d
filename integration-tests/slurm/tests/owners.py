"""Pilots under their owners' accounts: the helper of root's on the controller, called through sudo."""

import json
import time
import tomllib

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
# A pilot whose agent has a folder and a configuration of its owner's.
AGENT = """#!/bin/bash
umask 077
own="/tmp/owner-$(id -un)"
mkdir -p "$own"
sed "s#/var/lib/lacuna/work#$own/work#" /etc/lacuna/lacuna.toml >"$own/lacuna.toml"
@EXPORTS
exec srun --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 --export=ALL \\
    /opt/lacuna/bin/lacuna-agent --pilot --node "$SLURMD_NODENAME" --config "$own/lacuna.toml"
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

    def identity(self, owner: str) -> str:
        """The owner's key for the bus of this cluster, which has none: without the bus's certificate."""
        keys = tomllib.loads(self.root("cat", f"{KEYS}/main/{owner}.toml"))
        keys = {name: keys[name] for name in ("version", "cluster", "user", "role", "seed")}
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
        path = f"/tmp/{owner}.identity"
        self.file(path, text + 'url = "nats://ctl:4222"\n')
        self.root("chmod", "600", path)
        self.root("chown", owner, path)
        return path

    def submit_as(self, owner: str, check: bool = True, signed: bool = True) -> dict:
        """The owner submits a trainer, which can use all nodes."""
        self.file(f"/shared/of-{owner}.toml", counted(f"of-{owner}"))
        words = ["lacuna", "submit", f"/shared/of-{owner}.toml", "--json"]
        words += ["--identity", self.identity(owner)] if signed else []
        done = self.cluster.ctl(*words, user=owner, check=check, limit=30)
        return json.loads(done.stdout)

    def test_control_calls_the_helper_and_nodes_change_hands(self):
        exports = [f"export {name}={self.root('printenv', name, check=False).strip()}" for name in ("PYTHONPATH", "OMP_NUM_THREADS")]
        self.file("/etc/pilot-helper/pilot.sh", AGENT.replace("@EXPORTS", "\n".join(exports)))
        self.configure(
            ("[control.pilots]\n", f"[control.pilots]\nhelper = {json.dumps(['sudo', '-n', *HELPER])}\n"),
            # The pilots of all users are ours.
            ('partition = "filler"\nuser = "lacuna"', 'partition = "filler"'),
        )
        self.lacuna.restart("ingest")
        self.lacuna.restart("control")
        # Without a signature nothing is queued.
        refused = self.submit_as(BATCH, check=False, signed=False)
        self.assertIn("L0029", json.dumps(refused))
        time.sleep(3)
        self.assertEqual(self.jobs(), {}, "a pilot before any trainer has a node")
        for owner in (BATCH, TRAIN):
            self.submit_as(owner)
        names = {owner: f"of-{owner}" for owner in (BATCH, TRAIN)}

        def leased() -> dict[str, set[str]]:
            return {owner: self.lacuna.leased(name) for owner, name in names.items()}

        until("both train, each on half of the nodes", 120, lambda: all(len(nodes) == 2 for nodes in leased().values()))
        for owner, name in names.items():
            until("rank 0 has done steps", 60, lambda name=name: len(self.lacuna.steps(name)) >= 10)
            # The program's files and processes, and the scheduler's jobs, are the owner's.
            self.assertEqual(self.root("stat", "-c", "%U", f"/shared/{name}/steps.jsonl").strip(), owner)
            for node in self.lacuna.leased(name):
                container = self.cluster.layout.container(node)
                said = self.cluster.docker_exec(container, "ps", "-eo", "user:16,args", "--no-headers").stdout
                users = {line.split()[0] for line in said.splitlines() if "counted.py" in line}
                self.assertEqual(users, {owner}, node)
        self.assertEqual(sorted(self.jobs().values()), sorted([BATCH] * 2 + [TRAIN] * 2))
        # Its nodes go to the other: program, pilot, pilot, program.
        before = leased()[BATCH]
        started = time.monotonic()
        self.lacuna.ask("cancel", names[BATCH])
        until("the other trains on all nodes", 120, lambda: leased()[TRAIN] == self.names)
        print(f"\n    {len(before)} nodes trained for another owner {time.monotonic() - started:.1f} s after the end")
        self.assertEqual(set(self.jobs().values()), {TRAIN})
        over = self.root("squeue", "-h", "-p", "filler", "-t", "all", "-o", "%u").split()
        self.assertGreaterEqual(over.count(BATCH), 2)
        self.assertGreaterEqual(over.count(TRAIN), 4)
        # The ticket of a trainer that is over is refused, also of the helper itself.
        until("the helper has heard of the end", 30, lambda: names[BATCH] in self.root("cat", "/var/lib/lacuna-pilot-helper/book.json"))
        # Control that starts again finds the pilots of all owners.
        pilots = set(self.lacuna.pilots())
        self.lacuna.restart("control")
        until("it trains on all nodes again", 60, lambda: leased()[TRAIN] == self.names)
        self.assertEqual(set(self.lacuna.pilots()), pilots)
        # A batch job takes a node of another owner's pilot as before.
        took = self.batch_seconds()
        print(f"    a batch job of one node took {took:.2f} s")
        until("it trains on all nodes again", 120, lambda: leased()[TRAIN] == self.names)
        self.lacuna.ask("cancel", names[TRAIN])
        until("no pilot is left", 60, lambda: not self.lacuna.pilots())
