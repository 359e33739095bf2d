"""``--workers`` and ``--scheduler``: private records stay in Parquet files, which workers read."""

from __future__ import annotations

import argparse

import accountant as ac
from mechanisms.cli.output_option import OptionError

__all__ = ["add_cluster", "on_cluster"]


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Options that leave private records in Parquet files, which workers read."""
    text = "private records stay in Parquet files, which so many workers read on this machine"
    parser.add_argument("--workers", metavar="N", type=ac.terminal.whole, help=text)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="or workers of this Dask scheduler, as tcp://host:8786")


def on_cluster(options: argparse.Namespace) -> bool:
    """Whether private records stay in partitions.

    Raises
    ------
    OptionError
        Options do not go together.
    """
    workers, scheduler = getattr(options, "workers", None), getattr(options, "scheduler", None)
    if workers is not None and scheduler is not None:
        raise OptionError("--workers was given with --scheduler; accepted: one or the other")
    return workers is not None or scheduler is not None
