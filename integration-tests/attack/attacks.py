"""The attacks: the acts of each, and the faults that it must not achieve beside those checked always."""

import asyncio
import json
import os
import random
import signal
import socket
import threading
import time
from dataclasses import dataclass
from typing import Callable

import msgpack

from bus import concrete, headers, newest, rewrite
from cluster import NODES, SERVICES, Broken, Cluster, marked, spec, until
from programs import HOSTILE

BASE = "lacuna.v1.main"
KINDS = ["event", "clock", "pool", "plan", "trainers", "command", "progress", "agent", "request", "renewal"]
KINDS += ["members"]
TRIED = [f"{BASE}.leader.{name}" for name in SERVICES]
TRIED += [f"$KV.lac_main_leases.{node}" for node in NODES]
TRIED += ["$KV.lac_main_trainers.honest", f"{BASE}.controls", f"{BASE}.cmd.n1", f"{BASE}.state.plan"]
TRIED += [f"{BASE}.state.{name}" for name in ("pool", "trainers", "snapshot", "clock")]
TRIED += [f"{BASE}.progress.honest", f"{BASE}.progress.n1.honest", f"{BASE}.event", f"{BASE}.renewal"]
TRIED += [f"{BASE}.run.honest"]


@dataclass
class Attack:
    """One attack. `early`: it begins before the honest user does. `owners`: among how many users nodes
    are then shared. `config`: more settings of the cluster. `run` returns the achieved faults, and the
    node that is to be asked back."""

    run: Callable[[Cluster], tuple[list[str], str | None]]
    what: str
    owners: int = 1
    early: bool = False
    short: bool = False
    config: str = ""


ATTACKS: dict[str, Attack] = {}


def attack(name: str, **more):
    """Registers an attack: it returns the achieved faults, and the node that is to be asked back."""

    def register(run):
        ATTACKS[name] = Attack(run, " ".join((run.__doc__ or "").split()), **more)
        return run

    return register


async def say(client, subject: str, payload: bytes = b"", **more) -> None:
    try:
        await client.publish(subject, payload, **more)
    except Exception:  # noqa: BLE001 (too large, or the server is away)
        pass


def inbox(client) -> str:
    return f"{client._inbox_prefix.decode()}.answer"


async def leave(client) -> None:
    try:
        await client.flush(5)
        await client.close()
    except Exception:  # noqa: BLE001 (a server that has thrown us out)
        pass


# --- the bus -------------------------------------------------------------------------------------


@attack("answers", short=True)
def answers(c: Cluster):
    """All that people and agents may read, with the answer sent to the subjects of services."""

    async def run() -> None:
        clients = [(key, await key.connect(c.url)) for key in map(c.key, c.everybody())]
        for _ in range(12):
            for key, client in clients:
                reads = [s for s in key.publish if s.startswith("$JS.API.DIRECT.GET.")][:4]
                for read in reads:
                    whole = len(read.split(".")) == 5
                    payload = b'{"seq":1}' if whole else b""
                    for target in TRIED:
                        await say(client, concrete(read), payload, reply=target)
                await client.flush(10)
            await asyncio.sleep(0.3)
        for _, client in clients:
            await leave(client)

    asyncio.run(run())
    return [], None


async def forged(c: Cluster, proof: str) -> tuple[dict, bytes]:
    """A command that control has given, as agents read it, with a program and an epoch of the attacker's."""
    client = await c.key("agent").connect(c.url)
    found = await newest(client, "lac_main_cmds", f"{BASE}.cmd.n1")
    await leave(client)
    if not found:
        return headers("lacuna.command"), b""

    def change(key, value):
        changed = {
            "program": "/bin/sh",
            "args": ["-c", f"touch {c.folder}/{proof}; sleep 30", c.mark],
            "epoch": 2**62,
            "trainer": "forged",
            "run": 7,
            "seq": 2**40,
        }
        return changed.get(key, value) if not isinstance(value, dict) else value

    kept, payload = found
    return {**kept, "ce-id": f"forged-{proof}"}, msgpack.packb(rewrite(msgpack.unpackb(payload), change))


def obeyed(c: Cluster, proof: str) -> list[str]:
    found = until(lambda: (c.folder / proof).exists(), 6)
    return ["a forged command was obeyed: a program of the attacker's ran"] if found else []


