#!/usr/bin/env python3
"""Publishes events of a scheduler to Lacuna, with nats-py (pip install nats-py).

    publish.py --nats nats://127.0.0.1:4222 --cluster main node.idle a01n01 a01n02
    publish.py node.wanted a01n01 --deadline 2026-01-31T12:00:00Z --id drain-4711
    publish.py --structured node.busy a01n01
    publish.py --identity /etc/lacuna/slurm.toml node.busy a01n01   (a bus with keys: `lacuna keys
        add-user DIR slurm --role events` makes the file; pip install nkeys, Python 3.11 or newer)

Exit code 0 once JetStream has acknowledged every event: then it outlives crashes of the server and
of Lacuna. An event that is sent again with the same id counts once, so repeat it until then.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
import uuid

import nats
import nats.errors
import nats.js.errors

SOURCE = "example-scheduler"


def token(name: str) -> str:
    """A name as a subject token: every other byte than A-Z a-z 0-9 - becomes _ and its number."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"
    return "".join(chr(b) if b in plain else f"_{b:02X}" for b in name.encode())


def binary(event: dict, ident: str) -> tuple[dict, bytes]:
    """CloudEvents in binary mode: attributes are headers, the event is the payload."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": ident,
        "ce-source": SOURCE,
        "ce-type": event["type"],
        "content-type": "application/json",
    }
    return headers, json.dumps(event).encode()


def structured(event: dict, ident: str) -> tuple[dict, bytes]:
    """CloudEvents in structured mode: attributes are fields, the event is `data`."""
    data = {name: value for name, value in event.items() if name != "type"}
    whole = {
        "specversion": "1.0",
        "id": ident,
        "source": SOURCE,
        "type": event["type"],
        "data": data,
    }
    return {"content-type": "application/cloudevents+json"}, json.dumps(whole).encode()


async def publish(stream, subject: str, headers: dict, payload: bytes, until: float) -> int:
    """Again with the same id until the stream has acknowledged; gives the sequence number."""
    pause = 0.1
    while True:
        try:
            return (await stream.publish(subject, payload, timeout=2, headers=headers)).seq
        except (nats.errors.Error, nats.js.errors.Error) as error:
            if time.monotonic() + pause > until:
                raise SystemExit(f"not acknowledged: {error}") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)


async def run(args: argparse.Namespace) -> None:
    options = {"name": f"{SOURCE} on {socket.gethostname()}", "connect_timeout": 3}
    url, cluster = args.nats, args.cluster
    if args.identity:
        import ssl
        import tomllib

        with open(args.identity, "rb") as file:
            identity = tomllib.load(file)
        url, cluster = url or identity["url"], cluster or identity["cluster"]
        # Acknowledgements come to an inbox. A user may read only his own.
        options["inbox_prefix"] = f"_INBOX_{token(identity['user'])}".encode()
        options["nkeys_seed_str"] = identity["seed"]
        options["tls"] = ssl.create_default_context(cadata=identity["ca"])
    url, cluster = url or "nats://127.0.0.1:4222", cluster or "main"

    async def on_error(error: Exception) -> None:
        print(f"bus: {error or type(error).__name__}", file=sys.stderr)

    try:
        client = await nats.connect(
            url, max_reconnect_attempts=3, error_cb=on_error, **options
        )
    except (nats.errors.Error, OSError) as error:
        raise SystemExit(f"no nats-server answers at {url}: {error}") from None
    stream = client.jetstream()
    subject = f"lacuna.v1.{cluster}.in.{token(SOURCE)}"
    mode = structured if args.structured else binary
    now, until = time.time(), time.monotonic() + args.patience
    for node in args.nodes:
        # The time at which it happened, not at which it is sent: events are ordered by it.
        event = {"type": args.type, "node": node, "time": args.time or now}
        if args.deadline:
            event["deadline"] = args.deadline
        ident = f"{args.id or uuid.uuid4()}.{node}"
        headers, payload = mode(event, ident)
        sequence = await publish(stream, subject, headers, payload, until)
        print(f"{args.type} of {node} kept as {sequence}")
    await client.drain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("type", choices=["node.idle", "node.busy", "node.down", "node.wanted"])
    parser.add_argument("nodes", nargs="+")
    parser.add_argument("--nats", help="address of the bus [default: the identity's, else nats://127.0.0.1:4222]")
    parser.add_argument("--cluster", help="name of the cluster [default: the identity's, else main]")
    parser.add_argument("--time", help="when it happened: ISO 8601 or seconds since 1970")
    parser.add_argument("--deadline", help="by when a node is wanted")
    parser.add_argument("--id", help="the same for every attempt at the same event")
    parser.add_argument("--structured", action="store_true", help="CloudEvents in structured mode")
    parser.add_argument("--identity", help="file of `lacuna keys` that says who this is, and whom to trust")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds until it gives up")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
