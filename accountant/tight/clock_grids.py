"""Games on clocks whose ticks are in proportion to what references cost on the grid on which they are played.

A step on a grid has more variance than its pair by the square of the grid's step, however small the pair is. Where
ticks are in proportion to the divergences of pairs, whoever takes the shortest reference all the time has that in each
of his many steps (notebooks/mathematics.md, Many kinds of screening).
"""

from __future__ import annotations

import numpy as np

from accountant.patience import count_done
from accountant.tight.clock_game import Cut, Sized, size_clock
from accountant.tight.clock_ladders import Rung, clock_of, with_nothing
from accountant.tight.clock_references import Clock, Kind, Reference, cost_of, share_of
from accountant.tight.clock_tuning import WHOLE, lost_ticks, own_rung, scale

__all__ = ["fit_to_grid", "fit_work", "most_taken"]

FITTED, HELD = 4e6, 5e5
"""Operations (see `accountant.patience`) of a reference, and of a kind, about."""


def fit_work(clock: Clock) -> float:
    """Operations of a fit, about; of one reference none is made."""
    count = len(clock.references)
    return FITTED * count + HELD * len(clock.kinds) if count > 1 else 0.0


def fit_to_grid(sized: Sized, cut: Cut) -> tuple[Sized, Cut]:
    """A game of the same kinds, with references that take ticks by what they cost on that grid, and its strides.

    The same game where there is one reference, or where others would cost more.
    """
    order, clock = 1 + sized.b, sized.clock
    if len(clock.references) > 1:
        count_done(fit_work(clock))
        clock = min(clock, _fit(clock, order, cut.step), key=lambda each: most_taken(each, order, cut.step))
    if clock is sized.clock:
        return sized, cut
    stride = None if cut.stride is None else cut.stride._replace(longest=clock.longest)
    return size_clock(clock, order, sized.log_delta), cut._replace(stride=stride)


def most_taken(clock: Clock, order: float, step: float) -> float:
    """What all ticks cost on that grid whoever takes the reference that costs most for its ticks, about."""
    return clock.mean() * max(cost_of(each.pairs, order, step) / each.ticks for each in clock.references)


def _fit(clock: Clock, order: float, step: float) -> Clock:
    """All kinds by references that cost the same for each of their ticks, or, where they are none, by their own."""
    costs = [cost_of(kind.above, order, step) if kind.cost > 0.0 else 0.0 for kind in clock.kinds]
    known = [cost_of(each.pairs, order, step) for each in clock.references]
    tick = _best_tick(clock, costs, known)
    scaled = (
        scale(each.pairs, cost, each.ticks, tick, order, step)
        for each, cost in zip(clock.references, known, strict=True)
    )
    references = [None, *scaled]
    held = list[Rung]()
    for kind, cost, (low, high), share in zip(clock.kinds, costs, clock.rungs, clock.shares, strict=True):
        if cost > 0.0:
            mixed = None if share == 1.0 else _mix(kind, references[low], references[high])
            held.append(mixed or own_rung(kind, cost, tick, order, step))
    return with_nothing(clock_of(held), [kind for kind in clock.kinds if kind.cost == 0.0])


def _mix(kind: Kind, low: Reference | None, high: Reference | None) -> Rung | None:
    """A kind as that mixture; None where it is none."""
    if high is None:
        return None
    share = share_of(kind.above, high.pairs, None if low is None else low.pairs)
    return (kind, low, high, share) if share <= 1.0 else None


def _best_tick(clock: Clock, costs: list[float], known: list[float]) -> float:
    """What a tick costs: so much that some reference stays as it is, by which all screenings cost least, about.

    `costs` are those of the kinds, `known` those of the references.
    """
    tried = np.array(known) / np.array([each.ticks for each in clock.references])
    ticks = np.divide.outer(np.array(costs), tried)
    taken = np.array([kind.times for kind in clock.kinds]) @ (ticks + np.minimum(*lost_ticks(ticks)))
    return float(tried[np.argmin(taken * tried)]) * (1 + WHOLE / 10)
