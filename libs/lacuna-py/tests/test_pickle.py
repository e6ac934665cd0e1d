"""Nothing that is shipped unpickles what came over a network or lies in a file."""

import ast
from pathlib import Path

import lacuna

#: Modules that run what they read.
PICKLING = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
#: Functions of torch.distributed that pickle messages.
PICKLED = {
    *("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
    *("send_object_list", "recv_object_list", "rpc_sync", "rpc_async"),
}


def faults(path):
    """What unpickles in a module, by its syntax."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    imported = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    for module in imported:
        if module.split(".")[0] in PICKLING:
            yield f"{path.name} imports {module}"
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        where = f"{path.name}:{node.lineno}"
        words = {word.arg: word.value for word in node.keywords}
        called = ast.unparse(node.func)
        name = called.rsplit(".", 1)[-1]
        if called == "torch.load" and getattr(words.get("weights_only"), "value", 0) is not True:
            yield f"{where} torch.load without weights_only=True"
        if "allow_pickle" in words or name in PICKLED:
            yield f"{where} {name} pickles"
        # Of a connection of multiprocessing, send_bytes and recv_bytes do not.
        if name in ("recv", "send") and "multiprocessing.connection" in imported:
            yield f"{where} {called} pickles"


def test_nothing_that_is_shipped_unpickles():
    here = Path(__file__).parents[1]
    folders = [Path(lacuna.__file__).parent, here / "tables", here / "examples"]
    modules = [module for folder in folders for module in sorted(folder.rglob("*.py"))]
    assert {"serving.py", "saving.py", "checkpoint.py", "rows.py"} <= {module.name for module in modules}
    assert [fault for module in modules for fault in faults(module)] == []


def test_what_unpickles_is_found(tmp_path):
    module = tmp_path / "bad.py"
    module.write_text(
        "import pickle\nfrom multiprocessing.connection import Client\n"
        "torch.load('x')\ntorch.load('x', weights_only=False)\n"
        "dist.broadcast_object_list([])\nnp.load('x', allow_pickle=True)\nClient('x').recv()\n"
    )
    assert len(list(faults(module))) == 6
