"""Starts the tests' Python programs from processes that have imported PyTorch already.

An import of PyTorch takes one to three seconds of a core, and the tests start hundreds of programs.
Here a program is a fork of a process that has imported PyTorch and nothing else: it has arguments,
environment, output and session of its own, imports Lacuna by itself, and ends as Python does. Two
such processes take turns, so the order of sets differs between programs, as it does otherwise.

Programs with another interpreter, ``PYTHONPATH``, options or standard input are started as ever.
"""

import atexit
import builtins
import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import subprocess
import sys
import tempfile
import threading

#: What programs import of PyTorch by and by: up to the first part that the version does not have.
PARTS = ("numpy", "torch.utils.data", "torch.distributed.launcher.api")
PARTS += ("torch._dynamo", "torch.distributed.fsdp")
BEGIN = "import sys; sys.path[0] = sys.argv[1]; import warm; warm.main(int(sys.argv[2]))"


class Parent:
    """The end of a parent process in the tests."""

    def __init__(self, path):
        self._compiled = tempfile.TemporaryDirectory(prefix="lacuna-compiled-")
        self._changed = threading.Condition()
        self._begun, self._pids, self._codes, self._lost = 0, {}, {}, False
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        here = os.path.dirname(os.path.abspath(__file__))
        command = [sys.executable, "-c", BEGIN, here, str(other.fileno())]
        options = {"env": env, "pass_fds": [other.fileno()], "start_new_session": True}
        self._process = Popen.cold(command, **options)
        other.close()
        atexit.register(self._end)
        threading.Thread(target=self._listen, name="warm", daemon=True).start()

    def start(self, argv, env, cwd, session, outputs):
        """The number and the process id of a new program."""
        with self._changed:
            self._begun += 1
            number = self._begun
        request = {"number": number, "argv": argv, "env": env, "cwd": cwd, "session": session}
        request["compiled"] = self._compiled.name
        socket.send_fds(self._channel, [json.dumps(request).encode()], outputs)
        with self._changed:
            self._changed.wait_for(lambda: number in self._pids or self._lost)
            if number not in self._pids:
                raise OSError(f"no program begins: the process that has imported {PARTS} has ended")
            return number, self._pids[number]

    def code(self, number, timeout):
        """The exit code of a program as of ``Popen.returncode``; None after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._codes or self._lost, timeout)
            if number not in self._codes and self._lost:
                raise OSError("no exit code comes: the program's parent has ended")
            return self._codes.get(number)

    def _end(self):
        # Programs that still run keep their output.
        self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait(10.0)

    def _listen(self):
        try:
            while data := self._channel.recv(1 << 16):
                said = json.loads(data)
                with self._changed:
                    known = self._pids if "pid" in said else self._codes
                    known[said["number"]] = said.get("pid", said.get("code"))
                    self._changed.notify_all()
        except OSError:
            pass
        with self._changed:
            self._lost = True
            self._changed.notify_all()


class Popen(subprocess.Popen):
    """``subprocess.Popen``, whose Python programs begin warm where they can."""

    cold = subprocess.Popen
    #: The ``PYTHONPATH`` of warm programs, and their parents, which begin with the first one.
    path = None
    parents: list = []
    turn = 0
    _number = None

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        (_, _, shell, read, write, out_read, out_write, err_read, err_write, *_) = rest
        # The last ones are restore_signals, gid, gids, uid, umask, start_new_session, process_group
        # (from Python 3.11 on).
        session = rest[14]
        env = dict(os.environ if env is None else env)
        argv = [args] if isinstance(args, str) else [os.fspath(one) for one in args]
        simple = executable in (None, argv[0]) and not (preexec_fn or pass_fds or shell)
        if (
            not (simple and argv[0] == sys.executable and len(argv) > 1 and read == -1)
            or not (argv[1] == "-m" or argv[1].endswith(".py"))
            or env.get("PYTHONPATH") != self.path
        ):
            return super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
            )
        outputs = [1 if out_write == -1 else out_write, 2 if err_write == -1 else err_write]
        if not Popen.parents:
            Popen.parents = [Parent(self.path) for _ in range(2)]
        Popen.turn += 1
        self._parent = Popen.parents[Popen.turn % len(Popen.parents)]
        cwd = os.path.abspath(os.fspath(cwd or "."))
        self._number, self.pid = self._parent.start(argv, env, cwd, bool(session), outputs)
        self._child_created = True
        self._close_pipe_fds(read, write, out_read, out_write, err_read, err_write)

    def _internal_poll(self, *arguments, **options):
        if self._number is None:
            return super()._internal_poll(*arguments, **options)
        return self._ended(0.0)

    def _wait(self, timeout):
        if self._number is None:
            return super()._wait(timeout)
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, timeout):
        if self.returncode is None:
            self.returncode = self._parent.code(self._number, timeout)
        return self.returncode


def install(path):
    """From now on programs with this ``PYTHONPATH`` begin warm."""
    Popen.path = path
    subprocess.Popen = Popen


def serve(channel):
    """Forks for each request until the tests end; in a fork it returns the request."""
    children, selector = {}, selectors.DefaultSelector()
    selector.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fd != channel.fileno():
                number, pid = children.pop(key.fd)
                selector.unregister(key.fd)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                channel.send(json.dumps({"number": number, "code": code}).encode())
                continue
            data, outputs, _, _ = socket.recv_fds(channel, 1 << 20, 2)
            if not data:
                return None
            request = json.loads(data)
            pid = os.fork()
            if pid == 0:
                for one in (selector, channel):
                    one.close()
                for one in children:
                    os.close(one)
                return {**request, "outputs": outputs}
            for one in outputs:
                os.close(one)
            watched = os.pidfd_open(pid)
            children[watched] = request["number"], pid
            selector.register(watched, selectors.EVENT_READ)
            channel.send(json.dumps({"number": request["number"], "pid": pid}).encode())


def become(request):
    """Does what a fresh interpreter does with arguments, environment, folder and output."""
    if request["session"]:
        os.setsid()
    for place, output in enumerate(request["outputs"], 1):
        os.dup2(output, place)
    for output in request["outputs"]:
        os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # Compiled once for all programs, outside of the tree.
    sys.pycache_prefix, sys.dont_write_bytecode = request["compiled"], False
    _, *sys.argv = request["argv"]
    if sys.argv[0] == "-m":
        _, name, *arguments = sys.argv
        sys.argv, sys.path[0] = [name, *arguments], os.getcwd()
        runpy._run_module_as_main(name)
    else:
        path = sys.argv[0]
        sys.path[0] = os.path.dirname(os.path.abspath(path))
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), path, "exec")
        main = sys.modules["__main__"].__dict__
        main.clear()
        main.update(__name__="__main__", __file__=path, __builtins__=builtins)
        exec(code, main)


def main(channel):
    """A parent process; ``channel`` is its end of the connection."""
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for part in PARTS:
        try:
            importlib.import_module(part)
        except ModuleNotFoundError:
            break
    # A look for garbage would copy all of it into each program.
    gc.collect()
    gc.freeze()
    request = serve(socket.socket(fileno=channel))
    if request is not None:
        become(request)
