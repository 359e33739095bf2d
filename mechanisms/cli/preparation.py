"""What a command does before it spends anything: named on the terminal, and interrupted without a cost."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import accountant as ac
from mechanisms.cli.cluster_option import on_cluster
from mechanisms.cli.data import CommandData, load_data
from mechanisms.cli.sharded import load_sharded
from mechanisms.phases import phase
from mechanisms.private_knn import ThinSampleWarning

__all__ = ["plan_run", "read_data", "warn_of_delta"]

NOT_BEGUN = "before anything was spent"


def read_data(options: argparse.Namespace) -> CommandData:
    """The data of a command; errors as for `load_data`."""
    with _before_spending("reading the records"):
        return load_sharded(options) if on_cluster(options) else load_data(options)


@contextmanager
def plan_run() -> Iterator[None]:
    """A block that fixes a run; warnings about its plan are printed as one line on standard error."""
    with (
        warnings.catch_warnings(record=True) as caught,
        _before_spending("finding the noise (the first time compiles)"),
    ):
        warnings.simplefilter("always", ThinSampleWarning)
        yield
    for each in caught:
        if issubclass(each.category, ThinSampleWarning):
            print(f"mechanisms: warning: {each.message}", file=sys.stderr)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def warn_of_delta(delta: float, nominal: int) -> None:
    """A line on standard error where delta is large beside the public number of private records."""
    if caution := ac.terminal.caution_of_delta(delta, nominal):
        print(f"mechanisms: warning: {caution}", file=sys.stderr)


@contextmanager
def _before_spending(name: str) -> Iterator[None]:
    try:
        with phase(name):
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(NOT_BEGUN) from None
