"""How much work a price may take: counted before it is done, never timed, so that a call ends alike everywhere.

Whoever is about to do much work says how many operations it takes (`spend`); where they are more than what is left of
the allowance, the work is not begun. What is counted does not depend on what happens to be in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from accountant.errors import OutOfPatience, real
from accountant.numerics.decimals import format_up_short
from accountant.variables import set_while

__all__ = [
    "OPERATIONS_PER_SECOND",
    "PATIENCE",
    "Allowance",
    "Progress",
    "allow_work",
    "check_patience",
    "count_done",
    "fits",
    "followed_by",
    "foresee",
    "grant",
    "has_limit",
    "is_counted",
    "is_kept",
    "keep",
    "rehearse_work",
    "remember",
    "remembered_as",
    "share_patience",
    "skip_counting",
    "spend",
    "spend_apart",
    "tally_work",
    "watch_work",
]

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 5.0
"""Seconds of work that a price may take unless another number is given."""

OPERATIONS_PER_SECOND = 1e9
"""What one idle core of about 2020 does: an operation is a nanosecond of it; constants that count work are of that."""

KEPT = 64
"""Things that an allowance keeps of its work."""

LIKELY = 0.6
"""Share of what is likely to follow refused work that is counted: refusals name a multiple of the sum."""

Progress = Callable[[float, float], None]
"""Is told the seconds of work that are spent, and those that will be when what is begun now is done."""

Piece = tuple[Hashable, float]
"""What a piece of work makes, None for what no other work makes use of, and its operations."""

Costs = tuple[Hashable, float, float | None]
"""A piece, and how much would be free; None for what was counted when it was done."""


class Allowance:
    """What is left of one price's work, in operations."""

    def __init__(self, seconds: float, pool: float | None = None, tolerance: float | None = None) -> None:
        self.seconds, self.asked, self.spent, self.pool, self.tolerance = seconds, seconds, 0.0, pool, tolerance
        self.each: float | None = None  # seconds of which one of many prices may be granted a share
        self.known: set[Hashable] = set()
        self.kept: dict[Hashable, Any] = {}
        self.granted: dict[Hashable, float] = {}

    @property
    def taken(self) -> float:
        """Seconds of work that were counted."""
        return self.spent / OPERATIONS_PER_SECOND

    @property
    def left(self) -> float:
        """Seconds of work that are left."""
        return max(self.seconds - self.taken, 0.0)


class Granted:
    """Whether a result hangs on seconds that were granted, and if so, whether somebody has it already."""

    def __init__(self) -> None:
        self.asked = self.used = False


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
_tally: ContextVar[list[float] | None] = ContextVar("tally", default=None)
_record: ContextVar[list[Costs] | None] = ContextVar("record", default=None)
_granted: ContextVar[Granted | None] = ContextVar("granted", default=None)
_watcher: ContextVar[Progress | None] = ContextVar("watcher", default=None)


class allow_work:  # named as what it does: a generator would take quick prices thrice as long
    """While the block runs, all work together may take so many seconds; within another allowance that one counts.

    Parameters
    ----------
    seconds : float
    pool : float, optional
        For the work of many prices: what is free by itself counts like other work, but so many operations of it are
        done whatever the patience.
    tolerance : float, optional
        What was asked, of which parts of the work may get shares: a refusal says what should be asked instead.
    """

    def __init__(self, seconds: float, pool: float | None = None, tolerance: float | None = None) -> None:
        self.asked = seconds, pool, tolerance

    def __enter__(self) -> Allowance:
        self.token = _current.set(found := _current.get() or Allowance(*self.asked))
        return found

    def __exit__(self, *_: object) -> None:
        _current.reset(self.token)


@contextmanager
def rehearse_work(
    seconds: float, pool: float | None = None, tolerance: float | None = None, asked: float | None = None
) -> Iterator[Allowance]:
    """As `allow_work`, as if nothing was counted and nobody watched; grants are of the patience that is `asked`."""
    with set_while((_current, None), (_watcher, None)), allow_work(seconds, pool, tolerance) as allowance:
        allowance.asked = seconds if asked is None else asked
        yield allowance


def has_limit() -> bool:
    """Whether much work would be refused."""
    return _current.get() is not None


def is_counted() -> bool:
    """Whether this work is part of other work that is counted."""
    return _current.get() is not None or _tally.get() is not None or _record.get() is not None


