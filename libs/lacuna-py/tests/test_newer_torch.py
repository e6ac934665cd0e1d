"""The stand-ins of `newer_torch.py` for libraries of GPUs: an error or an answer, and no crash."""

import inspect
import os
import re
import runpy
import signal

import torch

from conftest import HERE, newer

#: They wait for a device, end the process, or belong to one.
LEFT_OUT = re.compile("_?(sleep|busy_wait_for_flag|exit|make_graphed_callables)")


def ends(function):
    """The signal that ends a process which calls the function, or 0."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(20)
        try:
            function()
        except BaseException:  # noqa: BLE001 - an error is an answer.
            pass
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@newer(torch.version.cuda and not torch.cuda.is_available(), "it needs no GPU, and PyTorch for one")
def test_what_a_framework_asks_about_gpus_does_not_end_its_process(tmp_path, monkeypatch):
    # Some of them write a file.
    monkeypatch.chdir(tmp_path)
    modules = (torch.cuda, torch.cuda.tunable, torch.backends.cuda, torch.accelerator)
    asked = {
        f"{module.__name__}.{name}": one
        for module in modules
        for name, one in inspect.getmembers(module, inspect.isroutine)
        if not name.startswith("_") and not LEFT_OUT.match(name)
    }
    assert len(asked) > 80 and "torch.cuda.is_current_stream_capturing" in asked
    crashed = {name: ended for name, one in asked.items() if (ended := ends(one))}
    assert not crashed


def test_errors_have_a_text_in_the_libraries_that_stand_in():
    made = runpy.run_path(str(HERE.parent / "newer_torch.py"))
    texts = ["cudaGetErrorString", "cudaGetErrorName", "cudnnGetErrorString", "ncclGetLastError"]
    texts += ["cusparseGetErrorString", "nvrtcGetErrorString", "cublasGetStatusString"]
    for name in texts:
        assert made["function"](name).startswith("const char *")
    for name in ("cuGetErrorString", "cudaGetLastError", "cudaGetDevice", "cudaDriverGetVersion"):
        assert made["function"](name).startswith("int ")
