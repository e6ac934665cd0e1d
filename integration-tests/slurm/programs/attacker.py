"""What a user with a shell on a compute node tries against the pilot of another user there.

    attacker.py '{"victim": "alice", "job": "7", "trainer": "of-alice", ...}'

Prints a JSON object: of each act the number of tries, what they reached, and the answers of those that
were refused. An act that finds nothing to try is an error, so that an empty list never looks like a
defence. With "harmless": true only acts without harm are tried. The victim does so too: what reaches
nothing even for the owner proves nothing.
"""

import contextlib
import ctypes
import errno
import ipaddress
import json
import os
import pwd
import resource
import signal
import socket
import ssl
import subprocess
import sys
from datetime import timedelta
from typing import Callable, Iterable, Union

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
HARMLESS: list[str] = []
#: Seconds for one answer over the network.
PATIENCE = 2.0


class Reached(str):
    """What a try reached."""


class Refused(str):
    """The answer to a try that reached nothing."""


Answer = Union[Reached, Refused]
ACTS: dict[str, Callable[["Target"], Iterable[Answer]]] = {}


def act(name: str, harmless: bool = False):
    """Registers an act. It gives the answer to each try."""

    def register(tries):
        ACTS[name] = tries
        if harmless:
            HARMLESS.append(name)
        return tries

    return register


class Target:
    """The victim's processes on this node, and where Lacuna's services are."""

    def __init__(self, facts: dict):
        self.facts = facts
        self.uid = pwd.getpwnam(facts["victim"]).pw_uid
        self.pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and self.owns(entry)]

    def owns(self, pid: str) -> bool:
        with contextlib.suppress(OSError):
            return os.stat(f"/proc/{pid}").st_uid == self.uid
        return False

    def ports(self) -> list[tuple[str, int]]:
        """Where the victim's processes listen here, by TCP."""
        found = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines.readlines()[1:]]
            for row in rows:
                if row[3] != "0A" or int(row[7]) != self.uid:
                    continue
                host, port = row[1].split(":")
                host = str(ipaddress.ip_address(bytes.fromhex(host)[::-1])) if len(host) == 8 else "0.0.0.0"
                found.add(("127.0.0.1" if host == "0.0.0.0" else host, int(port, 16)))
        return sorted(found)


def tried(what: str, tries: Callable[[], object]) -> Answer:
    """The answer of the kernel, or of the other side."""
    try:
        return Reached(f"{what}: {tries()!r}")
    except (OSError, EOFError) as error:
        return Refused(getattr(error, "strerror", None) or str(error).splitlines()[0])


