"""Text of plans and records that terminals and pages show as it is written."""

from __future__ import annotations

from unicodedata import bidirectional, category

__all__ = ["is_plain"]

CONTROL = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of control characters, halves of others, and ends of lines."""

TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Classes of characters that change the direction of what follows."""

MARKS = "\u061c\u200e\u200f"
"""Marks that change the direction of what is beside them; their classes are those of letters."""


def is_plain(text: str, *, lines: bool = False) -> bool:
    """Whether no character steers what shows the text; with `lines`, it may have several, with tabs.

    What only joins, parts or hyphenates letters is plain: many languages are written with it.
    """
    return not any(map(_steers, text.replace("\n", "").replace("\t", "") if lines else text))


def _steers(mark: str) -> bool:
    return category(mark) in CONTROL or bidirectional(mark) in TURNS or mark in MARKS