@attack("relayed-command", short=True)
def relayed(c: Cluster):
    """A forged command, said by an agent of another node as progress and in all other ways that its key
    allows, and relayed to a node by each user that may read it."""

    async def run() -> None:
        head, payload = await forged(c, "relayed")
        names = ["agent-n9", "agent", "gateway", "obs", "boss", "eve"]
        clients = [(key, await key.connect(c.url)) for key in map(c.key, names)]
        subjects = set()
        for key, client in clients:
            for subject in key.publish:
                if subject.startswith("lacuna."):
                    subjects.add(concrete(subject, "forged"))
                    await say(client, concrete(subject, "forged"), payload, headers=head)
            await say(client, f"{BASE}.cmd.n1", payload, headers=head)
            await client.flush(10)
        await asyncio.sleep(0.5)
        streams = ["progress", "dead", "in", "cmds", "runs", "audit", "events", "state"]
        for _, client in clients:
            for stream in streams:
                get = f"$JS.API.DIRECT.GET.lac_main_{stream}"
                for subject in sorted(subjects):
                    await say(client, f"{get}.{subject}", reply=f"{BASE}.cmd.n1")
                    last = json.dumps({"last_by_subj": subject}).encode()
                    await say(client, get, last, reply=f"{BASE}.cmd.n1")
            await leave(client)

    asyncio.run(run())
    return obeyed(c, "relayed"), None


@attack("service-command")
def service_command(c: Cluster):
    """The same by the keys of planner, forecast and ingest, which may make consumers: these copy
    messages of a stream to any subject."""

    async def run() -> None:
        head, payload = await forged(c, "pushed")
        for name in ("planner", "forecast", "ingest"):
            key = c.key(name)
            client = await key.connect(c.url)
            await say(client, f"{BASE}.cmd.n1", payload, headers=head)
            own = [s for s in key.publish if s.startswith("lacuna.") and "*" not in s and ">" not in s]
            for subject in own:
                for request in key.publish:
                    parts = request.split(".", 6)
                    pattern = parts[-1].replace("*", subject.split(".")[-1])
                    if not request.startswith("$JS.API.CONSUMER.CREATE.") or pattern != subject:
                        continue
                    stream = parts[4]
                    consumer = {
                        "stream_name": stream,
                        "config": {
                            "name": "push",
                            "deliver_policy": "new",
                            "ack_policy": "none",
                            "filter_subject": parts[-1],
                            "deliver_subject": f"{BASE}.cmd.n1",
                        },
                        "action": "",
                    }
                    asked, answer = json.dumps(consumer).encode(), inbox(client)
                    await say(client, request.replace("*", "push", 1), asked, reply=answer)
                    pull = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.pull"
                    consumer["config"] = {**consumer["config"], "name": "pull", "ack_policy": "explicit"}
                    del consumer["config"]["deliver_subject"]
                    asked = json.dumps(consumer).encode()
                    await say(client, request.replace("*", "pull", 1), asked, reply=answer)
                    await say(client, pull, b'{"batch":1,"expires":5000000000}', reply=f"{BASE}.cmd.n1")
                await client.flush(10)
                await say(client, subject, payload, headers=head)
                for get in key.publish:
                    if get.startswith("$JS.API.DIRECT.GET.") and get.endswith(subject):
                        await say(client, get, reply=f"{BASE}.cmd.n1")
            await leave(client)

    asyncio.run(run())
    return obeyed(c, "pushed"), None


