"""Laws that every event must keep, for your events as much as for the built-in ones.

``check_event(event)`` holds an event against all of them with inputs drawn by Hypothesis, and says which law
broke, where, and by how much. `events()` and `compositions()` are strategies for tests of your own. Needs
Hypothesis: ``pip install 'knn-accountant[testing]'``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accountant.adjacency import Adjacency
from accountant.errors import ParameterError, shorten
from accountant.events.event import Event, can_be_sampled
from accountant.events.registry import event_kinds
from accountant.events.subsampled import PoissonSubsampled
from accountant.testing.laws import LAWS, Law, LawBroken, laws_for
from accountant.testing.strategies import compositions, epsilons_of, events, hypothesis, orders

__all__ = [
    "LAWS",
    "Law",
    "LawBroken",
    "broken_laws",
    "check_event",
    "compositions",
    "epsilons_of",
    "events",
    "example_events",
    "laws_for",
    "orders",
]

GRID = [1 + 10 ** (exponent / 70) for exponent in range(-420, 421)]
"""Orders that are always tried: 70 to a decade of their distance from 1."""


def example_events() -> list[Event]:
    """Examples of every registered event, also sampled where that makes sense: what ``accountant verify`` checks."""
    plain = [event for kind in event_kinds().values() for event in kind.examples()]
    return [*plain, *(PoissonSubsampled(event, 0.1) for event in plain if can_be_sampled(event))]


def broken_laws(event: Event, *, max_examples: int = 50, laws: Sequence[Law] | None = None) -> list[LawBroken]:
    """Hold `event` against the laws and return one LawBroken for each that it breaks.

    Parameters
    ----------
    event : Event
    max_examples : int
        Random inputs per law; the same ones every time.
    laws : sequence of Law, optional
        Instead of all that apply.

    Raises
    ------
    MissingExtra
        Hypothesis is not installed.
    """
    library = hypothesis()
    settings = library.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(library.HealthCheck),
    )
    broken = []

    _refuse_unusable(event)

    def hold(law: Law) -> None:
        if law.sweep is not None:
            law.sweep(event, GRID)

        def check(data: Any) -> None:
            law.check(event, data.draw)

        settings(library.given(library.strategies.data())(check))()

    for law in laws_for(event) if laws is None else laws:
        try:
            hold(law)
        except LawBroken as failure:
            broken.append(failure)
        except Exception as error:
            broken.append(LawBroken(law.name, "evaluation", math.inf, f"it raised {error!r}"))
    return broken


def _refuse_unusable(event: object) -> None:
    """Raise ParameterError for what no law can be held against."""
    if not isinstance(event, Event) or not isinstance(getattr(event, "adjacency", None), Adjacency):
        raise ParameterError(f"{shorten(event)} has no adjacency; accepted: an Event with an `adjacency`")
    try:
        hash(event)
    except TypeError:
        raise ParameterError(f"{shorten(event)} cannot be hashed; accepted: a frozen dataclass") from None


def check_event(event: Event, *, max_examples: int = 50) -> None:
    """Hold an event against every law that applies to it.

    Parameters
    ----------
    event : Event
        Built in, or your own: a frozen dataclass derived from `accountant.Event`.
    max_examples : int
        Random inputs per law; the same ones every time.

    Raises
    ------
    LawBroken
        A law does not hold; the message says which, at which order, epsilon or rate, and by how much.
    MissingExtra
        Hypothesis is not installed.
    """
    failures = broken_laws(event, max_examples=max_examples)
    if failures:
        first = failures[0]
        if len(failures) > 1:
            first.add_note(f"also broken: {'; '.join(str(failure) for failure in failures[1:])}")
        raise first