def ended(*command: str, text: str = "") -> Answer:
    """The answer of a command. One that is missing or called wrongly is an error of ours."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode in (126, 127) or (command[0] == "lacuna" and done.returncode == 2):
        raise RuntimeError(f"{command}: {done.stderr}")
    if done.returncode == 0:
        return Reached(f"{' '.join(command)}: {done.stdout[:200]}")
    lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
    return Refused(lines[-1] if command[0] != "lacuna" else lines[0])


# --- processes ------------------------------------------------------------------------------------


@act("reads environment, memory map, open files, folder or root of a process", harmless=True)
def look(target: Target):
    for pid in target.pids:
        for name in ("environ", "maps", "auxv"):
            yield tried(f"/proc/{pid}/{name}", lambda pid=pid, name=name: open(f"/proc/{pid}/{name}", "rb").read(8))
        for name in ("cwd", "root", "exe"):
            yield tried(f"/proc/{pid}/{name}", lambda pid=pid, name=name: os.readlink(f"/proc/{pid}/{name}"))
        yield tried(f"/proc/{pid}/fd", lambda pid=pid: os.listdir(f"/proc/{pid}/fd"))


@act("reads or writes memory (/proc/PID/mem, process_vm_readv)")
def memory(target: Target):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in target.pids:
        for mode in ("rb", "r+b"):
            yield tried(f"/proc/{pid}/mem", lambda pid=pid, mode=mode: open(f"/proc/{pid}/mem", mode).fileno())
        room = ctypes.create_string_buffer(8)
        here = (ctypes.c_void_p * 2)(ctypes.addressof(room), 8)
        there = (ctypes.c_void_p * 2)(0x400000, 8)
        count = libc.process_vm_readv(pid, here, 1, there, 1, 0)
        # EFAULT: the door was open, and nothing was at the address.
        text = f"process_vm_readv {pid}: {count}, {os.strerror(ctypes.get_errno())}"
        yield Refused(os.strerror(1)) if count < 0 and ctypes.get_errno() in (errno.EPERM, errno.ESRCH) else Reached(text)


@act("traces a process (ptrace)")
def trace(target: Target):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in target.pids:
        if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
            libc.ptrace(PTRACE_DETACH, pid, None, None)
            yield Reached(f"ptrace {pid}")
        else:
            yield Refused(os.strerror(ctypes.get_errno()))


@act("continues a process by a signal", harmless=True)
def nudge(target: Target):
    for pid in target.pids:
        yield tried(f"SIGCONT to {pid}", lambda pid=pid: os.kill(pid, signal.SIGCONT))


@act("ends or stops a process, or takes its processor, priority or limits")
def disturb(target: Target):
    for pid in target.pids:
        for sent in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1):
            yield tried(f"{sent!r} to {pid}", lambda pid=pid, sent=sent: os.kill(pid, sent))
        yield tried(f"priority of {pid}", lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19))
        yield tried(f"processors of {pid}", lambda pid=pid: os.sched_setaffinity(pid, {0}))
        limits = (1, 1)
        yield tried(f"limits of {pid}", lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, limits))


# --- files ----------------------------------------------------------------------------------------


@act("lists the agent's folder or reads its key", harmless=True)
def files(target: Target):
    for path in target.facts["private"]:
        if os.path.isdir(path):
            yield tried(path, lambda path=path: os.listdir(path))
        else:
            yield tried(path, lambda path=path: open(path, "rb").read(8))


@act("writes into the folders of agent and program")
def plant(target: Target):
    for path in target.facts["private"]:
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        yield tried(folder, lambda folder=folder: open(os.path.join(folder, "planted"), "w", encoding="ascii").write("x"))


@act("speaks to a local socket of the victim's")
def sockets(target: Target):
    with open("/proc/net/unix", encoding="ascii", errors="replace") as lines:
        rows = [line.split() for line in lines.readlines()[1:]]
    # Listening ones with a name.
    for name in {row[7] for row in rows if len(row) > 7 and row[3] == "00010000"}:
        with contextlib.suppress(PermissionError):
            # Those of root's daemons, of Slurm and munge, are not the victim's.
            if not name.startswith("@") and os.stat(name).st_uid != target.uid:
                continue
        address = "\0" + name[1:] if name.startswith("@") else name

        def speak(address=address):
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(PATIENCE)
                one.connect(address)

        yield tried(name, speak)


# --- accounts, root, scheduler ----------------------------------------------------------------------


@act("becomes the victim or root")
def become(target: Target):
    yield tried("setuid", lambda: os.setuid(target.uid))
    yield tried("setuid root", lambda: os.setuid(0))
    yield ended("sudo", "-n", "-u", target.facts["victim"], "id")
    yield ended("sudo", "-n", "id")


@act("calls the helper through sudo, or without it")
def helper(target: Target):
    program = "/opt/lacuna/bin/lacuna-pilot-helper"
    request = json.dumps({"do": "cancel", "owner": target.facts["victim"], "jobs": [target.facts["job"]]})
    for file in ("/etc/pilot-helper/helper.toml", target.facts["own_helper"]):
        yield ended("sudo", "-n", program, "--config", file, text=request)
        yield ended(program, "--config", file, text=request)
    yield Reached("it is set-user-id") if os.stat(program).st_mode & 0o6000 else Refused("not set-user-id")


@act("changes the victim's job, enters it or reads its script with the ticket")
def job(target: Target):
    number = target.facts["job"]
    yield ended("scancel", number)
    yield ended("scontrol", "update", f"JobId={number}", "TimeLimit=1")
    yield ended("scontrol", "requeue", number)
    yield ended("scontrol", "suspend", number)
    # It ends with 0 also where it prints nothing.
    script = subprocess.run(["scontrol", "write", "batch_script", number, "-"], capture_output=True, text=True, check=False)
    yield Reached(script.stdout[:80]) if script.stdout else Refused(script.stderr.strip())
    yield ended("srun", "-Q", f"--jobid={number}", "--overlap", "--immediate=2", "id")


# --- network ----------------------------------------------------------------------------------------


@act("hears the network of the node")
def sniff(_: Target):
    yield tried("AF_PACKET", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)))


@act("gets an answer of a member's port")
def members(target: Target):
    said = [b"\0" * 64, os.urandom(256), b"GET / HTTP/1.0\r\n\r\n", (1 << 60).to_bytes(8, "little") * 4]
    open_ports = [where for where in target.ports() if not is_http(where)]
    for where in open_ports:
        for text in said:
            yield tried(f"port {where}", lambda where=where, text=text: answer(where, text))
    if not open_ports:
        yield Refused("none is open")


@act("changes something at the agent's port of metrics")
def metrics(target: Target):
    for where in filter(is_http, target.ports()):
        for line in ("POST /metrics", "PUT /healthz", "DELETE /metrics", "GET /config", "GET /debug/pprof", "GET /../etc/passwd"):
            said = answer(where, f"{line} HTTP/1.0\r\n\r\n".encode()).split(b"\r\n")[0].decode()
            yield Reached(f"{line}: {said}") if said.split()[1].startswith("2") else Refused(said)


def answer(where: tuple[str, int], text: bytes) -> bytes:
    """The first bytes that a server sends back. Raises an OSError if it does not."""
    with socket.create_connection(where, PATIENCE) as one:
        one.settimeout(0.3)
        one.sendall(text)
        got = one.recv(256)
    if not got:
        raise EOFError("closed")
    return got


def is_http(where: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError, EOFError):
        return answer(where, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1")
    return False


def store(target: Target, prefix: str):
    """Reads and writes under a prefix in control's store, as PyTorch's client does."""
    import torch.distributed as dist

    host, port = target.facts["store"].rsplit(":", 1)

    def tries(use: Callable):
        def run():
            try:
                client = dist.TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=PATIENCE))
                return use(dist.PrefixStore(prefix, client) if prefix else client)
            except RuntimeError as error:
                # PyTorch's errors of connections and of waits.
                raise OSError(str(error)) from None

        return run

    def write(one):
        one.set("attack", "x")
        # The answer to a set is none, so a read must follow.
        return one.get("attack")

    yield tried(f"{prefix}: written", tries(write))
    yield tried(f"{prefix}: added", tries(lambda one: one.add("attacks", 1)))
    yield tried(f"{prefix}: read", tries(lambda one: one.get("0")))


@act("reads or writes in the store without a token, or with one of the victim's that is guessed")
def store_without(target: Target):
    yield from store(target, "")
    for guess in ("torch.rendezvous.lacuna-token-" + "0" * 32, "lacuna-token-" + "0" * 32, f"{target.facts['trainer']}/1/0"):
        yield from store(target, guess)


@act("reads or writes in the store with the attacker's own token under the victim's name")
def store_with_own(target: Target):
    token = target.facts["token"]
    # Otherwise the token would prove nothing.
    if not isinstance(next(iter(store(target, token))), Reached):
        raise RuntimeError("the attacker's own token does not open the store")
    other = token[:-1] + ("1" if token[-1] == "0" else "0")
    for prefix in (f"../{target.facts['trainer']}", other, f"{other}/{token}"):
        yield from store(target, prefix)


@act("speaks to the bus without a key")
def bus(target: Target):
    host, port = target.facts["bus"].rsplit(":", 1)

    def speak(with_tls: bool):
        with socket.create_connection((host, int(port)), PATIENCE) as plain:
            plain.settimeout(PATIENCE)
            plain.recv(4096)
            one = plain
            if with_tls:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                one = context.wrap_socket(plain)
                one.settimeout(PATIENCE)
            one.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB lacuna.> 1\r\nPING\r\n')
            got = b""
            while b"PONG" not in got and b"-ERR" not in got:
                more = one.recv(4096)
                if not more:
                    break
                got += more
            if b"PONG" not in got:
                raise EOFError(got)
            return got

    yield tried("without TLS", lambda: speak(False))
    yield tried("with TLS", lambda: speak(True))
    yield ended("lacuna", "trainers", "--nats", f"nats://{host}:{port}")


@act("ends, pauses or drains the victim's by requests with a key of the attacker's own")
def requests(target: Target):
    own = ["--identity", target.facts["identity"]]
    trainer, node = target.facts["trainer"], target.facts["node"]
    if isinstance(ended("lacuna", "trainers", *own), Refused):
        raise RuntimeError("the attacker's own key does not open the bus")
    for words in (
        ["cancel", trainer],
        ["logs", trainer],
        ["pilots", "stop"],
        ["pause", "--now"],
        ["drain", node],
        ["limits", "set", "--max-nodes", "0"],
        ["events", "publish", "node.wanted", node, "--deadline", "2030-01-01T00:00:00Z"],
        ["submit", target.facts["forged"]],
    ):
        yield ended("lacuna", *words, *own)


@act("speaks for the victim's node with another node's key")
def agent(target: Target):
    for identity in (target.facts["agent"], target.facts["identity"]):
        words = ["--node", target.facts["node"], "--config", target.facts["own_config"], "--identity", identity]
        command = ["timeout", "4", "/opt/lacuna/bin/lacuna-agent", "--pilot", *words]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        # It may run, but the bus takes nothing from it.
        lines = [line for line in (said.stdout + said.stderr).splitlines() if "ermission" in line]
        yield Refused(lines[0][-120:]) if lines else Reached(f"{words}: {said}")
        yield ended("lacuna", "events", "publish", "node.idle", target.facts["node"], "--identity", identity)
        yield ended("lacuna", "cancel", target.facts["trainer"], "--identity", target.facts["agent"])


def main() -> None:
    facts = json.loads(sys.argv[1])
    target = Target(facts)
    if not target.pids:
        sys.exit("the victim has no process here")
    names = HARMLESS if facts.get("harmless") else list(ACTS)
    said = {}
    for name in names:
        answers = list(ACTS[name](target))
        if not answers:
            sys.exit(f"nothing was tried: {name}")
        refused = sorted({one for one in answers if isinstance(one, Refused)})
        said[name] = {"tries": len(answers), "reached": [one for one in answers if isinstance(one, Reached)], "answers": refused}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
