"""How `--split` cuts one data set into private, public and test records."""

from __future__ import annotations

from mechanisms.cli.results_file import OptionError

__all__ = ["DEFAULT_SPLIT", "parse_split"]

DEFAULT_SPLIT = "0.55,0.28,0.17"
"""Shares of private, public and test records."""


def parse_split(split: str | None, n: int) -> tuple[int, int, int]:
    """Numbers of private, public and test records, from `--split` as shares or as numbers."""
    accepted = f"accepted: three shares that sum to at most 1, or three whole numbers that sum to at most {n}"
    try:
        values = [float(part) for part in (DEFAULT_SPLIT if split is None else split).split(",")]
    except ValueError:
        values = []
    shares = sum(values) <= 1 + 1e-12
    if len(values) != 3 or not all(value > 0 and (shares or value == int(value)) for value in values):
        raise OptionError(f"--split {split}: {accepted}")
    first, second, third = (int(value * n + 1e-9) if shares else int(value) for value in values)
    if first + second + third > n or min(first, second, third) < 1:
        raise OptionError(f"--split {split}: {accepted}")
    return first, second, third
