"""A whole secure cluster of a given binary, in which an honest user trains."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

from bus import Key
from programs import REGROUPING

NODES = ["n1", "n2", "n3", "n4"]
# Seconds that a program has after SIGTERM, and in which its node must be free of it: the machine of
# the tests may be busy.
GRACE, IN_TIME = 1, 8
# People and agents that get a key beside the services and the operator.
PEOPLE = {"ann": "researcher", "eve": "researcher", "boss": "operator", "obs": "observer", "slurm": "events"}
AGENTS = ["n1", "n9"]
SERVICES = ["control", "planner", "forecast", "ingest"]

CONFIG = f"""
[agent]
lease_timeout = "15s"
grace = "{GRACE}s"
report_every = "1s"
@AGENT
[control]
shared_account = "{pwd.getpwuid(os.geteuid()).pw_name}"
renew_every = "2s"
reconcile_every = "2s"
retry_after = "1s"
"""

TRAINER = """[[trainer]]
name = @NAME
launcher = @LAUNCHER
program = @PROGRAM
arguments = @ARGUMENTS
samples = 1e9
min_nodes = @MIN
max_nodes = @MAX
scaling = { nodes = [1, @LAST], samples_per_s = [50.0, @RATE] }
rescale = { up = "500ms", down = "500ms" }
"""


class Broken(Exception):
    """The cluster does not train before the attack begins."""


def until(what, seconds: float, step: float = 0.1):
    """The first true answer of `what`, or its last one when the time is over."""
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(step)
    return answer


def marked(*marks: str) -> dict[int, str]:
    """Processes in whose command line all these words stand. Zombies have none."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(mark in line for mark in marks):
            found[int(entry.name)] = line
    return found


def spec(
    name: str,
    program: str,
    arguments: list[str],
    low: int = 1,
    high: int = 4,
    more: str = "",
    launcher: str = "command",
) -> str:
    """A trainer's file."""
    fields = {
        "@LAUNCHER": json.dumps(launcher),
        "@NAME": json.dumps(name),
        "@PROGRAM": json.dumps(program),
        "@ARGUMENTS": json.dumps(arguments),
        "@MIN": str(low),
        "@MAX": str(high),
        "@LAST": str(max(high, 2)),
        "@RATE": f"{50.0 * max(high, 2)}",
    }
    text = TRAINER
    for field, value in fields.items():
        text = text.replace(field, value)
    return text + more + "\n"


