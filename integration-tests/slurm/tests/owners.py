"""Pilots under their owners' accounts: the helper of root's on the controller, called through sudo."""

import json
import time

from helper_site import ALL_USERS, CALLS_HELPER, HELPER, OPERATORS, HelperSite
from lacuna_beside import BATCH, PILOT, TRAIN, until
from tests.common import WithLacuna
from trainers import counted

ATTACKER = "/test-cluster/programs/attacker.py"
# What an attacker brings along: configurations of an agent and of a helper.
BRINGS = """
umask 077; mkdir -p /tmp/evil
sed "s#/var/lib/lacuna/work#/tmp/evil/work#" /etc/lacuna/lacuna.toml >/tmp/evil/lacuna.toml
printf '#!/bin/sh\\nid\\n' >/tmp/evil/pilot.sh
printf 'cluster = "main"\\nscript = "/tmp/evil/pilot.sh"\\n[keys]\\n[settings]\\nstate = "/tmp/evil/state"\\n' >/tmp/evil/helper.toml
"""
OWN_TOKEN = r"cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sed -n 's/^PET_RDZV_ID=//p' | head -n 1"


class Owners(WithLacuna):
    maxDiff = None

    def before(self) -> None:
        self.site = HelperSite(self.cluster, self.lacuna)
        self.site.keys()
        self.site.helper()

    def ask(self, request: dict, code: int = 0) -> str:
        """A request as control's user; the answer."""
        done = self.site.ask(request)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.strip()

    def submit(self, ticket: dict, node: str, code: int = 0) -> str:
        done = self.site.submit(ticket, node)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.strip()

    def jobs(self, node: str = "") -> dict[str, str]:
        """Whose job runs or waits, on a node or anywhere."""
        where = ["-w", node] if node else []
        lines = self.site.root("squeue", "-h", "-p", "filler", "-o", "%i %u", *where).splitlines()
        return dict(line.split() for line in lines)

    def test_pilots_of_two_owners_are_theirs(self):
        running = {}
        for owner, node in ((BATCH, "n01"), (TRAIN, "n02")):
            job = self.submit(self.site.ticket(owner), node)
            running[owner] = job
            until("the pilot runs", 30, lambda job=job: self.lacuna.read(f"/shared/pilot-{job}"))
            self.assertEqual(self.lacuna.read(f"/shared/pilot-{job}").strip(), owner)
        # The scheduler counts each as its owner's, whose limits apply.
        self.assertEqual(self.jobs(), {job: owner for owner, job in running.items()})
        # Only an owner's own pilots are cancelled for them, and no other command is control's.
        cancel = {"do": "cancel", "owner": TRAIN, "jobs": [running[BATCH]]}
        self.ask(cancel, 77)
        self.ask({**cancel, "owner": BATCH})
        until("it has ended", 30, lambda: self.jobs() == {running[TRAIN]: TRAIN})
        for words in (["sbatch", "--wrap", "true"], [HELPER[0], "--config", "/tmp/mine.toml"]):
            done = self.cluster.ctl("sudo", "-n", *words, user=PILOT, check=False)
            self.assertNotEqual(done.returncode, 0, words)

    def test_forged_replayed_and_stale_tickets_are_refused_and_counted(self):
        ticket = self.site.ticket(BATCH)
        stale = self.site.ticket(BATCH, valid="1s")
        forged = {**ticket, "ticket": ticket["ticket"].replace('"pilots":2', '"pilots":9')}
        self.assertNotEqual(forged, ticket)
        self.submit(forged, "n01", 77)
        of_another = {**ticket, "ticket": ticket["ticket"].replace(BATCH, TRAIN)}
        self.submit(of_another, "n01", 77)
        self.submit(ticket, "n01")
        self.ask({"do": "end", "ticket": ticket})
        self.submit(ticket, "n02", 77)
        time.sleep(1)
        self.submit(stale, "n02", 77)
        # The key may end before the ticket.
        self.site.keys_of_helper(" until 2026-01-01T00:00:00Z")
        self.submit(self.site.ticket(TRAIN), "n02", 77)
        self.assertEqual(len(self.jobs()), 1)
        counted_refusals = self.refusals()
        for line in ('{cause="forged"} 2', '{cause="replayed"} 1', '{cause="stale"} 1', '{cause="key ended"} 1'):
            self.assertIn(line, counted_refusals)

    def refusals(self) -> str:
        return self.site.root("cat", "/etc/pilot-helper/refused.prom", check=False)

    def test_control_calls_the_helper_and_nodes_change_hands(self):
        self.site.agents()
        self.configure(CALLS_HELPER, ALL_USERS, OPERATORS)
        self.lacuna.restart("ingest")
        self.lacuna.restart("control")
        time.sleep(3)
        self.assertEqual(self.jobs(), {}, "a pilot before any trainer has a node")
        self.site.submit_as(BATCH)
        # A program under torchrun can read its token, which it then tries for another's.
        self.site.submit_as(TRAIN, launcher="torchrun")
        names = {owner: f"of-{owner}" for owner in (BATCH, TRAIN)}

        def leased() -> dict[str, set[str]]:
            return {owner: self.lacuna.leased(name) for owner, name in names.items()}

        until("both train, each on half of the nodes", 120, lambda: all(len(nodes) == 2 for nodes in leased().values()))
        for owner, name in names.items():
            until("rank 0 has done steps", 60, lambda name=name: len(self.lacuna.steps(name)) >= 10)
            # The program's files and processes, and the scheduler's jobs, are the owner's.
            self.assertEqual(self.site.root("stat", "-c", "%U", f"/shared/{name}/steps.jsonl").strip(), owner)
            for node in self.lacuna.leased(name):
                container = self.cluster.layout.container(node)
                said = self.cluster.docker_exec(container, "ps", "-eo", "user:16,args", "--no-headers").stdout
                users = {line.split()[0] for line in said.splitlines() if "counted.py" in line}
                self.assertEqual(users, {owner}, node)
        self.assertEqual(sorted(self.jobs().values()), sorted([BATCH] * 2 + [TRAIN] * 2))
        self.attacked(names[BATCH], leased())
        # Its nodes go to the other: program, pilot, pilot, program.
        before = leased()[BATCH]
        started = time.monotonic()
        self.lacuna.ask("cancel", names[BATCH])
        until("the other trains on all nodes", 120, lambda: leased()[TRAIN] == self.names)
        print(f"\n    {len(before)} nodes trained for another owner {time.monotonic() - started:.1f} s after the end")
        self.assertEqual(set(self.jobs().values()), {TRAIN})
        over = self.site.root("squeue", "-h", "-p", "filler", "-t", "all", "-o", "%u").split()
        self.assertGreaterEqual(over.count(BATCH), 2)
        self.assertGreaterEqual(over.count(TRAIN), 4)
        # The ticket of a trainer that is over is refused, also of the helper itself.
        book = "/var/lib/lacuna-pilot-helper/book.json"
        until("the helper has heard of the end", 30, lambda: names[BATCH] in self.site.root("cat", book))
        # Control that starts again finds the pilots of all owners.
        pilots = set(self.lacuna.pilots())
        wide = lambda: [row for row in self.lacuna.steps(names[TRAIN]) if row["world"] == 4]  # noqa: E731
        steps = until("all nodes do steps", 60, wide)
        self.lacuna.restart("control")
        until("it trains on all nodes again", 60, lambda: leased()[TRAIN] == self.names)
        self.assertEqual(set(self.lacuna.pilots()), pilots)
        # torchrun has trained on without the store of the control before.
        until("it does steps", 20, lambda: len(wide()) >= len(steps) + 40)
        self.assertEqual(wide()[-1]["run"], steps[-1]["run"])
        # A batch job takes a node of another owner's pilot as before.
        took = self.batch_seconds()
        print(f"    a batch job of one node took {took:.2f} s")
        until("it trains on all nodes again", 120, lambda: leased()[TRAIN] == self.names)
        self.lacuna.ask("cancel", names[TRAIN])
        until("no pilot is left", 60, lambda: not self.lacuna.pilots())

    # --- a shell of another user on a node

    def attacked(self, trainer: str, leased: dict[str, set[str]]) -> None:
        """TRAIN tries everything on a node of BATCH's, and reaches nothing."""
        node, own = min(leased[BATCH]), min(leased[TRAIN])
        self.site.file("/shared/evil.toml", counted("evil") + f'owner = "{BATCH}"\n')
        token = self.on(own, TRAIN, "bash", "-c", OWN_TOKEN).strip()
        self.on(node, TRAIN, "bash", "-c", BRINGS)
        facts = {
            "victim": BATCH,
            "trainer": trainer,
            "node": node,
            "job": next(iter(self.jobs(node))),
            "private": [f"/tmp/owner-{BATCH}", f"/shared/{trainer}", *(f"/shared/keys-{BATCH}/{key}.toml" for key in (BATCH, f"agent-{node}"))],
            "store": "ctl:29400",
            "token": token,
            "bus": "ctl:4222",
            "identity": self.site.identity(TRAIN),
            "agent": f"/shared/keys-{TRAIN}/agent-{own}.toml",
            "own_config": "/tmp/evil/lacuna.toml",
            "own_helper": "/tmp/evil/helper.toml",
            "forged": "/shared/evil.toml",
        }
        refusals, run = self.refusals(), self.lacuna.steps(trainer)[-1]["run"]
        started = time.monotonic()
        said = self.tried(node, TRAIN, facts)
        took = time.monotonic() - started
        print(f"\n    a shell of {TRAIN} on {node}, where {BATCH}'s pilot runs; {took:.0f} s:")
        for name, one in said.items():
            print(f"    | {name} | {one['tries']} | {'; '.join(one['answers'])[:160]} |")
        self.assertEqual({name: one["reached"] for name, one in said.items() if one["reached"]}, {})
        # The same acts reach something where they may.
        for name, one in self.tried(node, BATCH, {**facts, "harmless": True}).items():
            self.assertNotEqual(one["reached"], [], name)
        # Training went on as it was, the store has counted, and nothing has reached the helper.
        steps = len(self.lacuna.steps(trainer))
        until("the victim trains on", 20, lambda: len(self.lacuna.steps(trainer)) >= steps + 5)
        self.assertEqual(self.lacuna.steps(trainer)[-1]["run"], run)
        self.assertGreater(self.lacuna.metric("lacuna_control_store_refused_total"), 0)
        self.assertEqual(self.refusals(), refusals)

    def on(self, node: str, user: str, *command: str) -> str:
        """The output of a command in a user's shell on a node."""
        return self.cluster.docker_exec(self.cluster.layout.container(node), *command, user=user, limit=180).stdout

    def tried(self, node: str, user: str, facts: dict) -> dict:
        return json.loads(self.on(node, user, "python3", ATTACKER, json.dumps(facts)))
