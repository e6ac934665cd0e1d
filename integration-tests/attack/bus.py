"""The bus for an attacker: NATS with the key of a user, without Lacuna's own code."""

import itertools
import json
import logging
import ssl
import tomllib
from datetime import datetime, timezone
from pathlib import Path

import msgpack
import nats

# Each message has an id of its own.
NUMBERS = itertools.count()
# Replies, kept messages and pushed ones; a server that is away or refuses is no error of the attack.
PATIENCE = 3
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


class Key:
    """An identity file of `lacuna keys`, and the permissions of its user."""

    def __init__(self, keys: Path, name: str):
        self.name = name
        self.file = keys / "main" / f"{name}.toml"
        self.held = tomllib.loads(self.file.read_text())
        self.publish, self.subscribe = permissions(keys / "server/lacuna-accounts.conf", self.held["user"])

    async def connect(self, url: str, **more):
        tls = ssl.create_default_context(cadata=self.held["ca"])

        async def ignore(_):
            pass

        user = "".join(c if c.isalnum() or c in "-_" else f"%{ord(c):02X}" for c in self.held["user"])
        return await nats.connect(
            url,
            tls=tls,
            nkeys_seed_str=self.held["seed"],
            inbox_prefix=f"_INBOX_{user}".encode(),
            error_cb=ignore,
            connect_timeout=10,
            reconnect_time_wait=0.2,
            **more,
        )


def permissions(accounts: Path, user: str) -> tuple[list[str], list[str]]:
    """Subjects that a user may publish on and hear, from the accounts that `lacuna keys` wrote."""
    lists: dict[str, list[str]] = {"publish": [], "subscribe": []}
    within, which = False, None
    for line in accounts.read_text().splitlines():
        line = line.strip()
        if line.startswith("# "):
            within = line[2:].split(" (")[0] == user
        if not within:
            continue
        for kind in lists:
            if line.startswith(kind):
                which = kind
        if which and line.startswith('"') and line.endswith('"'):
            lists[which].append(json.loads(line))
        elif line.startswith("]"):
            which = None
    return lists["publish"], lists["subscribe"]


def concrete(subject: str, token: str = "n1") -> str:
    """One subject of a pattern."""
    return ".".join(token if part in "*>" else part for part in subject.split("."))


def headers(kind: str, more: dict | None = None) -> dict:
    """The headers of a message of this kind, as Lacuna's services write them."""
    return {
        "ce-specversion": "1.0",
        "ce-id": f"attack-{next(NUMBERS)}",
        "ce-source": "lacuna/control",
        "ce-type": kind,
        "ce-time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ce-dataversion": "1",
        "content-type": "application/msgpack",
        **(more or {}),
    }


async def newest(client, stream: str, subject: str):
    """The newest message of a subject in a stream: its headers and payload, or nothing."""
    try:
        answer = await client.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", timeout=PATIENCE)
    except Exception:  # noqa: BLE001 (refused, absent or late is all the same here)
        return None
    if not answer.headers or "Nats-Subject" not in answer.headers:
        return None
    kept = {k: v for k, v in answer.headers.items() if not k.startswith("Nats-")}
    return kept, answer.data


def rewrite(value, change):
    """A message with `change(key, value)` in place of each of its fields, also of packed ones within."""
    if isinstance(value, dict):
        return {k: rewrite(change(k, v), change) for k, v in value.items()}
    if isinstance(value, list):
        return [rewrite(v, change) for v in value]
    if isinstance(value, bytes):
        try:
            inner = msgpack.unpackb(value)
        except Exception:  # noqa: BLE001 (no message: a signature, a key)
            return value
        return msgpack.packb(rewrite(inner, change)) if isinstance(inner, dict) else value
    return value
