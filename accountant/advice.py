"""What a refusal of the tight route advises, and what "auto" does instead: the same price at coarser tolerances.

Only the piece of work that is begun next is known exactly. What all of a price takes is told by the same price at
coarser tolerances, which takes less: what they took is counted, and a tolerance that is named is one that did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

from accountant.errors import AccountantError, NoGuarantee, OutOfPatience, ToleranceUnreachable
from accountant.guarantee import Guarantee, interval_of
from accountant.numerics.decimals import format_up_short
from accountant.numerics.roots import Interval
from accountant.patience import Allowance, allow_work, is_counted, rehearse_work

__all__ = ["allow_with_advice", "along_rungs", "at_coarser", "by_rungs", "coarser_than"]

T = TypeVar("T")

USUAL = 0.01
"""The tolerance that is tried first where a finer one is asked."""

RUNG = 10.0
"""Ratio of the tolerances that are tried."""

ABOVE = 1.001
"""Ratio from which on a tolerance is above another."""

HASTE, LEAST_HASTE = 0.3, 0.1
"""Seconds that the search for an advice may take, however much patience there is; and those of them for a tolerance
that are left where a patience was sought first, in vain."""

LARGER = "accepted: a larger tolerance"
"""What refusals say that know of no number."""

SHARE = 0.25
"""Share of the patience that is left which the first answer of that search may take."""

SURE = 2.0
"""What a price is said to take, as a multiple of what its work is known to be or grows to, and once more for each
RUNG that the tolerance is finer than the finest that was tried: found on random runs."""

STEEPEST = 1.2
"""Largest power of 1/tolerance with which work grows from one tolerance to the next."""

FAR = 1.5
"""RUNGs from the finest tolerance that was tried on from which a patience that is named is a least one."""

FLATTEST = 0.5
"""Its smallest power: that of a grid's points."""


def by_rungs(ask: Callable[[float], Guarantee], tolerance: float, asked: str = "epsilon") -> Guarantee:
    """The tight price at a tolerance; one finer than usual is come to by rungs, and nothing that they certify is lost.

    So a finer tolerance begins with the very work of a coarser one, and what that certifies no patience is missing for.

    Raises
    ------
    ToleranceUnreachable
        As the price raises it, with the narrowest interval that is known.
    """
    known, source = Interval(0.0, math.inf), ""
    for each in rungs_to(tolerance):
        try:
            found = ask(each)
        except ToleranceUnreachable as error:
            if error.found is not None and error.found[1] < known.upper:
                source = error.source
            if source or error.found is not None:
                lower, upper = error.found or (0.0, math.inf)
                error.found, error.source = (max(lower, known.lower), min(upper, known.upper)), source
            raise
        low, high = interval_of(found, asked)
        if high < known.upper:
            source = found.source or ""
        known = Interval(max(low, known.lower), min(high, known.upper))
    epsilon, delta = (known.upper, found.delta) if asked == "epsilon" else (found.epsilon, known.upper)
    return replace(found, epsilon=epsilon, delta=delta, lower=min(known.lower, known.upper), source=source)


def at_coarser(ask: Callable[[float], T], tolerance: float) -> Iterator[T]:
    """Answers at tolerances well above one that was refused, the coarsest first, for as long as there is patience."""
    for each in reversed(coarser_than(max(tolerance, USUAL))):
        with suppress(NoGuarantee, ToleranceUnreachable):
            yield ask(each)


def rungs_to(tolerance: float) -> list[float]:
    """The usual tolerance, finer ones, and the one that was asked last; that alone where it is coarser."""
    return [*(each for each in reversed(coarser_than(tolerance)) if each <= USUAL), tolerance]


def along_rungs(work: Callable[[float], None], tolerance: float) -> bool:
    """Do something at the usual tolerance and at finer ones down to the one that was asked, until one is refused.

    Where the first is refused it is done at coarser ones. Returns whether it was done at the one that was asked.
    """
    for number, each in enumerate(rungs_to(tolerance)):
        try:
            work(each)
        except ToleranceUnreachable:
            if number == 0:
                list(at_coarser(work, tolerance))
            return False
    return True


def coarser_than(tolerance: float) -> list[float]:
    """Tolerances well above one, the finest first."""
    return sorted(each for k in range(-2, 5) if (each := USUAL / RUNG**k) > tolerance * ABOVE)


class _Trial(NamedTuple):
    """A price at a tolerance, the work that it took, and the error if it is none."""

    tolerance: float
    work: Allowance
    found: Interval | None
    error: AccountantError | None = None

    @property
    def seconds(self) -> float:
        return self.work.taken


