"""slurm.conf as text, with the changes that `lacuna check slurm --snippet` prints."""


def changed(conf: str, snippet: str) -> str:
    """`conf` with the snippet's lines in place of its own of the same name, and with the changes of
    other partitions that its comments give ("# in the line of NAME: ...")."""
    lines = conf.splitlines()
    for line in snippet.split("\n# once, as an administrator")[0].splitlines():
        if line.startswith("# in the line of "):
            name, _, words = line.removeprefix("# in the line of ").partition(": ")
            lines = [with_words(old, words) if of(old) == f"PartitionName={name}" else old for old in lines]
        elif line and not line.startswith("#"):
            lines = [old for old in lines if of(old) != of(line)] + [line]
    return "\n".join(lines) + "\n"


def of(line: str) -> str:
    """The key of a line: a partition, or a setting of the cluster."""
    first = (line.split() or [""])[0]
    return first if first.startswith("PartitionName=") else first.split("=")[0]


def with_words(line: str, words: str) -> str:
    """A line with other values of some settings."""
    new = {word.split("=")[0]: word for word in words.split()}
    kept = [word for word in line.split() if word.split("=")[0] not in new]
    return " ".join([*kept, *new.values()])
