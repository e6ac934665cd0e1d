#!/usr/bin/env python3
"""Reboots under the composition of `make up`: `make reboot`.

A Docker engine of its own, in namespaces that end with it, runs the composition. After each command on keys
every container is killed, the engine is stopped and started, and it loses power: engine and containers
get SIGKILL. Then the bus's disk fills up, which health and commands must say, and has room again, by one and by
three tries, and all containers are stopped and started in several orders. Each time all must be healthy again without a hand, and a trainer
that was submitted first still be known. All of it runs with umask 077, as administrators' shells do. Prints
the seconds of each. Needs root, Docker and the binaries of `make build`.

Exit codes: 0 all came back (or SKIPPED), 1 something stayed down.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from not_run import ROOT, left_out

# All must be healthy again within these seconds.
LIMIT = 120.0
# Arguments of up.sh; each fault has a user of its own.
COMMANDS = {
    "add-user": "keys add-user {user} --role researcher",
    "revoke": "keys revoke {user}",
    "renew-tls": "keys renew-tls",
    "up again": "up",
}
# The disk of the bus, MB, and the writes that fill it, bytes.
DISK = 64
PIECE = 1 << 16
# Orders in which containers are started.
ORDERS = 3
TRAINER = {"name": "kept", "submit": 0, "min_nodes": 1, "max_nodes": 2, "rescale_up_s": 0, "rescale_down_s": 0}
TRAINER |= {"samples": 1e9, "nodes": [1, 2], "samples_per_s": [1, 2]}


class Failed(Exception):
    """Something stayed down, or a command failed."""


def run(*command: str, limit: float = 300.0, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT, **more)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Failed(f"{' '.join(command)}: {done.returncode}: {tail}")
    return done.stdout


class Engine:
    """A Docker engine in a folder. Its processes, mounts and networks end with it."""

    def __init__(self, folder: Path):
        self.folder, self.process = folder, None
        self.boots = 0

    def start(self) -> None:
        # What lies in /run is gone after a reboot.
        self.boots += 1
        run_folder = self.folder / f"run-{self.boots}"
        run_folder.mkdir()
        paths = ["--data-root", str(self.folder / "root"), "--exec-root", str(run_folder), "--pidfile", str(run_folder / "pid")]
        apart = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = 'ip link set lo up; dockerd "$@" & wait'
        with open(self.folder / "dockerd.log", "ab") as log:
            words = [*apart, "sh", "-c", script, "sh", *paths, "-H", os.environ["DOCKER_HOST"]]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                tail = (self.folder / "dockerd.log").read_text().splitlines()[-5:]
                raise Failed("\n".join(["the engine does not start:", *tail]))
            time.sleep(0.2)

    def inside(self, *command: str) -> str:
        """A command among the processes and in the network of the engine."""
        first = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0]
        return run("nsenter", "--net", "--mount", "--pid", f"--wdns={ROOT}", "--target", first, *command)

    def stop(self) -> None:
        self.inside("kill", (self.folder / f"run-{self.boots}" / "pid").read_text())
        self.process.wait(60)

    def lose_power(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(60)


def pids() -> list[tuple[str, int]]:
    """Name and process of each container."""
    found = run("docker", "ps", "-aq").split()
    lines = run("docker", "inspect", "-f", "{{.Name}} {{.State.Pid}}", *found).splitlines()
    return [(name.lstrip("/"), int(pid)) for name, pid in map(str.split, lines)]


def ill() -> list[str]:
    """Containers that do not run, or are not healthy."""
    found = run("docker", "ps", "-aq").split()
    state = "{{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{else}}healthy{{end}}"
    lines = run("docker", "inspect", "-f", state, *found).splitlines()
    return [line.lstrip("/") for line in lines if line.split()[1:] != ["running", "healthy"]]


class Site:
    """The composition in an engine of its own."""

    def __init__(self, folder: Path):
        self.engine, self.folder = Engine(folder), folder

    def up(self) -> None:
        # The bus's volume is a small disk of its own, which outlives engines. An engine whose folder is no
        # mount would mount it upon itself, and hide the disk.
        root = self.folder / "root"
        self.disk = root / "volumes" / f"{os.environ['COMPOSE_PROJECT_NAME']}_nats-data" / "_data"
        self.disk.mkdir(parents=True)
        run("mount", "--bind", str(root), str(root))
        run("mount", "-t", "tmpfs", "-o", f"size={DISK}m,mode=0755,uid=10002,gid=10002", "bus", str(self.disk))
        self.engine.start()
        run("docker", "load", "-i", str(self.folder / "base.tar"))
        run("deploy/up.sh", "up", limit=900)
        file = self.folder / "trainer.jsonl"
        file.write_text(json.dumps(TRAINER))
        self.lacuna("submit", str(file))

    def lacuna(self, *words: str) -> str:
        keys = self.folder / "state" / os.environ["COMPOSE_PROJECT_NAME"] / "keys" / "main"
        return self.engine.inside(str(ROOT / "target/release/lacuna"), *words, "--identity", str(keys / "operator.toml"))

    def faults(self) -> list[str]:
        """What is not as it should be."""
        found = ill()
        try:
            return found if found or "kept" in self.lacuna("trainers") else ["the trainer is forgotten"]
        except Failed as failed:
            return [str(failed)]

    def kill(self) -> None:
        self.engine.inside("kill", "-9", *(str(pid) for _, pid in pids()))

    def restart(self) -> None:
        self.engine.stop()
        self.engine.start()

    def lose_power(self) -> None:
        self.engine.lose_power()
        self.engine.start()

    def full(self) -> None:
        """The disk of the bus is full until the health of its writers says so, then has room again."""
        fill, started = self.disk / "fill", time.monotonic()
        with open(fill, "wb", buffering=0) as file:
            try:
                while file.write(bytes(PIECE)):
                    pass
            except OSError:
                pass
        try:
            for where, says in {"/healthz": self.control_says, "`lacuna trainers`": self.command_says}.items():
                while "its disk may be full" not in (said := says()):
                    if time.monotonic() - started > LIMIT:
                        raise Failed(f"{where} does not say within {LIMIT:.0f} s that the disk is full: {said}")
                    time.sleep(0.5)
        finally:
            fill.unlink()

    def command_says(self) -> str:
        """What a command says that fails; empty while none does."""
        try:
            self.lacuna("trainers")
        except Failed as failed:
            return str(failed)
        return ""

    def control_says(self) -> str:
        """The answer of control's /healthz; empty while it has no container."""
        ours = ["--filter", "label=com.docker.compose.service=control"]
        script = "exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3; timeout 3 cat <&3"
        found = run("docker", "ps", "-q", *ours).split()
        words = ["docker", "exec", *found, "bash", "-c", script]
        return subprocess.run(words, capture_output=True, text=True).stdout if found else ""

    def full_thrice(self) -> None:
        for _ in range(3):
            self.full()

    def start_in_order(self, seed: int) -> None:
        names = sorted(name for name, _ in pids())
        random.Random(seed).shuffle(names)
        run("docker", "stop", "-t", "20", *names)
        for name in names:
            run("docker", "start", name)

    def back(self, after: str, fault: str, happen, ended: bool) -> dict:
        """Seconds from the end of a fault until all is healthy and control answers. `ended`: it ends every
        container."""
        before = set(pids())
        started = time.monotonic()
        happen()
        if not ended:
            # The fault lasts; what counts is the time after it.
            started = time.monotonic()
        while (wrong := self.faults()) or (ended and before & set(pids())):
            if time.monotonic() - started > LIMIT:
                raise Failed(f"{after}, {fault}: not back within {LIMIT:.0f} s: {'; '.join(wrong)}")
            time.sleep(0.5)
        return {"after": after, "fault": fault, "seconds": round(time.monotonic() - started, 1)}

    def all(self):
        """Each fault, and how long it lasts."""
        faults = [("containers killed", self.kill), ("engine restarted", self.restart), ("power lost", self.lose_power)]
        for place, (fault, happen) in enumerate(faults):
            for command, words in COMMANDS.items():
                run("deploy/up.sh", *words.format(user=f"user-{place}").split())
                yield self.back(command, fault, happen, ended=True)
        yield self.back("room again", "disk full, once", self.full, ended=False)
        yield self.back("room again", "disk full, 3 times", self.full_thrice, ended=False)
        for seed in range(ORDERS):
            yield self.back("the last one", f"started in order {seed}", lambda seed=seed: self.start_in_order(seed), ended=False)


