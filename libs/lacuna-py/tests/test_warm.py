"""Programs that begin warm are programs of their own: see warm.py."""

import signal
import subprocess
import sys

import pytest

from conftest import SOURCE

PROGRAM = """
import os, sys
known = [name for name in ("torch", "lacuna") if name in sys.modules]
print(__name__, sys.argv[1:], dict(os.environ)["MARK"], os.getcwd(), known)
print(os.getsid(0) == os.getpid(), file=sys.stderr)
if sys.argv[1:] == ["waits"]:
    import time
    print("here", flush=True)
    time.sleep(60)
sys.exit(3)
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    options |= {"cwd": tmp_path, "env": {"PYTHONPATH": SOURCE, "MARK": "a mark"}}
    return [sys.executable, "program.py"], options


def test_a_program_has_what_it_is_given_and_its_exit_code(command, tmp_path):
    argv, options = command
    done = subprocess.run([*argv, "one", "two"], stderr=subprocess.PIPE, timeout=60, **options)
    said = f"__main__ ['one', 'two'] a mark {tmp_path} ['torch']\n"
    assert (done.stdout, done.stderr, done.returncode) == (said, "True\n", 3)


def test_a_program_that_is_killed_ends_by_its_signal(command):
    argv, options = command
    with subprocess.Popen([*argv, "waits"], **options) as process:
        assert process.stdout.readline().startswith("__main__")
        assert process.stdout.readline() == "here\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        assert process.poll() is None
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
