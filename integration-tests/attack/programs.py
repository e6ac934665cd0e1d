#!/usr/bin/env python3
"""The programs that trainers of the harness run: `programs.py KIND MARK`.

`honest` reports what it has trained and leaves at SIGTERM; all others are hostile. Each carries its
mark and node in its command line, by which the harness finds its remains. All of them
end by themselves after LIFE seconds.
"""

import json
import os
import signal
import sys
import time

LIFE = 90


def say(file, samples: float) -> None:
    file.write(json.dumps({"t": time.time(), "step": int(samples), "samples": samples, "world_size": 1}) + "\n")


def honest() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    start = time.time()
    while True:
        with open(os.environ["LACUNA_PROGRESS_FILE"], "a") as file:
            say(file, (time.time() - start) * 50)
        time.sleep(0.3)


def stay() -> None:
    """Ignores SIGTERM, until its life is over."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.time() + LIFE
    while time.time() < end:
        time.sleep(0.2)


def stubborn() -> None:
    """Ignores SIGTERM."""


def fifo() -> None:
    """A pipe where its agent reads its progress."""
    path = os.environ["LACUNA_PROGRESS_FILE"]
    if os.path.lexists(path):
        os.unlink(path)
    os.mkfifo(path)


def links() -> None:
    """Links to endless and to foreign files where its agent reads and writes."""
    path = os.environ["LACUNA_PROGRESS_FILE"]
    folder = os.path.dirname(path)
    names = [entry.path for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    for number, name in enumerate({*names, path}):
        if os.path.lexists(name):
            os.unlink(name)
        os.symlink("/dev/zero" if number % 2 or name == path else "/etc/passwd", name)


def reports() -> None:
    """As many reports as it can write in twenty seconds."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end, samples = time.time() + 20, 0
    with open(os.environ["LACUNA_PROGRESS_FILE"], "a") as file:
        while time.time() < end and file.tell() < 200_000_000:
            for _ in range(100):
                samples += 1
                say(file, samples)
            file.flush()
            time.sleep(0.002)


def bomb() -> None:
    """Two hundred processes that ignore SIGTERM."""
    for _ in range(200):
        if os.fork() == 0:
            return


def hide() -> None:
    """A process in a session of its own, of no parent, and without its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, __file__, "stubborn", *sys.argv[2:]], {})
        os._exit(0)
    os.wait()


def escape() -> None:
    """Leaves its group, session and parent, and ignores SIGTERM."""
    hide()


def parent() -> None:
    """Kills its guard after hiding a process."""
    hide()
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGKILL)


def stop() -> None:
    """Stops its guard."""
    os.kill(os.getppid(), signal.SIGSTOP)


def output() -> None:
    """Two hundred MB of output, with escapes that command terminals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line = b"\x1b]0;owned\x07\x1b[2J" + b"x" * 65000 + b"\n"
    for _ in range(3000):
        os.write(1, line)
        time.sleep(0.002)


def deep_folder() -> None:
    """Fifteen thousand folders, one in another, beside the socket of its agent."""
    os.chdir(os.path.dirname(os.environ["LACUNA_SOCKET"]))
    for _ in range(15_000):
        os.mkdir("d")
        os.chdir("d")


def many_files() -> None:
    """Two hundred thousand files beside the socket of its agent."""
    os.chdir(os.path.dirname(os.environ["LACUNA_SOCKET"]))
    for number in range(200_000):
        os.close(os.open(str(number), os.O_CREAT))


def stopped_agent() -> None:
    """Stops its agent, again and again."""
    with open(f"/proc/{os.getppid()}/stat") as file:
        agent = int(file.read().rsplit(")", 1)[1].split()[1])
    end = time.time() + LIFE
    while time.time() < end:
        os.kill(agent, signal.SIGSTOP)
        time.sleep(0.05)


def preload() -> None:
    """Submitted with LD_PRELOAD: the harness looks whether its guard has that."""


HOSTILE = {
    kind.__name__: kind.__doc__
    for kind in (
        *(stubborn, fifo, links, reports, bomb, escape, parent, stop, output, preload),
        *(deep_folder, many_files, stopped_agent),
    )
}
# Those that need a socket of their agent.
REGROUPING = {"deep_folder", "many_files"}


def main() -> None:
    kind, mark, *rest = sys.argv[1:]
    node = "@" + os.environ.get("LACUNA_NODE", "?")
    if not rest:
        os.execv(sys.executable, [sys.executable, __file__, kind, mark, node])
    if kind != "honest":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "LACUNA_NODE" in os.environ:
        with open(f"{os.path.dirname(__file__)}/up-{mark}-{rest[0]}", "w") as file:
            file.write(str(os.getpid()))
    globals()[kind]()
    stay()


if __name__ == "__main__":
    main()
