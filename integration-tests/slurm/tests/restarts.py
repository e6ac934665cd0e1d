"""slurmctld, the bus, control: each is killed while training goes on. Their clocks jump, too."""

import time
from pathlib import Path

from cluster import run
from lacuna_beside import PILOT, until
from tests.common import WithLacuna


class Restarts(WithLacuna):
    def killed(self, name: str, kill) -> None:
        """Training goes on over it, and the cluster is whole again."""
        self.train(name)
        before = len(self.lacuna.steps(name))
        pilots = self.lacuna.pilots()
        killed = time.monotonic()
        kill()
        until("steps go on", 60, lambda: len(self.lacuna.steps(name)) > before + 20)
        print(f"    20 steps {time.monotonic() - killed:.1f} s after the kill")
        # Long enough for requests to the restarted service.
        time.sleep(3)
        until("it trains on all nodes", 60, lambda: self.lacuna.leased(name) == self.names)
        after = len(self.lacuna.steps(name))
        until("steps go on still", 60, lambda: len(self.lacuna.steps(name)) > after + 20)
        # Pilots were adopted: neither ended nor doubled.
        self.assertEqual(self.lacuna.pilots(), pilots)
        # And a batch job starts as before; training goes on without its node.
        whole = len(self.lacuna.steps(name))
        self.cluster.ctl("srun", "-Q", "-w", "n02", "-p", "batch", "sleep", "2", user="alice")
        until("steps go on after it", 30, lambda: len(self.lacuna.steps(name)) > whole + 20)
        steps = self.steps_hold(name)
        print(f"    longest stall {max(b['t'] - a['t'] for a, b in zip(steps, steps[1:])):.2f} s")
        self.assertIn(3, {s["world"] for s in steps[whole:]})
        self.lacuna.ask("cancel", name)
        self.nothing_is_left()

    def end_slurmctld(self, signal: str) -> None:
        self.cluster.ctl("bash", "-c", f"kill -{signal} $(cat /run/slurm/slurmctld.pid)")
        self.cluster.wait_answers(30)

    def test_slurmctld_is_restarted(self):
        self.killed("noslurm", lambda: self.end_slurmctld("TERM"))

    def test_slurmctld_is_killed(self):
        def kill():
            # Slurm saves its state every five seconds. Of jobs that it has forgotten it drains the
            # nodes ("Duplicate jobid"), pilots or not.
            time.sleep(7)
            self.end_slurmctld("KILL")

        self.killed("deadslurm", kill)

    def test_the_bus_is_killed(self):
        self.killed("nobus", lambda: self.lacuna.services("kill", "nats"))

    def test_control_is_killed(self):
        self.killed("nocontrol", lambda: self.lacuna.services("kill", "control"))

    def test_all_services_are_killed_at_once(self):
        def kill():
            for name in ("control", "planner", "forecast", "ingest", "nats"):
                self.lacuna.services("kill", name)

        self.killed("nothing", kill)

    def test_wall_clocks_jump_two_hours_ahead_and_back(self):
        """Those of Lacuna's services, beside a Slurm whose clock is right."""
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        if library is None:
            self.skipTest("no libfaketime: apt-get install libfaketime")
        run("docker", "cp", str(library), f"{self.cluster.layout.container('ctl')}:/opt/faketime.so")
        clock = "/var/lib/lacuna/clock"
        self.lacuna.stop()
        self.lacuna.write(clock, "+0")
        env = ["LD_PRELOAD=/opt/faketime.so", f"FAKETIME_TIMESTAMP_FILE={clock}"]
        env += ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
        self.cluster.ctl("env", *env, "/test-cluster/services.sh", "start", user=PILOT)
        until("control answers", 30, lambda: self.lacuna.ask("nodes", check=False) is not None)
        began = time.monotonic()

        def jump():
            for shift in ("+7200", "+0"):
                self.lacuna.write(clock, shift)
                time.sleep(8)
                report = self.lacuna.ask("report")
                print(f"    {shift} s: it is {report['until']}")
                self.assertLess(report["harvested_node_s"], 4 * (time.monotonic() - began))
                self.assertEqual(self.lacuna.leased("timeless"), self.names)

        self.killed("timeless", jump)
