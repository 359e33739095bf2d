"""Whole numbers that a user gives in a file: rows, clusters."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["read_whole_numbers"]


def read_whole_numbers(text: str, accepted: str) -> tuple[int, ...]:
    """The numbers in the file that ``@FILE`` names, for argparse; `accepted` says what they are.

    Raises
    ------
    argparse.ArgumentTypeError
        There is no such file, or it holds something else or nothing.
    """
    try:
        found = tuple(int(line) for line in Path(text[1:]).read_text(encoding="utf-8-sig").split())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "holds something else than whole numbers"
        raise argparse.ArgumentTypeError(f"{text!r}: {reason}; accepted: a file with {accepted}") from None
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: holds nothing; accepted: a file with {accepted}")
    return found
