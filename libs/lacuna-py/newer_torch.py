#!/usr/bin/env python3
"""Makes a virtual environment with a current PyTorch: `newer_torch.py FOLDER [torchft]`.

PyPI has no build for the CPU alone. Its build for CUDA is 540 MB, and wants 2 GB of libraries
that a machine without GPUs loads at the start. So the environment gets stand-ins of their names, in
which each function answers "no device" (cudaErrorNoDevice): PyTorch raises an error from it, or says
that nothing is there, as its build for the CPU does. PyTorch's list of what it needs goes without
these libraries, so `pip install` of a framework into the environment does not fetch them. Needs cc
and readelf. `check.sh` tests with the environment `.venv` beside it as well, once it is whole: its
file `whole` says so. With `torchft` the environment has that too, for `python3 -m benches`.
"""

import re
import subprocess
import sys
import venv
from pathlib import Path

VERSION = "2.15.0"
#: What is wanted beside PyTorch and what that needs.
NEEDED = ["numpy", "pytest"]
#: What PyTorch needs for GPUs alone.
FOR_GPUS = re.compile(r"Requires-Dist: (cuda|nvidia|triton)")
#: What else can be wanted: packages without what they need, and what they need beside PyTorch.
OTHERS = {"torchft": (["torchft==0.2.0"], ["opentelemetry-exporter-otlp-proto-http>=1.39"])}
NO_DEVICE = 100
#: Functions that return a text, by which PyTorch tells the error.
TEXTS = re.compile(r"(?!cuGet)\w+Get(Error|Status)(Name|String)|ncclGetLastError")
#: Names of libraries that may be missing, and beginnings of the names of their functions.
LIBRARIES = ("libcu", "libnccl", "libnv")
FUNCTIONS = ("cu", "__cuda", "nccl", "nvrtc", "nvshmem", "nvtx")


def main():
    folder, *others = sys.argv[1:] or ["-"]
    if folder.startswith("-") or set(others) - set(OTHERS):
        print(__doc__, file=sys.stderr)
        return 64
    folder = Path(folder)
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "--no-deps", f"torch=={VERSION}")
    (described,) = folder.glob("lib/python3*/site-packages/torch-*.dist-info/METADATA")
    lines = described.read_text(encoding="utf-8").splitlines(keepends=True)
    described.write_text("".join(line for line in lines if not FOR_GPUS.match(line)), "utf-8")
    run(*install, f"torch=={VERSION}", *NEEDED)
    for packages, needed in map(OTHERS.get, others):
        run(*install, "--no-deps", *packages)
        run(*install, *needed)
    (libraries,) = folder.glob("lib/python3*/site-packages/torch/lib")
    stand_in(libraries)
    version = run(python, "-c", "import torch; print('torch', torch.__version__)")
    (folder / "whole").write_text(version)
    print(version, end="")
    return 0


def stand_in(folder):
    """Puts the missing libraries beside those of PyTorch, with all functions that these call."""
    own = sorted(folder.glob("*.so*"))
    needed, wanted, defined, library_of = set(), {}, set(), {}
    for path in own:
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-W", "-d", path)))
        library = ""
        for kind, name in re.findall(r"(File|Name): (\S+)", run("readelf", "-W", "-V", path)):
            if kind == "File":
                library = name
            elif library:
                library_of[name] = library
        for line in run("readelf", "-W", "--dyn-syms", path).splitlines():
            words = line.split()
            if len(words) < 8 or words[4] not in ("GLOBAL", "WEAK"):
                continue
            name, _, version = words[7].partition("@")
            if words[6] != "UND":
                defined.add(name)
            elif words[4] == "GLOBAL" and name.startswith(FUNCTIONS):
                wanted[name] = version.lstrip("@")
    for library in needed - {path.name for path in own}:
        if not library.startswith(LIBRARIES):
            continue
        versions = {}
        for name, version in wanted.items():
            if library_of.get(version) == library:
                versions.setdefault(version, []).append(name)
            elif library.startswith("libcudart") and not version and name not in defined:
                # One that no version ties to a library.
                versions.setdefault(library, []).append(name)
        script = [f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in versions.items()]
        path = folder / f"{library}.map"
        path.write_text("".join(script) or "{ global: *; };\n")
        names = {name for names in versions.values() for name in names}
        code = "".join(map(function, sorted(names)))
        options = [f"-Wl,-soname,{library}", f"-Wl,--version-script={path}"]
        run("cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-", *options,
            "-o", folder / library, text=code)  # fmt: skip


def function(name):
    """The code of a stand-in for a function."""
    if TEXTS.fullmatch(name):
        return f'const char *{name}(void) {{ return "no device"; }}\n'
    return f"int {name}(void) {{ return {NO_DEVICE}; }}\n"


def run(*argv, text=None):
    """The output of a command. Raises CalledProcessError, after its own words, if it fails."""
    words = [str(word) for word in argv]
    return subprocess.run(words, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
