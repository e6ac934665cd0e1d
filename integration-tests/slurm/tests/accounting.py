"""With slurmdbd and preemption by QOS: the snippet of `lacuna check slurm` is sufficient for such a
site, slurmrestd is as good a source as `squeue` and `sinfo`, and owners' pilots are in their accounts."""

import json
import shlex

from helper_site import HelperSite
from lacuna_beside import BATCH, PILOT, TRAIN, until
from slurm_conf import changed
from tests.common import WithLacuna

# Names of the site's QOS, account and partition for pilots.
NAMES = ["--partition", "filler", "--qos", "holes", "--account", "lacuna"]
INGEST = 9471
REST = "/shared/slurmrestd.sock"
# Slurm waits five seconds for a program that ignores SIGTERM; an undisturbed preemption takes tenths of one.
MOST = 2.0


class Accounting(WithLacuna):
    def check(self) -> dict[str, str]:
        """The worst verdict on each condition of the live cluster."""
        said = self.cluster.ctl("lacuna", "check", "slurm", *NAMES, "--json", user=PILOT, check=False)
        order = ["ok", "unknown", "warning", "fatal"]
        worst: dict[str, str] = {}
        for each in json.loads(said.stdout)["findings"]:
            before = worst.get(each["condition"], "ok")
            worst[each["condition"]] = max(before, each["verdict"], key=order.index)
        return worst

    def apply_snippet(self) -> None:
        """Applies the snippet, as an administrator would."""
        text = self.cluster.ctl("lacuna", "check", "slurm", *NAMES, "--snippet", user=PILOT).stdout
        conf = self.cluster.layout.state / "etc/slurm.conf"
        conf.write_text(changed(conf.read_text(), text))
        for line in text.splitlines():
            if line.startswith("sacctmgr "):
                words = shlex.split(line.replace("$PILOT_USER", PILOT))
                said = self.cluster.ctl(*words, check=False)
                # A repetition changes nothing, and reports this.
                self.assertTrue(said.returncode == 0 or "Nothing" in said.stdout + said.stderr, f"{line}: {said}")
        self.cluster.ctl("scontrol", "reconfigure")

    def prepared(self) -> None:
        """A site with the snippet applied, and control with its settings."""
        self.apply_snippet()
        self.configure(('partition = "filler"\nagent_config', 'partition = "filler"\nqos = "holes"\naccount = "lacuna"\nagent_config'))
        self.lacuna.restart("control")

    def preempted(self, name: str) -> None:
        """Training on all nodes makes way for batch jobs, and comes back."""
        self.train(name)
        pilots = set(self.lacuna.pilots())
        took = self.batch_seconds()
        print(f"\n    a batch job of one node took {took:.2f} s")
        self.assertLess(took, MOST)
        until("it trains on all nodes again", 60, lambda: self.lacuna.leased(name) == self.names)
        ended = pilots - set(self.lacuna.pilots())
        self.assertEqual(len(ended), 1)
        said = self.cluster.ctl("squeue", "-h", "-t", "all", "-j", ended.pop(), "-o", "%T|%q|%a").stdout.strip()
        self.assertEqual(said, "PREEMPTED|holes|lacuna")
        self.lacuna.ask("cancel", name)
        self.nothing_is_left()

    def test_1_the_snippet_makes_pilots_harmless(self):
        before = self.check()
        self.assertEqual(before["accounting"], "fatal", before)
        self.prepared()
        after = self.check()
        self.assertNotIn("fatal", after.values(), after)
        for condition in ("accounting", "reservation", "preempting qos", "preempt mode"):
            self.assertEqual(after[condition], "ok", after)
        self.preempted("byqos")

    def test_2_slurmrestd_is_a_source(self):
        self.prepared()
        # slurmrestd without privileges cannot unshare name spaces, so it must not try.
        alone = "SLURMRESTD_SECURITY=disable_unshare_sysv,disable_unshare_files"
        serve = f"rm -f {REST}; {alone} slurmrestd -a rest_auth/local unix:{REST} >/shared/slurmrestd.log 2>&1 & echo $!"
        pid = self.cluster.ctl("bash", "-c", serve, user=PILOT).stdout.strip()
        self.addCleanup(self.cluster.ctl, "kill", pid, check=False)
        ask = ["curl", "-sS", "--fail", "--unix-socket", REST]
        lines = [
            f"{name} = {json.dumps([*ask, f'http://localhost/slurm/v0.0.38/{what}'])}\n"
            for name, what in (("sinfo", "nodes"), ("squeue", "jobs"))
        ]
        self.configure(("[ingest.slurm.pilots]", f'[ingest.slurm]\nanswers = "json"\n{"".join(lines)}\n[ingest.slurm.pilots]'))
        self.lacuna.restart("ingest")
        self.answers("hole", 4)
        self.preempted("byrest")
        # A job of others is one in JSON as well; and nothing has been refused all the while.
        self.cluster.ctl("bash", "-c", "srun -Q -w n02 -p batch sleep 4 &", user="alice")
        self.answers("taken", 1)
        self.answers("hole", 4)
        self.assertEqual(self.lacuna.metric("lacuna_ingest_scheduler_stale", INGEST), 0.0)

    def test_3_each_owners_jobs_are_theirs_and_their_limits_apply(self):
        self.apply_snippet()
        # The snippet lets one account into the partition; here the pilots are in those of their owners.
        self.partition("AllowAccounts=lacuna,science,physics")
        self.accounts("add", "account", "physics", "Description=physics")
        self.accounts("add", "user", TRAIN, "account=physics")
        for owner in (BATCH, TRAIN):
            self.accounts("modify", "user", owner, "set", "qos+=holes")
        self.accounts("modify", "user", TRAIN, "set", "MaxSubmitJobs=1")
        self.addCleanup(self.accounts, "modify", "user", TRAIN, "set", "MaxSubmitJobs=-1")
        site = HelperSite(self.cluster, self.lacuna)
        site.keys()
        site.helper('qos = "holes"\n')
        jobs: dict[str, list[str]] = {BATCH: [], TRAIN: []}
        for owner, node in ((BATCH, "n01"), (TRAIN, "n02"), (BATCH, "n03")):
            done = site.submit(site.ticket(owner), node)
            self.assertEqual(done.returncode, 0, done.stderr)
            jobs[owner].append(done.stdout.strip().split(";")[0])
        # The second job of an owner who may have one.
        denied = site.submit(site.ticket(TRAIN), "n04")
        self.assertIn("AssocMaxSubmitJobLimit", denied.stderr)
        until("all run", 30, lambda: {state for state, _ in self.lacuna.pilots().values()} == {"RUNNING"})
        for owner, theirs in jobs.items():
            site.ask({"do": "cancel", "owner": owner, "jobs": theirs})
        print("\n    | job | user | account | qos | state | nodes |")
        accounts = {BATCH: "science", TRAIN: "physics"}
        for owner, theirs in jobs.items():
            rows = until("accounting has them", 30, lambda owner=owner, count=len(theirs): self.over(owner, count))
            print(*(f"    | {' | '.join(row)} |" for row in rows), sep="\n")
            self.assertEqual([row[0] for row in rows], theirs)
            expected = {(owner, accounts[owner], "holes", f"CANCELLED by {self.uid(owner)}")}
            self.assertEqual({tuple(row[1:5]) for row in rows}, expected)

    def accounts(self, *words: str) -> None:
        self.cluster.ctl("sacctmgr", "-i", "-n", *words, check=False)

    def uid(self, user: str) -> str:
        return self.cluster.ctl("id", "-u", user).stdout.strip()

    def over(self, owner: str, count: int) -> list[list[str]]:
        """The pilots of an owner that are over, once the database has this number."""
        fields = "jobid,user,account,qos,state,nodelist"
        said = self.cluster.ctl("sacct", "-X", "-n", "-P", "-u", owner, "-r", "filler", "-S", "now-1hour", "-o", fields)
        rows = [line.split("|") for line in said.stdout.splitlines()]
        return rows if [row[4].split()[0] for row in rows] == ["CANCELLED"] * count else []

    def answers(self, standing: str, nodes: int) -> None:
        """Waits until the scheduler's newest answer has this number of nodes in a state."""
        series = f'lacuna_ingest_scheduler_nodes{{standing="{standing}"}}'
        until(f"{nodes} nodes: {standing}", 15, lambda: self.lacuna.metric(series, INGEST) == nodes)