@contextmanager
def skip_counting() -> Iterator[None]:
    """While the block runs nothing is counted: its work is bounded otherwise."""
    with set_while((_current, None)):
        yield


@contextmanager
def share_patience(share: float, beside: float = 0.0) -> Iterator[None]:
    """While the block runs it may take no more than that share of what is left, and leaves so many operations."""
    if (allowance := _current.get()) is None:
        yield
        return
    whole, spent = allowance.seconds, allowance.spent / OPERATIONS_PER_SECOND
    allowance.seconds = spent + share * (whole - spent) - beside / OPERATIONS_PER_SECOND
    try:
        yield
    finally:
        allowance.seconds = whole


@contextmanager
def tally_work() -> Iterator[list[float]]:
    """While the block runs work is not refused but added up, in operations, in the only number of the list."""
    tally = [0.0]
    with set_while((_current, None), (_watcher, None), (_tally, tally), (_record, None)):
        yield tally


@contextmanager
def watch_work(progress: Progress) -> Iterator[None]:
    """While the block runs, `progress` is told of all work."""
    with set_while((_watcher, progress)):
        yield


def check_patience(value: object) -> float:
    """Seconds in (0, inf], or ParameterError."""
    return real("patience", value, 0.0, math.inf, open_low=True)


def spend(
    operations: float,
    what: str,
    tolerance: float | None = None,
    *,
    halves: float = 2.0,
    once: Hashable = None,
    free: float = 0.0,
) -> None:
    """Count work before it is done.

    Parameters
    ----------
    operations : float
    what : str
        What takes them, for a message.
    tolerance : float, optional
        The tolerance that makes it so much, where a larger one helps.
    halves : float
        Work falls as the tolerance to the power 1/halves.
    once : hashable, optional
        What the work makes, where a price that needs it again finds it in a cache; it is counted once.
    free : float
        Work of at most so many operations is not counted, but where many prices share an allowance.

    Raises
    ------
    OutOfPatience
        It is more than what is left of the allowance; nothing was counted.
    """
    allowance, progress, tally = _current.get(), _watcher.get(), _tally.get()
    if (record := _record.get()) is not None:
        record.append((once, operations, free))
    if operations <= free and (allowance is None or allowance.pool is None):
        return
    before = 0.0 if allowance is None else allowance.spent
    known = allowance is not None and once is not None and once in allowance.known
    if allowance is not None and not known:
        needed = (before + operations) / OPERATIONS_PER_SECOND
        pooled = operations <= free and allowance.pool is not None and operations <= allowance.pool
        if needed > allowance.seconds and not pooled:
            raise OutOfPatience(_refusal(what, needed, allowance, tolerance, halves), needed)
        if pooled:
            allowance.pool = (allowance.pool or 0.0) - operations
        allowance.spent += operations
        if once is not None:
            allowance.known.add(once)
    if tally is not None:  # what is refused is not done
        tally[0] += operations
    if progress is not None and not known:
        progress(before / OPERATIONS_PER_SECOND, (before + operations) / OPERATIONS_PER_SECOND)