@attack("foreign-progress", short=True)
def foreign_progress(c: Cluster):
    """The key of another node's agent speaks of the honest user's trainer: untrained samples, and
    a checkpoint."""

    spoken = [f"{BASE}.progress.honest", *(f"{BASE}.progress.{node}.honest" for node in NODES)]

    def change(key, value):
        # At most the rate of the trainer's curve, since control refuses more anyway.
        return value * 3 if key == "samples" else {"checkpoint": "/evil"}.get(key, value)

    async def run() -> None:
        obs, agent = c.key("obs"), c.key("agent-n9")
        reader, client = await obs.connect(c.url), await agent.connect(c.url)
        subjects = [s for s in spoken if await newest(reader, "lac_main_progress", s)]
        for number in range(10):
            for heard in subjects:
                if not (found := await newest(reader, "lac_main_progress", heard)):
                    continue
                head, payload = found[0], rewrite(msgpack.unpackb(found[1]), change)
                patterns = [s for s in agent.publish if ".progress." in s]
                for subject in {heard, *(concrete(p, "honest") for p in patterns)}:
                    head["ce-id"] = f"foreign-{number}"
                    await say(client, subject, msgpack.packb(payload), headers=head)
            await asyncio.sleep(1)
        await leave(client)
        await leave(reader)

    begun, before = time.monotonic(), c.samples()
    asyncio.run(run())
    time.sleep(1)
    honest, faults = c.trainers().get("honest", {}), []
    # The program says 50 samples/s.
    more = (honest.get("samples") or 0) - before - 80 * (time.monotonic() - begun)
    if more > 0:
        faults.append(f"{more:.0f} untrained samples are counted")
    if honest.get("checkpoint") == "/evil":
        faults.append("the honest trainer is to go on from the attacker's checkpoint")
    return faults, None