def reboots(folder: Path, as_json: bool) -> int:
    os.environ |= {
        "DOCKER_HOST": f"unix://{folder}/sock",
        "COMPOSE_PROJECT_NAME": "lacuna-reboot",
        "COMPOSE_PROFILES": "core",
        "LACUNA_STATE": str(folder / "state"),
        "LACUNA_SKIP_CARGO": "1",
    }
    site, rows = Site(folder), []
    try:
        site.up()
        for row in site.all():
            rows.append(row)
            if not as_json:
                print("{after:<12} {fault:<18} all healthy after {seconds:5.1f} s".format(**row), flush=True)
    except Failed as failed:
        print(f"reboot: {failed}", file=sys.stderr)
        return 1
    finally:
        site.engine.lose_power()
        subprocess.run(["umount", "-R", "-l", str(folder / "root")], capture_output=True)
    if as_json:
        print(json.dumps({"rows": rows}))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="kills and reboots after each command on keys")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of lines")
    args = parser.parse_args()
    base = os.environ.get("LACUNA_BASE_IMAGE", "debian:bookworm-slim")
    lacking = [name for name in ("docker", "dockerd", "unshare", "nsenter", "ip") if not shutil.which(name)]
    if os.geteuid() != 0 or lacking:
        what = f"not installed: {', '.join(lacking)}" if lacking else "not root"
        return left_out("docker", "reboot", what, "root, docker.io, docker-compose, iproute2")
    os.umask(0o077)
    folder = Path(tempfile.mkdtemp(prefix="lacuna-reboot-"))
    try:
        saved = subprocess.run(["docker", "save", "-o", str(folder / "base.tar"), base], capture_output=True, text=True)
        if saved.returncode != 0:
            return left_out("docker", "reboot", f"no image {base}", "deploy/up.sh base-image")
        return reboots(folder, args.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
