"""The parts of the delay that pilots add to a batch job: Lacuna's metric beside the outside.

Plain functions of measured seconds. Of every part a median with quartiles: a difference of two
samples that were not taken in pairs is the summary of all differences between them.
"""

from dataclasses import dataclass, field

from stats import seconds, summary, table


@dataclass
class Samples:
    """The delays of one width of batch job."""

    # The same srun with and without pilots.
    without: list[float] = field(default_factory=list)
    behind_pilots: list[float] = field(default_factory=list)
    # Where all prologs behind pilots reported: the delay, and Lacuna's metric.
    reported: list[tuple[float, float]] = field(default_factory=list)
    # How long an agent's process lived on after the last moment of its metric.
    ends: list[float] = field(default_factory=list)
    # By the prologs: from the signal to the start of the job.
    handovers: list[float] = field(default_factory=list)
    # Without Lacuna: no job in the way, a job that ends at once, the same on loaded nodes.
    empty: list[float] = field(default_factory=list)
    dies: list[float] = field(default_factory=list)
    dies_loaded: list[float] = field(default_factory=list)


def differences(values: list[float], base: list[float]) -> dict:
    """Every value less every one of the base; `n` is that of the smaller sample."""
    return summary([value - below for value in values for below in base]) | {"n": min(len(values), len(base))}


def parts(one: Samples) -> dict[str, dict]:
    """Name of each part to its figures."""
    after = summary(one.ends)
    rest = [delay - harm - after["median"] for delay, harm in one.reported]
    found = {
        "srun without pilots": summary(one.without),
        "srun behind pilots": summary(one.behind_pilots),
        "added": differences(one.behind_pilots, one.without),
        "of it: Lacuna's metric, last node": summary([harm for _, harm in one.reported]),
        "of it: end of the agent's process": after,
    }
    if one.dies:
        found |= {
            "of it: Slurm's own (behind sleep)": differences(one.dies, one.empty),
            "of it: Slurm's own grows by load": differences(one.dies_loaded, one.dies),
            "of it: not explained": differences(rest, one.dies_loaded),
        }
    if one.handovers:
        found["signal to prolog"] = summary(one.handovers)
    return found


def disagreement(one: Samples) -> str | None:
    """The contradictions of metric and outside: a job cannot have waited longer for Lacuna than it
    was delayed. Within the quartiles of the delays they may differ by chance."""
    left = differences([delay - harm for delay, harm in one.reported], one.without)
    if left["q3"] >= 0:
        return None
    added = differences([delay for delay, _ in one.reported], one.without)
    harm = summary([harm for _, harm in one.reported])
    return (
        f"Lacuna's metric of harm cannot be right: it says {figures(harm)} s (median, quartiles), "
        f"but srun waited only {figures(added)} s longer than without pilots"
    )


def figures(row: dict) -> str:
    return f"{seconds(row['median'])} ({seconds(row['q1'])}-{seconds(row['q3'])})"


def show(rows: list[dict]) -> str:
    """`rows` have a launcher, a width and parts."""
    lines = [
        [
            f"{row['launcher']} -N{row['nodes']}: {name}",
            str(part["n"]),
            seconds(part["median"]),
            f"{seconds(part['q1'])}-{seconds(part['q3'])}",
        ]
        for row in rows
        for name, part in row["parts"].items()
    ]
    return table(["what a batch job waited for", "n", "median s", "quartiles"], lines)
