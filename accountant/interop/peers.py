"""What the modules of all peers share: how a peer is imported, and how a run is priced for it."""

from __future__ import annotations

import math
from contextlib import suppress
from importlib import import_module
from typing import Any

from accountant.errors import (
    DataDependentError,
    MissingExtra,
    NoGuarantee,
    ProfileUnavailable,
    ToleranceUnreachable,
    real,
)
from accountant.events.composition import Composition
from accountant.guarantee import Guarantee
from accountant.price import delta, epsilon

__all__ = ["import_peer", "narrow_delta", "narrow_epsilon", "price_delta", "price_epsilon", "refuse_secret"]

WIDTHS = ((2_000, 2e-6), (20_000, 1e-5), (100_000, 1e-4), (math.inf, 1e-3))
"""Relative width of epsilon that is asked of a run of at most so many releases: what takes about a second."""

NARROWEST = 2e-6
"""Width that is asked of a run of one kind of release alone."""

FEW = 100
"""Releases up to which delta is as exact as epsilon."""

WIDEST = 0.1
"""Width beyond which the certified interval is given up for the Rényi bound."""


def import_peer(module: str, extra: str) -> Any:
    """A module of a peer's package.

    Raises
    ------
    MissingExtra
        The package, or something that it needs, is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{module} cannot be imported ({error}); accepted: pip install 'knn-accountant[{extra}]'"
        ) from None


def narrow_epsilon(run: Composition, delta: float, tolerance: float | None = None) -> Guarantee:
    """Epsilon in the narrowest certified interval that can be had, else the best Rényi bound.

    Parameters
    ----------
    run : Composition
    delta : float
        In [0, 1).
    tolerance : float, optional
        Relative width to begin with, [1e-6, 1]; without it one that suits the number of releases. Where it cannot be
        reached, five times as much, and so on.

    Raises
    ------
    NoGuarantee
        No epsilon is enough.
    """
    for width in _widths(run, tolerance):
        try:
            return epsilon(run, delta, method="tight", tolerance=width)
        except ToleranceUnreachable:
            continue
        except ProfileUnavailable:
            break
    return epsilon(run, delta, method="renyi", conversion="optimal")


def narrow_delta(run: Composition, point: float, tolerance: float | None = None) -> Guarantee:
    """Delta at an epsilon >= 0, as `narrow_epsilon`.

    Of more than 100 releases its width is a hundred times as large, relative to delta; close to the largest loss, where
    delta vanishes, at least 1e-3.
    """
    factor = 1.0 if run.releases <= FEW else 100.0
    least = 1e-3 if point > 0.99 * float(run.renyi(math.inf)) else 0.0
    for width in _widths(run, tolerance):
        try:
            return delta(run, point, method="tight", tolerance=min(max(factor * width, least), 1.0))
        except ToleranceUnreachable:
            continue
        except ProfileUnavailable:
            break
    return delta(run, point, method="renyi", conversion="optimal")


def price_epsilon(run: Composition, target: float, tolerance: float | None = None) -> float:
    """The upper end of `narrow_epsilon` at a delta in [0, 1]; inf where no epsilon is enough."""
    point = real("delta", target, 0.0, 1.0)
    if point == 1.0 or run.releases == 0:
        return 0.0
    with suppress(NoGuarantee):
        return narrow_epsilon(run, point, tolerance).epsilon
    return math.inf


def price_delta(run: Composition, target: float, tolerance: float | None = None) -> float:
    """The upper end of `narrow_delta` at an epsilon in [0, inf]."""
    point = real("epsilon", target, 0.0, math.inf)
    if run.releases == 0 or run._largest_loss() <= point < math.inf:
        return 0.0
    # delta falls: what holds at 1e300 holds beyond
    return narrow_delta(run, min(point, 1e300), tolerance).delta


def refuse_secret(run: Composition) -> None:
    """Raise DataDependentError where the cost depends on private data: objects of peers do not say so."""
    if run.data_dependent:
        raise DataDependentError(
            "the cost of this run depends on private data, so what is made of it for others leaks; accepted: events "
            "whose cost does not"
        )


def _widths(run: Composition, tolerance: float | None) -> list[float]:
    """The given width, or the one that suits the run, and wider ones."""
    if tolerance is None:
        # of several kinds no grid fits all: the narrowest intervals may be out of reach, which is found out slowly
        first = next(width for most, width in WIDTHS if run.releases <= most and (len(run) == 1 or width > NARROWEST))
    else:
        first = real("tolerance", tolerance, 1e-6, 1.0)
    widths = [first]
    while widths[-1] < WIDEST:
        widths.append(5 * widths[-1])
    return widths
