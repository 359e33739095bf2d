"""``--out``, ``--again``, ``--dry-run`` and ``--json``, and what of them does not go together."""

from __future__ import annotations

import argparse

import accountant as ac

__all__ = ["OptionError", "add_output", "refuse_no_output", "refuse_seeded_repeat"]


class OptionError(ac.AccountantError, ValueError):
    """Options that do not go together, or an output that cannot be written."""


def add_output(parser: argparse.ArgumentParser, out: str, dry_run: bool = False) -> None:
    """Options about results; `out` says what the file holds, `dry_run` whether the command can end before it."""
    add = parser.add_argument
    add("--out", metavar="FILE", help=out)
    if dry_run:
        text = "print the plan and its price, and end: nothing is drawn from private records, nothing is written"
        add("--dry-run", action="store_true", help=text)
    add("--again", action="store_true", help="release and pay again, though FILE holds the results of a finished run")
    add("--json", action="store_true", help="one JSON object instead of a table")


def refuse_no_output(options: argparse.Namespace) -> None:
    """Refuse to draw noise for labels that nobody would keep.

    Raises
    ------
    OptionError
        There is neither ``--out`` nor ``--dry-run``.
    """
    if options.out is None and not options.dry_run:
        accepted = "--out FILE, or --dry-run, which prints the plan and its price and draws nothing"
        raise OptionError(f"without --out the labels would be paid for and lost; accepted: {accepted}")


def refuse_seeded_repeat(options: argparse.Namespace) -> None:
    """Refuse --again with --seed, which could release the same noise twice."""
    if options.again and options.seed is not None:
        reason = "its noise could repeat that of an earlier release"
        raise OptionError(f"--again was given with --seed: {reason}; accepted: --again without --seed")
