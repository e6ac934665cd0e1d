"""Figures of repeated measurements, and tables of them."""

import statistics


def summary(values: list[float]) -> dict:
    """Median, quartiles and range of at least one value, in the values' own unit."""
    low, middle, high = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    )
    return {
        "n": len(values),
        "median": middle,
        "q1": low,
        "q3": high,
        "min": min(values),
        "max": max(values),
    }


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: list[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in [head, *rows])


def seconds(value: float) -> str:
    """Seconds to the millisecond."""
    return f"{value:.3f}"