def rubbish(dice: random.Random, model: bytes) -> list[tuple[bytes, dict | None]]:
    """Payloads that no receiver should trip over, each bare and in the name of a message."""
    deep = b"\x81\xa1a" * 20_000
    payloads = [
        b"",
        b"\0",
        dice.randbytes(100),
        dice.randbytes(60_000),
        model[: len(model) // 2],
        b"[" * 50_000,
        b'{"type":' * 5_000,
        deep,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        msgpack.packb({"node": "n1", "epoch": -1, "seq": 2**63, "activity": None}),
        json.dumps({"type": "node.idle", "node": "\x1b[31m" * 100, "time": 1e308}).encode(),
        dice.randbytes(900_000),
    ]
    whole: list[tuple[bytes, dict | None]] = [(payload, None) for payload in payloads]
    for payload in payloads[:-1]:
        kind = f"lacuna.{dice.choice(KINDS)}"
        written = dice.choice(["application/json", "application/msgpack"])
        whole.append((payload, headers(kind, {"content-type": written})))
    return whole


def garbage(c: Cluster, names: list[str]) -> None:
    async def run() -> None:
        dice = random.Random(14)
        _, model = await forged(c, "none")
        for name in names:
            key = c.key(name)
            client = await key.connect(c.url)
            for subject in key.publish:
                if subject.startswith(("$JS.API.CONSUMER.DELETE", "$JS.API.STREAM", "$JS.ACK")):
                    continue
                for payload, head in rubbish(dice, model):
                    if head and not subject.startswith("$"):
                        # Half of the time as what is expected there.
                        kind = concrete(subject).split(".")[-1]
                        head["ce-type"] = f"lacuna.{kind}" if dice.random() < 0.5 else head["ce-type"]
                    await say(client, concrete(subject), payload, headers=head)
                await asyncio.sleep(0.05)
            await leave(client)

    asyncio.run(run())


@attack("garbage")
def garbage_people(c: Cluster):
    """Random bytes, truncated messages, deep, giant and tiny ones on every subject on which a person, an
    agent or a scheduler may publish."""
    garbage(c, c.everybody())
    return [], None


@attack("garbage-services")
def garbage_services(c: Cluster):
    """The same by the keys of planner, forecast and ingest."""
    garbage(c, ["planner", "forecast", "ingest"])
    return [], None


@attack("consumers")
def consumers(c: Cluster):
    """A thousand consumers and subscriptions by each person who may read."""

    async def run() -> None:
        for name in ("obs", "eve", "gateway", "boss"):
            key = c.key(name)
            client = await key.connect(c.url)
            for number in range(1000):
                stream = ("events", "state", "plan", "cmds", "progress")[number % 5]
                consumer = {"ack_policy": "explicit", "name": f"c{number}"}
                asked = json.dumps({"stream_name": f"lac_main_{stream}", "config": consumer}).encode()
                create = f"$JS.API.CONSUMER.CREATE.lac_main_{stream}"
                for way in (create, f"{create}.c{number}"):
                    await say(client, way, asked, reply=inbox(client))
                # Messages that the client receives and does not read.
                for subject in key.subscribe[:1]:
                    await client.subscribe(concrete(subject, "many"))
            await leave(client)

    asyncio.run(run())
    return [], None


@attack("requests")
def requests(c: Cluster):
    """Twenty thousand requests of one user within ten seconds, some that make sense."""

    async def run() -> None:
        key = c.key("eve")
        client = await key.connect(c.url)
        subject = next(s for s in key.publish if ".req." in s)
        ask = headers("lacuna.request", {"content-type": "application/json"})
        for number in range(100):
            for _ in range(200):
                body = b'{"ask":"trainers","all":true}' if number % 2 else b"\x80"
                await say(client, subject, body, headers=ask, reply=inbox(client))
            await asyncio.sleep(0.1)
        await leave(client)

    asyncio.run(run())
    return [], None


@attack("own-answers")
def own_answers(c: Cluster):
    """The key of one node hears itself ask for answers: with those it reads another node's command and
    says that the programs there have failed."""
    faults = []

    async def run() -> None:
        client = await c.key("agent-n9").connect(c.url)
        prefix, heard = client._inbox_prefix.decode(), []

        async def hear(message):
            heard.append(message)

        await client.subscribe(f"{prefix}.>", cb=hear)
        await client.flush(5)

        async def answer(subject: str, payload: bytes = b"", **more) -> None:
            await say(client, f"{prefix}.asked", reply=subject)
            await client.flush(5)
            await asyncio.sleep(0.1)
            await say(client, subject, payload, **more)
            await client.flush(5)
            await asyncio.sleep(0.3)

        for number in range(5):
            heard.clear()
            await answer(f"$JS.API.DIRECT.GET.lac_main_cmds.{BASE}.cmd.n1", reply=f"{prefix}.command")
            commands = [m.data for m in heard if m.subject.endswith(".command") and m.data]
            if not commands:
                break
            faults[:] = ["the key of one node reads another's command"]
            command = msgpack.unpackb(commands[0])
            ended = {"state": "exited", "trainer": "honest", "run": command["seq"], "code": 1, "reason": "false"}
            status = {"node": "n1", "epoch": command["epoch"], "seq": command["seq"], "activity": ended}
            head = headers("lacuna.agent", {"ce-source": "lacuna/agent", "ce-id": f"false-{number}"})
            await answer(f"{BASE}.agent.n1", msgpack.packb({**status, "released": None}), headers=head)
            await asyncio.sleep(2)
        await leave(client)

    asyncio.run(run())
    return faults, None


# --- greedy users --------------------------------------------------------------------------------


def sleeper(c: Cluster, name: str, **more) -> str:
    return c.program("stubborn", name, **more)


@attack("huge", owners=2)
def huge(c: Cluster):
    """A trainer that asks for sixty million nodes."""
    c.submit(sleeper(c, "huge", high=60_000_000))
    time.sleep(5)
    used = {name: c.memory(name) for name in ("planner", "control")}
    return [f"{name} holds {mb:.0f} MB" for name, mb in used.items() if mb > 400], None


@attack("misfits", owners=2, early=True)
def misfits(c: Cluster):
    """Twelve trainers that need more nodes than there are, submitted before the honest user comes."""
    c.submit("".join(sleeper(c, f"misfit-{n}", low=8, high=9) for n in range(12)))
    time.sleep(2)
    return [], None


@attack("places", owners=2, early=True)
def places(c: Cluster):
    """Thirty trainers without an end, three for each place, submitted before the honest user comes."""
    c.submit("".join(c.program("honest", f"place-{n}") for n in range(30)))
    time.sleep(5)
    return [], None


@attack("churn", owners=2)
def churn(c: Cluster):
    """Forty seconds of trainers that are cancelled when they have had nodes for a second, one after another."""

    def rescales() -> int:
        return c.trainers().get("honest", {}).get("rescales") or 0

    before, end, number = rescales(), time.monotonic() + 40, 0
    while time.monotonic() < end:
        name = f"churn-{number}"
        c.submit(c.program("honest", name, high=2))
        until(lambda name=name: c.nodes_of(name), 5)
        time.sleep(1)
        c.lacuna("cancel", name, user="eve")
        time.sleep(1)
        number += 1
    more = rescales() - before
    return ([f"the honest user's trainer was rescaled {more} times"] if more > 8 else []), None


@attack("large", owners=2)
def large(c: Cluster):
    """Sixty submissions with 7 MB of arguments, or until they are refused three times."""
    refused = 0
    for number in range(60):
        code, _ = c.submit(spec(f"large-{number}", "true", ["x" * 7_000_000], low=3, high=4), limit=30)
        refused += code != 0
        if refused >= 3:
            break
    return still_open(c), None


@attack("fill", owners=2)
def fill(c: Cluster):
    """Trainers of 60 KB each, fourteen at once; single and smaller ones when they are refused. Two minutes
    at most."""
    sizes, end, number = [(14, 60_000), (1, 60_000), (1, 5_000), (1, 10)], time.monotonic() + 120, 0
    while sizes and time.monotonic() < end:
        count, length = sizes[0]
        number += 1
        each = (spec(f"fill-{number}-{n}", "true", ["x" * length], low=4) for n in range(count))
        code, _ = c.submit("".join(each), limit=30)
        if code:
            sizes.pop(0)
    return still_open(c), None


@attack("many", owners=2)
def many(c: Cluster):
    """Eight hundred trainers of one user, by a hundred at once, and fifty alone."""
    for batch in range(8):
        c.submit("".join(spec(f"many-{batch}-{n}", "false", [], high=4) for n in range(100)), limit=30)
    for number in range(50):
        c.submit(spec(f"alone-{number}", "false", [], high=4), limit=30)
    return still_open(c), None


def still_open(c: Cluster) -> list[str]:
    """Whether others may submit yet."""
    code, said = c.submit(c.program("honest", "second"), user="ann")
    return [f"the honest user can submit nothing more: {said.strip()[-100:]}"] if code else []


@attack("quarantine", owners=2)
def quarantine(c: Cluster):
    """For 25 s trainers whose programs fail at once, by ten: failures close nodes."""
    end, batch = time.monotonic() + 25, 0
    while time.monotonic() < end:
        batch += 1
        failing = (spec(f"failing-{batch}-{n}", "sh", ["-c", "sleep 0.2; exit 1"]) for n in range(10))
        c.submit("".join(failing), limit=30)
        time.sleep(1)
    return [], None


@attack("selfish", owners=2)
def selfish(c: Cluster):
    """The greatest value, weight and priority that a submission can claim."""
    claims = ['maximise = "1000000 * n"\nweight = 1e9\npriority = 2147483647\n', 'maximise = "1000000 * n"\n']
    for number, claim in enumerate(claims):
        c.submit(c.program("honest", f"selfish-{number}", more=claim))
    time.sleep(3)
    return [], None


@attack("numbers", owners=2)
def numbers(c: Cluster):
    """Simulated trainers of 1e308 samples that are done at once: are the sums of all trainers endless?"""
    text = """
[[trainer]]
name = "@NAME"
launcher = "simulated"
samples = 1e308
min_nodes = 1
max_nodes = 4
scaling = { nodes = [1, 4], samples_per_s = [1e308, 1e308] }
rescale = { up = "1s", down = "1s" }
"""
    for number in range(4):
        c.submit(text.replace("@NAME", f"number-{number}"))
        time.sleep(3)
    sums = [line for line in c.metrics("control").splitlines() if "samples_total" in line.split(" ")[0]]
    endless = [line for line in sums if line.endswith((" inf", " +Inf", " NaN"))]
    return [f"control shows {line}" for line in endless[:2]], None


@attack("names")
def names(c: Cluster):
    """Names with escapes, paths and foreign owners; outputs and events that command terminals."""
    for name in ["../../x", "a/b", "\x1b[31mred", "a b", "-rf", "$(id)", "honest", "x" * 300, ""]:
        for more in ("", 'owner = "ann"\n'):
            c.submit(spec(name, "/bin/echo", ["\x1b]0;owned\x07"], more=more), limit=20)
    c.submit(c.program("output", "output"))
    time.sleep(3)
    looks = (["trainers", "--all"], ["nodes"], ["explain", "output"], ["audit"])
    shown = "".join(c.lacuna(*words)[1] for words in looks)
    c.lacuna("cancel", "output", user="eve")
    faults = ["an operator's terminal is commanded"] if "\x1b]0" in shown or "\x1b[31mred" in shown else []
    owned = [t for t in c.trainers().values() if t["owner"] == "ann" and t["trainer"] != "honest"]
    if owned:
        faults.append("a trainer has another user's name")
    return faults, None


KINDS_CONFIG = """
[ingest.kinds]
one = ["nodes:n[1-2]"]
other = ["nodes:n[3-4]"]
"""
ONE_LABEL = """
[ingest.kinds]
one = ["nodes:n[1-4]"]
"""


def greedy_of_kinds(c: Cluster, *kinds: str):
    curve = "{ nodes = [1, 4], samples_per_s = [1e6, 4e6] }"
    more = "[trainer.kinds]\n" + "".join(f"{kind} = {curve}\n" for kind in kinds)
    for number in range(4):
        text = c.program("stubborn", f"kinds-{number}", more=more)
        # The rates are those of the kinds.
        code, said = c.submit("".join(line for line in text.splitlines(True) if not line.startswith("scaling")))
        if code:
            raise Broken(f"the trainer is refused: {said[-300:]}")
    time.sleep(3)
    return [], None


@attack("kinds-lock", owners=2, early=True, config=KINDS_CONFIG)
def kinds_lock(c: Cluster):
    """Trainers with rates by kind, which those of others do not have, submitted before the honest user comes."""
    return greedy_of_kinds(c, "one", "other")


@attack("one-label", owners=2, early=True, config=ONE_LABEL)
def one_label(c: Cluster):
    """The same where all nodes are of one kind: do fair shares hold?"""
    return greedy_of_kinds(c, "one")


# --- events --------------------------------------------------------------------------------------


@attack("events-garbage")
def events_garbage(c: Cluster):
    """The key of a scheduler: rubbish, and a hundred ids and sources of almost a megabyte."""
    garbage(c, ["slurm"])

    async def run() -> None:
        client = await c.key("slurm").connect(c.url)
        for number in range(100):
            long = f"{number}" + "i" * 900_000
            event = {"type": "node.idle", "node": f"n{number % 4 + 1}"}
            whole = {"specversion": "1.0", "id": long, "source": "x", "type": "node.idle", "data": event}
            head = {"content-type": "application/cloudevents+json"}
            await say(client, f"{BASE}.in.slurm", json.dumps(whole).encode(), headers=head)
            await client.flush(10)
        await leave(client)

    asyncio.run(run())
    used = c.memory("ingest")
    return ([f"ingest holds {used:.0f} MB"] if used > 400 else []), None


@attack("events-ahead")
def events_ahead(c: Cluster):
    """False events, dated 299 s ahead: a busy node is idle, idle ones are busy. Then the true ones."""
    c.event("node.busy", "n2")
    until(lambda: "n2" not in c.nodes_of("honest"), 10)
    c.event("node.idle", "n2", ahead=299)
    c.event("node.busy", "n3", "n4", ahead=299)
    until(lambda: c.left("n2"), 5)
    time.sleep(1)
    c.event("node.idle", "n3", "n4")
    return [], "n2"


@attack("events-names")
def events_names(c: Cluster):
    """Idle nodes with names that are paths, lists and options; a true event after them."""
    odd = ["../../x", "/etc/passwd", "a,b[1-9]", "$HOME", "a;id", "--all"]
    for name in odd:
        payload = json.dumps({"type": "node.idle", "node": name}).encode()

        async def run() -> None:
            client = await c.key("slurm").connect(c.url)
            await say(client, f"{BASE}.in.slurm", payload, headers={"content-type": "application/json"})
            await leave(client)

        asyncio.run(run())
    time.sleep(3)
    shown = c.lacuna("nodes")[1]
    known = [name for name in odd if name in shown]
    return ([f"nodes {', '.join(known)} are there"] if known else []), None


LONG = [b'"' * 23_000, b"x" * 800_000, "\u00fc".encode() * 12_000]


def long_texts(
    c: Cluster, names: list[str], subjects: Callable, kind: str, payloads: list[bytes], pause: float = 6
) -> None:
    """Messages whose ids, sources and correlations are long, by keys of a role, with pauses (seconds)."""

    async def run() -> None:
        for name in names:
            key = c.key(name)
            client = await key.connect(c.url)
            for text in LONG:
                said = text.decode().replace("\u00fc", "%C3%BC")
                # One at a time: a stream takes 64 KiB of headers at most.
                for field in ("ce-id", "ce-source", "ce-correlationid"):
                    head = headers(kind, {"content-type": "application/json"}) | {field: said}
                    for subject in subjects(key):
                        for payload in payloads:
                            await say(client, subject, payload, headers=head, reply=inbox(client))
                await asyncio.sleep(pause)
            await leave(client)

    asyncio.run(run())


@attack("long-ids-request")
def long_ids_request(c: Cluster):
    """Requests of a researcher and of an operator with ids of 23 KB of quotes and of 900 KB: a check, a
    cancel of nothing, a question."""
    ask: list[dict] = [{"ask": "cancel", "trainer": "nothing"}, {"ask": "trainers", "all": True}]
    ask.append({"ask": "submit", "test_only": True, "trainers": []})
    payloads = [json.dumps(one).encode() for one in ask]

    def subjects(key):
        return [s for s in key.publish if ".req." in s]

    long_texts(c, ["eve", "boss"], subjects, "lacuna.request", payloads)
    return [], None


@attack("fill-by-ids", owners=2)
def fill_by_ids(c: Cluster):
    """Eight submissions of a thousand trainers each. Their ids, which records may carry, are as long as a
    header may be, and shorter in the end."""
    refused: list[str] = []

    def trainer(name: str) -> dict:
        curve = [{"nodes": nodes, "rate": 50.0 * nodes} for nodes in (1, 4)]
        more = {"rescale": {"up_s": 1.0, "down_s": 1.0}, "work": {"samples": 1e9}, "launch": {"launcher": "simulated"}}
        return {"id": name, "submit": 0, "min_nodes": 4, "max_nodes": 4, "throughput": curve, **more}

    async def run() -> None:
        key = c.key("eve")
        client = await key.connect(c.url)
        subject = next(s for s in key.publish if ".req." in s)
        for number, length in enumerate([21_000] * 5 + [5_000, 300, 1]):
            trainers = [trainer(f"f{number}-{n}") for n in range(1000)]
            body = json.dumps({"ask": "submit", "test_only": False, "trainers": trainers}).encode()
            head = headers("lacuna.request", {"content-type": "application/json", "ce-id": "%22" * length})
            try:
                answer = await client.request(subject, body, timeout=30, headers=head)
                said = msgpack.unpackb(answer.data)
                if said.get("answer") == "refused":
                    refused.append(str(said))
            except Exception as error:  # noqa: BLE001 (a server that has thrown us out, or no answer)
                refused.append(repr(error))
        await leave(client)

    asyncio.run(run())
    # A request that is not understood would fill nothing.
    faults = [f"the attack submits nothing: {refused[0][:200]}"] if len(refused) == 8 else []
    return faults + still_open(c), None


@attack("long-ids-agent")
def long_ids_agent(c: Cluster):
    """Statuses and reports by the key of one node, with long correlations."""
    run = c.trainers().get("honest", {}).get("run") or 1
    epoch = next(row["epoch"] for row in json.loads(c.must("nodes", "--json"))["nodes"] if row["node"] == "n1")
    report = {"trainer": "honest", "run": run, "node": "n1", "samples": 1.0, "at": 0, "owed": 0.0, "world_size": 1}
    # The agent's own: its program runs no more, so that the trainer's record changes.
    status = {"node": "n1", "epoch": epoch, "seq": run, "activity": {"state": "free"}}
    payloads = [json.dumps(report).encode(), json.dumps(status).encode()]

    def subjects(key):
        ways = [s for s in key.publish if ".agent." in s or ".progress." in s]
        return [concrete(s, "honest") for s in ways]

    for kind in ("lacuna.agent", "lacuna.progress"):
        long_texts(c, ["agent-n1"], subjects, kind, payloads)
    return [], None


@attack("long-ids-event")
def long_ids_event(c: Cluster):
    """Events with long ids by a scheduler and by an operator: do the true ones that follow count in time?"""

    def subjects(key):
        return [concrete(s, key.name) for s in key.publish if ".in." in s]

    event = json.dumps({"node": "n2"}).encode()
    # Only what changes the node is published further.
    for kind in ("node.busy", "node.idle"):
        # Short, since a program without a checkpoint does not grow once it has much to lose.
        long_texts(c, ["slurm", "boss"], subjects, kind, [event], pause=1)
    c.event("node.idle", "n2")
    return [], "n2"


@attack("connections", config='[control.access]\noperators = ["boss"]\n')
def connections(c: Cluster):
    """As many connections to the bus as a researcher gets, 2,100 at most, held to the end: do operators
    and others get theirs?"""
    # The clients live on until the cluster ends.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def run() -> None:
        key = c.key("eve")
        while len(c.held) < 2100:
            ways = [key.connect(c.url, allow_reconnect=False, max_reconnect_attempts=0) for _ in range(50)]
            answers = await asyncio.gather(*ways, return_exceptions=True)
            c.held += [one for one in answers if not isinstance(one, BaseException)]
            if any(isinstance(one, BaseException) for one in answers):
                return

    asyncio.run_coroutine_threadsafe(run(), loop).result(300)
    faults = []
    for words in (["trainers"], ["pause", "--max-nodes", "4"], ["resume"]):
        code, said = c.lacuna(*words)
        if code:
            faults.append(f"an operator's {words[0]} ends with {code}: {said.strip()[-120:]}")
    code, said = c.lacuna("trainers", user="eve")
    if code and "connections exceeded" not in said:
        faults.append(f"the reason is not named: {said.strip()[-120:]}")
    return faults, None


@attack("store-idle")
def store_idle(c: Cluster):
    """Sixteen hundred connections to the store that say nothing, held while the honest user trains."""
    port = c.store_port()
    held, end = [], time.monotonic() + 60
    for _ in range(1600):
        try:
            held.append(socket.create_connection(("127.0.0.1", port), 10))
        except OSError:
            # A busy machine, or a server that takes no more.
            pass
        if time.monotonic() > end:
            break
    c.held = held
    time.sleep(12)
    pid = c.file()["children"]["control"]
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return ([f"control has {files} open files"] if files > 800 else []), None


# --- the server ----------------------------------------------------------------------------------


@attack("server-killed")
def server_killed(c: Cluster):
    """nats-server is killed during a flood of an agent's reports, and started again by `lacuna up`."""
    over = threading.Event()

    async def flood() -> None:
        key = c.key("agent-n9")
        client = await key.connect(c.url)
        subjects = [concrete(s, "n9") for s in key.publish if s.startswith("lacuna.")]
        end = time.monotonic() + 10
        while time.monotonic() < end and not over.is_set():
            for _ in range(200):
                await say(client, random.choice(subjects), b"\x80" * 200, headers=headers("lacuna.agent"))
            await asyncio.sleep(0.05)
        await leave(client)

    flooding = threading.Thread(target=lambda: asyncio.run(flood()), daemon=True)
    flooding.start()
    time.sleep(3)
    before = c.file()["children"]["nats"]
    os.kill(before, signal.SIGKILL)
    restarted = until(lambda: c.file()["children"].get("nats") not in (None, before), 30)
    flooding.join(20)
    over.set()
    flooding.join(5)
    return ([] if restarted else ["nats-server is not started again"]), None


# --- programs ------------------------------------------------------------------------------------


def hostile(kind: str):
    def run(c: Cluster):
        more = 'environment = { LD_PRELOAD = "/nonexistent/evil.so" }\n' if kind == "preload" else ""
        node = c.hostile(kind, more)
        faults = []
        time.sleep(2)
        if kind == "preload":
            for pid in marked(c.mark, "guard", f"-{kind}"):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if b"evil.so" in file.read():
                        faults = ["the submitted environment reaches the guard"]
        if kind == "links":
            code, said = c.lacuna("logs", kind, user="eve", limit=20)
            if "root:" in said:
                faults.append("a foreign file is shown as output")
        return faults, node

    run.__doc__ = f"A program: {HOSTILE[kind]}"
    return run


for _kind in HOSTILE:
    attack(f"program-{_kind.replace('_', '-')}", owners=2, early=True, short=_kind == "fifo")(hostile(_kind))
