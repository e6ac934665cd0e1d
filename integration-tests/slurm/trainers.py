"""Files of trainers that tests and measurements submit."""

import json

# A trainer on programs/counted.py; fields go in by str.replace, as TOML has braces.
COUNTED = """
[[trainer]]
name = "@NAME"
launcher = "@LAUNCHER"
program = "@PROGRAM"
arguments = [@ARGUMENTS]
checkpoint_dir = "/shared/@NAME"
samples = @SAMPLES
min_nodes = 1
max_nodes = 4
scaling = { nodes = [1, 4], samples_per_s = [300.0, 1000.0] }
rescale = { up = "500ms", down = "500ms" }
"""


def counted(name: str, launcher: str = "regroup", samples: float = 1e9, seconds: float = 0.05) -> str:
    """The trainer's file. `seconds` is how long a step takes at least, until /shared/NAME.hurry is
    there."""
    words = ["/test-cluster/programs/counted.py", "--seconds", str(seconds), "--hurry", f"/shared/{name}.hurry"]
    program = "python3"
    if launcher == "torchrun":
        program, words = words[0], words[1:]
    text = COUNTED
    for field, value in {
        "@NAME": name,
        "@LAUNCHER": launcher,
        "@PROGRAM": program,
        "@ARGUMENTS": ", ".join(json.dumps(word) for word in words),
        "@SAMPLES": str(samples),
    }.items():
        text = text.replace(field, value)
    return text
