"""With slurmdbd and preemption by QOS: the snippet of `lacuna check slurm` is sufficient for such a
site, slurmrestd is as good a source as `squeue` and `sinfo`, owners' pilots are in their accounts,
`sreport` says what of a month was pilots, and neither slurmdbd that is away nor a wrong QOS harms jobs."""

import json
import shlex
import time

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

    def test_4_sreport_tells_pilots_by_their_account(self):
        self.prepared()
        self.train("reported")
        self.cluster.ctl("srun", "-Q", "-p", "batch", "-N2", "sleep", "5", user=BATCH)
        time.sleep(10)
        self.lacuna.ask("cancel", "reported")
        self.nothing_is_left()
        until("accounting has all ends", 30, lambda: "RUNNING" not in self.sacct("state"))
        self.an_hour_passes()
        used = {}
        for row in self.sacct("account", "cputimeraw").splitlines():
            account, seconds = row.split("|")
            used[account] = used.get(account, 0) + int(seconds)
        hours = ["start=" + self.date("2 hours ago"), "end=" + self.date("now")]
        words = ["sreport", "-n", "-P", "-t", "seconds", "cluster"]
        report = self.cluster.ctl(*words, "AccountUtilizationByUser", "accounts=lacuna", *hours, "format=login,used").stdout
        # The first row is the account's, the others are its users'.
        said = dict(line.split("|") for line in reversed(report.splitlines()))
        print(f"\n    sreport: {said}, sacct: {used}")
        self.assertEqual(int(said[""]), used["lacuna"])
        self.assertEqual(int(said[PILOT]), used["lacuna"])
        # The utilization of the cluster has both: what is not the pilots' is the batch jobs'.
        whole = self.cluster.ctl(*words, "utilization", *hours, "format=allocated").stdout
        self.assertAlmostEqual(int(whole) - int(said[""]), sum(used.values()) - used["lacuna"], delta=4)

    def test_5_nothing_waits_for_slurmdbd(self):
        self.prepared()
        self.often()
        self.train("unwritten")
        pilots = self.lacuna.pilots()
        self.slurmdbd(False)
        self.addCleanup(self.slurmdbd, True)
        until("control knows", 30, lambda: "start slurmdbd" in self.said_by_check())
        self.assertEqual(self.check()["accounting"], "unknown")
        # Longer than several of control's checks.
        time.sleep(8)
        self.assertEqual(self.lacuna.pilots(), pilots)
        self.assertLess(self.batch_seconds(), MOST)
        until("it trains on all nodes again", 60, lambda: self.lacuna.leased("unwritten") == self.names)
        self.lacuna.restart("control")
        until("it trains on under another control", 60, lambda: self.lacuna.leased("unwritten") == self.names)
        self.assertEqual(len(set(pilots) & set(self.lacuna.pilots())), 3)
        self.slurmdbd(True)
        until("the check is whole again", 30, lambda: self.check()["accounting"] == "ok")
        # What ended meanwhile is in the accounts: slurmctld has kept it.
        ended = (set(pilots) - set(self.lacuna.pilots())).pop()
        until("its end is known", 60, lambda: "PREEMPTED" in self.cluster.ctl("sacct", "-X", "-n", "-j", ended, "-o", "state").stdout)
        self.lacuna.ask("cancel", "unwritten")
        self.nothing_is_left()

    def test_6_a_qos_that_is_wrong_under_pilots_harms_no_batch_job(self):
        self.prepared()
        self.often()
        self.train("governed")
        with self.subTest("limits are said, and those that run go on"):
            self.accounts("modify", "qos", "holes", "set", "MaxJobsPerUser=3")
            self.addCleanup(self.accounts, "modify", "qos", "holes", "set", "MaxJobsPerUser=-1")
            until("the check says it", 30, lambda: self.check()["qos limits"] == "warning")
            self.assertEqual(self.lacuna.leased("governed"), self.names)
            self.assertLess(self.batch_seconds(), MOST)
            until("three go on", 30, lambda: len(self.lacuna.leased("governed")) == 3)
            time.sleep(5)
            self.assertLess(self.batch_seconds(), MOST)
            self.accounts("modify", "qos", "holes", "set", "MaxJobsPerUser=-1")
            until("all nodes train again", 90, lambda: self.lacuna.leased("governed") == self.names)
        wrongs = {
            "no QOS preempts it": (("normal", "Preempt="), ("normal", "Preempt=holes")),
            "it is not to be preempted": (("holes", "PreemptExemptTime=1:00:00"), ("holes", "PreemptExemptTime=0")),
        }
        for what, (wrong, right) in wrongs.items():
            with self.subTest(what):
                self.addCleanup(self.accounts, "modify", "qos", right[0], "set", right[1])
                self.accounts("modify", "qos", wrong[0], "set", wrong[1])
                until("no pilot is left", 60, lambda: not self.lacuna.pilots())
                self.assertLess(self.batch_seconds(), MOST)
                self.accounts("modify", "qos", right[0], "set", right[1])
                until("all nodes train again", 120, lambda: self.lacuna.leased("governed") == self.names)
        with self.subTest("it is not there"):
            self.accounts("modify", "user", PILOT, "set", "qos=normal", "defaultqos=normal")
            self.accounts("delete", "qos", "holes")
            self.addCleanup(self.apply_snippet)
            until("no pilot is left", 60, lambda: not self.lacuna.pilots())
            self.assertLess(self.batch_seconds(), MOST)
            self.apply_snippet()
            self.accounts("modify", "user", PILOT, "set", "qos=holes", "defaultqos=holes")
            until("all nodes train again", 120, lambda: self.lacuna.leased("governed") == self.names)
        self.lacuna.ask("cancel", "governed")
        self.nothing_is_left()

    def often(self) -> None:
        """Control checks Slurm every two seconds, and tries nodes again soon."""
        self.configure(('mode = "on"', 'mode = "on"\ncheck_every = "2s"'), ('rest = "3s"', 'rest = "3s"\nbackoff_max = "10s"'))
        self.lacuna.restart("control")

    def said_by_check(self) -> str:
        return self.cluster.ctl("lacuna", "check", "slurm", *NAMES, user=PILOT, check=False).stdout

    def sacct(self, *fields: str) -> str:
        """These fields of all jobs of the last two hours."""
        words = ["sacct", "-X", "-a", "-n", "-P", "-S", "now-2hours", "-o", ",".join(fields)]
        return self.cluster.ctl(*words).stdout

    def date(self, when: str) -> str:
        """The full hour before a moment, on the controller's clock."""
        return self.cluster.ctl("date", "-d", when, "+%Y-%m-%dT%H:00:00").stdout.strip()

    def slurmdbd(self, wanted: bool) -> None:
        """Starts slurmdbd, or ends it as a service manager does."""
        if wanted:
            own = "SLURM_CONF=/etc/slurmdbd/slurm.conf setpriv --reuid=slurm --regid=slurm --init-groups"
            self.cluster.ctl("bash", "-c", f"pidof slurmdbd || {own} slurmdbd")
            until("sacctmgr answers", 30, lambda: self.cluster.ctl("sacctmgr", "-n", "show", "qos", check=False).returncode == 0)
        else:
            self.cluster.ctl("bash", "-c", "kill $(pidof slurmdbd); while pidof slurmdbd; do sleep 0.1; done")

    def an_hour_passes(self) -> None:
        """slurmdbd sums up an hour once it is over. So all that it knows is put back by one, and it starts
        again, which sums up at once."""
        self.slurmdbd(False)
        before = self.date("3 hours ago")
        back = [
            "UPDATE lacuna_job_table SET time_submit=time_submit-3600, time_eligible=time_eligible-3600,"
            " time_start=time_start-3600, time_end=time_end-3600 WHERE time_end>0",
            "UPDATE lacuna_event_table SET time_start=time_start-14400",
            "UPDATE lacuna_assoc_table SET creation_time=creation_time-14400",
            f"UPDATE lacuna_last_ran_table SET hourly_rollup=UNIX_TIMESTAMP('{before}'), daily_rollup=hourly_rollup, monthly_rollup=hourly_rollup",
        ]
        self.cluster.ctl("mariadb", "slurm_acct_db", "-e", "; ".join(back))
        self.slurmdbd(True)
        rows = "SELECT COUNT(*) FROM lacuna_assoc_usage_hour_table"
        until("it has summed up", 60, lambda: int(self.cluster.ctl("mariadb", "-N", "slurm_acct_db", "-e", rows).stdout) > 0)

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