class Cluster:
    """`lacuna up --secure` in a temporary folder; `with` stops all that it has started."""

    def __init__(self, binary: Path, agent: str = "", more: str = ""):
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="lacuna-attack-"))
        self.mark = self.folder.name
        shutil.copy(Path(__file__).parent / "programs.py", self.folder)
        self.config = self.folder / "attack.toml"
        self.config.write_text(CONFIG.replace("@AGENT", agent) + more)
        self.data = self.folder / "data"
        self.keys = self.data / "keys"
        self.up: subprocess.Popen | None = None
        self.others: list[subprocess.Popen] = []
        self.held: list = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def env(self) -> dict:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LACUNA_") or k == "LACUNA_NATS_SERVER"}
        return {**kept, "LACUNA_DATA_DIR": str(self.data)}

    def start(self) -> None:
        log = open(self.folder / "up.log", "ab")
        words = [self.binary, "up", "--secure", "--data-dir", self.data, "--config", self.config]
        self.up = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env())
        until(lambda: "up after" in self.log() or self.up.poll() is not None, 60)
        if "up after" not in self.log():
            raise Broken(f"lacuna up does not start: {self.log()[-500:]}")
        for name, role in PEOPLE.items():
            self.must("keys", "add-user", str(self.keys), name, "--role", role)
        for node in AGENTS:
            self.must("keys", "add-user", str(self.keys), f"agent-{node}", "--role", "agent", "--node", node)
        if not until(self.reads_accounts, 60):
            raise Broken("nats-server does not read the accounts again")
        self.pids = self.file()["children"]

    def reads_accounts(self) -> bool:
        """nats-server reads its accounts again. A busy one may take a signal for that of a moment before,
        and one that has just started for its end: then it is asked once more."""
        log = self.data / "logs/nats.log"

        def times() -> int:
            return log.read_text(errors="replace").count("Reloaded server configuration")

        before = times()
        os.kill(self.file()["children"]["nats"], signal.SIGHUP)
        return bool(until(lambda: times() > before, 5))

    def stop(self) -> None:
        for child in [*self.others, self.up]:
            if child and child.poll() is None:
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(30)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        # Processes that an attack has left.
        end = time.monotonic() + 10
        while (left := marked(self.mark)) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "up.log").read_text(errors="replace")

    def file(self) -> dict:
        return json.loads((self.data / "up.json").read_text())

    @property
    def url(self) -> str:
        return self.file()["nats"]

    def key(self, name: str) -> Key:
        return Key(self.keys, name)

    def everybody(self) -> list[str]:
        """All users with a key, without the services that have state of their own."""
        names = sorted(f.stem for f in (self.keys / "main").glob("*.toml"))
        return [name for name in names if name not in SERVICES]

    def lacuna(self, *words: str, user: str = "boss", limit: float = 60) -> tuple[int, str]:
        """Runs a command as a user: its exit code, and all its output."""
        command = [self.binary, *words]
        if words[0] != "keys":
            command += ["--identity", self.keys / "main" / f"{user}.toml"]
        try:
            done = subprocess.run(
                command, env=self.env(), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return 124, f"no answer within {limit} s"
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def must(self, *words: str, user: str = "boss") -> str:
        code, said = self.lacuna(*words, user=user)
        if code:
            raise Broken(f"lacuna {' '.join(words)}: {said[-300:]}")
        return said

    def event(self, kind: str, *nodes: str, ahead: float = 0) -> tuple[int, str]:
        more = []
        if ahead:
            at = datetime.now(timezone.utc) + timedelta(seconds=ahead)
            more = ["--at", at.strftime("%Y-%m-%dT%H:%M:%SZ")]
        return self.lacuna("events", "publish", kind, *nodes, *more, user="slurm")

    def submit(self, text: str, user: str = "eve", suffix: str = "toml", limit: float = 60) -> tuple[int, str]:
        path = self.folder / f"submitted.{suffix}"
        path.write_text(text)
        return self.lacuna("submit", str(path), user=user, limit=limit)

    def program(self, kind: str, name: str, **more) -> str:
        """A trainer that runs one of programs.py."""
        words = [str(self.folder / "programs.py"), kind, f"{self.mark}-{name}"]
        if kind in REGROUPING:
            more["launcher"] = "regroup"
        return spec(name, "python3", words, **more)

    def trainers(self) -> dict[str, dict]:
        code, said = self.lacuna("trainers", "--all", "--json", limit=20)
        try:
            return {t["trainer"]: t for t in json.loads(said)["trainers"]} if code == 0 else {}
        except (ValueError, KeyError):
            return {}

    def nodes_of(self, trainer: str) -> list[str]:
        return self.trainers().get(trainer, {}).get("nodes") or []

    def samples(self) -> float:
        return self.trainers().get("honest", {}).get("samples") or 0.0

    def idle(self) -> None:
        code, said = self.event("node.idle", *NODES)
        if code:
            raise Broken(f"events cannot be published: {said[-300:]}")

    def train(self, needed: int = 4) -> None:
        """The honest user trains, on all nodes if no other user trains."""
        code, said = self.submit(self.program("honest", "honest"), user="ann")
        if code:
            raise Broken(f"the honest user cannot submit: {said[-300:]}")
        if needed and not until(lambda: len(self.nodes_of("honest")) >= needed and self.samples() > 0, 60, 0.3):
            raise Broken(f"the honest user does not train: {self.lacuna('trainers')[1][-500:]}")

    def hostile(self, kind: str, more: str = "") -> str:
        """Runs a hostile program; returns its node."""
        code, said = self.submit(self.program(kind, kind, high=2, more=more))
        if code:
            raise Broken(f"a researcher cannot submit: {said[-300:]}")
        begun = f"up-{self.mark}-{kind}-@"
        found = until(lambda: [f.name.split("@")[1] for f in self.folder.glob(begun + "*")], 60)
        if not found:
            raise Broken(f"the hostile program does not start: {self.lacuna('trainers')[1][-500:]}")
        return found[0]

    def store_port(self) -> int:
        """The port on which members of a trainer meet."""
        inodes = {os.readlink(f.path) for f in os.scandir(f"/proc/{self.file()['children']['control']}/fd")}
        pages = {int(address.rsplit(":", 1)[1]) for address in self.file()["http"].values()}
        tables = ("/proc/net/tcp", "/proc/net/tcp6")
        lines = [line for table in tables for line in Path(table).read_text().splitlines()[1:]]
        for fields in (line.split() for line in lines):
            port = int(fields[1].rsplit(":", 1)[1], 16)
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes and port not in pages:
                return port
        raise Broken("control keeps no store")

    def left(self, node: str, *marks: str) -> dict[int, str]:
        """Processes of a node: programs and their guards."""
        found = marked(self.mark, *marks)
        return {pid: line for pid, line in found.items() if f"@{node}" in line or f"/{node}/" in line}

    def give_back(self, node: str, limit: float = 30) -> float | None:
        """A batch job takes a node: seconds until nothing of Lacuna runs there, if ever."""
        code, said = self.event("node.busy", node)
        begun = time.monotonic()
        gone = code == 0 and until(lambda: not self.left(node), limit, 0.02)
        return time.monotonic() - begun if gone else None

    def health(self) -> list[str]:
        """Services that do not answer or report a failed check."""
        faults = []
        for name, address in self.file()["http"].items():
            try:
                with urllib.request.urlopen(f"http://{address}/healthz", timeout=5) as answer:
                    said = json.load(answer)
            except urllib.error.HTTPError as error:
                said = json.load(error)
            except (OSError, ValueError) as error:
                faults.append(f"{name} does not answer ({error})")
                continue
            if bad := [check["name"] for check in said.get("checks", []) if not check["ok"]]:
                faults.append(f"{name} is not well: {', '.join(bad)}")
        return faults

    def deaths(self) -> list[str]:
        """Services that ended by themselves; nats-server is killed by an attack alone."""
        said = [line.strip().removeprefix("lacuna: ") for line in self.log().splitlines()]
        return [line.split(";")[0] for line in said if " died" in line and not line.startswith("nats died")]

    def metrics(self, service: str) -> str:
        """The metrics of a service."""
        address = self.file()["http"][service]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def memory(self, service: str) -> float:
        """The peak resident memory of a service, MB."""
        try:
            text = Path(f"/proc/{self.file()['children'][service]}/status").read_text()
            return int(text.split("VmHWM:")[1].split()[0]) / 1024
        except (OSError, KeyError, IndexError, ValueError):
            return 0.0


def violations(c: Cluster, owners: int = 1, node: str | None = None) -> tuple[list[str], float | None]:
    """The faults that an attack achieved, and the seconds until its node was given back."""
    if not until(c.trainers, 30, 0.5):
        return [*c.health(), *c.deaths()[:4], "control answers no request"], None
    faults, share = [], len(NODES) // owners
    seen: list[int] = []

    def kept() -> bool:
        """Whether the honest user has its share in ten polls in a row."""
        seen.append(len(c.nodes_of("honest")))
        return len(seen) >= 10 and min(seen[-10:]) >= share

    took = None
    if node:
        took = c.give_back(node)
        c.event("node.idle", node)
    if not until(kept, 60, 0.4):
        faults.append(f"the honest user has {min(seen[-10:])} of {len(NODES)} nodes, {share} are due")
    before = c.samples()
    if not until(lambda: c.samples() > before, 20, 0.5):
        faults.append("the honest user's training makes no progress")
    if not node:
        node = next(iter(c.nodes_of("honest")), NODES[0])
        if not c.left(node):
            faults.append(f"nothing runs on {node}")
        took = c.give_back(node)
    if took is None:
        faults.append(f"{node} is not given back")
    elif took > IN_TIME:
        faults.append(f"{node} is given back after {took:.1f} s, {IN_TIME} s at most are due")
    if not until(lambda: not c.health(), 20, 0.5):
        faults += c.health()
    faults += c.deaths()[:4]
    code, said = c.lacuna("trainers", user="ann")
    if code:
        faults.append(f"the honest user gets no answer: {said.strip()[-120:]}")
    return faults, took
