#!/usr/bin/env python3
"""Writes the events of all jobs of a Flux to a file, which ingest follows (ingest.flux.journal).

flux python journal.py /var/lib/lacuna/flux-journal

Runs as the owner of the Flux instance: the journal of the job manager is for the owner alone. A line
has the id of a job, its user and one event of RFC 21, with the jobspec beside a submit and R beside
an alloc. The first start writes the past of all jobs that Flux still knows; a later one goes on behind
the newest event in the file.
"""

import json
import os
import pwd
import sys

import flux
from flux.job import JournalConsumer

# Events that change which nodes a job holds, or whose it is.
NEEDED = ("submit", "alloc", "free", "clean")
# A file that is longer is renamed once, bytes.
LONGEST = 64 << 20


def user_of(event):
    """The name of the user of a submit."""
    userid = event.context.get("userid")
    try:
        return pwd.getpwuid(userid).pw_name
    except (KeyError, TypeError):
        return str(userid)


def line_of(event):
    """An event as a line."""
    line = {
        "id": int(event.jobid),
        "event": {"timestamp": event.timestamp, "name": event.name, "context": event.context},
    }
    if event.jobspec is not None:
        system = event.jobspec.get("attributes", {}).get("system", {})
        kept = {"queue": system.get("queue"), "job": {"name": system.get("job", {}).get("name")}}
        line["user"] = user_of(event)
        line["jobspec"] = {"attributes": {"system": kept}}
    if event.R is not None:
        line["R"] = {"execution": {"nodelist": event.R["execution"]["nodelist"]}}
    return json.dumps(line)


def time_of(line):
    """The time of the event of a line; none of a line that a crash has cut."""
    try:
        return [json.loads(line)["event"]["timestamp"]]
    except ValueError:
        return []


def newest(path):
    """The time of the newest event in the file, or 0."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            times = [time for line in file if line.endswith("\n") for time in time_of(line)]
    except FileNotFoundError:
        times = []
    if not times and os.path.exists(f"{path}.1"):
        return newest(f"{path}.1")
    return max(times, default=0.0)


def end_line(path):
    """Ends a line that a crash has cut, so that the next event has a line of its own."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return
    with open(path, "rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def main(path):
    consumer = JournalConsumer(flux.Flux(), since=newest(path))
    end_line(path)
    consumer.start()
    while True:
        event = consumer.poll()
        if event is None:
            return
        if event.name not in NEEDED:
            continue
        if os.path.exists(path) and os.path.getsize(path) > LONGEST:
            os.replace(path, f"{path}.1")
        with open(path, "a", encoding="utf-8") as file:
            file.write(line_of(event) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
