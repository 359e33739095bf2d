"""Runs that are priced by a known profile from above, and of which some releases may cost less than that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from accountant.adjacency import Direction
from accountant.errors import NoGuarantee, ProfileUnavailable, ToleranceUnreachable
from accountant.events.composition import Composition
from accountant.events.two_candidates import aim_at
from accountant.guarantee import BETWEEN_BOUNDS, Guarantee
from accountant.numerics.roots import Interval
from accountant.tight.answers import Answers
from accountant.tight.curve_pairs import KnownByCurve
from accountant.tight.searched import is_searched
from accountant.tight.trade_off import BetweenTradeOffs, TradeOff

__all__ = ["BoundedAnswers", "lower_of", "names_between_bounds", "run_below", "say_between_bounds"]


@contextmanager
def reached_from_below(reached: bool) -> Iterator[None]:
    """Unless so, refusals certify nothing from below: their lower ends are a profile's that no data may reach."""
    try:
        yield
    except ToleranceUnreachable as error:
        if not reached and error.found is not None:
            error.found, error.wide = (0.0, error.found[1]), ""
        if not reached and error.curve is not None:
            error.curve = [(0.0, high) for _, high in error.curve]
        raise


class Priced(Protocol):
    """A run that has prices of its own."""

    def epsilon(self, delta: float) -> Guarantee: ...

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]: ...

    def trade_off(self, direction: Direction) -> TradeOff: ...


def run_below(
    run: Composition, as_tests: bool = False, delta: float | None = None, epsilon: float | None = None
) -> Composition | None:
    """A run that costs no more, where some release is priced by a bound that no data may reach; else None.

    What has a profile of its own although it is between bounds is priced by that (`_sharpened`). A single release may
    have other data at each epsilon, but for `as_tests`: true-positive rates are those of one pair. What is chosen for a
    delta, or for an epsilon, is chosen for `delta` or `epsilon`.
    """
    alone, entries = run.releases == 1 and not as_tests, list(run)
    known = [event if event._sharpened() else event._certain(0 if alone else count) for event, count in entries]
    plain = [(one, count) for one, (_, count) in zip(known, entries, strict=True)]
    least = [event for event, _ in aim_at(plain, delta, epsilon)]
    if all(one is event for one, (event, _) in zip(least, entries, strict=True)):
        return None
    return Composition((one, count) for one, (_, count) in zip(least, entries, strict=True))


def names_between_bounds(run: Composition) -> list[str]:
    """Kinds of releases of which the lower end of a price is that of other pairs than the upper end."""
    alone = run.releases == 1
    entries = [
        each
        for event, count in run
        if event.between_bounds or event._certain(0 if alone else count) is not event
        for each in (event.releases if isinstance(event, KnownByCurve) else [(event, count)])
    ]
    return sorted({type(event.unsampled).__name__ for event, _ in entries})


def say_between_bounds(run: Composition) -> str:
    """Which kinds these are, in words; nothing where there are none."""
    names = names_between_bounds(run)
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {BETWEEN_BOUNDS}" if names else ""


def lower_of(ask: Callable[[], float]) -> float:
    """What is certified from below; 0, which always holds, where nothing else is."""
    try:
        return ask()
    except ToleranceUnreachable as error:
        return 0.0 if error.found is None else error.found[0]
    except (NoGuarantee, ProfileUnavailable):
        return 0.0


@dataclass(frozen=True)
class BoundedAnswers:
    """Answers by a profile from above.

    `make_below` makes the run that costs no more ready, chosen for an epsilon if delta is asked at one, and is None if
    the profile is reached; `make_tests` the same of single pairs. Of a release that is priced by itself, `alone`, it is
    chosen for the epsilon from above.
    """

    above: Answers
    make_below: Callable[[float | None], Priced] | None
    make_tests: Callable[[], Priced]
    alone: bool = False

    @property
    def source(self) -> str:
        return self.above.source

    def epsilon(self, delta: float) -> Interval:
        make = self.make_below
        with reached_from_below(make is None):
            found = self.above.epsilon(delta)
        if make is None:
            return found
        if is_searched():
            return Interval(0.0, found.upper)
        aim = found.upper if self.alone else None
        return Interval(min(lower_of(lambda: make(aim).epsilon(delta).lower or 0.0), found.upper), found.upper)

    def deltas(self, epsilons: Sequence[float]) -> list[Interval]:
        with reached_from_below(self.make_below is None):
            found = self.above.deltas(epsilons)
        if self.make_below is None:
            return found
        lows = [0.0] * len(epsilons)
        with suppress(ToleranceUnreachable, NoGuarantee, ProfileUnavailable):
            below = self.make_below(epsilons[0] if len(epsilons) == 1 else None)
            lows = [lower_of(lambda x=x: below.deltas([x])[0].lower) for x in epsilons]  # type: ignore[misc]
        return [Interval(min(low, each.upper), each.upper) for low, each in zip(lows, found, strict=True)]

    def trade_off(self, direction: Direction) -> TradeOff:
        above = self.above.trade_off(direction)
        with suppress(ToleranceUnreachable, NoGuarantee, ProfileUnavailable):
            return BetweenTradeOffs(above, self.make_tests().trade_off(direction))
        return above
