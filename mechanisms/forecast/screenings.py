"""Which screenings a plan compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

__all__ = ["Screening", "combine_screenings"]

Screening = tuple[float | None, float | None, int]
"""Ratio of its noise to that of a vote and threshold as a share, both None without screening; and most answers."""


def combine_screenings(
    ratios: Sequence[float | None], thresholds: Sequence[float], parts: Sequence[float], queries: int
) -> Iterator[Screening]:
    """All screenings of so many queries; `parts` are most answers with screening, as shares of the queries."""
    for ratio in ratios:
        if ratio is None:
            yield None, None, queries
        else:
            for threshold, part in product(thresholds, parts):
                yield ratio, threshold, max(round(part * queries), 1)