def remember(what: str, most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the last results of a function whose work is counted: where one is found again, its work counts again.

    So what a price may do does not depend on what was asked before; within one price it counts once, and so does
    whatever it is made of that is remembered itself. What hangs on seconds that were granted is made anew (`grant`).
    Arguments are positional and hashable; `most` results are kept, and `what` is as for `spend`.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        @lru_cache(maxsize=most)
        def kept(*args: Hashable) -> tuple[R, list[Costs], Granted]:
            record: list[Costs] = []
            granted = Granted()
            with set_while((_tally, None), (_record, record), (_granted, granted)):
                made = of_all(*args)
            own = ((make, args, i) if i else (make, args) for i in range(len(record)))
            pieces = {next(own) if once is None else once: (costs, free) for once, costs, free in record}
            if (allowance := _current.get()) is not None:
                allowance.known.update(pieces)  # they were counted on the way
            return made, [(once, *costs) for once, costs in pieces.items()], granted

        of_all: Callable[..., R] = make

        @wraps(make)
        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs:
                raise TypeError(f"{make.__name__} is remembered by positional arguments, not by {', '.join(kwargs)}")
            made, pieces, granted = kept(*args)
            if granted.used:
                made, pieces, granted = kept.__wrapped__(*args)
            granted.used = granted.asked
            _note_grant(granted.asked)
            for once, operations, free in pieces:  # as it was counted when it was made
                if free is None:
                    count_done(operations, once)
                else:
                    spend(operations, what, once=once, free=free)
            return made

        counted.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return counted

    return decorate


def keep(made: Hashable, make: Callable[[], R]) -> R:
    """What this allowance's work has made before, if that is among the last things it kept, or makes now."""
    if (allowance := _current.get()) is None:
        return make()
    if made not in allowance.kept:
        allowance.kept[made] = make()
        if len(allowance.kept) > KEPT:
            del allowance.kept[next(iter(allowance.kept))]
    return cast("R", allowance.kept[made])


def is_kept(made: Hashable) -> bool:
    """Whether that takes no work."""
    return (allowance := _current.get()) is not None and made in allowance.kept


def remembered_as(function: Callable[..., object], *args: Hashable) -> Hashable:
    """What stands for the first of the work of a function that is remembered, for `foresee`."""
    return getattr(function, "__wrapped__"), args  # noqa: B009  # set by `remember`


def foresee(pieces: Iterable[Piece], what: str) -> None:
    """Refuse much work of which each piece is counted by itself later, before any of it is begun; nothing is counted.

    Parameters
    ----------
    pieces : iterable of (hashable, float)
        What each makes, as `spend` has it, and its operations; what was counted already is left out.
    what : str

    Raises
    ------
    OutOfPatience
        All together are more than what is left of the allowance.
    """
    if (allowance := _current.get()) is None:
        return
    total = sum(operations for made, operations in pieces if made not in allowance.known)
    if not fits(total):
        spend(total, what)


@contextmanager
def followed_by(later: Callable[[], float]) -> Iterator[None]:
    """Where work of the block is refused, what is likely to follow it is counted in what the refusal says of the whole.

    `later` gives the operations of that, about.
    """
    try:
        yield
    except OutOfPatience as error:
        error.seconds += LIKELY * later() / OPERATIONS_PER_SECOND
        raise


def grant(made: Hashable, share: float) -> float:
    """Seconds that work may take which is bounded by itself: a share of what is left, the first time that it is asked.

    So what is made is the same throughout a price, and depends on nothing but the patience. Of several prices together
    all get as much, or the later ones would be dearer.
    """
    _note_grant(True)
    if (allowance := _current.get()) is None:
        return PATIENCE
    left = max(allowance.asked - allowance.taken, 0.0) if allowance.each is None else allowance.each
    return allowance.granted.setdefault(made, share * left)


def _note_grant(asked: bool) -> None:
    if (granted := _granted.get()) is not None:
        granted.asked |= asked


@contextmanager
def spend_apart(seconds: float) -> Iterator[Allowance]:
    """While the block runs its work is counted by itself, up to so many seconds; nothing is free, grants stay."""
    outer = _current.get()
    with tally_work(), allow_work(seconds, 0.0) as allowance:
        allowance.granted = {} if outer is None else outer.granted
        yield allowance


def count_done(operations: float, once: Hashable = None) -> None:
    """Count work that is done already: little by itself, it is not refused, but may leave nothing for what follows."""
    if (tally := _tally.get()) is not None:
        tally[0] += operations
    if (record := _record.get()) is not None:
        record.append((once, operations, None))
    if (allowance := _current.get()) is not None and (once is None or once not in allowance.known):
        allowance.spent += operations
        if once is not None:
            allowance.known.add(once)


def fits(operations: float) -> bool:
    """Whether there is patience left for so much work."""
    allowance = _current.get()
    return allowance is None or allowance.spent + operations <= allowance.seconds * OPERATIONS_PER_SECOND


def _refusal(what: str, needed: float, allowance: Allowance, tolerance: float | None, halves: float) -> str:
    """How long it would take, and what would do."""
    accepted = [f"patience = {format_up_short(needed)} or more"]
    left = allowance.seconds * OPERATIONS_PER_SECOND - allowance.spent
    if tolerance is not None and left > 0:
        asked = tolerance if allowance.tolerance is None else allowance.tolerance
        wide = asked * (1.2 * (needed * OPERATIONS_PER_SECOND - allowance.spent) / left) ** halves
        if wide <= 1.0:
            accepted.append(f"tolerance = {format_up_short(wide)} or more")
    took = f"{format_up_short(needed)} s" if needed < 1e15 else "longer than anybody waits"
    return f"{what} would take about {took}, patience = {allowance.seconds:g}; accepted: {', '.join(accepted)}"