class _Trials:
    """The same price at other tolerances, for as long as a search for an advice may take."""

    def __init__(self, ask: Callable[[float], Interval | None], pool: float | None, seconds: float) -> None:
        self.ask, self.pool, self.seconds = ask, pool, seconds
        self.done: list[_Trial] = []

    def at(self, tolerance: float, most: float, asked: float | None = None) -> _Trial:
        """The price by at most so many seconds of work, or, not found, as many as it would have taken, or more."""
        with rehearse_work(most, self.pool, tolerance, asked or self.seconds) as work:
            try:
                return _Trial(tolerance, work, self.ask(tolerance))
            except AccountantError as error:
                return _Trial(tolerance, work, None, error)

    def descend(self, tolerance: float, hint: float | None, most: float, first: float) -> None:
        """The coarsest tolerance, the usual one, and finer and finer ones until one is refused, by so many seconds.

        Where the usual one is refused those in between. The first of all may take `first`, so that there is an advice
        where one is quick beside the patience.
        """
        rungs = {1.0} | {min(_short(tolerance * RUNG**k), 1.0) for k in range(1, 6)}
        if hint is not None and tolerance < hint < 1.0:
            rungs.add(hint)
        fine = sorted((each for each in rungs if each <= USUAL * ABOVE), reverse=True)
        between = sorted(rungs.difference(fine, {1.0}), reverse=True)
        refused = tolerance
        for some in ([1.0], fine, between):
            if some is between and fine and refused != fine[0]:
                break
            for each in some:
                found = self.at(each, max(first, most))
                most, first = most - found.seconds, 0.0
                if found.error is not None:
                    refused = each
                    break
                self.done.append(found)
            if not self.done:
                break
        if self.done and (middle := _short(math.sqrt(refused * self.done[-1].tolerance))) < self.done[-1].tolerance:
            found = self.at(middle, most)
            self.done += [found] if found.error is None else []

    def finest(self) -> _Trial | None:
        """The finest that is within the patience, also with no more than that; None where there is none.

        What is likely to be refused is begun or not by how much patience there is.
        """
        for each in reversed(self.done):
            if each.seconds * ABOVE <= self.seconds:
                again = self.at(each.tolerance, self.seconds) if self.seconds <= HASTE else each
                if again.error is None:
                    return again
        return None

    def enough(self, tolerance: float, found: _Trial) -> float:
        """A patience that does where a longer one did, and that a message names."""
        takes = float(format_up_short(found.seconds * ABOVE))
        while takes < HASTE and self.at(tolerance, takes, takes).error is not None:
            takes *= SURE
        return takes

    def takes(self, tolerance: float) -> tuple[float, bool]:
        """What a price at a finer tolerance takes, as those before it grew, rather more; and whether they tell it."""
        if not self.done:
            return 0.0, False
        *before, last = self.done
        power, finer = FLATTEST, math.log(last.tolerance / tolerance) / math.log(RUNG)
        if before and last.seconds > before[-1].seconds > 0.0:
            rise = math.log(last.seconds / before[-1].seconds) / math.log(before[-1].tolerance / last.tolerance)
            power = min(max(rise, FLATTEST), STEEPEST)
        grown = last.seconds * math.pow(last.tolerance / tolerance, power)
        return SURE * (1 + finer) * grown, finer <= FAR


def _short(tolerance: float) -> float:
    """With the digits that a message shows."""
    return float(f"{tolerance:.2g}")


@contextmanager
def allow_with_advice(
    seconds: float, ask: Callable[[float], Interval | None] | None, tolerance: float, pool: float | None = None
) -> Iterator[None]:
    """As `allow_work`; a refusal names a patience and a tolerance that would do, as far as there are any.

    Parameters
    ----------
    seconds : float
    ask : callable or None
        The tight price at a tolerance: its interval, or None where it is not a single one. None by the Rényi route,
        where refusals stay as they are.
    tolerance : float
        What was asked.
    pool : float, optional
    """
    part = ask is None or is_counted()
    with allow_work(seconds, pool, tolerance) as work:
        try:
            yield
        except ToleranceUnreachable as error:
            if part or error.foreseen:  # whoever counts says what would do
                raise
            refusal, left = error, work.left
        else:
            return
    assert ask is not None
    raise _advise(refusal, _Trials(ask, pool, seconds), tolerance, seconds, SHARE * left) from None


def _advise(
    error: ToleranceUnreachable, trials: _Trials, tolerance: float, seconds: float, first: float
) -> ToleranceUnreachable:
    """The refusal with what trials tell, of which the first may take so many seconds."""
    known, least, most = None, 0.0, HASTE
    if isinstance(error, OutOfPatience):
        least = error.seconds
        if least < HASTE:  # it may take little more than was allowed
            known = trials.at(tolerance, HASTE, HASTE)
            least = max(least, known.error.seconds if isinstance(known.error, OutOfPatience) else 0.0)
            most = min(HASTE, seconds)  # only a tolerance is asked for
            if known.error is not None:
                most = max(HASTE - known.seconds, LEAST_HASTE)
    trials.descend(tolerance, float(error.wide) if error.wide else None, most, first)
    best = trials.finest()
    if isinstance(error, OutOfPatience):
        if known is not None and known.error is None:
            takes, told = trials.enough(tolerance, known), True
        else:
            grown, near = (least, False) if error.whole else trials.takes(tolerance)
            takes, told = max(grown, SURE * least), near and least <= grown
        refusal: ToleranceUnreachable = OutOfPatience(_reword(error, takes, told, seconds, best), takes)
    else:
        said = error.args[0]
        if best is not None and LARGER in said:
            said = said.replace(LARGER, f"accepted: tolerance = {best.tolerance:g} or more")
        elif best is not None and best.found is None:
            said += f"; accepted also: tolerance = {best.tolerance:g}"
        refusal = ToleranceUnreachable(said)
    refusal.found, refusal.source, refusal.wide = error.found, error.source, "" if error.found else None
    if best is not None and best.found is not None:
        lower, upper = error.found or best.found
        refusal.found = max(lower, best.found.lower), min(upper, best.found.upper)
        refusal.wide = f"{best.tolerance:g}"
    return refusal


def _reword(error: OutOfPatience, takes: float, told: bool, patience: float, best: _Trial | None) -> str:
    """What it says of the work that is next, and then what all of it takes."""
    said, _, rest = error.args[0].partition(", patience = ")
    otherwise = rest.partition("; otherwise: ")[2].partition("; accepted: patience")[0]
    accepted = [f"patience = {format_up_short(takes)} {'or more' if told else 'at least'}"]
    if best is not None:
        accepted.append(f"tolerance = {best.tolerance:g} or more")
    whole = f", the whole price about {format_up_short(takes)} s" if takes < 1e15 else ""
    text = f"{said}{whole}, patience = {patience:g}; accepted: {', '.join(accepted)}"
    return f"{text}; otherwise: {otherwise}" if otherwise else text
